"""Device arrays in shared virtual memory. Only the line with `kcl.install()` is new.

The arrays come from no pool: a pool of such memory crashes PoCL 3.0 as it is freed, without kcl too.
"""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import SVMAllocator

import kcl

kcl.install()

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
allocator = SVMAllocator(context, alignment=0, queue=queue)
x, y = np.random.default_rng(0).random((2, 5_000), dtype=np.float32)
a, b = (cl_array.to_device(queue, part, allocator=allocator) for part in (x, y))
c = cl_array.empty_like(a)
text = """
__kernel void sum(__global const float *a, __global const float *b, __global float *c)
{
    c[get_global_id(0)] = a[get_global_id(0)] + b[get_global_id(0)];
}
"""
kernel = cl.Program(context, text).build().sum
kernel(queue, a.shape, None, a.data, b.data, c.data)
print(np.linalg.norm((c - (a + b)).get()), np.array_equal(c.get(), x + y), c.get().sum())
