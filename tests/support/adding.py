"""Recipes whose stored code and binaries are compared with what they generate and compute."""

import numpy as np
from loopys_own import loopy as lp

import kcl
from kcl.base import settings
from kcl.drivers.pocl import client

ADD = "kernel void add(global float *x, float a)\n{ x[get_global_id(0)] += a; }\n"


def source(code=ADD, size="(4,)"):
    """x += a."""
    return kcl.Source(
        code,
        entry="add",
        arguments=[kcl.Array("x", np.float32, "(4,)", "inout"), kcl.Scalar("a", np.float32)],
        global_size=size,
    )


@kcl.kernel
def add(code=ADD):
    """x += a."""
    return source(code)


@kcl.kernel
def doubled():
    """y = 2*x by loopy, dtypes left open."""
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="doubled", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


def launched(queue, kernel, start=0, **arguments):
    """Launch a Kernel that adds; return its first number and the look-ups as (layer, outcome, reason)."""
    seen = []
    remove = kcl.add_hook(lambda event: seen.append((event.layer, event.outcome, event.reason)))
    _event, (x,) = kernel(queue, x=np.full(4, start, np.float32), a=1, **arguments)
    remove()
    assert client.idle(settings.folder("kcl"), 60)
    return float(x[0]), seen
