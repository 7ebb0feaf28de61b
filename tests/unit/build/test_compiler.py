"""kcl.build.compiler: programs from source and from binaries, built with what pyopencl would pass."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pyopencl as cl
import pytest

from kcl import drivers
from kcl.build import compiler
from kcl.build.options import BuildOptions, passed
from kcl.build.stage import Build
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.code import ProgramText

ADD = "__kernel void add(__global float *x) { x[get_global_id(0)] += ADDEND; }\n"


def generated(source=ADD, options=("-DADDEND=1",), kernels=("add",)):
    """Return what a front end would have made of OpenCL C."""
    return ProgramText("add", source, tuple(options), kernels)


class TestBuiltSilently:
    def test_options(self, context):
        """The driver gets the options that pyopencl's wrapper would pass."""
        made = generated()
        binaries = compiler.from_source(context, made).get_info(cl.program_info.BINARIES)
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
        binaries = compiler.from_source(context, generated()).get_info(cl.program_info.BINARIES)
        made, wrong = generated(options=("-bogus",)), BuildOptions("-bogus")
        assert not compiler.built_silently(cl.Program(context, context.devices, binaries), wrong)
        entries = [Entry(Key([]), {}, {"binary": binary}) for binary in binaries]
        with pytest.raises(cl.Error, match=r"(?s)Build on .*-bogus"):
            compiler.finish(compiler.of_binaries(context, context.devices, entries), made, entries, wrong)

    def test_logs(self, monkeypatch):
        """What the compiler said of all devices is said once."""
        monkeypatch.setenv("PYOPENCL_COMPILER_OUTPUT", "1")
        entries = [Entry(Key([]), {}, {"build.log": log}) for log in (b"look here", b"look here", b" \n", b"and there")]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            compiler._replay_logs(entries, [""] * 4)
        assert [str(one.message).rpartition("\n")[2] for one in said] == ["look here", "and there"]

    @pytest.mark.parametrize("inner", [None, SimpleNamespace(), SimpleNamespace(_build=lambda: None)])
    def test_another_pyopencl(self, context, inner):
        """Where pyopencl has no such method, or one that takes other arguments, nothing is built."""
        assert not compiler.built_silently(SimpleNamespace(_prg=inner), Build(context, drivers.of(context)).options(()))
