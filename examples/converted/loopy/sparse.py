"""A sparse matrix times a vector, with loops whose ends are data. Only the import of loopy is another one."""

import numpy as np
import pyopencl as cl

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
knl = lp.make_kernel(
    ["{[i]: 0<=i<m}", "{[j]: 0<=j<length}"],
    """
    for i
        <> first = rows[i]
        <> last = rows[i+1]
        <> length = last - first
        y[i] = sum(j, values[first+j]*x[columns[first+j]])
    end
    """,
    [
        lp.GlobalArg("rows", np.int32, shape="m + 1"),
        lp.GlobalArg("values", np.float64, shape="entries"),
        lp.GlobalArg("columns", np.int32, shape="entries"),
        lp.GlobalArg("x", np.float64, shape="n"),
        lp.ValueArg("entries,n", np.int32),
        ...,
    ],
    name="spmv",
)
random = np.random.default_rng(0)
matrix = random.random((40, 60)) * (random.random((40, 60)) < 0.1)
where = [np.flatnonzero(row) for row in matrix]
columns = np.concatenate(where).astype(np.int32)
rows = np.concatenate([[0], np.cumsum([len(row) for row in where])]).astype(np.int32)
x = random.random(60)
event, (y,) = knl.executor(context)(
    queue, rows=rows, columns=columns, values=matrix[matrix != 0], x=x
)
print(np.allclose(y, matrix @ x), y.sum())
