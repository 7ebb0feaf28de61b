"""A process of a crowd, run by test_lead.py and tools/soak.py: threads ask for the same new kernels at once.

python crowd.py PLATFORM [WAY [THREADS [KERNELS [FIRST]]]]

It prints, as JSON, what the kernels computed, by thread, and the longest time that one launch took. The way says what
else happens:

    threads     nothing: the process ends as it should
    exit        it ends by os._exit as soon as it has printed
    fork        it is forked after kcl was used and before OpenCL was, and all of its threads fork children that end
                at once while the others launch
    forkserver  a child of multiprocessing's forkserver launches too, and the process waits for it
    spawn       a fresh child of multiprocessing launches too
    signal      a timer interrupts the main thread, which launches, and its handler launches too
"""

import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pyopencl as cl

import kcl

KERNELS = 40
WAYS = ("threads", "exit", "fork", "forkserver", "spawn", "signal")
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


class Number:
    """A parameter whose class brings code."""

    def __init__(self, number):
        self.number = number

    def __str__(self):
        return str(self.number)

    def __repr__(self):
        return f"Number({self.number})"

    def __kcl_key__(self):
        return self.number


HEARD = []


def heard(event):
    """Be a hook of kcl."""
    HEARD.append(event)


def kernel_of(number):
    """Return a new Kernel that adds a number: one in twenty is loopy's."""
    return shifted(number) if number % 20 == 19 else added(number)


def launched(queue, number):
    """Launch a new Kernel; return what it added."""
    _event, (out,) = kernel_of(number)(queue, x=np.zeros(8, np.float32))
    return out.tolist()[7]


def context_of(platform):
    """Return a context with the first device of a platform."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    return cl.Context(found.get_devices()[:1])


def launches(platform, threads, wanted, beside=lambda: None):
    """Launch in threads that begin each kernel together; return the numbers by thread, and the longest time."""
    context = context_of(platform)
    together, numbers, longest = (
        threading.Barrier(threads),
        [[] for _ in range(threads)],
        [0.0] * threads,
    )

    def work(thread):
        queue = cl.CommandQueue(context)
        try:
            for number in wanted:
                together.wait()
                started = time.monotonic()
                numbers[thread].append(launched(queue, number))
                longest[thread] = max(longest[thread], time.monotonic() - started)
                beside()
        except BaseException:
            together.abort()
            raise

    others = [threading.Thread(target=work, args=(thread,)) for thread in range(1, threads)]
    for thread in others:
        thread.start()
    work(0)  # the main thread alone is interrupted by signals
    for thread in others:
        thread.join()
    return numbers, max(longest)


def in_child(platform, wanted):
    """Launch in a child of multiprocessing, and check there."""
    ((found,), _longest) = launches(platform, 1, wanted)
    assert found == list(wanted), found


def forked(platform, threads, wanted):
    """Launch here and in a child that is forked now, with threads that fork while others launch."""
    for number in wanted:
        kernel_of(number)
    kcl.stats()  # kcl has state, OpenCL has none
    pid = os.fork()
    done = launches(platform, threads, wanted, _fork_and_end)
    if not pid:
        os._exit(done[0] != [list(wanted)] * threads)
    assert os.waitpid(pid, 0)[1] == 0
    return done


def _fork_and_end():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def interrupted(platform, threads, wanted):
    """Launch while a timer interrupts the main thread; its handler launches the same kernels."""
    context, seen = context_of(platform), []

    def handler(_number, _frame):
        seen.append(
            (number := wanted[len(seen) % len(wanted)], launched(cl.CommandQueue(context), number))
        )
        signal.setitimer(signal.ITIMER_REAL, 0.1)  # not before this launch has ended

    for number in (
        -20 * os.getpid() - 1,
        -20 * os.getpid(),
    ):  # a handler cannot use half-imported modules
        assert launched(cl.CommandQueue(context), number) == number
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    done = launches(platform, threads, wanted)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert all(number == found for number, found in seen), seen
    return done


def main(platform, way="threads", threads=2, kernels=KERNELS, first=0):
    """Print what the kernels computed, by thread, and the longest time that one launch took."""
    faulthandler.register(signal.SIGUSR1)
    wanted = range(first, first + kernels)
    if way in ("fork", "signal"):
        done = {"fork": forked, "signal": interrupted}[way](platform, threads, wanted)
    elif way in ("forkserver", "spawn"):
        child = multiprocessing.get_context(way).Process(target=in_child, args=(platform, wanted))
        child.start()
        done = launches(platform, threads, wanted)
        child.join()
        assert child.exitcode == 0, child.exitcode
    else:
        done = launches(platform, threads, wanted)
    print(json.dumps(done), flush=True)
    if way == "exit":
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
