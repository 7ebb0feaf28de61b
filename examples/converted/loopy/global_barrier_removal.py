"""Two steps of a unit with a barrier of the whole device between them. It is launched, where loopy's example prints."""

import numpy as np
import pyopencl as cl

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
knl = lp.make_kernel(
    "{[i,k]: 0<=i<n and 0<=k<3}",
    """
    for i, k
        ... gbarrier
        c[k,i] = a[k,i + 1]
        ... gbarrier
        out[k,i] = c[k,i]
    end
    """,
    [lp.GlobalArg("c,out", shape="3, n", is_input=False), lp.GlobalArg("a", shape="3, n + 1"), ...],
    seq_dependencies=True,
    name="shifted",
)
knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
knl = lp.add_and_infer_dtypes(knl, {"a,c,out": np.float32, "n": np.int32})
a = np.random.default_rng(0).random((3, 301), dtype=np.float32)
event, outputs = knl.executor(context)(queue, a=a, n=300)
print([np.array_equal(output, a[:, 1:]) for output in outputs], outputs[0].sum())
