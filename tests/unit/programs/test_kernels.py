"""kcl.programs.kernels: programs of binaries, and kernel objects for which pyopencl generates nothing."""

import inspect
import re
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
    def test_nothing_is_generated(self, program, queue, generated):
        """A function is generated once, by what asks for types of arguments or calls; to set them and launch needs none."""
        y = cl.array.zeros(queue, 1, np.float32)
        kernel = cl.Kernel(program, "add")
        kernel._set_arg_multi((0, None, 1, np.float32(1), 2, np.int32(2)))
        kernel.set_args(y.data, np.float32(1), np.int32(2))
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), None)
        assert generated == []
        for _ in range(2):
            kernel(queue, (1,), None, y.data, np.float32(10), np.int32(20))
        assert y.get().tolist() == [63]
        assert generated == ["add"]
        cl.Kernel(program, "add").set_arg_types([None, np.float32, np.int32])
        assert generated == ["add", "add"]

    @pytest.mark.parametrize("values", [(None,), (None, 1, 2), (None, np.float64(1), np.int32(2))])
    def test_refuses_what_every_kernel_refuses(self, program, values, monkeypatch):
        """Too few arguments, and those of a wrong kind or size, raise what they raise elsewhere."""
        kernels.generate_late()
        late, module = cl.Kernel(program, "add"), pyopencl.invoker
        name = "generate_enqueue_and_set_args"
        monkeypatch.setattr(module, name, inspect.unwrap(getattr(module, name)))
        with pytest.raises((TypeError, cl.LogicError)) as right:
            cl.Kernel(program, "add").set_args(*values)
        with pytest.raises(right.type, match=rf"\A{re.escape(str(right.value))}\Z"):
            late.set_args(*values)

    def test_the_modules_function_is_wrapped_once(self):
        kernels.generate_late()
        before = pyopencl.invoker.generate_enqueue_and_set_args
        kernels.generate_late()
        assert pyopencl.invoker.generate_enqueue_and_set_args is before

    @pytest.mark.parametrize(
        ("name", "value"), [("_FORM", {"devs"}), ("_is_checked", lambda _device: True)]
    )
    def test_another_pyopencl(self, program, monkeypatch, generated, name, value):
        """Where pyopencl asks in another way, or checks the size of all arguments, kernels are made as everywhere else."""
        monkeypatch.setattr(kernels, name, value)
        assert cl.Kernel(program, "add").num_args == 3
        assert generated == ["add"]


IN_A_CHILD = """
import json, sys
import numpy as np, pyopencl as cl, pyopencl.array
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, sys.argv[1]).build()
y = cl.array.to_device(queue, np.zeros(1, np.float32))
for _ in range(2):
    cl.Kernel(program, "add")(queue, (1,), None, y.data, np.float32(10), np.int32(20))
print(json.dumps(float(y.get()[0])))
"""


def test_unusable_cache(child):
    """Kernels are made and called although pyopencl's module cannot open its dictionary on disk as it is imported."""
    unusable = {"XDG_CACHE_HOME": "/proc/nowhere", "PYOPENCL_NO_CACHE": "1"}
    unusable["POCL_CACHE_DIR"] = str(child.directory / "pocl")
    assert child.json(IN_A_CHILD, SOURCE, **unusable) == 60


def binaries(context):
    """Return the binaries of a program."""
    program = compilation.from_source(context, made_text(), ADD)
    return program.get_info(cl.program_info.BINARIES)


def of_binaries(context, given):
    return cl.Program(context, context.devices, given)


class TestBuiltSilently:
    def test_the_driver_gets_the_options_that_pyopencls_wrapper_would_pass(self, context):
        made = made_text()
        silent, wrapped = (of_binaries(context, binaries(context)) for _ in range(2))
        options = Build(context, drivers.of(context)).options(made.options)
        assert kernels.built_silently(silent, options)
        wrapped.build(options=passed(made.options))
        for device in context.devices:
            one, other = (
                built.get_build_info(device, cl.program_build_info.OPTIONS)
                for built in (silent, wrapped)
            )
            assert one == other
            assert "-DADDEND=1" in one

    def test_refused(self, context, platform_name):
        """Where the driver refuses, pyopencl's wrapper is asked next, which says more."""
        if platform_name == "nvidia":
            pytest.skip("NVIDIA's driver takes any option for PTX")
        made, wrong = made_text(options=("-bogus",)), BuildOptions("-bogus")
        given = binaries(context)
        assert not kernels.built_silently(of_binaries(context, given), wrong)
        entries = [Entry(Key([]), {}, {"binary": binary}) for binary in given]
        with pytest.raises(cl.Error, match=r"(?s)Build on .*-bogus"):
            kernels.of_binaries(context, context.devices, entries, made, wrong)

    @pytest.mark.parametrize(
        "inner", [None, SimpleNamespace(), SimpleNamespace(_build=lambda: None)]
    )
    def test_another_pyopencl(self, context, inner):
        """Where pyopencl has no such method, or one that takes other arguments, nothing is built."""
        options = Build(context, drivers.of(context)).options(())
        assert not kernels.built_silently(SimpleNamespace(_prg=inner), options)


class TestWarn:
    def said(self, logs):
        """Return the warnings about the logs of as many devices."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            kernels.warn([f"device {number}" for number, _log in enumerate(logs)], logs)
        return said

    def test_one_warning_has_the_messages_of_all_devices_that_have_any(self, monkeypatch):
        monkeypatch.setenv("PYOPENCL_COMPILER_OUTPUT", "1")
        (one,) = self.said(["look here", " \n", "and there"])
        said = re.findall("Build on .* succeeded|look here|and there", str(one.message))
        assert said == [
            *("Build on device 0 succeeded", "look here"),
            *("Build on device 2 succeeded", "and there"),
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
