"""Programs as people write them with pyopencl alone: arrays, elementwise, reduction, scan, programs, a failing build.

    python tools/pocls/raw_driver.py [--without-failing]
    python -m kcl run tools/pocls/raw_driver.py

The last line of the output is JSON: the numbers, which numpy has checked, and how a failing build ended. With kcl there
are the look-ups of the binary layer too, counted by outcome and reason. Under KCL_STRICT=hit a failing build is a miss:
`--without-failing` leaves it out.
"""

from __future__ import annotations

import collections
import json
import sys
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import InclusiveScanKernel

PLATFORM = "Portable Computing Language"
STENCIL = """
#define RADIUS {radius}
__kernel void smooth(__global const float *x, __global float *y, int n)
{{
    int i = get_global_id(0);
    float sum = 0;
    for (int at = max(i - RADIUS, 0); at <= min(i + RADIUS, n - 1); at++)
        sum += x[at];
    if (i < n)
        y[i] = sum;
}}
"""
SIZE = 1000


def main() -> None:
    looks: collections.Counter[str] = collections.Counter()
    if "kcl" in sys.modules:
        import kcl

        kcl.add_hook(lambda event: looks.update(said(event)))
    (platform,) = [one for one in cl.get_platforms() if one.name == PLATFORM]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    found = dict(numbers(context, queue))
    if "--without-failing" not in sys.argv:
        found["failing build"] = failing(context)
    print(json.dumps({"numbers": found, "looks": looks}))


def said(event: Any) -> list[str]:
    """Return the outcome of a look-up of the binary layer, and its reason where it waited."""
    if event.layer != "binary" or event.outcome not in ("hit", "miss", "bypassed", "error"):
        return []
    waited = "waited" in (event.reason or "")
    return [event.outcome, *(["waited"] if waited else [])]


def numbers(context: cl.Context, queue: cl.CommandQueue) -> Any:
    """Yield names and numbers; raise if numpy has others."""
    given = np.arange(SIZE, dtype=np.float32)
    x = cl_array.to_device(queue, given)
    yield "array", checked((2 * x + x).get(), 3 * given)
    yield "integers", checked((x.astype(np.int32) * 7).get(), given.astype(np.int32) * 7)
    elementwise = ElementwiseKernel(context, "float *y, float *x, float a", "y[i] = a*x[i]*x[i]")
    y = cl_array.empty_like(x)
    elementwise(y, x, np.float32(0.5))
    yield "elementwise", checked(y.get(), np.float32(0.5) * given * given)
    reduction = ReductionKernel(
        context, np.int32, "0", "max(a, b)", map_expr="(int) x[i] % 97", arguments="float *x"
    )
    yield "reduction", checked(reduction(x).get(), np.int32(96))
    scan = InclusiveScanKernel(context, np.int32, "a+b", neutral="0")
    counts = cl_array.arange(queue, SIZE, dtype=np.int32)
    scan(counts)
    yield "scan", checked(counts.get(), np.cumsum(np.arange(SIZE, dtype=np.int32)))
    for radius in (1, 2, 3):
        program = cl.Program(context, STENCIL.format(radius=radius)).build()
        out = cl_array.empty_like(x)
        program.smooth(queue, (SIZE,), None, x.data, out.data, np.int32(SIZE))
        expected = np.convolve(given, np.ones(2 * radius + 1), "same")
        yield f"program {radius}", checked(out.get(), expected.astype(np.float32))


def checked(found: Any, expected: Any) -> float:
    """Return the sum of an array that equals the expected one; raise if it does not."""
    if not np.array_equal(found, expected):
        raise SystemExit(f"wrong: {found} where {expected} was expected")
    return float(np.sum(found, dtype=np.float64))


def failing(context: cl.Context) -> str:
    """Build a program that cannot be built, and return how that ends."""
    try:
        cl.Program(context, "__kernel void wrong(__global float *x) { x[0] = missing; }").build()
    except cl.RuntimeError as error:
        names = "missing" in str(error)
        return f"{type(error).__name__}, {'names' if names else 'does not name'} the variable"
    return "built"


if __name__ == "__main__":
    main()
