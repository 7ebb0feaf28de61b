"""A process that launches and drops kernels of a number of stored programs, in turns; run by test_memory.py.

python many_kernels.py PLATFORM PROGRAMS LAUNCHES kcl|hand

It prints the bytes of memory by which the process grew from the first launch on. `hand` does the same with pyopencl,
from the binaries in kcl's entries.
"""

from __future__ import annotations

import gc
import os
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from opened import queue_on

import kcl

SIZE = 64
TEXT = """
kernel void added(global float *x, int n) {{
    int i = get_global_id(0);
    if (i < n) x[i] += {0};
}}
"""


@kcl.kernel
def added(number: int) -> kcl.Source:
    arguments = [kcl.Array("x", np.float32, "(n,)", "inout"), kcl.Scalar("n", np.int32)]
    sizes = {"global_size": "(n,)", "local_size": f"({SIZE},)"}
    return kcl.Source(TEXT.format(number), entry="added", arguments=arguments, **sizes)


def binaries() -> list[bytes]:
    from kcl.cache.entry import Entry

    places = sorted(pathlib.Path(os.environ["XDG_CACHE_HOME"]).glob("pyopencl/kcl-*/*/added-*"))
    return [Entry.unpack(place.read_bytes()).parts["binary"] for place in places]


def with_kcl(queue: cl.CommandQueue, programs: int) -> Callable[[int], object]:
    x = cl_array.zeros(queue, SIZE, np.float32)
    return lambda number: added(number % programs)(queue, x=x)


def by_hand(queue: cl.CommandQueue, programs: int) -> Callable[[int], object]:
    x, stored = cl_array.zeros(queue, SIZE, np.float32), binaries()
    assert len(stored) == programs

    def launch(number: int) -> None:
        program = cl.Program(
            queue.context, queue.context.devices, [stored[number % programs]]
        ).build()
        kernel = cl.Kernel(program, "added")
        kernel.set_args(x.data, np.int32(SIZE))
        cl.enqueue_nd_range_kernel(queue, kernel, (SIZE,), (SIZE,))

    return launch


def resident() -> int:
    """Return the bytes of memory that this process occupies now."""
    gc.collect()
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(platform: str, programs: int, launches: int, way: str) -> None:
    queue = queue_on(platform)
    launch = (with_kcl if way == "kcl" else by_hand)(queue, programs)
    launch(0)
    before = resident()
    for number in range(launches):
        launch(number)
        if number % 100 == 0:
            queue.finish()
    queue.finish()
    print(resident() - before)
    kcl.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
