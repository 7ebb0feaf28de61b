"""A vector doubled, as a direct call and by an executor. Only the import of loopy is another one."""

import warnings

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
a = cl_array.to_device(queue, np.arange(10_000, dtype=np.float32))

knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]")
knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # loopy warns of direct calls, which look their code up each time
    event, (direct,) = knl(queue, a=a)
executor = knl.executor(context)
event, (out,) = executor(queue, a=a)
assert (direct.get() == 2 * a.get()).all()
print(direct.get().sum(), out.get().sum())
