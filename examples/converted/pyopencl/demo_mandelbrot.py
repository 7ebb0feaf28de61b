"""The Mandelbrot set, without the window; complex numbers of numpy are pairs of floats in OpenCL C."""

import numpy as np
import pyopencl as cl

import kcl


@kcl.kernel
def escape_times():
    return kcl.Source(
        """
        __kernel void escape_times(
            __global const float2 *c, __global ushort *steps, const ushort most, const int n)
        {
            const int pixel = get_global_id(0);
            float2 z = 0;
            ushort step = 0;
            while (step < most && dot(z, z) <= 4)
            {
                z = (float2)(z.x*z.x - z.y*z.y, 2*z.x*z.y) + c[pixel];
                step++;
            }
            steps[pixel] = step;
        }
        """,
        entry="escape_times",
        arguments=[
            kcl.Array("c", np.complex64, shape="(n,)"),
            kcl.Array("steps", np.uint16, shape="(n,)", direction="out"),
            kcl.Scalar("most", np.uint16),
            kcl.Scalar("n", np.int32),
        ],
        global_size="(n,)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
points = np.linspace(-2, 0.75, 64) + 1j * np.linspace(-1.25, 1.25, 24)[:, np.newaxis]
event, (steps,) = escape_times()(queue, c=points.astype(np.complex64).ravel(), most=30)
for row in steps.reshape(points.shape):
    print("".join(" .:-=+*%@#"[step * 9 // 30] for step in row))
