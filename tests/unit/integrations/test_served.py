"""kcl.integrations.served: the text of a program of the user, and the name of its first kernel."""

import pyopencl as cl
import pytest

from kcl.integrations import served

pytestmark = pytest.mark.one_platform
NAMED = "\n__kernel void NAME(__global int *out) { }"


@pytest.mark.parametrize("source", ["", b"\xff"])
def test_odd_source(context, source):
    """Nothing, and what is no text, is pyopencl's."""
    assert served._read_text(cl.Program(context, source), None) is None


@pytest.mark.parametrize(
    ("source", "options", "name"),
    [
        (f"#define NAME lap\n{NAMED}", [], "lap"),
        (NAMED, ["-DNAME=lap2"], "lap2"),
        (f"#define NAME(x) x\n{NAMED}", [], "NAME"),
        (NAMED, ["-DNAME=1"], "NAME"),
        ("#define KERNEL __kernel\nKERNEL\nREQD(W, 1, 1)\nvoid g(int x)", [], "g"),
        ("#define KERNEL(name) __kernel void name\n  KERNEL(h)(int x)", [], "h"),
        ("#define KERNEL __kernel\nint KERNEL_ = 1; void i(", [], "program"),
    ],
)
def test_name(context, source, options, name):
    """A name that is a macro is what that stands for, if it is a word; a kernel behind a macro, as in scans, is found."""
    assert served._read_text(cl.Program(context, source), options).kernel == name
