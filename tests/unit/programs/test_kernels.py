"""kcl.programs.kernels: programs of binaries, and kernel objects for which pyopencl generates nothing."""

import inspect
import re
import textwrap
import warnings
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.invoker
import pytest
from program_texts import ADD
from program_texts import generated as made_text

from kcl import drivers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.programs import compilation, kernels
from kcl.programs.program_key import BuildOptions, passed
from kcl.programs.stage import Build

pytestmark = pytest.mark.slow_platforms

SOURCE = "kernel void add(global float *y, float a, int b) { y[0] += a + b; }"


@pytest.fixture
def program(context):
    """A program that is built."""
    return cl.Program(context, SOURCE).build()


@pytest.fixture
def generated(monkeypatch, platform_name):
    """The names of the kernels for which pyopencl has generated functions."""
    if platform_name == "nvidia":
        pytest.skip("pyopencl checks the size of the arguments of each kernel on NVIDIA")
    before = pyopencl.invoker.generate_enqueue_and_set_args
    ask, names = inspect.unwrap(before), []

    def asked(name, *arguments, **keywords):
        names.append(name)
        return ask(name, *arguments, **keywords)

    monkeypatch.setattr(pyopencl.invoker, "generate_enqueue_and_set_args", asked)
    kernels.generate_late()
    return names


class TestGenerateLate:
    def test_nothing_is_generated(self, program, generated):
        """Making a kernel and setting its arguments asks for no generated function; types of arguments do."""
        kernel = cl.Kernel(program, "add")
        kernel.set_args(None, np.float32(1), np.int32(2))
        kernel._set_arg_multi((0, None, 1, np.float32(1), 2, np.int32(2)))
        assert generated == []
        kernel.set_arg_types([None, np.float32, np.int32])
        assert generated == ["add"]

    def test_does_what_every_kernel_does(self, program, queue, generated):
        """It launches after its arguments were set, and when it is called, for which functions are generated once."""
        y = cl.array.zeros(queue, 1, np.float32)
        kernel = cl.Kernel(program, "add")
        kernel.set_args(y.data, np.float32(1), np.int32(2))
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), None)
        assert generated == []
        for _ in range(2):
            kernel(queue, (1,), None, y.data, np.float32(10), np.int32(20))
        assert y.get().tolist() == [63]
        assert generated == ["add"]

    @pytest.mark.parametrize("values", [(None,), (None, 1, 2), (None, np.float64(1), np.int32(2))])
    def test_refuses_what_every_kernel_refuses(self, program, values, monkeypatch):
        """Too few arguments, and those of a wrong kind or size, raise what they raise elsewhere."""
        kernels.generate_late()
        late, module = cl.Kernel(program, "add"), pyopencl.invoker
        monkeypatch.setattr(
            module,
            "generate_enqueue_and_set_args",
            inspect.unwrap(module.generate_enqueue_and_set_args),
        )
        with pytest.raises((TypeError, cl.LogicError)) as right:
            cl.Kernel(program, "add").set_args(*values)
        with pytest.raises(right.type) as found:
            late.set_args(*values)
        assert str(found.value) == str(right.value)

    def test_once(self):
        """The module's function is wrapped once."""
        kernels.generate_late()
        before = pyopencl.invoker.generate_enqueue_and_set_args
        kernels.generate_late()
        assert pyopencl.invoker.generate_enqueue_and_set_args is before

    def test_another_pyopencl(self, program, monkeypatch, generated):
        """Where pyopencl asks in another way, kernels are made as everywhere else."""
        monkeypatch.setattr(kernels, "_FORM", {"devs"})
        assert cl.Kernel(program, "add").num_args == 3
        assert generated == ["add"]

    def test_checked_devices(self, program, monkeypatch, generated):
        """Where pyopencl checks the size of all arguments, it does so as a kernel is made."""
        monkeypatch.setattr(kernels, "_is_checked", lambda _device: True)
        cl.Kernel(program, "add")
        assert generated == ["add"]


IN_A_CHILD = """
import json, os, sys, threading
import numpy as np, pyopencl as cl, pyopencl.array
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, sys.argv[1]).build()
y = cl.array.to_device(queue, np.zeros(1, np.float32))
"""


class TestInvokerModule:
    """pyopencl's module, which opens a dictionary on disk as it is imported."""

    def test_unusable_cache(self, child):
        """Without a usable cache directory kernels are made and called all the same."""
        code = """
        for _ in range(2):
            cl.Kernel(program, "add")(queue, (1,), None, y.data, np.float32(10), np.int32(20))
        print(json.dumps(float(y.get()[0])))
        """
        unusable = {"XDG_CACHE_HOME": "/proc/nowhere", "PYOPENCL_NO_CACHE": "1"}
        unusable["POCL_CACHE_DIR"] = str(child.directory / "pocl")
        assert child.json(IN_A_CHILD + textwrap.dedent(code), SOURCE, **unusable) == 60


class TestBuiltSilently:
    def test_options(self, context):
        """The driver gets the options that pyopencl's wrapper would pass."""
        made = made_text()
        binaries = compilation.from_source(context, made, made.source).get_info(
            cl.program_info.BINARIES
        )
        silent, wrapped = (cl.Program(context, context.devices, binaries) for _ in range(2))
        assert kernels.built_silently(
            silent, Build(context, drivers.of(context)).options(made.options)
        )
        wrapped.build(options=passed(made.options))
        silent, wrapped = (
            [
                built.get_build_info(device, cl.program_build_info.OPTIONS)
                for device in context.devices
            ]
            for built in (silent, wrapped)
        )
        assert silent == wrapped
        assert "-DADDEND=1" in silent[0]

    def test_refused(self, context, platform_name):
        """Where the driver refuses, pyopencl's wrapper is asked next, which says more."""
        if platform_name == "nvidia":
            pytest.skip("NVIDIA's driver takes any option for PTX")
        binaries = compilation.from_source(context, made_text(), ADD).get_info(
            cl.program_info.BINARIES
        )
        made, wrong = made_text(options=("-bogus",)), BuildOptions("-bogus")
        assert not kernels.built_silently(cl.Program(context, context.devices, binaries), wrong)
        entries = [Entry(Key([]), {}, {"binary": binary}) for binary in binaries]
        with pytest.raises(cl.Error, match=r"(?s)Build on .*-bogus"):
            kernels.of_binaries(context, context.devices, entries, made, wrong)

    @pytest.mark.parametrize(
        "inner", [None, SimpleNamespace(), SimpleNamespace(_build=lambda: None)]
    )
    def test_another_pyopencl(self, context, inner):
        """Where pyopencl has no such method, or one that takes other arguments, nothing is built."""
        assert not kernels.built_silently(
            SimpleNamespace(_prg=inner), Build(context, drivers.of(context)).options(())
        )


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
