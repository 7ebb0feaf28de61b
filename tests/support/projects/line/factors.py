"""What the driver's recipes share."""

import numpy as np

import kcl

ARGUMENTS = [
    kcl.Array("x", np.float32, "(n,)"),
    kcl.Array("y", np.float32, "(n,)", "out"),
    kcl.Scalar("n", np.int32),
]


def four():
    return 4


def scaled(name, factor, build_options=()):
    """Return OpenCL C that multiplies by a factor."""
    code = f"""
    __kernel void {name}(__global const float *x, __global float *y, int n)
    {{
        y[get_global_id(0)] = x[get_global_id(0)] * {factor};
    }}
    """
    return kcl.Source(
        code, entry=name, arguments=ARGUMENTS, global_size="(n,)", build_options=build_options
    )
