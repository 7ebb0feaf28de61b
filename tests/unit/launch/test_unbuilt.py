"""kcl.launch.unbuilt: what is said of a program that does not compile."""

import numpy as np
import pyopencl as cl
import pytest

import kcl
from kcl.launch.unbuilt import not_built, with_lines

TEXT = """
kernel void broken(global int *x)
{
    int n = 3;
    x[0] = missing + n;
}
"""


@kcl.kernel
def broken(text, directories=()):
    """A kernel that does not compile."""
    arguments = [kcl.Array("x", np.int32, 4, "out")]
    return kcl.Source(text, entry="broken", arguments=arguments, global_size=1, include_dirs=list(directories))


class TestBuild:
    """A program that does not compile is told of once, with the recipe, the kernel and the line."""

    def test_unknown_cpu(self):
        """Where PoCL does not know the CPU the error ends with the command that has the cure; no other error does."""

        def said(log):
            record = cl._cl._ErrorRecord(msg=f"clBuildProgram failed: {log}", code=-11, routine="clBuildProgram")
            return str(not_built("scaled", None, cl.RuntimeError(record), ""))

        assert said("error: unknown target CPU 'generic'\n1 error").endswith("\n\n`python -m kcl doctor` has the cure")
        assert "doctor" not in said("error: use of undeclared identifier 'missing'")

    def test_does_not_compile(self, queue):
        """The error is pyopencl's, once, with the kernel and the line of the recipe."""

        @kcl.kernel
        def broken():
            text = "kernel void broken(int n) { missing; }"
            return kcl.Source(text, entry="broken", arguments=[kcl.Scalar("n", np.int32)], global_size="(1,)")

        with pytest.raises(cl.RuntimeError) as raised:
            broken()(queue, n=1)
        assert raised.traceback[-1].name == "__call__"
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
        words = str(raised.value)
        assert f"the program of kernel 'broken' (recipe in {__file__}, line " in words
        assert words.count("clBuildProgram failed") == 1
        assert "missing" in words

    def test_line(self, queue):
        """The line of the text that does not compile stands below its message."""
        with pytest.raises(cl.RuntimeError) as raised:
            broken(TEXT)(queue)
        assert below(str(raised.value), "'missing'").endswith(" x[0] = missing + n;")

    def test_header(self, queue, tmp_path):
        """Of an error in a header it is the header's line, and not one of the text."""
        (tmp_path / "broken.h").write_text("\n\ninline int f() { return absent; }\n")
        with pytest.raises(cl.RuntimeError) as raised:
            broken('#include "broken.h"\n' + TEXT.replace("missing", "f()"), (str(tmp_path),))(queue)
        assert below(str(raised.value), "'absent'").endswith(" inline int f() { return absent; }")


def below(log, words):
    """Return the line of a log below the one with some words."""
    lines = log.splitlines()
    return lines[next(number for number, line in enumerate(lines) if words in line) + 1]


@pytest.mark.one_platform
class TestLines:
    @pytest.mark.parametrize(
        "message",
        [
            "error: /nowhere/tempfile_1.cl:5:12: use of undeclared identifier 'missing'",
            "/nowhere/tempfile_1.cl:5:12: error: use of undeclared identifier 'missing'",
            "<kernel>:5:12: error: use of undeclared identifier 'missing'",
            "1:5:12: fatal error: something",
        ],
    )
    def test_messages(self, message):
        """Messages of several drivers name a line of the text, by its number."""
        assert with_lines(f"{message}\nend", TEXT) == f"{message}\n    x[0] = missing + n;\nend"

    @pytest.mark.parametrize(
        "log",
        [
            "",
            "3 errors generated.",
            "error: something else",
            "error: /nowhere/tempfile_1.cl:99:1: words",
            "error: /nowhere/tempfile_1.cl:0:1: words",
            "error: /nowhere/tempfile_1.cl:1:1: words",
            "error: /nowhere/header.h:5:12: words",
            "warning: /nowhere/tempfile_1.cl:5:12: words",
            "<kernel>:5:12: error: words\n    x[0] = missing + n;\n           ^",
        ],
    )
    def test_left_alone(self, log):
        """Where no line is named, none is there, or the log has it itself, the log stays as it is."""
        assert with_lines(log, TEXT) == log
