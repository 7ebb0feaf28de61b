"""kcl.build.kernels: programs of binaries, and kernel objects for which pyopencl generates nothing."""

import os
import re
import signal
import textwrap
import threading
import time
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
from kcl.build import compilation, kernels
from kcl.build.kernels import new_kernel
from kcl.build.options import BuildOptions, passed
from kcl.build.stage import Build
from kcl.cache.entry import Entry
from kcl.cache.key import Key

pytestmark = pytest.mark.slow_platforms

SOURCE = "kernel void add(global float *y, float a, int b) { y[0] += a + b; }"


@pytest.fixture
def program(context):
    """A program that is built."""
    return cl.Program(context, SOURCE).build()


@pytest.fixture
def generated(monkeypatch):
    """The names of the kernels for which pyopencl's module was asked."""
    ask, names = pyopencl.invoker.generate_enqueue_and_set_args, []

    def asked(name, *arguments, **keywords):
        names.append(name)
        return ask(name, *arguments, **keywords)

    monkeypatch.setattr(pyopencl.invoker, "generate_enqueue_and_set_args", asked)
    return names


class TestNewKernel:
    def test_nothing_is_generated(self, program, generated):
        """Making a kernel and setting its arguments asks for no generated function; pyopencl's own way does."""
        kernel = new_kernel(program, "add")
        kernel.set_args(None, np.float32(1), np.int32(2))
        kernel._set_arg_multi((0, None, 1, np.float32(1), 2, np.int32(2)))
        assert generated == []
        cl.Kernel(program, "add")
        assert generated == ["add"]

    def test_does_what_every_kernel_does(self, program, queue, generated):
        """It launches after its arguments were set, and when it is called, for which the function is generated once."""
        y = cl.array.zeros(queue, 1, np.float32)
        kernel = new_kernel(program, "add")
        kernel.set_args(y.data, np.float32(1), np.int32(2))
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), None)
        assert generated == []
        for _ in range(2):
            kernel(queue, (1,), None, y.data, np.float32(10), np.int32(20))
        assert y.get().tolist() == [63]
        assert generated == ["add"]

    @pytest.mark.parametrize("values", [(None,), (None, 1, 2), (None, np.float64(1), np.int32(2))])
    def test_refuses_what_every_kernel_refuses(self, program, values):
        """Too few arguments, and those of a wrong kind or size, raise what they raise elsewhere."""
        with pytest.raises((TypeError, cl.LogicError)) as right:
            cl.Kernel(program, "add").set_args(*values)
        with pytest.raises(right.type) as found:
            new_kernel(program, "add").set_args(*values)
        assert str(found.value) == str(right.value)

    def test_unknown_name(self, program):
        """A name that the program does not have is pyopencl's error, and its module is left as it was."""
        before = pyopencl.invoker.generate_enqueue_and_set_args
        with pytest.raises(cl.LogicError):
            new_kernel(program, "no_such_kernel")
        assert pyopencl.invoker.generate_enqueue_and_set_args is before

    def test_another_pyopencl(self, program, monkeypatch, generated):
        """Where pyopencl does not ask, or asks in another way, kernels are made as everywhere else."""
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "_FORM", {"devs"})
            assert new_kernel(program, "add").num_args == 3
        assert generated == ["add"]
        monkeypatch.setattr(kernels, "_ASKED", "a name of another version")
        assert new_kernel(program, "add").num_args == 3
        assert generated == ["add", "add"]

    def test_signals(self, program):
        """What a signal handler raises while kernels are made arrives, and the next kernel leaves all in order."""
        before = pyopencl.invoker.generate_enqueue_and_set_args
        fired = arrived = lost = 0

        def fire(_number, _frame):
            nonlocal fired
            fired += 1
            raise TimeoutError

        handler = signal.signal(signal.SIGALRM, fire)
        try:
            while arrived < 300:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + arrived % 7))
                    end = time.monotonic() + 5
                    while time.monotonic() < end:
                        new_kernel(program, "add")
                    lost += 1  # raised in a finaliser, where Python drops it
                except TimeoutError:
                    arrived += 1
        finally:
            signal.signal(signal.SIGALRM, handler)
        assert fired == arrived + lost
        assert lost <= 3
        assert new_kernel(program, "add").num_args == 3
        assert pyopencl.invoker.generate_enqueue_and_set_args is before

    def test_fork(self, program, monkeypatch):
        """A child that is forked while a thread makes a kernel can make some, and pyopencl answers for itself."""
        before = pyopencl.invoker.generate_enqueue_and_set_args
        inside, go_on = threading.Event(), threading.Event()
        functions = kernels._functions

        def stays(*arguments):
            inside.set()
            go_on.wait(60)
            return functions(*arguments)

        monkeypatch.setattr(kernels, "_functions", stays)
        thread = threading.Thread(target=new_kernel, args=(program, "add"))
        thread.start()
        assert inside.wait(60)
        child = os.fork()
        if not child:
            free = kernels._state().lock.acquire(blocking=False)
            os._exit(0 if free and pyopencl.invoker.generate_enqueue_and_set_args is before else 1)
        go_on.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_other_threads(self, program, generated):
        """A kernel that another thread makes for itself meanwhile gets its generated functions."""
        stop = threading.Event()

        def make():
            while not stop.is_set():
                new_kernel(program, "add")

        before = pyopencl.invoker.generate_enqueue_and_set_args
        threads = [threading.Thread(target=make) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            cl.Kernel(program, "add")
        stop.set()
        for thread in threads:
            thread.join()
        assert len(generated) == 100
        assert pyopencl.invoker.generate_enqueue_and_set_args is before


IN_A_CHILD = """
import json, os, sys, threading
import numpy as np, pyopencl as cl, pyopencl.array
from kcl.build.kernels import new_kernel
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
        for make in (new_kernel, cl.Kernel):
            make(program, "add")(queue, (1,), None, y.data, np.float32(10), np.int32(20))
        print(json.dumps(float(y.get()[0])))
        """
        unusable = {"XDG_CACHE_HOME": "/proc/nowhere", "PYOPENCL_NO_CACHE": "1"}
        unusable["POCL_CACHE_DIR"] = str(child.directory / "pocl")
        assert child.json(IN_A_CHILD + textwrap.dedent(code), SOURCE, **unusable) == 60

    @pytest.mark.parametrize("other", ["import pyopencl.invoker", "cl.Kernel(program, 'add')"])
    def test_threads(self, child, other):
        """Another thread that needs the module while kernels are made gets it whole, and its own functions."""
        code = f"""
        sys.setswitchinterval(1e-6)
        faults, start = [], threading.Barrier(2)
        def work(make):
            try:
                start.wait(60)
                for _ in range(200):
                    make()
            except BaseException as error:
                faults.append(repr(error))
        def another():
            {other}
            from pyopencl.invoker import generate_enqueue_and_set_args
        makers = (lambda: new_kernel(program, "add"), another)
        threads = [threading.Thread(target=work, args=(make,)) for make in makers]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        from pyopencl import invoker
        print(json.dumps([faults, invoker.generate_enqueue_and_set_args.__module__]))
        """
        done = child.json(IN_A_CHILD + textwrap.dedent(code), SOURCE)
        assert done == [[], "pyopencl.invoker"]


class TestBuiltSilently:
    def test_options(self, context):
        """The driver gets the options that pyopencl's wrapper would pass."""
        made = made_text()
        binaries = compilation.from_source(context, made, made.source).get_info(cl.program_info.BINARIES)
        silent, wrapped = (cl.Program(context, context.devices, binaries) for _ in range(2))
        assert kernels.built_silently(silent, Build(context, drivers.of(context)).options(made.options))
        wrapped.build(options=passed(made.options))
        silent, wrapped = (
            [built.get_build_info(device, cl.program_build_info.OPTIONS) for device in context.devices]
            for built in (silent, wrapped)
        )
        assert silent == wrapped
        assert "-DADDEND=1" in silent[0]

    def test_refused(self, context):
        """Where the driver refuses, pyopencl's wrapper is asked next, which says more."""
        binaries = compilation.from_source(context, made_text(), ADD).get_info(cl.program_info.BINARIES)
        made, wrong = made_text(options=("-bogus",)), BuildOptions("-bogus")
        assert not kernels.built_silently(cl.Program(context, context.devices, binaries), wrong)
        entries = [Entry(Key([]), {}, {"binary": binary}) for binary in binaries]
        with pytest.raises(cl.Error, match=r"(?s)Build on .*-bogus"):
            kernels.of_binaries(context, context.devices, entries, made, wrong)

    @pytest.mark.parametrize("inner", [None, SimpleNamespace(), SimpleNamespace(_build=lambda: None)])
    def test_another_pyopencl(self, context, inner):
        """Where pyopencl has no such method, or one that takes other arguments, nothing is built."""
        assert not kernels.built_silently(SimpleNamespace(_prg=inner), Build(context, drivers.of(context)).options(()))


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
