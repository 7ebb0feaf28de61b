"""kcl.code: program text and invoker."""

from __future__ import annotations

import pytest

from kcl.code import Argument, Code, Invoker, ProgramText, file_name, made_ready

TEXT = ProgramText("f", "kernel void f(global int *a) {}", ("-DA=1",), ("f",))
INVOKER = Invoker(
    "opencl",
    "def invoke(queue):\n    return queue + 1\n",
    "invoke",
    (Argument("a", "array", "<i4", True),),
    {},
    {},
    [],
)
CODE = Code(TEXT, INVOKER)


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


def test_invoker():
    """The function of the invoker does what its source says."""
    assert made_ready(CODE).invoke(1) == 2


def test_file_name():
    """A traceback names the kernel whose invoker it passes."""
    assert "invoker of f" in file_name(CODE)
    assert made_ready(CODE).invoke.__code__.co_filename == file_name(CODE)
