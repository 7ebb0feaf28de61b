"""kcl.headers: which files a program includes, and what is in them."""

from __future__ import annotations

import os

import pytest

from kcl.errors import UnknownInput
from kcl.headers import header_parts


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Write files by relative path below a directory that is the working directory's child."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_h", ".h")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def names(source, *directories):
    """Name the parts of a source."""
    return [part.name for part in header_parts(source, [str(directory) for directory in directories])]


def values(source, *directories):
    """Return the digests of a source's headers."""
    return [part.value for part in header_parts(source, [str(directory) for directory in directories])]


class TestParts:
    def test_none(self):
        """A source without an include has no part, whatever it says in comments and strings."""
        assert names("kernel void f() {}") == []
        assert names('// #include "a.h"\n/*\n#include <b.h>\n*/ kernel void f() { printf("#include c"); }') == []

    def test_named_as_written(self, tree):
        """A part is named as the source names the header, in both spellings; no path is in it."""
        root = tree(one__a_h="1", one__sub__b_h="2")
        parts = header_parts('#include "a.h"\n  #  include  <sub/b.h> // why\n', [str(root / "one")])
        assert [part.name for part in parts] == ["header a.h", "header sub/b.h"]
        assert not any(str(root) in part.value for part in parts)

    def test_nested(self, tree):
        """What a header includes counts too, found beside it first."""
        root = tree(one__a_h='#include "b.h"\n', one__b_h='#include "c.h"\n', one__c_h="3", two__b_h="other")
        assert names('#include "a.h"', root / "two", root / "one") == ["header a.h", "header b.h", "header c.h"]

    def test_circle(self, tree):
        """Headers that include each other are each read once."""
        root = tree(one__a_h='#include "b.h"\n', one__b_h='#include "a.h"\n')
        assert sorted(names('#include "a.h"', root / "one")) == ["header a.h", "header b.h"]

    def test_spliced_lines(self, tree):
        """A backslash at the end of a line hides no include."""
        root = tree(one__a_h='#inc\\\nlude "b.h"\n', one__b_h="2")
        assert names('#include \\\n"a.h"', root / "one") == ["header a.h", "header b.h"]

    @pytest.mark.parametrize(
        "source", ['#inc\\\nlude "a.h"', '#inc\\ \nlude "a.h"', '//\r#include "a.h"', '\f#\vinclude "a.h"']
    )
    def test_odd_white_space(self, tree, source):
        """An include that only the preprocessor reads as one is found."""
        assert names(source, tree(one__a_h="") / "one") == ["header a.h"]

    def test_quote_as_a_character(self, tree):
        """A quotation mark as a character begins no text."""
        source = """constant char c = '"', *s = "/*";\n#include "a.h"\n/* */"""
        assert names(source, tree(one__a_h="") / "one") == ["header a.h"]

    def test_carriage_returns(self, tree):
        """Line ends of Windows hide no include."""
        root = tree(one__a_h="", one__b_h="")
        assert names('#include "a.h"\r\n#include "b.h"\r\n', root / "one") == ["header a.h", "header b.h"]

    def test_in_inactive_branch(self, tree):
        """A header behind an `#if` counts: which branch is taken is the preprocessor's to know."""
        root = tree(one__a_h="")
        assert names('#if 0\n#include "a.h"\n#endif', root / "one") == ["header a.h"]


class TestChanges:
    def test_content(self, tree):
        """Changed content, of a nested header too, within the same second and at the same length, is another digest."""
        root = tree(one__a_h='#include "b.h"\n', one__b_h="1")
        before = values('#include "a.h"', root / "one")
        status = os.stat(root / "one" / "b.h")
        tree(one__b_h="2")
        os.utime(root / "one" / "b.h", ns=(status.st_atime_ns, status.st_mtime_ns))
        after = values('#include "a.h"', root / "one")
        assert before[0] == after[0]
        assert before[1] != after[1]

    def test_order_of_directories(self, tree):
        """The order of the search path decides between two headers of one name."""
        root = tree(one__a_h="1", two__a_h="2")
        assert values('#include "a.h"', root / "one", root / "two") != values(
            '#include "a.h"', root / "two", root / "one"
        )

    def test_shadowing(self, tree):
        """A header that appears earlier on the search path is seen."""
        root = tree(two__a_h="2", one__other_h="")
        before = values('#include "a.h"', root / "one", root / "two")
        tree(one__a_h="1")
        assert values('#include "a.h"', root / "one", root / "two") != before

    def test_place_is_noise(self, tree):
        """The same headers in another directory are the same parts."""
        root = tree(one__a_h='#include "b.h"', one__b_h="1", two__a_h='#include "b.h"', two__b_h="1")
        assert values('#include "a.h"', root / "one") == values('#include "a.h"', root / "two")


class TestUnknown:
    @pytest.mark.parametrize(
        "source",
        [
            "#define H <a.h>\n#include H\n",
            '#include_next "a.h"\n',
            '#import "a.h"\n',
            '#if __has_include("a.h")\n#include "a.h"\n#endif\n',
            "#embed <a.bin>\n",
            '%:include "a.h"\n',
            '??=include "a.h"\n',
            '#inc??/\nlude "a.h"\n',
            "constant char now[] = __TIME__;",
            "constant char today[] = __DATE__;",
        ],
    )
    def test_preprocessor_needed(self, tree, source):
        """What only the preprocessor can resolve is refused."""
        root = tree(one__a_h="")
        with pytest.raises(UnknownInput):
            names(source, root / "one")

    def test_not_found(self, tree):
        """A header that no directory holds is refused by name."""
        root = tree(one__a_h='#include "gone.h"')
        with pytest.raises(UnknownInput, match=r"a\.h includes 'gone\.h'"):
            names('#include "a.h"', root / "one")

    def test_working_directory(self, tree):
        """A header that the working directory holds too is refused: drivers differ about which one they take."""
        root = tree(one__a_h="1", a_h="2")
        with pytest.raises(UnknownInput, match="working directory"):
            names('#include "a.h"', root / "one")
