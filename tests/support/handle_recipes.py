"""Recipes of test_handle.py that its children use too; the harness is not imported there."""

import numpy as np

import kcl

ADD = "kernel void add(global float *x, float a) { x[get_global_id(0)] += a; }"


@kcl.kernel
def add(code=ADD, sizes=(8,)):
    """x += a, in OpenCL C."""
    shape = f"({sizes[0]},)"
    return kcl.Source(
        code,
        entry="add",
        arguments=[kcl.Array("x", np.float32, shape, "inout"), kcl.Scalar("a", np.float32)],
        global_size=shape,
    )


@kcl.kernel
def scaled(factor=2):
    """y = factor*a*x in loopy, every dtype left open."""
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {factor}*a*x[i]", name="scaled")
