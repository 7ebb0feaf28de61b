"""kcl.code: program text and invoker, and their form as an entry."""

from __future__ import annotations

import pytest

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.code import Argument, Code, Invoker, ProgramText, file_name, from_entry, instantiate, to_entry
from kcl.errors import DamagedEntry

KEY = Key([("recipe", "f")])
TEXT = ProgramText("f", "kernel void f(global int *a) {}", ("-DA=1",), ("f",))
INVOKER = Invoker(
    "opencl", "def invoke(queue):\n    return queue + 1\n", "invoke", (Argument("a", "array", "<i4", True),), {}, {}, []
)
CODE = Code(TEXT, INVOKER)


def stored():
    """Return the entry as another process reads it."""
    return Entry.unpack(to_entry(CODE, KEY, {"created": 1}).pack(), KEY)


class TestEntry:
    def test_round_trip(self):
        """Code that is read from an entry is the code that was stored."""
        assert from_entry(stored())[0] == CODE
        assert stored().metadata["created"] == 1

    def test_parts(self):
        """The entry holds OpenCL C and invoker as texts."""
        assert stored().parts["source.cl"].decode() == TEXT.source
        assert stored().parts["invoker.py"].decode() == INVOKER.source

    def test_strange_metadata(self):
        """An entry that lacks what it needs is a damaged one."""
        entry = stored()
        with pytest.raises(DamagedEntry, match="not an entry of the generator layer"):
            from_entry(Entry(KEY, {**entry.metadata, "arguments": [["a"]]}, entry.parts))


class TestDigest:
    @pytest.mark.parametrize(
        "other",
        [
            CODE._replace(text=TEXT._replace(source="")),
            CODE.with_options(("-DA=2",)),
            CODE._replace(invoker=INVOKER._replace(source="")),
            CODE._replace(invoker=INVOKER._replace(function="other")),
        ],
    )
    def test_what_a_launch_depends_on(self, other):
        """Source, options and invoker count."""
        assert other.digest != CODE.digest

    def test_name_of_the_kernel(self):
        """What the recipe is called does not."""
        assert CODE._replace(text=TEXT._replace(kernel="g")).digest == CODE.digest


def test_invoker_from_an_entry():
    """The function of an entry, and of code that was just made, does what its source says."""
    assert instantiate(CODE)(1) == 2
    assert instantiate(*from_entry(stored()))(1) == 2


def test_file_name():
    """A traceback names the kernel whose invoker it passes."""
    assert "invoker of f" in file_name(CODE)
    assert instantiate(CODE).__code__.co_filename == file_name(CODE)
