"""kcl.line: code, then a program, each from its layer or made now."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

import kcl
from kcl import drivers, line


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
    """A context has one second stage, with the driver of its devices."""
    context = cl.Context([device])
    assert line.stage_of(context) is line.stage_of(context)
    assert line.stage_of(context).driver is drivers.of(context)
    assert line.stage_of(context) is not line.stage_of(cl.Context([device]))
