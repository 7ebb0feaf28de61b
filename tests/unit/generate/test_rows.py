"""kcl.generate.rows: rows of generated code."""

import numpy as np
import pytest

import kcl
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.code import Argument, Code, Invoker, ProgramText, made_ready
from kcl.errors import DamagedEntry
from kcl.generate import miss, rows

pytestmark = pytest.mark.slow_platforms


@kcl.kernel(pure=True, version="1")
def scaled():
    from loopys_own import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="scaled", lang_version=(2018, 2))


def test_rows(queue):
    """A recipe with an open argument has a base row, and a row for each choice of dtypes."""
    scaled()(queue, x=np.ones(4, np.float32))
    entries = [layers.generator().read(address) for address in layers.generator().stores[0].scan()]
    assert sorted("function" in entry.metadata for entry in entries) == [False, True]


ARGUMENTS = (Argument("a", "array", "<i4", True),)


class TestEntry:
    KEY = Key([("recipe", "f")])
    CODE = Code(
        ProgramText("f", "kernel void f(global int *a) {}", ("-DA=1",), ("f",)),
        Invoker("opencl", "def f(q):\n    return q + 1\n", "f", ARGUMENTS, {}, {}, []),
    )

    def stored(self):
        return Entry.unpack(miss.to_entry(self.CODE, self.KEY, {"created": 1}).pack(), self.KEY)

    def test_round_trip(self):
        """Code that is read from an entry, which has it as texts, is what was stored; its invoker does the same."""
        entry = self.stored()
        found = rows.from_entry(entry)
        assert found[0] == self.CODE
        assert made_ready(*found).invoke(1) == 2
        assert entry.metadata["created"] == 1
        assert entry.parts["source.cl"].decode() == self.CODE.text.source
        assert entry.parts["invoker.py"].decode() == self.CODE.invoker.source

    def test_strange_metadata(self):
        """An entry that lacks what it needs is a damaged one."""
        entry = self.stored()
        with pytest.raises(DamagedEntry, match="not an entry of the generator layer"):
            rows.from_entry(Entry(self.KEY, {**entry.metadata, "arguments": [["a"]]}, entry.parts))
