"""The messages of the compiler; `test_stage.py` builds programs from source."""

import re
import warnings

import pyopencl as cl
import pytest

from kcl.build import kernels


class TestWarn:
    def said(self, logs):
        """Return the warnings about the logs of as many devices."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            kernels.warn([f"device {number}" for number, _log in enumerate(logs)], logs)
        return said

    def test_words(self, monkeypatch):
        """One warning has the messages of all devices that have any."""
        monkeypatch.setenv("PYOPENCL_COMPILER_OUTPUT", "1")
        (one,) = self.said(["look here", " \n", "and there"])
        assert re.findall("Build on (.*) succeeded|(look here|and there)", str(one.message)) == [
            ("device 0", ""),
            ("", "look here"),
            ("device 2", ""),
            ("", "and there"),
        ]
        assert self.said([" ", ""]) == []

    def test_hint(self):
        """Without `PYOPENCL_COMPILER_OUTPUT` the warning says that there are messages, in the words of pyopencl."""
        with warnings.catch_warnings(record=True) as own:
            warnings.simplefilter("always")
            cl.compiler_output("look here")
        (one,) = self.said(["look here"])
        assert (str(one.message), one.category) == (str(own[0].message), own[0].category)

    def test_place(self):
        """The warning names the line of the program; the filters see pyopencl's module."""
        (one,) = self.said(["look here"])
        assert one.filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", module="pyopencl")
            with pytest.raises(cl.CompilerWarning):
                kernels.warn(["device"], ["look here"])
