"""kcl.generate.rows: rows of generated code, and pointers that lead to them from the identity of a unit."""

from __future__ import annotations

import loopys_own  # noqa: F401  # the recipes find it loaded
import numpy as np
import pytest
from two_step import PLAIN, REFACTORED, importer, looks, scaled

from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.layer import CacheWarning
from kcl.code import Argument, Code, Invoker, ProgramText, instantiate
from kcl.errors import DamagedEntry
from kcl.generate import rows, run
from kcl.generate.frontends.loopy import LoopyResult
from kcl.generate.stage import _REUSED
from kcl.record.declarations import Evidence

pytestmark = pytest.mark.slow_platforms


class TestPointer:
    def test_replaced_row(self, queue, load):
        """A row that holds the code of another result by now is not used, though the old pointer leads there."""
        recipe = load(PLAIN).scaled
        kernel = recipe()
        scaled(queue, lambda: kernel)
        layer = layers.generator()
        generate = kernel._line.generate
        result = LoopyResult(recipe.function(), "scaled")
        dtypes = {"x": np.dtype(np.float32)}
        unit = run.unit_key(result, dtypes)
        assert rows.of_unit(layer, unit)[0].text.source == next(iter(kernel._line.ready.values())).code.text.source
        other = result.generate("scaled", dtypes)
        other = other._replace(text=other.text._replace(source="// of another result"))
        key, base, unlike = generate.key(), generate.base, Key([Part("other", "")])
        for address, entry in rows.entries(key, Evidence({}), base, other, dtypes, unlike)[1]:
            layer.publish(address, entry)
        assert rows.of_unit(layer, unit) == (None, "")

    def test_missing_row(self, queue, load):
        """A pointer to a row that is gone leads to nothing."""
        recipe = load(PLAIN).scaled
        kernel = recipe()
        scaled(queue, lambda: kernel)
        layer = layers.generator()
        unit = run.unit_key(LoopyResult(recipe.function(), ""), {"x": np.dtype(np.float32)})
        pointed = Key(Part(*part) for part in layer.look_up(unit.digest, unit).entry.metadata["row"])
        layer.disk.delete(pointed.digest)
        layer.memory.delete(pointed.digest)
        assert rows.of_unit(layer, unit) == (None, "")

    @pytest.mark.faults
    def test_code_that_raises(self, queue, load):
        """Stored code of an equal result that raises as it is executed is set aside, and generated anew."""
        recipe, seen = load(PLAIN).scaled, looks()
        scaled(queue, recipe)
        layer = layers.generator()
        unit = run.unit_key(LoopyResult(recipe.function(), ""), {"x": np.dtype(np.float32)})
        pointed = Key(Part(*part) for part in layer.look_up(unit.digest, unit).entry.metadata["row"])
        entry = layer.look_up(pointed.digest, pointed).entry
        entry.parts["invoker.py"] = b"import no_such_module_of_anybody"
        entry.metadata["code"] = "another Python"
        layer.publish(pointed.digest, entry)
        with pytest.warns(CacheWarning, match="no_such_module"):
            assert scaled(queue, load(REFACTORED).scaled) == [2.0] * 4
        assert [outcome for outcome, _reason in seen] == ["miss", "error"]
        assert "equal result could not be used" in seen[1][1]
        assert scaled(queue, load(REFACTORED.replace("unit", "knl")).scaled) == [2.0] * 4
        assert seen[2][0] == "miss"
        assert _REUSED in seen[2][1]

    def test_rows(self, queue, load):
        """The pointer is small; a hit reads the two rows that it always read."""
        kernel = load(PLAIN).scaled()
        scaled(queue, lambda: kernel)
        sizes = sorted(len(layers.generator().disk.get(address)) for address in layers.generator().disk.scan())
        assert len(sizes) == 3
        assert sizes[0] < 3000


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Import a text as a module of its own; stores are asked anew."""
    return importer(tmp_path, monkeypatch)


class TestEntry:
    KEY = Key([("recipe", "f")])
    CODE = Code(
        ProgramText("f", "kernel void f(global int *a) {}", ("-DA=1",), ("f",)),
        Invoker("opencl", "def f(q):\n    return q + 1\n", "f", (Argument("a", "array", "<i4", True),), {}, {}, []),
    )

    def stored(self):
        """Return the entry as another process reads it."""
        return Entry.unpack(rows.to_entry(self.CODE, self.KEY, {"created": 1}).pack(), self.KEY)

    def test_round_trip(self):
        """Code that is read from an entry is the code that was stored, and its invoker does the same."""
        found = rows.from_entry(self.stored())
        assert found[0] == self.CODE
        assert instantiate(*found)(1) == 2
        assert self.stored().metadata["created"] == 1

    def test_parts(self):
        """The entry holds OpenCL C and invoker as texts."""
        assert self.stored().parts["source.cl"].decode() == self.CODE.text.source
        assert self.stored().parts["invoker.py"].decode() == self.CODE.invoker.source

    def test_strange_metadata(self):
        """An entry that lacks what it needs is a damaged one."""
        entry = self.stored()
        with pytest.raises(DamagedEntry, match="not an entry of the generator layer"):
            rows.from_entry(Entry(self.KEY, {**entry.metadata, "arguments": [["a"]]}, entry.parts))
