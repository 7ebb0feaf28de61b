"""Launch a small kernel and then one of COUNT statements by one side, and print the seconds of each as JSON.

python drive_large.py SIDE COUNT DIRECTORY

SIDE is kcl, loopy or floor; DIRECTORY holds the binaries that the floor loads. The clock starts at the look-up, when
Python, pyopencl, arrays and the context are there and make_kernel has run for loopy; it stops when the launch is made.
The first kernel of a process pays for what is done once: imports, the first program of the driver, open stores.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

SIZE, GROUP = 64, 16
SMALL = 4  # statements of the first kernel


def large(count: int) -> Any:
    """Build a kernel of so many statements, each of which takes what the one before has found."""
    import loopy as lp

    steps = ["<> t0 = x[i] {id=s0}"]
    steps += [
        f"<> t{k} = {1 + k % 7}*y[i] - t{k - 1}/{3 + k % 5} {{id=s{k}, dep=s{k - 1}}}"
        for k in range(1, count - 1)
    ]
    steps += [f"out[i] = t{count - 2} {{id=last, dep=s{count - 2}}}"]
    arguments = [
        lp.GlobalArg("x,y", np.float32, shape="n"),
        lp.GlobalArg("out", np.float32, shape="n", is_input=False),
        lp.ValueArg("n", np.int32),
    ]
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", steps, arguments, name=f"large_{count}", lang_version=(2018, 2)
    )
    return lp.split_iname(knl, "i", GROUP, outer_tag="g.0", inner_tag="l.0")


def by_floor(
    queue: cl.CommandQueue, arrays: dict[str, Any], count: int, directory: str
) -> cl.Event:
    """Load the binary and launch it, by hand."""
    with open(f"{directory}/large_{count}.bin", "rb") as stream:
        binary = stream.read()
    program = cl.Program(queue.context, queue.context.devices, [binary]).build()
    kernel = cl.Kernel(program, f"large_{count}")
    for index, array in enumerate(arrays.values()):
        kernel.set_arg(index, array.data)
    kernel.set_arg(len(arrays), np.int32(SIZE))
    return cl.enqueue_nd_range_kernel(queue, kernel, (SIZE,), (GROUP,))


def seconds(
    side: str, queue: cl.CommandQueue, arrays: dict[str, Any], count: int, directory: str
) -> float:
    """Launch the kernel of so many statements; return the seconds from look-up to launch."""
    if side == "loopy":
        launch = large(count).executor(queue.context)
    elif side == "kcl":
        launch = kcl.kernel(large)(count)
    begin = time.perf_counter()
    if side == "floor":
        by_floor(queue, arrays, count, directory)
    else:
        launch(queue, **arrays)
    return time.perf_counter() - begin


def main() -> None:
    side, count, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    numbers = np.linspace(0.5, 1.5, SIZE, dtype=np.float32)
    arrays = {name: cl_array.to_device(queue, numbers) for name in ("x", "y", "out")}
    queue.finish()
    found: dict[str, Any] = {"first": seconds(side, queue, arrays, SMALL, directory)}
    queue.finish()
    found["seconds"] = seconds(side, queue, arrays, count, directory)
    found["checksum"] = f"{zlib.crc32(arrays['out'].get(queue).tobytes()):08x}"
    stats = kcl.stats() if side == "kcl" else {}
    found["hits"] = {name: stats[name]["hits"] for name in ("generator", "binary") if name in stats}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
