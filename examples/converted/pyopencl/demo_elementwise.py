"""A linear combination by pyopencl's ElementwiseKernel. Only the line with `kcl.install()` is new."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel

import kcl

kcl.install()

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
combined = ElementwiseKernel(
    context, "float s, float *x, float t, float *y, float *z", "z[i] = s*x[i] + t*y[i]", "combined"
)
x, y = np.random.default_rng(0).random((2, 10), dtype=np.float32)
z = cl_array.empty(queue, 10, np.float32)
combined(2, cl_array.to_device(queue, x), 3, cl_array.to_device(queue, y), z)
print(np.allclose(z.get(), 2 * x + 3 * y), z.get())
