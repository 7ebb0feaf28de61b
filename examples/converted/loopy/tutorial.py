"""The sections of loopy's tutorial that launch kernels. Only the import of loopy is another one."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
n = 16 * 16
random = np.random.default_rng(0)
x_host = random.random(n, dtype=np.float32)
a_host = random.random((n, n), dtype=np.float32)
x, a = cl_array.to_device(queue, x_host), cl_array.to_device(queue, a_host)


def launched(knl, **arguments):
    """Return the outputs of a launch on the host."""
    _event, outputs = knl.executor(context)(queue, **arguments)
    return [output.get() if isinstance(output, cl_array.Array) else output for output in outputs]


# Running a kernel: arrays on the device and on the host, the code printed, and options of the build
double = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]")
launched(lp.set_options(double, write_code=True, allow_terminal_colors=False), a=x)
for knl in (double, lp.set_options(double, build_options=["-cl-mad-enable"])):
    for given in (x, x_host):
        (out,) = launched(knl, a=given)
        assert (out == 2 * x_host).all()
print("running", out.sum())

# Ordering: the second pair of loops begins when the first one has ended
knl = lp.make_kernel(
    "{[i,j,k,l]: 0<=i,j,k,l<n}",
    """
    out[j,i] = a[i,j] {id=transpose}
    out[k,l] = 2*out[k,l] {dep=transpose}
    """,
    [lp.GlobalArg("out", shape=lp.auto, is_input=False), ...],
    name="transpose_and_double",
)
knl = lp.prioritize_loops(lp.prioritize_loops(knl, "i,j"), "k,l")
(out,) = launched(knl, a=a)
assert (out == 2 * a_host.T).all()
print("ordering", out.sum())

# Nesting of loops
knl = lp.make_kernel("{[i,j]: 0<=i,j<n}", "a[i,j] = 1", name="nested")
(out,) = launched(lp.prioritize_loops(knl, "j,i"), a=cl_array.zeros_like(a))
print("nesting", out.sum())

# Transformations: chunks of a loop in two orders, and tiles
fill = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 3", assumptions="n>=1", name="fill")
chunks = lp.split_iname(fill, "i", 16)
for order in ("i_outer,i_inner", "i_inner,i_outer"):
    (out,) = launched(lp.prioritize_loops(chunks, order), a=cl_array.zeros_like(x))
    print("chunks", order, out.sum())
knl = lp.make_kernel(
    "{[i,j]: 0<=i,j<n}", "out[i,j] = a[j,i]", assumptions="n mod 16 = 0 and n>=1", name="tiles"
)
knl = lp.split_iname(lp.split_iname(knl, "i", 16), "j", 16)
(out,) = launched(lp.prioritize_loops(knl, "i_outer,j_outer,i_inner,j_inner"), a=a)
assert (out == a_host.T).all()
print("tiles", out.sum())

# How a loop is carried out: unrolled, with the last slab apart, and in parallel
unrolled = lp.tag_inames(lp.split_iname(fill, "i", 4), {"i_inner": "unr"})
slabs = lp.split_iname(fill, "i", 4, slabs=(0, 1), inner_tag="unr")
parallel = lp.split_iname(fill, "i", 128, outer_tag="g.0", inner_tag="l.0")
for knl, size in ((unrolled, n + 3), (slabs, n + 3), (parallel, n)):
    (out,) = launched(knl, a=cl_array.zeros(queue, size, np.float32))
    print("inames", out.sum())

# Temporaries: with a dtype, and with the dtype of what is assigned
for dtype in ("float32", ""):
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"""
        <{dtype}> s = sin(a[i])
        out1[i] = s {{id=first}}
        out2[i] = sqrt(1 - s*s) {{dep=first}}
        """,
        name="sines",
    )
    sine, cosine = launched(knl, a=x)
    assert np.allclose(sine**2 + cosine**2, 1)
    print("temporaries", sine.sum(), cosine.sum())

# Temporaries in local memory: by hand, and as a transformation
domain = "{[i_outer,i_inner,k]: 0<=16*i_outer + i_inner<n and 0<=i_inner,k<16}"
by_hand = lp.make_kernel(
    domain,
    """
    <> part[i_inner] = a[16*i_outer + i_inner]
    out[16*i_outer + i_inner] = sum(k, part[k])
    """,
    name="by_hand",
)
by_hand = lp.tag_inames(by_hand, {"i_outer": "g.0", "i_inner": "l.0"})
by_hand = lp.set_temporary_address_space(by_hand, "part", "local")
plain = lp.make_kernel(
    domain, "out[16*i_outer + i_inner] = sum(k, a[16*i_outer + i_inner])", name="plain"
)
plain = lp.tag_inames(plain, {"i_outer": "g.0", "i_inner": "l.0"})
for knl in (
    by_hand,
    lp.add_prefetch(plain, "a"),
    lp.add_prefetch(plain, "a", ["i_inner"], default_tag="l.0"),
):
    (out,) = launched(knl, a=x)
    print("local", out.sum())

# Prefetching over both loops of a tile: with one of them loopy warns of a race
knl = lp.make_kernel("{[i,j]: 0<=i,j<n}", "out[j,i] = a[i,j]", assumptions="n>=1", name="transpose")
knl = lp.split_iname(knl, "j", 16, inner_tag="l.1", outer_tag="g.0")
knl = lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.1")
knl = lp.add_prefetch(knl, "a", ["i_inner", "j_inner"], default_tag="l.auto")
(out,) = launched(knl, a=a)
assert (out == a_host.T).all()
print("prefetch", out.sum())

# Atomic operations
knl = lp.make_kernel(
    "{[i]: 0<=i<n}",
    "out[i%20] = out[i%20] + 2*a[i] {atomic}",
    [
        lp.GlobalArg("out", np.int32, shape=lp.auto, for_atomic=True),
        lp.GlobalArg("a", np.int32, shape=lp.auto),
        ...,
    ],
    assumptions="n>0",
    name="counted",
)
knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
(out,) = launched(knl, a=np.arange(n, dtype=np.int32), out=np.zeros(20, np.int32))
print("atomic", out)

# Functions
knl = lp.make_kernel(
    "{[i]: 0<=i<n}", "a[i] = sqrt(i)", [lp.GlobalArg("a", np.float64, shape="n"), ...], name="roots"
)
(out,) = launched(knl, a=np.empty(n))
print("functions", out.sum())

# A static maximum: the assumption lets loopy find the shape
knl = lp.make_kernel(
    "{[i]: 0<=i<n}",
    """
    out[i] = 5 {id=all}
    out[0] = 6 {dep=all}
    """,
    [lp.GlobalArg("out", np.int32, shape=lp.auto, is_input=False), ...],
    assumptions="n>=1",
    name="first_differs",
)
(out,) = launched(knl, out=np.zeros(n, np.int32))
print("maximum", out.sum())
