"""The nearest earlier entry, and what differs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kcl
from kcl import inventory
from kcl.entry import Entry
from kcl.explain import FIRST_TIME, Known, Texts, changes, explain, nearest, short_diff, texts_of
from kcl.explain.words import Origin
from kcl.key import Key

HEAD = [("kcl", "1"), ("python", "cpython 3.11")]
BODY = "def matmul():\n    block = 16\n    return block\n"


def recipe(**parts):
    """Return a direct key; underscores in names are blanks."""
    return Key([*HEAD, ("code matmul", "1" * 64), *((name.replace("_", " "), value) for name, value in parts.items())])


def known(key, written=0.0, metadata=None, texts=None):
    """Return an entry that holds code."""
    return Known(key, written, {"function": "f"} if metadata is None else metadata, lambda: texts or Texts())


def said(explanation):
    """Return the sentences."""
    return [change.sentence for change in explanation.changes]


class TestNearest:
    def test_fewest(self):
        """The entry with the fewest differing parts is the nearest, however old it is."""
        far, near = (
            known(recipe(parameter_a="1", parameter_b="1"), 9.0),
            known(recipe(parameter_a="1", parameter_b="2")),
        )
        assert nearest(recipe(parameter_a="2", parameter_b="2"), [far, near]) is near

    def test_youngest(self):
        """Of equally near ones the youngest."""
        old, young = known(recipe(parameter_a="1"), 1.0), known(recipe(parameter_a="2"), 2.0)
        for order in ([old, young], [young, old]):
            assert nearest(recipe(parameter_a="3"), order) is young

    def test_not_itself(self):
        """The entry that the miss itself stored, and its base row, are no earlier ones."""
        missed = recipe(argument_x="<f8")
        base = known(recipe(), 3.0, {"base": {}})
        assert explain(missed, Texts(), [known(missed), base]) == FIRST_TIME

    def test_other_dtype(self):
        """A row of other dtypes is nearer than the base row of an earlier recipe, which says nothing of dtypes."""
        missed = recipe(parameter_a="2", argument_x="<f8")
        row = known(recipe(parameter_a="1", argument_x="<f4"), 1.0)
        base = known(recipe(parameter_a="1"), 2.0, {"base": {}})
        assert nearest(missed, [row, base]) is row
        assert said(explain(missed, Texts(), [row, base])) == ["parameter a: 1 -> 2", "argument x: float32 -> float64"]

    def test_kinds(self):
        """Keys of results, of programs and of recipes are not compared with each other."""
        result = known(Key([("kcl", "1"), ("result", "3" * 64)]))
        program = known(Key([("format", "1"), ("source", "3" * 64)]))
        for missed, other in ((recipe(), result), (recipe(), program), (program.key, known(recipe()))):
            assert nearest(missed, [other]) is None

    _keys = st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("123")), max_size=5, unique_by=lambda p: p[0]
    ).map(Key)

    @given(_keys, st.lists(st.tuples(_keys, st.floats(0, 9)), max_size=6))
    def test_any(self, missed, stored):
        """No entry but the missed one itself is nearer than the nearest, and something is said of it."""
        entries = [known(key, written) for key, written in stored]
        found = nearest(missed, entries)
        others = [one for one in entries if one.key.parts != missed.parts[: len(one.key.parts)]]
        assert (found is None) == (not others)
        if found is not None:
            least = min(len(one.key.diff(missed)) for one in others)
            assert len(found.key.diff(missed)) == least
            assert found.written == max(one.written for one in others if len(one.key.diff(missed)) == least)
            assert changes(found, missed, Texts())


class TestChanges:
    def test_first_time(self):
        """Without an entry of that kernel nothing is compared."""
        assert explain(recipe(), Texts(), []) == FIRST_TIME

    def test_body(self):
        """A changed body is shown with its line and a short diff, before all else that changed."""
        origins = {"code matmul": Origin("driver", 10)}
        before = known(
            Key([*HEAD, ("code helper", "1" * 64), ("code matmul", "1" * 64)]), texts=Texts({"code matmul": BODY})
        )
        missed = Key([*HEAD, ("code matmul", "2" * 64), ("code helper", "2" * 64)])
        found = changes(before, missed, Texts({"code matmul": BODY.replace("16", "32")}, origins))
        assert [change.sentence for change in found] == [
            "recipe `matmul`: body changed at line 11",
            "helper `helper` changed",
        ]
        assert found[0].diff == (" def matmul():", "-    block = 16", "+    block = 32", "     return block")

    def test_format(self):
        """Where kcl's own format changed nothing else is worth a word."""
        before = known(Key([("kcl", "0"), ("code matmul", "x")]))
        assert [change.part for change in changes(before, recipe(), Texts())] == ["kcl"]

    def test_python(self):
        """Another Python digests the same code to something else: its code did not change."""
        texts = Texts({"code matmul": BODY})
        before = known(Key([("kcl", "1"), ("python", "cpython 3.10"), ("code matmul", "2" * 64)]), texts=texts)
        assert [change.part for change in changes(before, recipe(), texts)] == ["python"]

    def test_device(self):
        """Another device brings its driver and all that with it; the driver says it alone where the device stayed."""
        parts = [("platform", "A"), ("device", "a"), ("driver", "1"), ("OpenCL C", "1"), ("cpu features", "x")]
        before = known(Key([("format", "1"), ("source", "s"), *parts]))
        other = Key([("format", "1"), ("source", "s"), *((name, value + "2") for name, value in parts)])
        assert [change.sentence for change in changes(before, other, Texts())] == [
            "platform: A -> A2",
            "device: a -> a2",
        ]
        newer = Key([("format", "1"), ("source", "s"), *((n, "2" if n == "driver" else v) for n, v in parts)])
        assert [change.sentence for change in changes(before, newer, Texts())] == ["device: driver 1 -> 2"]

    def test_files(self):
        """A module of the user and a file that a recipe reads may bear one name."""
        base = {"function": "f", "base": {"reads": [["module", "table", "1" * 64]]}}
        before = known(recipe(module_table="1" * 64), metadata=base)
        (change,) = changes(before, recipe(module_table="2" * 64), Texts())
        assert change.sentence == "file 'table' that the recipe reads changed"


@kcl.kernel
def shifted(factor=1):
    import loopy as lp

    arguments = [lp.GlobalArg("z", np.complex64, shape="n"), "..."]  # the dtype of w follows from that of z
    knl = lp.make_kernel("{[i]: 0<=i<n}", f"w[i] = {factor}*z[i]", arguments, lang_version=(2018, 2))
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


class TestStored:
    def test_open_but_not_chosen(self, context):
        """A row of a recipe that leaves dtypes open, of which none was chosen, keeps the text of its code too."""
        shifted().prepare(context)
        rows = list(inventory.entries("generator", kernels={"shifted"}, all_rows=True))
        texts = [texts_of(inventory.read(row.layer, row.address)).sources for row in rows]
        assert any("lp.make_kernel" in text for found in texts for text in found.values())


class TestTexts:
    def test_row(self):
        """A row of the generator layer keeps the text of what its key holds digests of, and where it stands."""
        parts = {"reached.json": json.dumps({"code f": BODY}).encode(), "origins.json": b'{"code f": ["driver", 3]}'}
        assert texts_of(Entry(recipe(), {}, parts)) == Texts({"code f": BODY}, {"code f": Origin("driver", 3)})

    def test_program(self):
        """An entry of the binary layer keeps the source."""
        assert texts_of(Entry(recipe(), {}, {"source.cl": b"kernel"})) == Texts({"source": "kernel"})

    @pytest.mark.parametrize("parts", [{}, {"reached.json": b"{"}, {"reached.json": b"{}", "origins.json": b"[1]"}])
    def test_nothing(self, parts):
        """Without texts that can be read there are none."""
        assert texts_of(Entry(recipe(), {}, parts)) == Texts()


class TestDiff:
    def test_short(self):
        """Many changed lines are cut, and counted."""
        one, other = ("\n".join(f"{letter}{i}" for i in range(20)) for letter in "ab")
        lines = short_diff(one, other)
        assert len(lines) == 9
        assert lines[-1] == "... 32 more lines"

    def test_large(self):
        """One line of a long text is found at once, with one line around it."""
        lines = [f"line {i}" for i in range(100_000)]
        other = [*lines[:70_000], "new", *lines[70_000:]]
        assert short_diff("\n".join(lines), "\n".join(other)) == [" line 69999", "+new", " line 70000"]

    @given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
    def test_any(self, one, other):
        """Taking the removed lines out and putting the added ones in leads from one text to the other."""
        lines = short_diff("\n".join(one), "\n".join(other))
        if lines and not lines[-1].startswith("..."):
            removed = sum(line.startswith("-") for line in lines)
            added = sum(line.startswith("+") for line in lines)
            assert len(one) - removed + added == len(other)
        assert bool(lines) == (one != other)
