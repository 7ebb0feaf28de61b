"""A recipe that declares choices: kcl measures them when it is asked, and serves the fastest.

    python examples/tuned.py [N]              launches the defaults, or what was measured before
    kcl tune examples/tuned.py [N]            measures, at the first launch
    python examples/tuned.py [N]              launches the fastest; measures nothing

N is the number of rows and columns, 1024 unless you give it. Needs kcl, pyopencl and loopy.
"""

from __future__ import annotations

import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

SPACE = (
    kcl.space(rows=[1, 4, 16, 64], columns=[1, 4, 16, 64], along=["i", "j"], exact=[False, True])
    .where(lambda rows, columns: 4 <= rows * columns <= 256)
    .where(lambda rows, columns, exact, n: not exact or n % max(rows, columns) == 0)
)


@kcl.kernel(sizes={"n": "a.shape[0]"}, space=SPACE)
def transposed(rows=16, columns=16, along="i", exact=False):
    """Copy a square matrix transposed, in tiles; the neighbours in a work-group lie along one of its axes."""
    import loopy as lp

    knl = lp.make_kernel("{[i,j]: 0<=i,j<n}", "b[i,j] = a[j,i]", lang_version=(2018, 2))
    if exact:  # no guard in the code: the space says for which n
        knl = lp.assume(knl, f"n mod {max(rows, columns)} = 0")
    inner = {"i": "l.1", "j": "l.1", along: "l.0"}
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag=inner["i"])
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag=inner["j"])


def main(n: int) -> None:
    """Transpose a matrix of n rows, and say which choice did it."""
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    matrix = np.random.default_rng(7).random((n, n), dtype=np.float32)
    a, b = cl_array.to_device(queue, matrix), cl_array.zeros(queue, (n, n), np.float32)
    kernel = transposed()
    seconds = []
    for _launch in range(20):
        event, _outputs = kernel(queue, a=a, b=b)
        event.wait()
        seconds.append((event.profile.end - event.profile.start) * 1e-9)
    assert np.array_equal(b.get(), matrix.T)
    print(f"{min(seconds) * 1e3:.3f} ms on the device")
    print(kernel.explain(queue, a=a, b=b).splitlines()[-1].strip())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
