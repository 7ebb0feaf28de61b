"""OpenCL C from a template of mako: the recipe fills it in every run, and the filled text is the key."""

import numpy as np
import pyopencl as cl
from mako.template import Template

import kcl

TEMPLATE = """
__kernel void strided_sum(
    __global const ${real} *a, __global const ${real} *b, __global ${real} *c)
{
    const int first = get_local_id(0) + ${group*strides}*get_group_id(0);
% for stride in range(strides):
    c[first + ${group*stride}] = a[first + ${group*stride}] + b[first + ${group*stride}];
% endfor
}
"""


@kcl.kernel
def strided_sum(dtype, group, strides):
    return kcl.Source(
        Template(TEMPLATE).render(
            real={"f": "float", "d": "double"}[np.dtype(dtype).char], group=group, strides=strides
        ),
        entry="strided_sum",
        arguments=[
            kcl.Array("a", dtype, shape="(a.size,)"),
            kcl.Array("b", dtype, shape="(a.size,)"),
            kcl.Array("c", dtype, shape="(a.size,)", direction="out"),
        ],
        global_size=f"(a.size // {strides},)",
        local_size=f"({group},)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
for dtype in (np.float32, np.float64):
    a, b = np.random.default_rng(0).standard_normal((2, 64 * 8 * 33)).astype(dtype)
    event, (c,) = strided_sum(dtype, group=64, strides=8)(queue, a=a, b=b)
    print(np.linalg.norm(c - (a + b)), c.sum())
