"""What the recipes share."""

import numpy as np

import kcl

ARGUMENTS = [kcl.Array("x", np.float32, "(n,)"), kcl.Array("y", np.float32, "(n,)", "out"), kcl.Scalar("n", np.int32)]


def scaled(factor):
    """Return OpenCL C."""
    code = f"""
    __kernel void scaled(__global const float *x, __global float *y, int n)
    {{
        y[get_global_id(0)] = x[get_global_id(0)] * ({factor});
    }}
    """
    return kcl.Source(code, entry="scaled", arguments=ARGUMENTS, global_size="(n,)")
