"""A kernel that writes the rows of an array; the array is allocated, since the call leaves it out."""

import numpy as np
import pyopencl as cl

import kcl


@kcl.kernel
def ones(columns):
    return kcl.Source(
        """
        __kernel void ones(__global uint *rows, const int n)
        {
            for (int column = 0; column < COLUMNS; column++)
                rows[get_global_id(0)*COLUMNS + column] = 1;
        }
        """,
        entry="ones",
        arguments=[
            kcl.Array("rows", np.uint32, shape=f"(n, {columns})", direction="out"),
            kcl.Scalar("n", np.int32),
        ],
        global_size="(n,)",
        build_options=[f"-DCOLUMNS={columns}"],
    )


context = cl.create_some_context(interactive=False)
event, (rows,) = ones(5)(cl.CommandQueue(context), n=500, out_host=True)
print(rows.shape, rows.sum())
