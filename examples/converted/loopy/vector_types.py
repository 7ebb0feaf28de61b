"""Arithmetic on vectors of four. Only the import of loopy is another one."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", name="vectors")
knl = lp.split_iname(knl, "i", 4, slabs=(0, 1), inner_tag="vec")
knl = lp.split_array_axis(knl, "a,out", axis_nr=0, count=4)
knl = lp.tag_array_axes(knl, "a,out", "C,vec")
a = np.arange(1000, dtype=np.float32)
event, (out,) = knl.executor(context)(queue, a=cl_array.to_device(queue, a.reshape(-1, 4)), n=1000)
print(out.shape, out.dtype, np.array_equal(out.get().ravel(), 2 * a))
