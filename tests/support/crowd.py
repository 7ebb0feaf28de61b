"""A process of a cold storm, run by test_flight.py: two threads ask for the same new kernels at the same moments."""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
import pyopencl as cl

import kcl

KERNELS = 40
SOURCE = "kernel void added(global float *x) {{ x[get_global_id(0)] += {0}; }}"


@kcl.kernel
def added(number):
    """x += number, in OpenCL C."""
    arguments = [kcl.Array("x", np.float32, "(8,)", "inout")]
    return kcl.Source(SOURCE.format(number), entry="added", arguments=arguments, global_size="(8,)")


@kcl.kernel
def shifted(number):
    """y = x + number, in loopy."""
    import loopy as lp

    arguments = [
        lp.GlobalArg("x", np.float32, shape=(8,)),
        lp.GlobalArg("y", np.float32, shape=(8,), is_input=False),
    ]
    code = f"y[i] = x[i] + {number}"
    return lp.make_kernel("{[i]: 0<=i<8}", code, arguments, name="shifted", lang_version=(2018, 2))


def main(platform):
    """Print what the kernels computed, by thread, and the longest time that one launch took."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    context = cl.Context(found.get_devices()[:1])
    together, numbers, longest = threading.Barrier(2), [[], []], [0.0, 0.0]

    def work(thread):
        queue = cl.CommandQueue(context)
        for number in range(KERNELS):
            kernel = shifted(number) if number % 20 == 19 else added(number)
            together.wait()
            started = time.monotonic()
            _event, (out,) = kernel(queue, x=np.zeros(8, np.float32))
            longest[thread] = max(longest[thread], time.monotonic() - started)
            numbers[thread].append(out.tolist()[7])

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([numbers, max(longest)]))


if __name__ == "__main__":
    main(sys.argv[1])
