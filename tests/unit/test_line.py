"""kcl.line: code, then a program, each from its layer or made now."""

import gc
import threading

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from at_once import at_each_line, at_once
from harness import PLATFORMS
from many_kernels import SIZE, added

import kcl
from kcl import drivers, line
from kcl.cache.lead import Lead
from kcl.frontends import RecipeResult
from kcl.generate.declarations import RecipeCall
from kcl.generate.stage import CallValues
from kcl.line import Line


@kcl.kernel
def add(number):
    """Add a number."""
    text = f"kernel void add(global float *x) {{ x[get_global_id(0)] += {number}; }}"
    arguments = [kcl.Array("x", np.float32, 4, "inout")]
    return kcl.Source(text, entry="add", arguments=arguments, global_size=4)


def test_two_stages(queue, looks):
    """A first call asks both layers, in order, and another Kernel of the same code uses the living program."""
    for _ in range(2):
        _event, (x,) = add(3)(queue, x=np.zeros(4, np.float32))
        assert x.tolist() == [3.0] * 4
    seen = [(one.layer, one.outcome) for one in looks]
    assert seen == [("generator", "miss"), ("binary", "miss"), ("generator", "hit")]


def test_stage_of_a_context(device):
    """Queues of one context share its second stage, with the driver of its devices; what is bound is each queue's."""
    context = cl.Context([device])
    one, other = (line.bindings_of(cl.CommandQueue(context)) for _ in range(2))
    assert one is not other
    assert one.build is other.build is line.bindings_of(context).build
    assert one.build.driver is drivers.of(context)
    assert one.build is not line.bindings_of(cl.Context([device])).build


def test_bound_once(queue):
    """A launcher belongs to a queue, a code and a thread; what a queue has bound goes with the queue."""
    made, other = line.Line(add(3)._line.generate._result), cl.CommandQueue(queue.context)
    with Lead("add") as lead:
        given = line.CallValues({"x": np.zeros(4, np.float32)})
        found = [
            made.launcher(where, made.code(where, given, lead), lead)
            for where in (queue, queue, other)
        ]
    assert found[0] is found[1]
    assert found[0].program is found[2].program
    assert made.find_launcher(queue, given.values) is found[0]
    assert made.find_launcher(cl.CommandQueue(queue.context), given.values) is None


COUNTED = """
import json, numpy as np, pyopencl as cl, sys, warnings, kcl
warnings.simplefilter("ignore")
TEXT = "int counter = 5; kernel void tick(global int *out) { counter += 1; out[0] = counter; }"
OPTIONS = ["-cl-std=CL2.0"]
(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)


@kcl.kernel
def tick():
    arguments = [kcl.Array("out", np.int32, 1, "out")]
    return kcl.Source(TEXT, entry="tick", arguments=arguments, global_size=1, build_options=OPTIONS)


def plain():
    kernel = cl.Program(context, TEXT.replace("counter", "number")).build(OPTIONS).tick
    out = np.zeros(1, np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)

    def launch(_queue, out_host):
        kernel(queue, (1,), None, buffer)
        cl.enqueue_copy(queue, out, buffer)
        return None, [out]

    return launch


found = []
for make in (tick, plain):
    one, other = make(), make()
    calls = [(kernel, queue) for kernel in (one, one, other, one, other)]
    calls += [(one, cl.CommandQueue(context)) for _ in range(2)]
    found.append([int(kernel(where, out_host=True)[1][0][0]) for kernel, where in calls])
    found[-1].append(int(make()(queue, out_host=True)[1][0][0]))
print(json.dumps(found))
"""


@pytest.mark.slow_platforms
def test_variables_that_outlive_a_launch(child, platform_name):
    """A Kernel has its own program-scope variables, in all its queues, as a `cl.Program` has."""
    for _ in range(2):
        counted, plain = child.json(COUNTED, PLATFORMS[platform_name])
        assert counted == plain


@pytest.fixture
def launch(queue):
    """Launch a Kernel, a new one where none is given, and return what it added."""

    def launch(number, kernel=None, queue=queue):
        x = cl_array.zeros(queue, SIZE, np.float32)
        (kernel or added(number))(queue, x=x)
        assert x.get().tolist() == [number] * SIZE

    return launch


def programs(queue):
    """Return the number of living programs of a queue's context."""
    gc.collect()
    return len(queue._kcl_bindings.build._programs)


class TestUnused:
    """Programs of dropped Kernels are let go of, oldest first, and those of living ones never."""

    def test_dropped(self, queue, launch, monkeypatch):
        """As many programs of dropped Kernels are kept as the bound allows, those that were dropped last."""
        monkeypatch.setattr(line, "KEPT", 2)
        launch(0)
        kept = [queue._kcl_bindings.launchers.copy()]
        for number in range(1, 6):
            launch(number)
            kept.append(queue._kcl_bindings.launchers.copy())
        assert [len(one) for one in kept] == [1, 2, 3, 3, 3, 3]
        assert kept[-1].keys().isdisjoint(kept[2].keys() - kept[4].keys())
        del kept
        assert programs(queue) == 3
        launch(0)  # and again, from the entry or from source

    def test_living(self, queue, launch, monkeypatch):
        """A Kernel that lives keeps its program, whatever is dropped; so does one of two Kernels of one code."""
        monkeypatch.setattr(line, "KEPT", 0)
        first, same = added(0), added(0)
        for number, kernel in ((0, first), (0, same), (1, None), (2, None)):
            launch(number, kernel)
        launchers = queue._kcl_bindings.launchers
        (place,) = [place for place in launchers if place[0] == first._line.sole]
        launcher = launchers[place]
        del same
        launch(3)
        launch(0, first)
        assert launchers[place] is launcher
        del first, launcher
        launch(4)
        assert place not in launchers
        assert programs(queue) == 1

    def test_used_again(self, queue, launch, monkeypatch):
        """A code that is used again is as young as it was then, and loads nothing again."""
        monkeypatch.setattr(line, "KEPT", 2)
        for number in (0, 1):
            launch(number)
        place = next(iter(queue._kcl_bindings.launchers))
        launcher = queue._kcl_bindings.launchers[place]
        for number in (0, 2, 3):
            launch(number)
        assert queue._kcl_bindings.launchers.get(place) is launcher

    def test_everywhere(self, queue, launch, monkeypatch):
        """The launchers of a code are let go of on every queue and for every thread."""
        monkeypatch.setattr(line, "KEPT", 0)
        other, kernel = cl.CommandQueue(queue.context), added(0)
        launch(0, kernel)
        launch(0, kernel, other)
        thread = threading.Thread(target=launch, args=(0, kernel))
        thread.start()
        thread.join()
        held = [len(one._kcl_bindings.launchers) for one in (queue, other)]
        assert held == [2, 1]
        del kernel
        launch(1)
        held = [len(one._kcl_bindings.launchers) for one in (queue, other)]
        assert held == [1, 0]

    def test_threads(self, queue, monkeypatch):
        """Threads that make, launch and drop the same few Kernels compute the right numbers."""
        monkeypatch.setattr(line, "KEPT", 0)
        zeros = np.zeros(SIZE, np.float32)

        def work(first):
            own = cl.CommandQueue(queue.context)
            x = cl_array.to_device(own, zeros)
            for number in range(first, first + 30):
                # `fill` has one kernel for all threads, whose arguments they would mix
                x.set(zeros)
                added(number % 3)(own, x=x)
                assert x.get().tolist() == [number % 3] * SIZE

        at_once(work, 3)


def test_a_change_while_threads_add_queues(context):
    """The place of kcl's files may change while other threads launch on their first queues."""
    queues = [cl.CommandQueue(context)]
    line.bindings_of(queues[0])

    def add():
        queues.append(cl.CommandQueue(context))
        line.bindings_of(queues[-1])

    at_each_line(line._state().on_change, add)
    assert len(queues) > 1


def doubled():
    """Return OpenCL C that doubles."""
    code = "kernel void f(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }"
    arguments = [kcl.Array("x", "float32", "(4,)"), kcl.Array("y", "float32", "(4,)", "out")]
    return kcl.Source(code, entry="f", arguments=arguments, global_size="(4,)")


def two(context):
    """Return two launchers of one program."""
    own = Line(RecipeResult(RecipeCall("doubled", doubled, {})), doubled)
    with Lead("doubled") as lead:
        ready = own.code(context, CallValues({}), lead)
        program = own.launcher(context, ready, lead).program
    return program.launcher(ready), program.launcher(ready)


def test_launchers_of_one_program(context):
    """They have kernel objects of their own: threads do not mix their arguments. Calls must give what is no output."""
    one, other = two(context)
    assert one.program is other.program
    assert one.kernels.f is not other.kernels.f
    assert one.required == {"x"}
