"""The sum of two vectors, in OpenCL C."""

import numpy as np
import pyopencl as cl

import kcl


@kcl.kernel
def vector_sum():
    return kcl.Source(
        """
        __kernel void vector_sum(__global const float *a, __global const float *b, __global float *c, const int n)
        {
            const int i = get_global_id(0);
            c[i] = a[i] + b[i];
        }
        """,
        entry="vector_sum",
        arguments=[
            kcl.Array("a", np.float32, shape="(n,)"),
            kcl.Array("b", np.float32, shape="(n,)"),
            kcl.Array("c", np.float32, shape="(n,)", direction="out"),
            kcl.Scalar("n", np.int32),
        ],
        global_size="(n,)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
a, b = np.random.default_rng(0).random((2, 50_000), dtype=np.float32)
event, (c,) = vector_sum()(queue, a=a, b=b)
print(np.linalg.norm(c - (a + b)), c.sum())
