"""kcl.integrations.served: the text of a program of the user, and the name of its first kernel."""

import pyopencl as cl
import pytest

from kcl.integrations import served

pytestmark = pytest.mark.one_platform


class TestText:
    @pytest.mark.parametrize("source", ["", b"\xff"])
    def test_odd_source(self, context, source):
        """Nothing, and what is no text, is pyopencl's."""
        assert served._read_text(cl.Program(context, source), None) is None


class TestNames:
    """A program is named by the line that builds it, its first kernel and its options."""

    @pytest.mark.parametrize(
        ("head", "options", "name"),
        [
            *(("#define NAME lap", [], "lap"), ("", ["-DNAME=lap2"], "lap2")),
            *(("#define NAME(x) x", [], "NAME"), ("", ["-DNAME=1"], "NAME")),
        ],
    )
    def test_macro(self, context, head, options, name):
        """A kernel whose name is a macro has the name for which that stands, if it is a word."""
        program = cl.Program(context, f"{head}\n__kernel void NAME(__global int *out) {{ }}")
        assert served._read_text(program, options).kernel == name

    @pytest.mark.parametrize(
        ("source", "name"),
        [
            ("#define KERNEL __kernel\nKERNEL\nREQD(W, 1, 1)\nvoid g(int x)", "g"),
            ("#define KERNEL(name) __kernel void name\n  KERNEL(h)(int x)", "h"),
            ("#define KERNEL __kernel\nint KERNEL_ = 1; void i(", "program"),
        ],
    )
    def test_behind_a_macro(self, context, source, name):
        """A kernel whose word is a macro, as in pyopencl's scans, is found behind it."""
        assert served._read_text(cl.Program(context, source), None).kernel == name
