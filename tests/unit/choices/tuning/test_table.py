"""kcl.choices.tuning.table: the rows and the facts of a recipe on a device."""

import pytest

import kcl
from kcl.base import process
from kcl.cache import places
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.choices.tuning import table as tables
from kcl.choices.tuning.table import ChoiceTable, RankedChoice, Row

ABOUT = {"kernel": "axpy", "names": ["n"], "defaults": {"block": 64}}
ABOUT["device"] = {"name": "cpu", "driver": "3.0"}
KEY = Key([("record", "1")])


DAY = "2026-11-26"


def row(*sizes, block=16, ratio=0.5, **fields):
    return Row(sizes, {"block": block}, ratio, 1, 6, 6, 0.01, DAY, "loopy 2025.2", **fields)


def fact(*sizes, block=16, outcome="ok", detail=""):
    end = {"outcome": outcome, "detail": detail}
    return Row(sizes, {"block": block}, None, 1, 0, 0, 0.0, DAY, **end)


def stored():
    """Return the table as another process reads it."""
    process.on_change()
    return ChoiceTable(KEY, ABOUT).refresh()


# Of the fields of a row, what no kcl writes.
CHANGES = [
    *({"more": 1}, {"sizes": 3}, {"sizes": ["n"]}, {"choice": [1]}),
    *({"best": [3]}, {"dtypes": 3}, {"codes": 3}),
]


@pytest.mark.one_platform
class TestRows:
    def test_stored(self):
        """Another process reads the row as it was put, the types of its values too."""
        choice = {"block": 16, "exact": True, "factor": 1.0, "mode": None}
        best = RankedChoice(choice, 0.5, 0.01, ("3", "4"))
        put = Row((64, 3), choice, 0.5, 2, 6, 9, 0.01, "d", "a 1")
        put = put._replace(dtypes={"x": "<f4"}, includes={"/a.h": "5e"}, codes=("1", "2"))
        others = RankedChoice({"block": 1}, 0.7, 0.0, ("5",))
        put = put._replace(best=(best, others), variant="factor=3", unfinished=True)
        stored().put(put)
        assert stored().rows == [put]
        types = [type(value) for value in stored().rows[0].choice.values()]
        assert types == [int, bool, float, type(None)]
        assert stored().row(put.name) == put
        assert stored().row(put._replace(sizes=(64,)).name) is None

    def test_same_sizes(self):
        """A row takes the place of that for the same sizes, dtypes and variant; what another process put since stays."""
        first, second = stored(), stored()
        first.put(row(64, block=16))
        second.put(row(100, block=32))
        first.put(row(64, block=256))
        blocks = [(row.sizes, row.choice["block"]) for row in stored().rows]
        assert blocks == [((100,), 32), ((64,), 256)]
        table = ChoiceTable(Key([("record", "2")]), ABOUT)
        for dtype, variant, block in (("<f4", "", 16), ("<f8", "", 32), ("<f4", "factor=3", 64)):
            table.put(row(64, block=block, dtypes={"x": dtype}, variant=variant))
        assert [one.choice["block"] for one in table.refresh().rows] == [16, 32, 64]
        assert [one.variant for one in table.near((64,), "factor=3")] == ["factor=3", "", ""]

    def test_note(self):
        """A note has the key of the last table of a recipe: with another key, nothing measured is lost unsaid."""
        words = "its text changed since it was measured"
        for key, lost in ((KEY, ""), (Key([("record", "2")]), words)):
            table = ChoiceTable(key, ABOUT)
            table.note = "tuned a.b"
            if not lost:
                assert table.lost == ""
                table.put(row(64))
            assert table.lost == lost

    def test_nearest(self):
        """Rows within a factor of two count, the nearest by ratio first, in both directions; one is the nearest."""
        table = stored()
        for size in (64, 100, 120, 128, 63):
            table.put(row(size))
        near = {
            127: [128, 120, 100, 64],
            257: [],
            256: [128],
            32: [63, 64],
            65: [64, 63, 100, 120, 128],
        }
        assert {size: [row.sizes[0] for row in table.near((size,))] for size in near} == near
        assert table.nearest((127,)) == row(128)
        assert table.near((1, 2)) == []
        assert stored().nearest((64,)) is not None
        assert ChoiceTable(Key([("record", "2")]), ABOUT).nearest((1, 2)) is None

    def test_order(self):
        """A choice keeps the order of its parameters: an outcome that is told again replaces the earlier one."""
        choice = {"rows": 4, "along": "i", "columns": 16}
        for detail in ("first", "again"):
            stored().put_facts([row(64, outcome="crashes", detail=detail)._replace(choice=choice)])
        (fact,) = stored().facts().values()
        assert ([*fact.choice.items()], fact.detail) == ([*choice.items()], "again")

    def test_bounded(self):
        """A table keeps the newest rows, and 64 kB of them; what goes is named in a warning."""
        table = stored()
        for size in range(1, 70):
            table.put(row(size))
        assert len(stored().rows) == 69
        with pytest.warns(kcl.CacheWarning, match=r"table of axpy is full, and forgets n=2, n=3"):
            table.put(row(1, detail="x" * 63_000))
        assert 0 < len(stored().rows) < 15
        assert stored().rows[-1].sizes == (1,)

    @pytest.mark.parametrize(
        "rows",
        [3, [3], [{"sizes": [64]}], *([{**row(64)._asdict(), **change}] for change in CHANGES)],
    )
    def test_foreign(self, rows):
        assert tables.read_rows(Entry(KEY, {"rows": rows}, {}), "table") == []

    def test_damaged(self, tmp_path):
        stored().put(row(64))
        (file,) = (tmp_path / "cache" / "kcl" / "tuning").iterdir()
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        assert stored().rows == []
        ChoiceTable(Key([("record", "2")]), ABOUT).put(row(100))
        (other,) = [one for one in file.parent.iterdir() if one != file]
        file.write_bytes(other.read_bytes())
        assert stored().rows == []
        stored().put(row(32))
        assert [one.sizes for one in stored().rows] == [(32,)]

    def test_unwritable(self, tmp_path):
        (tmp_path / "cache" / "kcl").mkdir(parents=True, mode=0o700)
        (tmp_path / "cache" / "kcl" / "tuning").write_text("a file")
        table = stored()
        table.put(row(64))
        assert table.rows == [row(64)]
        ChoiceTable(KEY, ABOUT).put(row(100))
        assert ChoiceTable(KEY, ABOUT).refresh().rows == [row(64), row(100)]
        assert stored().rows == []


@pytest.mark.one_platform
class TestFacts:
    def test_stored(self, tmp_path):
        """The outcome of a candidate takes the place of the earlier one; the rows, in another file, know nothing of it."""
        stored().put_facts([fact(64), fact(64, block=32, outcome="crashes", detail="signal 11")])
        stored().put_facts([fact(64, outcome="wrong result"), fact(100)])
        assert {name: fact.outcome for name, fact in stored().facts().items()} == {
            tables.fact_name(fact(64, block=16)): "wrong result",
            tables.fact_name(fact(64, block=32)): "crashes",
            tables.fact_name(fact(100, block=16)): "ok",
        }
        assert stored().rows == []
        stored().put(row(64))
        names = {file.name for file in (tmp_path / "cache" / "kcl" / places.TABLES).iterdir()}
        assert names == {f"table-{KEY.digest}", f"facts-{KEY.digest}"}
