"""OpenCL C that cgen writes: the text is made in every run, and is the key."""

import numpy as np
import pyopencl as cl
from cgen import (
    POD,
    Assign,
    Block,
    Const,
    FunctionBody,
    FunctionDeclaration,
    Initializer,
    Pointer,
    Value,
)
from cgen.opencl import CLGlobal, CLKernel, CLRequiredWorkGroupSize

import kcl


@kcl.kernel
def strided_sum(group, strides):
    arguments = [CLGlobal(Pointer(POD(np.float32, "c")))]
    arguments += [CLGlobal(Pointer(Const(POD(np.float32, name)))) for name in "ab"]
    head = FunctionDeclaration(Value("void", "strided_sum"), arguments)
    first = Initializer(
        POD(np.int32, "first"), f"get_local_id(0) + {group * strides}*get_group_id(0)"
    )
    places = [f"first + {group * stride}" for stride in range(strides)]
    lines = [Assign(f"c[{place}]", f"a[{place}] + b[{place}]") for place in places]
    body = FunctionBody(CLKernel(CLRequiredWorkGroupSize((group,), head)), Block([first, *lines]))
    return kcl.Source(
        str(body),
        entry="strided_sum",
        arguments=[
            kcl.Array("c", np.float32, shape="(a.size,)", direction="out"),
            kcl.Array("a", np.float32, shape="(a.size,)"),
            kcl.Array("b", np.float32, shape="(a.size,)"),
        ],
        global_size=f"(a.size // {strides},)",
        local_size=f"({group},)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
a, b = np.random.default_rng(0).standard_normal((2, 64 * 8 * 33), dtype=np.float32)
event, (c,) = strided_sum(group=64, strides=8)(queue, a=a, b=b)
print(np.linalg.norm(c - (a + b)), c.sum())
