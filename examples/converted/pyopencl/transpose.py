"""A matrix transposed in three ways: sizes of the driver's choice, given sizes, and tiles in local memory."""

import numpy as np
import pyopencl as cl

import kcl

MATRICES = [
    kcl.Array("b", np.float32, shape="(a.shape[1], a.shape[0])", direction="out"),
    kcl.Array("a", np.float32, shape="(height, width)"),
    kcl.Scalar("width", np.uint32),
    kcl.Scalar("height", np.uint32),
]


@kcl.kernel
def plain(tile=None):
    return kcl.Source(
        """
        __kernel void plain(__global float *b, __global const float *a, const uint width, const uint height)
        {
            const uint x = get_global_id(0), y = get_global_id(1);
            b[x*height + y] = a[y*width + x];
        }
        """,
        entry="plain",
        arguments=MATRICES,
        global_size="(width, height)",
        local_size=f"({tile}, {tile})" if tile else None,
    )


@kcl.kernel
def tiled(tile):
    return kcl.Source(
        """
        __kernel void tiled(
            __global float *b, __global const float *a, const uint width, const uint height, __local float *part)
        {
            const uint lx = get_local_id(0), ly = get_local_id(1);
            const uint x = get_group_id(0)*TILE, y = get_group_id(1)*TILE;
            part[ly*(TILE + 1) + lx] = a[(y + ly)*width + x + lx];
            barrier(CLK_LOCAL_MEM_FENCE);
            b[(x + ly)*height + y + lx] = part[lx*(TILE + 1) + ly];
        }
        """,
        entry="tiled",
        arguments=[*MATRICES, kcl.Local("part", np.float32, f"{tile} * {tile + 1}")],
        global_size="(width, height)",
        local_size=f"({tile}, {tile})",
        build_options=[f"-DTILE={tile}"],
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
a = np.random.default_rng(0).random((128, 192), dtype=np.float32)
for kernel in (plain(), plain(16), tiled(16)):
    event, (b,) = kernel(queue, a=a)
    print(np.array_equal(b, a.T), b[:, 0].sum())
