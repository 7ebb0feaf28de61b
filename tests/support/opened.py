"""What programs of tests begin with."""

from typing import Any

import pyopencl as cl

_contexts: list[cl.Context] = []  # not every driver's queue keeps its context


def queue_on(platform: str) -> cl.CommandQueue:
    """Return a queue on the first device of a platform."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    _contexts.append(cl.Context(found.get_devices()[:1]))
    return cl.CommandQueue(_contexts[-1])


def over_x(entry: str, change: str, direction: str = "inout", size: int = 4) -> Any:
    """Return a Source whose kernel changes each element of an array x, as by `*= 2`."""
    import kcl

    text = f"kernel void {entry}(global float *x) {{ x[get_global_id(0)] {change}; }}"
    x = kcl.Array("x", "float32", f"({size},)", direction)
    return kcl.Source(text, entry=entry, arguments=[x], global_size=f"({size},)")
