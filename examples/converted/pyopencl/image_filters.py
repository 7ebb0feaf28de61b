"""Filters of images with samplers. Images have no declaration in kcl, so only the line with `kcl.install()` is new."""

import numpy as np
import pyopencl as cl

import kcl

kcl.install()

TEXT = """
__kernel void grey(read_only image2d_t image, write_only image2d_t result, const sampler_t sampler)
{
    const int2 here = (int2)(get_global_id(0), get_global_id(1));
    const uint4 pixel = read_imageui(image, sampler, here);
    const uint light = (299*pixel.x + 587*pixel.y + 114*pixel.z)/1000;
    write_imageui(result, here, (uint4)(light, light, light, 255));
}

__kernel void blur(read_only image2d_t image, write_only image2d_t result, const sampler_t sampler, const int reach)
{
    const int2 here = (int2)(get_global_id(0), get_global_id(1));
    uint4 sum = 0;
    for (int y = -reach; y <= reach; y++)
        for (int x = -reach; x <= reach; x++)
            sum += read_imageui(image, sampler, here + (int2)(x, y));
    write_imageui(result, here, sum/(uint)((2*reach + 1)*(2*reach + 1)));
}
"""

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, TEXT).build()
height, width = shape = 24, 32
picture = np.random.default_rng(0).integers(0, 256, (*shape, 4), np.uint8)
image = cl.image_from_array(context, picture, 4)
pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
result = cl.create_image(context, cl.mem_flags.WRITE_ONLY, pixels, (width, height))
sampler = cl.Sampler(context, False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST)
for kernel, more in ((program.grey, ()), (program.blur, (np.int32(3),))):
    kernel(queue, (width, height), None, image, result, sampler, *more)
    filtered = np.empty_like(picture)
    cl.enqueue_copy(queue, filtered, result, origin=(0, 0), region=(width, height))
    print(kernel.function_name, filtered.sum(axis=(0, 1)))
