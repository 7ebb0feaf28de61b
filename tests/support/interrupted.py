"""A process whose signal handler launches the kernels that are being made as it comes. Run by test_lead.py."""

import signal
import sys
import time

import crowd
import numpy as np
import pyopencl as cl

KERNELS = 20


def main(platform):
    """Launch new kernels, interrupted again and again; print how often, and the longest time that one launch took."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    context = cl.Context(found.get_devices()[:1])
    queue = cl.CommandQueue(context)
    calls, longest, wanted = 0, 0.0, (0, 1)

    def launch(number):
        _event, (out,) = crowd.added(number)(queue, x=np.zeros(8, np.float32))
        assert out.tolist() == [number] * 8

    def handler(_number, _frame):
        nonlocal calls
        calls += 1
        for number in wanted:
            launch(number)

    launch(1000)  # what a miss imports: an import that is interrupted cannot be used by the handler
    signal.signal(signal.SIGALRM, handler)
    for first in range(0, KERNELS, 2):
        wanted = first, first + 1
        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.006 * first)
        for number in wanted:
            started = time.monotonic()
            launch(number)
            longest = max(longest, time.monotonic() - started)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(calls, longest)


if __name__ == "__main__":
    main(sys.argv[1])
