"""The disc around a black hole, as light bends it: the paths are computed once, then each pixel looks its path up."""

import numpy as np
import pyopencl as cl

import kcl

TEXT = """
__kernel void paths(__global float *radius, const float reach, const int count)
{
    const int path = get_global_id(0);
    const float b = reach*(path + 0.5f)/count, h = 4*M_PI_F/POINTS;
    float u = 0, v = 1/b;
    for (int point = 0; point < POINTS; point++)
    {
        const float w = v + h/2*BEND(u);
        u += h*w;
        v = w + h/2*BEND(u);
        radius[path*POINTS + point] = u > 0 && u < 0.5f ? 1/u : 0;
    }
}

__kernel void picture(
    __global const float *radius, __global float *light, const float reach, const float tilt, const float inner,
    const float outer, const int count)
{
    const int size = get_global_size(0), column = get_global_id(0), row = get_global_id(1);
    const float x = column - size/2 + 0.5f, y = row - size/2 + 0.5f;
    const float phi = atan2(y, x), across = atan2(cos(tilt), cos(phi)*sin(tilt));
    const int path = (int)(2*hypot(x, y)/size*count);
    float seen = 0;
    for (int lap = 0; lap < 3 && path < count && seen == 0; lap++)
    {
        const int point = (int)((across + lap*M_PI_F)*POINTS/(4*M_PI_F));
        const float r = radius[path*POINTS + point];
        if (r >= inner && r <= outer)
            seen = 1/(r*r);
    }
    light[row*size + column] = seen;
}
"""
EINSTEIN, NEWTON = "(3*u*u-u)", "(-u)"


@kcl.kernel
def paths(law, points):
    return kcl.Source(
        TEXT,
        entry="paths",
        arguments=[
            kcl.Array("radius", np.float32, shape=f"(count, {points})", direction="out"),
            kcl.Scalar("reach", np.float32),
            kcl.Scalar("count", np.int32),
        ],
        global_size="(count,)",
        build_options=[f"-DBEND(u)={law}", f"-DPOINTS={points}"],
    )


@kcl.kernel
def picture(law, points, size):
    return kcl.Source(
        TEXT,
        entry="picture",
        arguments=[
            kcl.Array("radius", np.float32, shape=f"(count, {points})"),
            kcl.Array("light", np.float32, shape=f"({size}, {size})", direction="out"),
            *(kcl.Scalar(name, np.float32) for name in ("reach", "tilt", "inner", "outer")),
            kcl.Scalar("count", np.int32),
        ],
        global_size=f"({size}, {size})",
        build_options=[f"-DBEND(u)={law}", f"-DPOINTS={points}"],
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
for law in (EINSTEIN, NEWTON):
    event, (radius,) = paths(law, points=512)(queue, reach=15, count=64)
    kernel = picture(law, points=512, size=96)
    event, (light,) = kernel(queue, radius=radius, reach=15, tilt=np.radians(80), inner=6, outer=12)
    light = light.get()
    print(light.sum(), light[48, ::8].round(4))
