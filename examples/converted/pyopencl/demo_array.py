"""A kernel beside the operators of device arrays, whose kernels pyopencl writes: `kcl.install()` caches those."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

kcl.install()


@kcl.kernel
def vector_sum():
    return kcl.Source(
        """
        __kernel void vector_sum(__global const float *a, __global const float *b, __global float *c)
        {
            const int i = get_global_id(0);
            c[i] = a[i] + b[i];
        }
        """,
        entry="vector_sum",
        arguments=[
            kcl.Array("a", np.float32, shape="(a.size,)"),
            kcl.Array("b", np.float32, shape="(a.size,)"),
            kcl.Array("c", np.float32, shape="(a.size,)", direction="out"),
        ],
        global_size="(a.size,)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
random = np.random.default_rng(0)
a, b = (cl_array.to_device(queue, random.random(50_000, dtype=np.float32)) for _ in range(2))
event, (c,) = vector_sum()(queue, a=a, b=b)
print(np.linalg.norm((c - (a + b)).get()), c.get().sum())
