"""What every recipe shares: OpenCL C that multiplies by a factor."""

import zlib

import numpy as np

import kcl

ARGUMENTS = [
    kcl.Array("x", np.float32, "(n,)"),
    kcl.Array("y", np.float32, "(n,)", "out"),
    kcl.Scalar("n", np.int32),
]


def scaled(factor, head="", build_options=(), include_dirs=()):
    """Return OpenCL C that multiplies by `factor`; a few programs serve many integers, since compiling takes time."""
    if isinstance(factor, int):
        factor = factor % 16 + 1
    code = f"""{head}
    __kernel void scaled(__global const float *x, __global float *y, int n)
    {{
        y[get_global_id(0)] = x[get_global_id(0)] * ({factor});
    }}
    """
    return kcl.Source(
        code,
        entry="scaled",
        arguments=ARGUMENTS,
        global_size="(n,)",
        build_options=build_options,
        include_dirs=include_dirs,
    )


def number(*things):
    """Return a number that another text would not give."""
    return zlib.crc32(" ".join(map(str, things)).encode()) % 997
