"""kcl.base.text.tables: tables that fit where they are printed."""

import re

from kcl.base.text import tables
from kcl.base.text.tables import Column


def test_columns():
    """Words stand to the left, numbers to the right, nothing is cut, and no line ends in blanks."""
    rows = [("generator", "7", "/a b"), ("binary", "1234567", "/c")]
    assert tables.lines([Column("layer"), Column("hits"), Column("files")], rows) == [
        "layer         hits  files",
        "generator        7  /a b",
        "binary     1234567  /c",
    ]


class TestRoom:
    COLUMNS = (
        Column("name", 0, "end", 6),
        Column("path", 2, "middle", 9),
        Column("words", 1, "words", 8),
        Column("blank", 3),
        Column("key"),
    )
    ROW = ("a long name", "/a/long/path/to/it", "some words of it", "", "0123456789ab")

    def table(self, room, *rows):
        """Return the lines of a table where lines have so many characters."""
        return tables.lines(self.COLUMNS, rows or [self.ROW], room)

    def test_wide(self):
        """In a pipe all is printed; where there is a width blank columns go first."""
        name, path, words, _blank, key = self.ROW
        assert self.table(None) == [
            "name         path                words             blank  key",
            f"{name}  {path}  {words}         {key}",
        ]
        assert self.table(63) == [
            "name         path                words             key",
            f"{name}  {path}  {words}  {key}",
        ]

    def test_narrow(self):
        """Then cells give way, then columns by their rank; no line is too long, and the key stays whole."""
        seen = []
        for columns in range(24, 70):
            lines = self.table(columns)
            assert max(map(len, lines)) <= columns
            assert any(line.endswith("0123456789ab") for line in lines)
            seen.append(tuple(lines[0].split()))
        heads = ["name key", "name words key", "name path words key"]
        assert list(dict.fromkeys(seen)) == [tuple(head.split()) for head in heads]
        assert "some words of it" in " ".join(self.table(60)[-1].split())
        lines = self.table(42)
        assert re.search(r"/\S*\.\.\.\S*it  some", lines[1])
        assert "words" in " ".join(lines[2:])

    def test_words(self):
        """A word that has no room in a column of words goes on in the next line, and nothing of it is left out."""
        columns = (Column("parameters", 0, "words", 12), Column("key"))
        lines = tables.lines(columns, [("block=16, dtype=numpy.float64", "0123456789ab")], 26)
        assert lines[1:] == ["block=16,     0123456789ab", "dtype=numpy.", "float64"]

    def test_what_would_steer_a_terminal_is_not_printed(self):
        assert self.table(80, ("\x1b[2J", "/p", "w", "", "0123456789ab"))[1].startswith("?[2J ")
