"""Time single calls of warm kernels by every side, interleaved in one process; prints JSON.

python drive_calls.py ROUNDS BATCH

A round is a batch of calls by each side in turn, on arrays that rotate over several sets. Between batches the queues
are emptied, which is not counted; what is measured is what a call costs its caller.
"""

from __future__ import annotations

import gc
import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.tools as cl_tools

import kcl

lp = kcl.lazy("loopy")

SETS = 5
WARM_UP = 500
PAUSE = 0.001  # after each batch, so that the driver's threads are as idle at the start of the next
QUEUES = 3
THREADS = 4
SIZE = 64
Call = Callable[[], Any]


def few(events: bool = True) -> Any:
    """Add two vectors: three arrays are given, a size is found from them."""
    return _managed(_on_vectors("out[i] = x[i] + y[i]", "x,y", [], "few"), events)


def scaled(events: bool = True) -> Any:
    """Add two vectors, one of them scaled: three arrays and a scalar are given."""
    return _managed(_on_vectors("out[i] = a*x[i] + y[i]", "x,y", ["a"], "scaled"), events)


def many(events: bool = True) -> Any:
    """Combine five vectors with four scalars: ten arguments are given."""
    terms = "out[i] = a*x[i] + b*y[i] + c*z[i] + d*v[i] + w[i]"
    return _managed(_on_vectors(terms, "x,y,z,v,w", ["a", "b", "c", "d"], "many"), events)


def _on_vectors(instruction: str, inputs: str, scalars: list[str], name: str) -> Any:
    arguments = [
        lp.GlobalArg(inputs, np.float32, shape="n"),
        lp.GlobalArg("out", np.float32, shape="n", is_input=False),
        *(lp.ValueArg(scalar, np.float32) for scalar in scalars),
        lp.ValueArg("n", np.int32),
    ]
    knl = lp.make_kernel("{[i]: 0<=i<n}", instruction, arguments, name=name, lang_version=(2018, 2))
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _managed(knl: Any, events: bool) -> Any:
    return knl if events else lp.set_options(knl, cl_exec_manage_array_events=False)


class Case(NamedTuple):
    """What is given in one group of calls; `sides` names those that can take part."""

    name: str
    recipe: Callable[..., Any]
    arrays: tuple[str, ...]
    scalars: dict[str, Any]
    outputs: bool = True
    queues: int = 1
    threads: int = 1


NUMPY = {"a": np.float32(2)}
FOUR = {"a": 2.0, "b": 3.0, "c": 4.0, "d": 5.0}
CASES = (
    Case("3 arrays", few, ("x", "y"), {}),
    Case("3 arrays, Python scalar", scaled, ("x", "y"), {"a": 2.0}),
    Case("3 arrays, numpy scalar", scaled, ("x", "y"), NUMPY),
    Case("10 arguments", many, ("x", "y", "z", "v", "w"), FOUR),
    Case(
        "10 arguments, numpy scalars",
        many,
        ("x", "y", "z", "v", "w"),
        {k: np.float32(v) for k, v in FOUR.items()},
    ),
    Case("several queues", scaled, ("x", "y"), {"a": 2.0}, queues=QUEUES),
    Case("4 threads", scaled, ("x", "y"), {"a": 2.0}, queues=THREADS, threads=THREADS),
    Case("outputs allocated", few, ("x", "y"), {}, outputs=False),
    Case("outputs allocated, 10 arguments", many, ("x", "y", "z", "v", "w"), FOUR, outputs=False),
)


class Bench:
    """One case with its queues and arrays, and for each side an endless series of calls for each thread."""

    def __init__(self, context: cl.Context, case: Case) -> None:
        self.case = case
        self.queues = [cl.CommandQueue(context) for _ in range(case.queues)]
        shared = Sides(context, case)
        made: dict[str, list[list[Call]]] = {}
        for queue in self.queues:
            # loopy's executor and pyopencl's kernel are no good for several threads: each has its own.
            sides = Sides(context, case) if case.threads > 1 else shared
            sides.kernel = shared.kernel
            for side, calls in sides.calls(queue).items():
                made.setdefault(side, []).append(calls)
        self.sides = {side: self._turns(calls) for side, calls in made.items()}

    def _turns(self, calls: list[list[Call]]) -> list[Iterator[Call]]:
        # One thread goes from queue to queue; several threads have one each.
        if self.case.threads > 1:
            return [itertools.cycle(mine) for mine in calls]
        return [itertools.cycle([call for one in zip(*calls, strict=True) for call in one])]

    def seconds(self, side: str, batch: int) -> tuple[float, float]:
        """Return the seconds, and processor seconds of the calling thread, that one call takes.

        With several threads: the seconds in which all of them together make as many calls.
        """
        turns = [list(itertools.islice(turn, batch)) for turn in self.sides[side]]
        elapsed, cpu = _elapsed(turns[0]) if len(turns) == 1 else _together(turns)
        for queue in self.queues:
            queue.finish()
        time.sleep(PAUSE)
        return elapsed / (batch * len(turns)), cpu / (batch * len(turns))


def _elapsed(calls: list[Call]) -> tuple[float, float]:
    cpu, begin = time.thread_time(), time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - begin, time.thread_time() - cpu


def _together(turns: list[list[Call]]) -> tuple[float, float]:
    barrier = threading.Barrier(len(turns))
    spans: list[tuple[float, float, float]] = []

    def work(calls: list[Call]) -> None:
        for call in calls[: WARM_UP // len(turns)]:
            call()  # what belongs to a thread is made at its first calls
        barrier.wait()
        begin = time.perf_counter()
        elapsed, cpu = _elapsed(calls)
        spans.append((begin, begin + elapsed, cpu))

    threads = [threading.Thread(target=work, args=(calls,)) for calls in turns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begins, ends, cpu = zip(*spans, strict=True)
    return max(ends) - min(begins), sum(cpu)


def _arrays(queue: cl.CommandQueue, case: Case) -> dict[str, cl_array.Array]:
    names = (*case.arrays, "out") if case.outputs else case.arrays
    arrays = {name: cl_array.to_device(queue, np.ones(SIZE, np.float32)) for name in names}
    for array in arrays.values():
        array.finish()
    return arrays


class Sides:
    """What is called: a kernel of kcl, an executor of loopy, a kernel of pyopencl, each with and without events."""

    def __init__(self, context: cl.Context, case: Case) -> None:
        self.case = case
        self.kernel = kcl.kernel(case.recipe)()
        self.unmanaged = kcl.kernel(case.recipe)(events=False)
        self.executor = case.recipe().executor(context)
        self.executor_unmanaged = case.recipe(events=False).executor(context)
        self.typed = cl.Kernel(
            cl.Program(context, self.kernel.source(context)).build(), case.recipe.__name__
        )
        buffers: list[Any] = [None] * (len(case.arrays) + 1)
        self.typed.set_scalar_arg_dtypes([*buffers, *[np.float32] * len(case.scalars), np.int32])

    def calls(self, queue: cl.CommandQueue) -> dict[str, list[Call]]:
        """Return by side a call for each set of arrays; no side finds the events of another on its arrays.

        Where outputs are allocated the typed call does the least that can be done: a buffer, no array and no events.
        """
        launching = {"loopy": self.executor, "kcl": self.kernel}
        if self.case.outputs:
            launching |= {
                "loopy, events unmanaged": self.executor_unmanaged,
                "kcl, events unmanaged": self.unmanaged,
            }
        found = {
            side: [
                self.written("launch(queue, {keywords})", one, launch=launch, queue=queue)
                for one in self.sets(queue)
            ]
            for side, launch in launching.items()
        }
        if self.case.outputs and self.case.threads == 1:
            sets = self.sets(queue)
            bound = self.kernel.bind(queue, **sets[0], **self.case.scalars)
            found["kcl, bound"] = [
                self.written("bound({keywords})", one, bound=bound) for one in sets
            ]
        typed = (
            {"typed": "data", "typed, buffers at hand": "buffers"}
            if self.case.outputs
            else {"typed": "data"}
        )
        names = {
            "kernel": self.typed,
            "queue": queue,
            "allocate": cl_tools.DeferredAllocator(queue.context),
        }
        for side, values in typed.items():
            text = f"kernel(queue, size, local, {{{values}}}, n)"
            found[side] = [self.written(text, one, **names) for one in self.sets(queue)]
        return found

    def sets(self, queue: cl.CommandQueue) -> list[dict[str, cl_array.Array]]:
        """Return new arrays for calls to rotate over."""
        return [_arrays(queue, self.case) for _ in range(SETS)]

    def written(self, call: str, arrays: dict[str, Any], **names: Any) -> Call:
        """Write out a call with its arguments by name or in order, as a driver has it."""
        scalars = self.case.scalars
        allocated = (
            [] if self.case.outputs else [f"allocate({SIZE * np.dtype(np.float32).itemsize})"]
        )
        text = call.format(
            keywords=", ".join(f"{name}={name}" for name in (*arrays, *scalars)),
            data=", ".join([*(f"{name}.data" for name in arrays), *allocated, *scalars]),
            buffers=", ".join([*(f"{name}_data" for name in arrays), *scalars]),
        )
        buffers = {f"{name}_data": array.data for name, array in arrays.items()}
        given = {
            **arrays,
            **scalars,
            **buffers,
            **names,
            "size": (SIZE,),
            "local": (16,),
            "n": np.int32(SIZE),
        }
        made: dict[str, Any] = {}
        exec(
            f"def make({', '.join(given)}):\n    def call():\n        {text}\n    return call", made
        )
        call_of_it: Call = made["make"](**given)
        return call_of_it


def measured(context: cl.Context, case: Case, rounds: int, batch: int) -> dict[str, Any]:
    """Return microseconds a call by side, one for each round, in an order that changes with every round."""
    bench, order = Bench(context, case), random.Random(0)
    sides = list(bench.sides)
    wall: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    for side in sides:
        bench.seconds(side, WARM_UP)
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for side in order.sample(sides, len(sides)):
            seconds, processor = bench.seconds(side, batch)
            wall[side].append(1e6 * seconds)
            cpu[side].append(1e6 * processor)
    gc.enable()
    return {"case": case.name, "microseconds": wall, "processor": cpu}


def main() -> None:
    rounds, batch = int(sys.argv[1]), int(sys.argv[2])
    context = cl.create_some_context(interactive=False)
    print(json.dumps([measured(context, case, rounds, batch) for case in CASES]))


if __name__ == "__main__":
    main()
