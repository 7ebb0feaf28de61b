"""Time recorded calls and launches in this process, warm; prints the seconds of each round as JSON.

python drive_recording.py calls ROUNDS       ten calls, recorded and carried out
python drive_recording.py launches ROUNDS    launches of a kept Kernel, and of recipes called anew
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

import kcl

BATCH = 200  # launches in a round


def ten(lp: Any, name: str = "matmul") -> Any:
    """Make ten calls with plain arguments."""
    arguments = [lp.GlobalArg("a,b,c", np.float32, shape=("n", "n")), lp.ValueArg("n", np.int32)]
    unit = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        arguments,
        name=name,
        lang_version=(2018, 2),
    )
    unit = lp.assume(unit, "n >= 16")
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")
    unit = lp.split_iname(unit, "j", 16, outer_tag="g.1", inner_tag="l.1")
    unit = lp.split_iname(unit, "k", 16)
    unit = lp.prioritize_loops(unit, "k_outer,k_inner")
    unit = lp.tag_inames(unit, {"k_inner": "unr"})
    return lp.set_options(unit, return_dict=True)


@kcl.kernel
def scaled(factor=2):
    """Return a small kernel."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", f"out[i] = {factor}*a[i]", name="scaled", lang_version=(2018, 2)
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "out": np.float32})
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(pure=True, version="1")
def scaled_pure(factor=2):
    """Return a small kernel."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", f"out[i] = {factor}*a[i]", name="scaled", lang_version=(2018, 2)
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "out": np.float32})
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def timed(action: Callable[[], Any], times: int = 1) -> float:
    """Return the seconds that an action takes."""
    begin = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - begin) / times


def calls(rounds: int) -> dict[str, list[float]]:
    """Time ten calls that wait, as a warm process does without loopy, and then the same carried out, as at a miss."""
    import loopy as face

    ten(face)  # reads the proofs of an earlier run
    found: dict[str, list[float]] = {
        "recorded": [timed(lambda: ten(face)) for _ in range(rounds)],
        "carried": [],
    }
    ten(importlib.import_module("loopy"))  # what loopy does once a process
    for number in range(rounds):
        found["carried"].append(timed(lambda: ten(face, f"matmul_{time.time_ns()}_{number}")))  # noqa: B023
    return found


def launches(rounds: int) -> dict[str, list[float]]:
    """Time launches on arrays of the device, outputs given."""
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    a = cl.array.to_device(queue, np.arange(256, dtype=np.float32))
    out = cl.array.empty_like(a)
    kept = scaled(2)
    actions = {
        "kept": lambda: kept(queue, a=a, out=out),
        "anew": lambda: scaled(2)(queue, a=a, out=out),
        "pure": lambda: scaled_pure(2)(queue, a=a, out=out),
    }
    found: dict[str, list[float]] = {name: [] for name in actions}
    for count in range(rounds + 1):
        for name, action in actions.items():
            seconds = timed(action, BATCH)
            queue.finish()
            if count:
                found[name].append(seconds)
    assert np.allclose(out.get(), 2 * a.get())
    return found


if __name__ == "__main__":
    print(json.dumps({"calls": calls, "launches": launches}[sys.argv[1]](int(sys.argv[2]))))
