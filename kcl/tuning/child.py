"""The program of a child: it builds a candidate, launches it on arrays of its own, compares, and takes samples.

The parent asks by a pipe and gets an answer to each question, so it knows which candidate killed or stopped the child.
Questions are about codes, by the name of the form of the call: "" is the call itself, "n = 511" is cut by one.

    begin(codes)             -> Verdict of the default for each form, whose results candidates have to compute; seconds
    check(codes)             -> Verdict of a candidate
    sample(code, seconds)    -> Sample, the fastest launch of those that would fill so many seconds
    renew()                  -> None; samples have other arrays from now on

A question that takes too long ends the child, too, since the parent may have died.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl import drivers
from kcl.build.results import difference
from kcl.build.stage import build_of
from kcl.code import Code, made_ready
from kcl.drivers import devices
from kcl.launch import ARRAYS, Launcher
from kcl.tuning.race import Sample

GUARD = 4096  # bytes behind each array
_PATTERN = 0xFF  # of an output: not a number, or -1
_ORPHAN_SECONDS = 10.0
_LAUNCHES = 20  # of a sample, at most
_LONG_SECONDS = 0.1  # of a launch: what the processor has in its caches does not matter

Arrays = dict[str, np.ndarray[Any, Any]]


class Verdict(NamedTuple):
    """What became of a candidate: "ok" or what is wrong, and in which detail."""

    outcome: str
    detail: str = ""


class ArrayFile(NamedTuple):
    """An array in a file; without a path it is made up."""

    path: str
    shape: tuple[int, ...]
    dtype: Any
    order: Literal["C", "F"]


class CallForm(NamedTuple):
    """A call, whole or cut: the shapes of its arrays, and its other values."""

    shapes: dict[str, tuple[int, ...]]
    values: dict[str, Any]


class Question(NamedTuple):
    """What all questions are about."""

    places: devices.DevicePlaces
    arrays: dict[str, ArrayFile]
    forms: dict[str, CallForm]
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
    rig = Rig(pipe.recv())
    while True:
        try:
            seconds, verb, *given = pipe.recv()
        except EOFError:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, seconds + _ORPHAN_SECONDS)
        pipe.send(getattr(rig, verb)(*given))
        signal.setitimer(signal.ITIMER_REAL, 0)


class GuardedCall:
    """The arguments of one call, outputs too, each with a guard behind it, and the results of the default.

    An array begins as its content if the default reads that, else as a pattern. `starts` has the bytes of each.
    """

    def __init__(
        self, rig: Rig, default: Launcher, arrays: Arrays, values: Mapping[str, Any]
    ) -> None:
        self.rig, self.values = rig, values
        given = {name: cl_array.to_device(rig.queue, array) for name, array in arrays.items()}
        _event, outputs = default(rig.queue, None, None, False, {**values, **given})
        if not isinstance(outputs, dict):
            new = [one for one in outputs if all(one is not array for array in given.values())]
            outputs = dict(zip([name for name in rig.names if name not in given], new, strict=True))
        self.starts, self._forms = Arrays(), dict[str, tuple[Any, ...]]()
        likes = {
            **arrays,
            **{name: one.get() for name, one in outputs.items() if name not in arrays},
        }
        for number, (name, like) in enumerate(likes.items()):
            # Guards differ, so that a copy of what lies behind an array is seen behind another one.
            start = self.starts[name] = np.full(
                like.nbytes + GUARD, 0x21 + 7 * number % 0xD0, np.uint8
            )
            is_read = name in default.required and like.size
            start[: like.nbytes] = like.ravel(order="K").view(np.uint8) if is_read else _PATTERN
            self._forms[name] = like.shape, like.dtype, like.strides
        self.renew()
        self.launch(default)
        read = self.read()
        self.expected = self.results(read)
        self.changed = [
            name
            for name in read
            if name in default.required and (read[name] != self.starts[name]).any()
        ]

    def launch(self, launcher: Launcher, names: Iterable[str] | None = None) -> Sample:
        """Launch from the same beginning, of the arrays with these names or of all; return the seconds."""
        self._restore(self.arrays if names is None else names)
        return self.rig.launch(launcher, {**self.values, **self.arrays})

    def renew(self) -> None:
        """Give each array another place in memory: where it lies changes the time of a launch."""
        queue, mode = self.rig.queue, cl.mem_flags.READ_WRITE
        self.arrays = {
            name: cl_array.Array(
                queue,
                shape,
                dtype,
                data=cl.Buffer(queue.context, mode, self.starts[name].nbytes),
                strides=strides,
            )
            for name, (shape, dtype, strides) in self._forms.items()
        }
        self._restore(self.arrays)

    def _restore(self, names: Iterable[str]) -> None:
        for name in names:
            del self.arrays[name].events[:]
            cl.enqueue_copy(self.rig.queue, self.arrays[name].base_data, self.starts[name])

    def read(self) -> Arrays:
        """Return the bytes of each array, and of its guard."""
        found = {name: np.empty_like(start) for name, start in self.starts.items()}
        for name, content in found.items():
            cl.enqueue_copy(self.rig.queue, content, self.arrays[name].base_data)
        return found

    def results(self, read: Arrays) -> Arrays:
        """Return bytes that were read as arrays."""
        ones = self.arrays.items()
        return {
            name: np.ndarray(one.shape, one.dtype, read[name], strides=one.strides)
            for name, one in ones
        }

    def broken(self, read: Arrays) -> list[str]:
        """Return the names of the arrays behind which something was written."""
        return [
            name
            for name, start in self.starts.items()
            if (read[name][-GUARD:] != start[-GUARD:]).any()
        ]


class Rig:
    """What a child has: a queue, the launchers of the candidates, and the calls by the name of their form."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        context = devices.context_at(asked.places)
        self.queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self.build = build_of(context, drivers.of)
        self.names: list[str] = []  # of the arrays, in the order of the kernel
        self._launchers: dict[str, Launcher] = {}
        self._calls: dict[str, GuardedCall] = {}
        self._events: list[cl.Event] = []
        self._enqueue = cl.enqueue_nd_range_kernel
        cl.enqueue_nd_range_kernel = (
            self._noted
        )  # the invokers take it from pyopencl at each launch

    def begin(self, codes: Mapping[str, Code]) -> tuple[dict[str, Verdict], float]:
        """Launch the default on each form; return what became of it, and how long that took."""
        began = time.monotonic()
        found = {form: self._verdict(code, form, is_default=True) for form, code in codes.items()}
        return found, time.monotonic() - began

    def check(self, codes: Mapping[str, Code]) -> Verdict:
        """Build a candidate, launch it once on each form, and compare."""
        for form, code in codes.items():
            found = self._verdict(code, form)
            if found.outcome != "ok":
                return found._replace(detail=f"{found.detail}, at {form}" if form else found.detail)
        return Verdict("ok")

    def sample(self, code: Code, seconds: float) -> Sample:
        """Return the fastest launch of as many as take so long undisturbed; inputs that change begin anew each time."""
        is_new, call, found = code.digest not in self._launchers, self._calls[""], list[Sample]()
        launcher = self._launcher(code)
        while not found or (len(found) < _LAUNCHES and len(found) * min(found).elapsed < seconds):
            one = call.launch(launcher, None if is_new else call.changed)
            found += [one] if one.elapsed > _LONG_SECONDS or not is_new else []
            is_new = False
        return min(found)

    def renew(self) -> None:
        """Give the arrays of the call other places in memory."""
        self._calls[""].renew()

    def launch(self, launcher: Launcher, arguments: dict[str, Any]) -> Sample:
        """Launch and wait; return the seconds from the start of the first kernel to the end of the last one.

        Only on a CPU device processor time says whether somebody else slowed a launch.
        """
        self.queue.finish()
        del self._events[:]
        before = time.process_time()
        launcher.invoke(launcher.kernels, self.queue, None, None, False, **arguments)
        self.queue.finish()
        processor = time.process_time() - before
        profiles = [event.profile for event in self._events]
        elapsed = (
            float(max(one.end for one in profiles) - min(one.start for one in profiles)) * 1e-9
        )
        return Sample(
            elapsed, processor if self.queue.device.type & cl.device_type.CPU else elapsed
        )

    def _verdict(self, code: Code, form: str, is_default: bool = False) -> Verdict:
        step = "does not build"
        try:
            launcher, step = self._launcher(code), "does not launch"
            if is_default:
                self._calls[form] = GuardedCall(self, launcher, *self._given(form))
            call = self._calls[form]
            call.launch(launcher)
            read = call.read()
        except LocalMemoryError as error:
            return Verdict("needs too much local memory", str(error))
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            telling = next(
                (line for line in lines if "error" in line.lower()), lines[0] if lines else ""
            )
            return Verdict(step, re.sub(r"\S*/", "", f"{type(error).__name__}: {telling}")[:200])
        if broken := call.broken(read):
            return Verdict("writes past the end", f"of {', '.join(broken)}")
        said = difference(call.results(read), call.expected, self._tolerance)
        return Verdict("wrong result", said) if said else Verdict("ok")

    def _tolerance(self, dtype: Any) -> float:
        given = self.asked.tolerance
        return float(np.sqrt(np.finfo(dtype).eps)) if given is None else given

    def _given(self, form: str) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays and values of a form of the call."""
        shapes, values = self.asked.forms[form]
        arrays = {}
        for name, (path, shape, dtype, order) in self.asked.arrays.items():
            drawn = np.random.default_rng(len(name)).random(shape) if not path else None
            whole = (
                np.load(path, mmap_mode="r") if drawn is None else drawn.astype(dtype, order=order)
            )
            arrays[name] = np.array(whole[tuple(map(slice, shapes[name]))], order=order)
        return arrays, values

    def _launcher(self, code: Code) -> Launcher:
        """Return the launcher of a candidate; raises the errors of its build."""
        if code.digest not in self._launchers:
            self.names = [one.name for one in code.invoker.arguments if one.kind in ARRAYS]
            self._launchers[code.digest] = self.build.from_source(code.text).launcher(
                made_ready(code)
            )
        return self._launchers[code.digest]

    def _noted(
        self, queue: cl.CommandQueue, kernel: cl.Kernel, *given: Any, **named: Any
    ) -> cl.Event:
        """Enqueue, and note the event; raises LocalMemoryError."""
        wanted = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, queue.device)
        if wanted > queue.device.local_mem_size:
            raise LocalMemoryError(
                f"{wanted} bytes, and the device has {queue.device.local_mem_size}"
            )
        event = self._enqueue(queue, kernel, *given, **named)
        self._events.append(event)
        return event
