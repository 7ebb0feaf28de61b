"""Pi from random points in a square: the generator and the type are compile-time parameters."""

import numpy as np
import pyopencl as cl

import kcl

TEXT = """
#define CONGRUENTIAL (state = 69069*state + 1234567)
#define SHIFTED (state ^= state << 17, state ^= state >> 13, state ^= state << 5)

__kernel void inside(__global ulong *counts, const ulong points, const uint seed)
{
    uint state = seed + get_global_id(0);
    ulong count = 0;
    for (ulong point = 0; point < points; point++)
    {
        const REAL x = GENERATOR*(REAL)2.3283064365386963e-10f;
        const REAL y = GENERATOR*(REAL)2.3283064365386963e-10f;
        count += x*x + y*y <= 1;
    }
    counts[get_global_id(0)] = count;
}
"""


@kcl.kernel
def inside(generator, real, workers):
    return kcl.Source(
        TEXT,
        entry="inside",
        arguments=[
            kcl.Array("counts", np.uint64, shape=f"({workers},)", direction="out"),
            kcl.Scalar("points", np.uint64),
            kcl.Scalar("seed", np.uint32),
        ],
        global_size=f"({workers},)",
        build_options=[f"-DGENERATOR={generator}", f"-DREAL={real}"],
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
for generator in ("CONGRUENTIAL", "SHIFTED"):
    for real in ("float", "double"):
        event, (counts,) = inside(generator, real, workers=256)(
            queue, points=1000, seed=110271, out_host=True
        )
        print(generator, real, counts.sum() * 4 / 256_000)
