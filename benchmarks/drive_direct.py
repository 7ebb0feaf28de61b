"""Print the microseconds of a direct call `unit(queue, ...)`, and of a call of an executor with device arrays.

python drive_direct.py
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from collections.abc import Callable

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

ROUNDS = 15


def seconds(call: Callable[[], object], most: float = 0.1) -> float:
    """Return the median seconds of a call, over rounds of so many calls as take a while."""
    call()
    call()
    begin = time.perf_counter()
    call()
    count = max(1, min(200, int(most / (time.perf_counter() - begin))))
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - begin) / count)
    return statistics.median(found)


def main() -> None:
    """Measure both kinds of calls."""
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = 2*x[i] + y[i]",
        [lp.GlobalArg("x,y,out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="direct",
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")
    x, y, out = (cl_array.zeros(queue, 64, np.float32) for _ in range(3))
    executor = unit.executor(context)
    given = {"x": x, "y": y, "out": out}
    kept = seconds(lambda: executor(queue, **given))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        direct = seconds(lambda: unit(queue, **given))
    queue.finish()
    print(json.dumps({"executor": 1e6 * kept, "direct": 1e6 * direct}))


if __name__ == "__main__":
    main()
