"""A driver whose programs are made ahead, and what it printed."""

from __future__ import annotations

import hashlib

from kcl.cache.entry import Entry

TEXT = "__kernel void added{}(__global float *x) {{ x[get_global_id(0)] += {}; }}"


# Each program adds its number. The driver prints sums, the look-ups of the binary layer, how many programs were built
# of binaries in which thread, which were handed to the driver, and how many in which thread.
DRIVER = """
    import collections, json, os, sys, threading
    import numpy as np
    import pyopencl as cl
    import kcl
    from kcl.drivers.pocl import prebuild
    from kcl.build import compiler

    prebuild.WINDOW, prebuild.FIRST, prebuild.BATCH, prebuild.PASSED, prebuild.BATCH_SECONDS = 6, 4, 2, 2, 60.0

    TEXT = "__kernel void added{}(__global float *x) {{ x[get_global_id(0)] += {}; }}"

    @kcl.kernel
    def added(number):
        return kcl.Source(
            TEXT.format(number % 10, number),
            entry=f"added{number % 10}",
            arguments=[kcl.Array("x", np.float32, "(16,)", "inout")],
            global_size="(16,)",
            local_size="(16,)",
        )

    make, build, threads = compiler.of_binaries, compiler.built_silently, collections.Counter()
    handed, makers = [], collections.Counter()

    def noted(context, devices, entries):
        makers[threading.current_thread().name] += 1
        handed.extend(entry.key.digest for entry in entries)
        return make(context, devices, entries)

    def counted(*arguments):
        threads[threading.current_thread().name] += 1
        return build(*arguments)

    compiler.of_binaries, compiler.built_silently = noted, counted
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)

    def launch(numbers):
        return [float(added(number)(queue, x=np.zeros(16, np.float32))[1][0].sum()) for number in numbers]

    def wait():
        for thread in threading.enumerate():
            if thread.name == "kcl-ahead":
                thread.join()

    def end(sums):
        wait()
        print(json.dumps([sums, found, threads, handed, makers]))

    found = []
    kcl.add_hook(lambda event: found.append([event.outcome, event.reason]) if event.layer == "binary" else None)
    numbers = json.loads(sys.argv[1])
"""


LAUNCH = "    end(launch(numbers))\n"


ONE_BY_ONE = """
    sums = []
    for number in numbers:
        sums += launch([number])
        wait()
    end(sums)
"""


ON_POCL = {"PYOPENCL_CTX": "portable", "KCL_AHEAD": "1", "KCL_PROMOTE": "off"}


AHEAD = ["hit", "made ahead"]


NUMBERS = list(range(12))  # of which 0 and 10, 1 and 11 have the same kernel name


class Ran:
    """What a driver printed."""

    def __init__(self, printed):
        sums, self.events, self.builds, self.handed, self.makers = printed
        self.sums = [int(each) for each in sums]
        self.outcomes = [outcome for outcome, _reason in self.events]
        self.ahead = self.events.count(AHEAD)


def sums(numbers):
    """Return what the driver prints for these numbers."""
    return [16 * number for number in numbers]


def orders(child):
    """Return the paths of the orders in a child's cache."""
    return sorted((child.cache / "kcl" / "orders").glob("orders-*"))


def entry(child, number):
    """Return the path of a program's entry."""
    source = TEXT.format(number % 10, number)
    digest = hashlib.sha256(source.encode()).hexdigest()
    found = (child.cache / "pyopencl" / "kcl-binary-v1").rglob(f"added{number % 10}-*")
    (path,) = [path for path in found if ("source", digest) in Entry.unpack(path.read_bytes()).key.parts]
    return path
