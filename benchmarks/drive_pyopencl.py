"""Use what pyopencl makes kernels of: arrays, elementwise kernels, reductions and scans; a program without loopy.

python drive_pyopencl.py [PLATFORM]
"""

from __future__ import annotations

import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import InclusiveScanKernel


def main() -> None:
    """Run a few kernels of each kind, and print what they computed."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "Portable Computing Language"
    platform = next(one for one in cl.get_platforms() if one.name == wanted)
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    found = []
    for dtype, name in ((np.float32, "float"), (np.float64, "double")):
        x = cl_array.arange(queue, 4096, dtype=dtype)
        y = x * x + 3
        axpy = ElementwiseKernel(
            context, f"{name} a, {name} *x, {name} *y", "y[i] = a*x[i] + y[i]", "axpy"
        )
        axpy(2, x, y)
        norm = ReductionKernel(
            context,
            dtype,
            "0",
            "a+b",
            map_expr="x[i]*x[i]",
            arguments=f"__global const {name} *x",
            name="norm",
        )
        counts = cl_array.to_device(queue, np.arange(4096, dtype=np.int32) % (3 + len(found)))
        InclusiveScanKernel(
            context, np.int32, "a+b" if name == "float" else "max(a, b)", neutral="0"
        )(counts)
        found += [
            float(norm(y).get()),
            float(cl_array.sum(y).get()),
            float(cl_array.dot(x, y).get()),
            int(counts.get()[-1]),
        ]
    print(found)


if __name__ == "__main__":
    main()
