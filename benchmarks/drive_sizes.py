"""Print the device times of recipes with sizes and of the same kernels without, as JSON: minima of launches in turns.

python drive_sizes.py PAIRS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

ELEMENTS = 2**20
Arrays = dict[str, tuple[int, ...]]

# name: domain, statement, shapes of the arrays, names of sizes with the array and axis, block, tag of the block
CASES: dict[str, tuple[str, str, Arrays, dict[str, str], int, str]] = {
    "axpy with guards in its blocks": (
        "{[i]: 0<=i<n}",
        "z[i] = 2*x[i] + y[i]",
        {"x": (ELEMENTS,), "y": (ELEMENTS,), "z": (ELEMENTS,)},
        {"n": "x.shape[0]"},
        16,
        "unr",
    ),
    "batched 4x4 product": (
        "{[i,j,k]: 0<=i<n and 0<=j,k<m}",
        "z[i,j] = sum(k, a[i,j,k]*u[i,k])",
        {"a": (2**16, 4, 4), "u": (2**16, 4), "z": (2**16, 4)},
        {"n": "a.shape[0]", "m": "a.shape[2]"},
        64,
        "l.0",
    ),
    "element-wise D u": (
        "{[i,j,k]: 0<=i<n and 0<=j,k<m}",
        "z[i,j] = sum(k, d[j,k]*u[i,k])",
        {"d": (10, 10), "u": (2**15, 10), "z": (2**15, 10)},
        {"n": "u.shape[0]", "m": "u.shape[1]"},
        16,
        "l.0",
    ),
    "16x16x16 products": (
        "{[i,j,k,l]: 0<=i<n and 0<=j,k,l<m}",
        "z[i,j,k] = sum(l, a[i,j,l]*b[i,l,k])",
        {"a": (2**10, 16, 16), "b": (2**10, 16, 16), "z": (2**10, 16, 16)},
        {"n": "a.shape[0]", "m": "a.shape[2]"},
        16,
        "l.0",
    ),
    "stencil": (
        "{[i,j]: 1<=i<n-1 and 0<=j<m}",
        "z[i,j] = x[i-1,j] - 2*x[i,j] + x[i+1,j]",
        {"x": (1024, 1024), "z": (1023, 1024)},
        {"n": "x.shape[0]", "m": "x.shape[1]"},
        16,
        "l.0",
    ),
}


def unit(name: str, n: Any = None, m: Any = None) -> Any:
    """Build a kernel: for all sizes, or for what the sizes of a call answer."""
    import loopy as lp

    domain, statement, shapes, _sizes, block, tag = CASES[name]
    arguments = [lp.GlobalArg(array, np.float32, shape=lp.auto) for array in shapes]
    knl = lp.make_kernel(domain, statement, [*arguments, ...], name="sized", lang_version=(2018, 2))
    knl = knl if n is None else n.assume(knl)
    if m is not None and m.fixed and m.fixed <= 16:
        knl = lp.fix_parameters(knl, m=m.fixed)
        inner = "k" if "k" in domain else None
        knl = lp.tag_inames(knl, f"{inner}:unr") if inner and m.fixed <= 4 else knl
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag=tag)


@kcl.kernel
def general(name: str) -> Any:
    """Build the kernel for all sizes."""
    return unit(name)


def fitted(name: str) -> Any:
    """Return the handle of a recipe with the sizes of a kernel."""
    sizes = CASES[name][3]
    if "m" not in sizes:
        return kcl.kernel(sizes=sizes)(lambda n: unit(name, n))()
    return kcl.kernel(sizes=sizes)(lambda n, m: unit(name, n, m))()


def times(name: str, pairs: int) -> dict[str, float]:
    """Return the smallest device time of each side, in seconds; both compute the same."""
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    random = np.random.default_rng(1)
    shapes = CASES[name][2]
    given = {
        array: cl_array.to_device(queue, random.random(shape, np.float32))
        for array, shape in shapes.items()
    }
    sides, found, results = {"sizes": fitted(name), "general": general(name)}, {}, {}
    for side, kernel in sides.items():
        given["z"].fill(0)
        kernel(queue, **given)
        results[side] = given["z"].get()
    assert np.allclose(results["sizes"], results["general"], rtol=1e-5)
    for _ in range(pairs):
        for side, kernel in sides.items():
            event, _outputs = kernel(queue, **given)
            event.wait()
            seconds = (event.profile.end - event.profile.start) * 1e-9
            found[side] = min(seconds, found.get(side, seconds))
    return found


if __name__ == "__main__":
    print(json.dumps({name: times(name, int(sys.argv[1])) for name in CASES}))
