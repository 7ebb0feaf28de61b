"""kcl.inspect.verify: what is stored is compared with what the recipe generates and the source computes."""

from __future__ import annotations

import functools
import marshal
import pathlib
import random

import numpy as np
import pytest
from adding import ADD, add, doubled, launched, source

import kcl
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.generate import check as verify

pytestmark = pytest.mark.slow_platforms


@functools.cache
def words_of(path):
    """Read a file once a process."""
    return pathlib.Path(path).read_text().split()


def prepared(path, text):
    """Write a file, and let `words_of` read it before a recipe runs; kcl does not see that the recipe depends on it."""
    path.write_text(text)
    words_of.cache_clear()
    words_of(str(path))


@kcl.kernel(pure=True, version="1")
def hidden(path):
    """Read a file where kcl does not look."""
    return source(ADD.replace("+= a", f"+= {words_of(path)[0]}*a"))


@kcl.kernel(pure=True, version="1")
def drawn():
    """Return something else each time."""
    return source(ADD + f"// {random.random()}\n")


def generator(seen):
    """Return outcome and reason of the only look-up in the generator layer."""
    (found,) = [event[1:] for event in seen if event[0] == "generator"]
    return found


def tamper(layer, change):
    """Change every whole entry of a layer on disk, which stays valid otherwise."""
    count = 0
    for address in list(layer.stores[0].scan()):
        entry = Entry.unpack(layer.stores[0].get(address))
        if change(entry):
            layer.stores[0].put(address, entry.pack())
            count += 1
    assert count
    layers.reset()


def replaced(part, before, after):
    """Return a change of a text in a part of entries."""

    def change(entry):
        text = entry.parts.get(part, b"")
        entry.parts[part] = text.replace(before, after) if part in entry.parts else b""
        if part == "invoker.py" and "invoker.code" in entry.parts:
            entry.metadata["code"] = "of another Python"
        if not entry.parts[part]:
            del entry.parts[part]
        return entry.parts.get(part, b"") != text

    return change


def described(field, value):
    """Return a change of a field of entries."""

    def change(entry):
        if "function" not in entry.metadata:
            return False
        entry.metadata[field] = value
        return True

    return change


def other_code(entry):
    """Exchange the code object of an invoker for that of another text."""
    if "invoker.code" not in entry.parts:
        return False
    text = entry.parts["invoker.py"].replace(b"wait_for = []", b"wait_for = list()")
    entry.parts["invoker.code"] = marshal.dumps(compile(text, "<kcl invoker of add>", "exec"))
    return True


TAMPERED = {
    "OpenCL C": replaced("source.cl", b"+= a", b"-= a"),
    "invoker": replaced("invoker.py", b"wait_for = []", b"wait_for = list()"),
    "invoker's code object": other_code,
    "arguments": described("arguments", [["x", "Array", "<f4", True]]),
    "structure dtypes": described("dtypes", [["nothing", "<f4"]]),
}


class TestRecipe:
    def test_equal(self, queue, under, monkeypatch):
        """A hit stays one, and says that it was verified; the recipe ran."""
        launched(queue, add())
        doubled()(queue, x=np.ones(4, np.float32))
        under(KCL_VERIFY="1", KCL_STRICT="hit,fault")
        assert generator(launched(queue, add())[1]) == ("hit", "verified")
        doubled()(queue, x=np.ones(4, np.float32))
        monkeypatch.setattr("kcl.frontends.loopy.result.LoopyResult.generate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            doubled()(queue, x=np.ones(4, np.float32))

    @pytest.mark.faults
    @pytest.mark.parametrize("part", [*TAMPERED])
    def test_each_part(self, queue, under, part):
        """A part that differs is an error that names it and the kernel, once; fresh code is used and stored."""
        launched(queue, add())
        if part == "structure dtypes":
            from pyopencl.tools import get_or_register_dtype

            get_or_register_dtype("nothing", np.float32)
        tamper(layers.generator(), TAMPERED[part])
        under(KCL_VERIFY="1")
        with pytest.warns(
            kcl.CacheWarning, match=rf"kernel 'add': what the recipe generates differs in {part}"
        ):
            number, seen = launched(queue, add())
        outcome, reason = generator(seen)
        assert outcome == "error"
        assert f"differs in {part}" in reason
        assert "something decides it that is in no key" in reason
        assert number == 1.0
        layers.reset()
        number, seen = launched(queue, add())
        assert (number, generator(seen)) == (1.0, ("hit", "verified"))

    def test_without(self, queue):
        """What verification is for: without it such an entry is a hit."""
        launched(queue, add())
        tamper(layers.generator(), TAMPERED["OpenCL C"])
        assert launched(queue, add())[0] == -1.0

    def test_strict(self, queue, under):
        """KCL_STRICT=fault raises, and the event is counted."""
        launched(queue, add())
        tamper(layers.generator(), TAMPERED["OpenCL C"])
        under(KCL_VERIFY="1", KCL_STRICT="fault")
        errors = kcl.stats()["generator"]["errors"]
        with pytest.raises(kcl.CacheFault, match=r"'add'.*OpenCL C: line 2: .*-= a.*\+= a"):
            launched(queue, add())
        assert kcl.stats()["generator"]["errors"] == errors + 1

    @pytest.mark.faults
    def test_specialised_row(self, queue, under):
        """The row of one choice of dtypes is compared and replaced too."""
        ones = np.ones(4, np.float32)
        doubled()(queue, x=ones)
        tamper(layers.generator(), replaced("source.cl", b"2.0f", b"3.0f"))
        under(KCL_VERIFY="1")
        with pytest.warns(kcl.CacheWarning, match="'doubled'"):
            _event, (y,) = doubled()(queue, x=ones)
        assert y.tolist() == [2.0] * 4
        under(KCL_VERIFY="", KCL_STRICT="hit")
        _event, (y,) = doubled()(queue, x=ones)
        assert y.tolist() == [2.0] * 4

    @pytest.mark.faults
    def test_unseen_input(self, queue, under, tmp_path):
        """An input that kcl does not see is found, and the answer is to declare it."""
        path = tmp_path / "factor"
        prepared(path, "1")
        launched(queue, hidden(str(path)))
        prepared(path, "2")
        under(KCL_VERIFY="1")
        with pytest.warns(kcl.CacheWarning, match=r"declare it with @kcl.kernel"):
            assert launched(queue, hidden(str(path)))[0] == 2.0

    @pytest.mark.faults
    def test_nondeterministic_recipe(self, queue, under):
        """A recipe that differs from itself differs on a hit."""
        launched(queue, drawn())
        under(KCL_VERIFY="1")
        with pytest.warns(
            kcl.CacheWarning, match=r"'drawn'.*OpenCL C: line 3: .*the same in each run"
        ):
            outcome, _reason = generator(launched(queue, drawn())[1])
        assert outcome == "error"


class TestChosen:
    def test_fraction(self):
        """About that fraction of the keys, always the same ones in one process and others in another."""
        digests = [f"{number:064x}" for number in range(2000)]
        chosen = [verify.is_drawn(0.1, digest, 1) for digest in digests]
        assert 150 < sum(chosen) < 250
        assert chosen == [verify.is_drawn(0.1, digest, 1) for digest in digests]
        assert chosen != [verify.is_drawn(0.1, digest, 2) for digest in digests]

    def test_bounds(self):
        """0 is never, 1 is always."""
        assert not any(verify.is_drawn(0.0, str(number)) for number in range(100))
        assert all(verify.is_drawn(1.0, str(number)) for number in range(100))

    def test_look_ups(self, queue, under):
        """A Kernel whose key is not drawn hits as ever."""
        key = add().key(queue)["generator"].digest
        launched(queue, add())
        fractions = [
            fraction for fraction in (0.25, 0.5, 0.75) if not verify.is_drawn(fraction, key)
        ]
        under(KCL_VERIFY=str(fractions[-1] if fractions else 0))
        assert generator(launched(queue, add())[1]) == ("hit", "")
