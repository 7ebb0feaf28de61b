"""Smallest and largest number at once: a reduction over a struct. Only the line with `kcl.install()` is new."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.reduction import ReductionKernel
from pyopencl.tools import get_or_register_dtype, match_dtype_to_c_struct

import kcl

kcl.install()

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
fields = np.dtype([("low", np.int32), ("high", np.int32)])
dtype, declaration = match_dtype_to_c_struct(context.devices[0], "bounds", fields)
dtype = get_or_register_dtype("bounds", dtype)
bounds = ReductionKernel(
    context,
    dtype,
    neutral="no_bounds()",
    map_expr="bounds_of(x[i])",
    reduce_expr="joined(a, b)",
    arguments="__global int *x",
    preamble=declaration
    + """
    bounds no_bounds() { bounds none = {INT_MAX, INT_MIN}; return none; }
    bounds bounds_of(int x) { bounds both = {x, x}; return both; }
    bounds joined(bounds a, bounds b) { bounds c = {min(a.low, b.low), max(a.high, b.high)}; return c; }
    """,
)
x = np.random.default_rng(0).integers(0, 10**6, 20_000, np.int32)
found = bounds(cl_array.to_device(queue, x)).get()
print((found["low"], found["high"]) == (x.min(), x.max()), found)
