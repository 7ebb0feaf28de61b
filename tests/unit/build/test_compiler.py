"""kcl.build.compiler: programs from source and from binaries, built with what pyopencl would pass."""

import re
import warnings
from types import SimpleNamespace

import pyopencl as cl
import pytest
from program_texts import ADD, generated

from kcl import drivers
from kcl.build import compiler
from kcl.build.options import BuildOptions, passed
from kcl.build.stage import Build
from kcl.cache.entry import Entry
from kcl.cache.key import Key


class TestBuiltSilently:
    def test_options(self, context):
        """The driver gets the options that pyopencl's wrapper would pass."""
        made = generated()
        binaries = compiler.from_source(context, made, made.source).get_info(cl.program_info.BINARIES)
        silent, wrapped = (cl.Program(context, context.devices, binaries) for _ in range(2))
        assert compiler.built_silently(silent, Build(context, drivers.of(context)).options(made.options))
        wrapped.build(options=passed(made.options))
        silent, wrapped = (
            [built.get_build_info(device, cl.program_build_info.OPTIONS) for device in context.devices]
            for built in (silent, wrapped)
        )
        assert silent == wrapped
        assert "-DADDEND=1" in silent[0]

    def test_refused(self, context):
        """Where the driver refuses, pyopencl's wrapper is asked next, which says more."""
        binaries = compiler.from_source(context, generated(), ADD).get_info(cl.program_info.BINARIES)
        made, wrong = generated(options=("-bogus",)), BuildOptions("-bogus")
        assert not compiler.built_silently(cl.Program(context, context.devices, binaries), wrong)
        entries = [Entry(Key([]), {}, {"binary": binary}) for binary in binaries]
        with pytest.raises(cl.Error, match=r"(?s)Build on .*-bogus"):
            compiler.of_binaries(context, context.devices, entries, made, wrong)

    @pytest.mark.parametrize("inner", [None, SimpleNamespace(), SimpleNamespace(_build=lambda: None)])
    def test_another_pyopencl(self, context, inner):
        """Where pyopencl has no such method, or one that takes other arguments, nothing is built."""
        assert not compiler.built_silently(SimpleNamespace(_prg=inner), Build(context, drivers.of(context)).options(()))


class TestWarn:
    def said(self, logs):
        """Return the warnings about the logs of as many devices."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            compiler.warn([f"device {number}" for number, _log in enumerate(logs)], logs)
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
                compiler.warn(["device"], ["look here"])
