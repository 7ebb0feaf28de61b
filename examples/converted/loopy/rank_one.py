"""An outer product in four variants of one unit. Only the import of loopy is another one."""

import numpy as np
import pyopencl as cl

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
a, b = np.random.default_rng(0).random((2, 300), dtype=np.float32)

plain = lp.make_kernel(
    "{[i,j]: 0<=i,j<n}", "c[i,j] = a[i]*b[j]", assumptions="n>=16", name="rank_one"
)

split = lp.split_iname(plain, "i", 16, outer_tag="g.0", inner_tag="l.0")
split = lp.split_iname(split, "j", 16, outer_tag="g.1", inner_tag="l.1")

private = lp.add_prefetch(split, "a", fetch_outer_inames="i_outer, i_inner, j_outer, j_inner")
private = lp.add_prefetch(private, "b", fetch_outer_inames="i_outer, i_inner, j_outer, j_inner")

shared = split
for name, iname in (("a", "i_inner"), ("b", "j_inner")):
    shared = lp.add_prefetch(
        shared,
        name,
        [iname],
        fetch_outer_inames="i_outer, j_outer, j_inner",
        temporary_address_space=lp.AddressSpace.LOCAL,
        default_tag="l.0",
    )

blocks = lp.split_iname(plain, "i", 256, outer_tag="g.0", slabs=(0, 1))
blocks = lp.split_iname(blocks, "j", 256, outer_tag="g.1", slabs=(0, 1))
for name, iname in (("a", "i_inner"), ("b", "j_inner")):
    blocks = lp.add_prefetch(
        blocks, name, [iname], fetch_outer_inames="i_outer, j_outer", default_tag=None
    )
blocks = lp.split_iname(blocks, "i_inner", 16, inner_tag="l.0")
blocks = lp.split_iname(blocks, "j_inner", 16, inner_tag="l.1")
for name in ("a_dim_0", "b_dim_0"):
    blocks = lp.split_iname(blocks, name, 16, outer_tag="l.1", inner_tag="l.0")

for knl in (plain, split, private, shared, blocks):
    event, (c,) = knl.executor(context)(queue, a=a, b=b)
    print(np.array_equal(c, np.outer(a, b)), c.sum())
