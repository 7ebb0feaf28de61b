"""The sections of loopy's tutorial that look into units. The import is another one; these lines import loopy."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
n = 256

# Getting started, and printing
knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]")
knl = lp.set_options(knl, allow_terminal_colors=False)
print(knl)
print(lp.prioritize_loops(lp.split_iname(knl, "i", 4), "i_outer,i_inner"))

# Generating code and its header
typed = lp.add_dtypes(knl, {"a": np.float32})
print(lp.generate_code_v2(typed).device_code())
print(lp.generate_header(typed)[0])

# Ordering: the dependencies
knl = lp.make_kernel(
    "{[i,j,k,l]: 0<=i,j,k,l<n}",
    """
    out[j,i] = a[i,j] {id=transpose}
    out[k,l] = 2*out[k,l] {dep=transpose}
    """,
    [lp.GlobalArg("out", shape=lp.auto, is_input=False), ...],
    name="transpose_and_double",
)
print(knl["transpose_and_double"].stringify(with_dependencies=True))

# The sizes of a launch
fill = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 3", assumptions="n>=1", name="fill")
fill = lp.split_iname(fill, "i", 128, outer_tag="g.0", inner_tag="l.0")
print(fill["fill"].get_grid_size_upper_bounds(fill.callables_table))

# Barriers: what is missing is said
rotate = """
for i
    <> tmp = arr[i] {id=maketmp,dep=*}
    %sarr[(i + 1) %% n] = tmp {id=rotate,dep=*%s}
end
"""
arguments = [lp.GlobalArg("arr", np.int32, shape=("n",)), "..."]
without = lp.make_kernel(
    "[n] -> {[i]: 0<=i<n}",
    rotate % ("", "maketmp"),
    arguments,
    name="rotated",
    assumptions="n mod 16 = 0",
)
without = lp.split_iname(without, "i", 16, inner_tag="l.0", outer_tag="g.0")
try:
    lp.generate_code_v2(without)
except lp.LoopyError as error:
    print(type(error).__name__, error)

# Temporaries that are saved across a barrier of the whole device: two kernels
gap = "... gbarrier {id=bar,dep=*maketmp}\n    "
knl = lp.make_kernel(
    "[n] -> {[i]: 0<=i<n}",
    rotate % (gap, "bar"),
    arguments,
    name="rotated",
    assumptions="n mod 16 = 0",
)
knl = lp.preprocess_kernel(lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.0"))
for change in (lambda unit: unit, lp.save_and_reload_temporaries):
    knl = change(knl)
    knl = knl.with_kernel(lp.get_one_linearized_kernel(knl["rotated"], knl.callables_table))
event, (out,) = knl.executor(context)(queue, arr=cl_array.arange(queue, 32, dtype=np.int32))
print(out)

# A static maximum that is not there
try:
    lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 5\nout[0] = 6")
except lp.LoopyError as error:
    print(type(error).__name__, error)

# A race that loopy warns of, in the run that generates the code
knl = lp.make_kernel("{[i,j]: 0<=i,j<n}", "out[j,i] = a[i,j]", assumptions="n>=1", name="transpose")
knl = lp.split_iname(knl, "j", 16, inner_tag="l.1", outer_tag="g.0")
knl = lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.1")
knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.auto")
event, (out,) = knl.executor(context)(queue, a=cl_array.zeros(queue, (n, n), np.float32))
print(out.get().sum())

# Counting operations, accesses of memory and synchronizations
knl = lp.make_kernel(
    "[n,m,l] -> {[i,k,j]: 0<=i<n and 0<=k<m and 0<=j<l}",
    """
    c[i,j,k] = a[i,j,k]*b[i,j,k]/3.0 + a[i,j,k]
    e[i,k] = g[i,k]*(2 + h[i,k+1])
    """,
    name="counted",
)
knl = lp.add_and_infer_dtypes(knl, {"a,b": np.float32, "g,h": np.float64})
sizes = {"n": 256, "m": 256, "l": 8}
operations = lp.get_op_map(knl, subgroup_size=32)
print(operations.filter_by(dtype=[np.float32]).eval_and_sum(sizes), operations.eval_and_sum(sizes))
for tags in (
    {},
    {"outer_tag": "l.1", "inner_tag": "l.0"},
    {"outer_tag": "l.0", "inner_tag": "l.1"},
):
    tagged = lp.split_iname(knl, "k", 128, **tags) if tags else knl
    moved = lp.get_mem_access_map(tagged, subgroup_size=32).to_bytes().filter_by(mtype=["global"])
    print([moved.filter_by(direction=[way]).eval_and_sum(sizes) for way in ("load", "store")])
print(lp.get_synchronization_map(knl))
