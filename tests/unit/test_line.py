"""kcl.line: code, then a program, each from its layer or made now."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest
from harness import PLATFORMS

import kcl
from kcl import drivers, line
from kcl.cache.lead import Lead


@kcl.kernel
def add(number):
    """Add a number."""
    return kcl.Source(
        f"kernel void add(global float *x) {{ x[get_global_id(0)] += {number}; }}",
        entry="add",
        arguments=[kcl.Array("x", np.float32, "(4,)", "inout")],
        global_size="(4,)",
    )


def test_two_stages(queue):
    """A first call asks both layers, in order, and another Kernel of the same code uses the living program."""
    seen = []
    kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))
    for _ in range(2):
        _event, (x,) = add(3)(queue, x=np.zeros(4, np.float32))
        assert x.tolist() == [3.0] * 4
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
    made, other = line.Line(add(3)._line.generate._origin, None), cl.CommandQueue(queue.context)
    with Lead("add") as lead:
        given = line.CallValues({"x": np.zeros(4, np.float32)})
        found = [made.launcher(where, given, lead, given.values, None) for where in (queue, queue, other)]
    assert found[0] is found[1]
    assert found[0].program is found[2].program
    assert made.known(queue, given.values) is found[0]
    assert made.known(cl.CommandQueue(queue.context), given.values) is None


def test_holder():
    """What is neither a queue nor a context is refused."""
    with pytest.raises(TypeError, match="expected a pyopencl Context or CommandQueue, got 3"):
        line.bindings_of(3)


def test_epoch(queue, tmp_path):
    """Code is looked up again after the files of kcl have another place."""
    seen = []
    kernel = add(5)
    kernel(queue, x=np.zeros(4, np.float32))
    kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))
    with kcl.option.cache_dir(tmp_path):
        kernel(queue, x=np.zeros(4, np.float32))
    assert seen == [("generator", "miss"), ("binary", "miss")]


COUNTED = """
import json, numpy as np, pyopencl as cl, sys, warnings, kcl
warnings.simplefilter("ignore")
TEXT = "int counter = 5; kernel void tick(global int *out) { counter += 1; out[0] = counter; }"
(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)


@kcl.kernel
def tick():
    return kcl.Source(
        TEXT,
        entry="tick",
        arguments=[kcl.Array("out", np.int32, "(1,)", "out")],
        global_size="(1,)",
        build_options=["-cl-std=CL2.0"],
    )


def counted(kernel, queue=queue):
    _event, (out,) = kernel(queue, out_host=True)
    return int(out[0])


def plain():
    kernel = cl.Program(context, TEXT.replace("counter", "number")).build(["-cl-std=CL2.0"]).tick
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
    found.append([counted(kernel) for kernel in (one, one, other, one, other)])
    found[-1] += [counted(one, cl.CommandQueue(context)) for _ in range(2)]
    found[-1].append(counted(make()))
print(json.dumps(found))
"""


@pytest.mark.parametrize("verify", ["", "results"])
def test_variables_that_outlive_a_launch(child, platform_name, verify):
    """A Kernel has its own program-scope variables, in all its queues, as a `cl.Program` has; no comparison counts."""
    for _ in range(2):
        counted, plain = child.json(COUNTED, PLATFORMS[platform_name], KCL_VERIFY=verify)
        assert counted == plain
