"""The program of a child: it builds a candidate, launches it on arrays of its own, compares, and takes samples.

The parent asks by a pipe and gets an answer to each question, so it knows which candidate killed or stopped the child:

    check(path, cut)         -> Verdict of the candidate, at the sizes of the call or cut by one
    sample(path, launches)   -> Sample, the fastest of some launches

A question that takes too long ends the child, too, since the parent may have died.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl import code, drivers
from kcl.build.leases import launcher_of
from kcl.build.results import difference
from kcl.build.stage import build_of
from kcl.cache.entry import entry_at
from kcl.drivers import devices
from kcl.generate import rows
from kcl.launch import ARRAYS, Launcher
from kcl.tuning.race import Sample

GUARD = 4096  # bytes behind each array
_PATTERN = 0xFF  # of an output: not a number, or -1
_ORPHAN_SECONDS = 10.0

Arrays = dict[str, np.ndarray[Any, Any]]


class Verdict(NamedTuple):
    """What became of a candidate: "ok" or what is wrong, in which detail, and the seconds of its launch."""

    outcome: str
    detail: str = ""
    elapsed: float = 0.0


class ArrayFile(NamedTuple):
    """An array in a file; without a path it is made up."""

    path: str
    shape: tuple[int, ...]
    dtype: Any
    order: Literal["C", "F"]


class Question(NamedTuple):
    """What all questions are about. A cut has other shapes of arrays, and other values, than the call."""

    places: devices.DevicePlaces
    arrays: dict[str, ArrayFile]
    values: dict[str, Any]
    cuts: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, Any]]]
    tolerance: float | None
    seconds: float


class LocalMemoryError(Exception):
    """A launch needs more local memory than the device has."""


def main(descriptor: int) -> None:
    """Answer the parent's questions, until it closes the pipe."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe = Connection(descriptor)
    asked: Question = pipe.recv()
    bench = Rig(asked)
    while True:
        try:
            seconds, verb, *given = pipe.recv()
        except EOFError:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, seconds + _ORPHAN_SECONDS)
        pipe.send(getattr(bench, verb)(*given))
        signal.setitimer(signal.ITIMER_REAL, 0)


class GuardedArray:
    """An array on the device, with a guard behind it. It begins as `content`, or as a pattern."""

    def __init__(self, queue: cl.CommandQueue, like: np.ndarray[Any, Any], guard: int, content: bool) -> None:
        self.queue, self.shape, self.dtype, self.strides = queue, like.shape, like.dtype, like.strides
        self.start = np.full(like.nbytes + GUARD, guard, np.uint8)
        self.start[: like.nbytes] = like.ravel(order="K").view(np.uint8) if content and like.size else _PATTERN
        self.buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, self.start.nbytes)
        self.array = cl_array.Array(queue, self.shape, self.dtype, data=self.buffer, strides=self.strides)
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        del self.array.events[:]
        cl.enqueue_copy(self.queue, self.buffer, self.start)

    def read(self) -> tuple[np.ndarray[Any, Any], bool]:
        """Return the array, and whether the guard is as it was."""
        found = np.empty_like(self.start)
        cl.enqueue_copy(self.queue, found, self.buffer)
        array = np.ndarray(self.shape, self.dtype, found, strides=self.strides)
        return array, bool((found[-GUARD:] == self.start[-GUARD:]).all())


class GuardedCall:
    """The arguments of one call, and the results of the default; outputs are given, too."""

    def __init__(self, bench: Rig, default: Launcher, arrays: Arrays, values: Mapping[str, Any]) -> None:
        self.bench, self.values = bench, values
        self.memory = {name: self._memory(array, True) for name, array in arrays.items()}
        _event, outputs = default(bench.queue, self._allocator, None, False, self.arguments())
        self.memory.update(self._outputs(outputs))
        needed = default.required
        for name, one in self.memory.items():
            if name not in needed:
                one.start[:-GUARD] = _PATTERN
        self.elapsed = self.launch(default)
        self.expected = self.results()[0]
        self.changed = [
            one
            for name, one in self.memory.items()
            if name in needed and one.start[:-GUARD].tobytes() != self.expected[name].ravel(order="K").tobytes()
        ]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a launch."""
        return {**self.values, **{name: one.array for name, one in self.memory.items()}}

    def launch(self, launcher: Launcher) -> float:
        """Launch from the same beginning; return the elapsed seconds."""
        for one in self.memory.values():
            one.reset()
        return self.bench.launch(launcher, self.arguments(), self._allocator)

    def results(self) -> tuple[Arrays, list[str]]:
        """Return the arrays, and the names of those behind which something was written."""
        read = {name: one.read() for name, one in self.memory.items()}
        return {name: array for name, (array, _whole) in read.items()}, [
            n for n, (_a, whole) in read.items() if not whole
        ]

    def _memory(self, like: np.ndarray[Any, Any], content: bool) -> GuardedArray:
        # Guards differ, so that a copy of what lies behind an array is seen behind another one.
        self.bench.guard = 0x21 + (self.bench.guard + 7) % 0xD0
        return GuardedArray(self.bench.queue, like, self.bench.guard, content)

    def _allocator(self, size: int) -> cl.Buffer:
        return self._memory(np.empty(size, np.uint8), False).buffer

    def _outputs(self, outputs: Any) -> dict[str, GuardedArray]:
        """Return memory for the outputs that the call left out."""
        given = {id(one.array) for one in self.memory.values()}
        if isinstance(outputs, dict):
            found = {name: one for name, one in outputs.items() if name not in self.memory}
        else:
            names = [name for name in self.bench.arrays if name not in self.memory]
            left = [one for one in outputs if id(one) not in given]
            found = dict(zip(names, left, strict=True))
        made = {}
        for name, one in found.items():
            like = np.ndarray(one.shape, one.dtype, np.empty(max(1, one.nbytes), np.uint8), strides=one.strides)
            made[name] = self._memory(like, False)
        return made


class Rig:
    """What a child has: a queue, the launchers of the candidates, and the calls, whole and cut."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        context = devices.context_at(asked.places)
        self.queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.build = build_of(context, drivers.of)
        self.arrays: list[str] = []  # of the kernel, in its order
        self.guard = 0
        self._most_local = context.devices[0].local_mem_size
        self._is_cpu = bool(context.devices[0].type & cl.device_type.CPU)
        self._launchers: dict[str, Launcher] = {}
        self._calls: dict[str, GuardedCall] = {}
        self._events: list[cl.Event] = []
        self._enqueue = cl.enqueue_nd_range_kernel
        cl.enqueue_nd_range_kernel = self._noted  # the invokers take it from pyopencl at each launch

    def ready(self) -> None:
        """Answer: modules are imported, and the device is there."""

    def begin(self, path: str, cut: str) -> Verdict:
        """Launch the default twice: its first results are what candidates have to compute."""
        return self._verdict(
            path, lambda launcher: self._calls.update({cut: GuardedCall(self, launcher, *self._given(cut))}), cut
        )

    def check(self, path: str, cut: str) -> Verdict:
        """Build a candidate, launch it once, and compare."""
        return self._verdict(path, lambda _launcher: None, cut)

    def _verdict(self, path: str, before: Callable[[Launcher], object], cut: str) -> Verdict:
        step = "does not build"
        try:
            launcher, step = self._launcher(path), "does not launch"
            before(launcher)
            return self._compared(self._calls[cut], launcher)
        except LocalMemoryError as error:
            return Verdict("needs too much local memory", str(error))
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            telling = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
            return Verdict(step, re.sub(r"\S*/", "", f"{type(error).__name__}: {telling}")[:200])

    def sample(self, path: str, launches: int) -> Sample:
        """Return the fastest of some launches of a candidate; inputs that the kernel changes begin anew each time.

        Only on a CPU device processor time says whether somebody else slowed a launch.
        """
        is_new, call, found = path not in self._launchers, self._calls[""], []
        launcher = self._launcher(path)
        if is_new:
            call.launch(launcher)
        for _launch in range(launches):
            for one in call.changed:
                one.reset()
            self.queue.finish()
            before = time.process_time()
            elapsed = self.launch(launcher, call.arguments(), None)
            found.append(Sample(elapsed, time.process_time() - before if self._is_cpu else elapsed))
        return min(found)

    def launch(self, launcher: Launcher, arguments: dict[str, Any], allocator: Any) -> float:
        """Launch and wait; return the seconds from the start of the first kernel to the end of the last one."""
        self.queue.finish()
        del self._events[:]
        launcher.invoke(launcher.kernels, self.queue, allocator, None, False, **arguments)
        self.queue.finish()
        profiles = [event.profile for event in self._events]
        return float(max(one.end for one in profiles) - min(one.start for one in profiles)) * 1e-9

    def _compared(self, call: GuardedCall, launcher: Launcher) -> Verdict:
        elapsed = call.launch(launcher)
        results, broken = call.results()
        if broken:
            return Verdict("writes past the end", f"of {', '.join(broken)}")
        said = difference(results, call.expected, self._tolerance)
        return Verdict("wrong result", said) if said else Verdict("ok", elapsed=elapsed)

    def _tolerance(self, dtype: Any) -> float:
        given = self.asked.tolerance
        return float(np.sqrt(np.finfo(dtype).eps)) if given is None else given

    def _given(self, cut: str) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays and values of the call, cut or whole."""
        shapes, values = self.asked.cuts.get(cut, ({}, {}))
        arrays = {}
        for name, (path, shape, dtype, order) in self.asked.arrays.items():
            drawn = np.random.default_rng(len(name)).random(shape) if not path else None
            whole = np.load(path, mmap_mode="r") if drawn is None else drawn.astype(dtype, order=order)
            part = tuple(map(slice, shapes.get(name, shape)))
            arrays[name] = np.array(whole[part], order=order)
        return arrays, {**self.asked.values, **values}

    def _launcher(self, path: str) -> Launcher:
        """Return the launcher of a candidate; raises the errors of its build."""
        if path not in self._launchers:
            with open(path, "rb") as stream:
                ready = code.made_ready(*rows.from_entry(entry_at(os.path.basename(path), stream.read())))
            self.arrays = [one.name for one in ready.code.invoker.arguments if one.kind in ARRAYS]
            self._launchers[path] = launcher_of(ready, self.build.from_source(ready.code.text))
        return self._launchers[path]

    def _noted(self, queue: cl.CommandQueue, kernel: cl.Kernel, *given: Any, **named: Any) -> cl.Event:
        """Enqueue, and note the event; raises LocalMemoryError."""
        wanted = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, queue.device)
        if wanted > self._most_local:
            raise LocalMemoryError(f"{wanted} bytes, and the device has {self._most_local}")
        event = self._enqueue(queue, kernel, *given, **named)
        self._events.append(event)
        return event
