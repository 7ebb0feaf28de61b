"""The program of a child: it builds a candidate, launches it on arrays of its own, compares, and takes samples.

The parent asks by a pipe and gets an answer to each question, so it knows which candidate killed or stopped the child.
Questions are about codes, by the name of the form of the call: "" is the call itself, `n = 511` is cut by one.

    begin(form, code)        -> Verdict of the default, whose results candidates have to compute; seconds; two results
    weigh(form, code)        -> the same of the default on inputs without signs, where no terms of a sum cancel: it says
                                how large the terms of each result are
    check(codes)             -> Verdict of a candidate, and the outputs that the parent compares by form
    sample(code, seconds)    -> Sample, the fastest launch of those that would fill so many seconds
    renew()                  -> None; samples have other arrays from now on

A question that takes too long ends the child, too, since the parent may have died.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl import drivers
from kcl.choices.tuning import inputs
from kcl.choices.tuning.race import Sample
from kcl.choices.tuning.results import BY, Arrays, Values, difference
from kcl.code import Code, made_ready
from kcl.drivers import devices
from kcl.drivers.child import ChildFault, Verdict, limit, serve
from kcl.launch import ARRAYS, Launcher
from kcl.programs.stage import build_of

GUARD = 4096  # bytes behind each array
# Bytes of an output before a launch: not a number, or -1.
PATTERN = 0xFF
# The same for an output of drawn integers, hardly one of which has these bytes.
_MARK = 0xA5
OTHER_SHAPE = "has another shape"
_SHAPES = re.compile(r"shape mismatch on argument '(\w+)' \(got: (.*), expected: (.*)\)")
_LAUNCHES = 20  # of a sample, at most
# For a launch of so many seconds it does not matter what the processor has in its caches.
_LONG_SECONDS = 0.1

# relative, or (relative, absolute) by the name of an output
Tolerance = None | float | Mapping[str, Any]


class ArrayFile(NamedTuple):
    """An array in a file, cut to its shape; without a path it is made up."""

    path: str
    shape: tuple[int, ...]
    dtype: Any
    order: Literal["C", "F"]


class CallForm(NamedTuple):
    """A call on which candidates are compared: its arrays on the host, its other values, and its sizes.

    In a question the arrays are files. `drawn` has the dtypes of arguments that are drawn; see `inputs`.
    """

    arrays: dict[str, Any]
    values: Values
    sizes: dict[str, int]
    drawn: Mapping[str, str] = {}

    @property
    def nbytes(self) -> int:
        """The number of bytes of the arrays."""
        arrays = self.arrays.values()
        return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)


class Question(NamedTuple):
    """What all questions are about.

    `compared` are the outputs that the parent compares: None for none, and empty if it does not know yet which.
    """

    places: devices.DevicePlaces
    forms: dict[str, CallForm]
    tolerance: Tolerance
    compared: tuple[str, ...] | None = None


def find_tolerance(tolerance: Tolerance, name: str, dtype: Any) -> tuple[float, float]:
    """Return the relative and the absolute tolerance of an output: what is given, else the root of epsilon."""
    wanted = tolerance.get(name) if isinstance(tolerance, Mapping) else tolerance
    if wanted is None:
        return float(np.sqrt(np.finfo(dtype).eps)), 0.0
    return (wanted[0], wanted[1]) if isinstance(wanted, tuple) else (wanted, 0.0)


def main(descriptor: int) -> None:
    """Launch candidates for the parent."""
    serve(descriptor, Rig)


class GuardedCall:
    """The arguments of one call, outputs too, each with a guard behind it, and the results of the default.

    An array begins as its content if the default reads that, else as a pattern. `starts` has the bytes of each.
    `expected` has what the default writes, and `scales` the magnitude of the terms of that. `changed` are inputs that
    the default writes. The launch allocates the outputs in `own`, which `compare` reads, if the call has none.
    """

    def __init__(
        self, rig: Rig, default: Launcher, arrays: Arrays, values: Values, pattern: int
    ) -> None:
        self.rig, self.values = rig, values
        missing = [name for name in rig.names if name not in arrays]
        likes = arrays
        if missing:
            buffers = {name: cl_array.to_device(rig.queue, array) for name, array in arrays.items()}
            _event, outputs = default(rig.queue, None, None, False, {**values, **buffers})
            new = _select_new(outputs, missing, buffers)
            likes = {**arrays, **{name: array.get() for name, array in new.items()}}
        self.starts, self._forms = Arrays(), dict[str, tuple[Any, ...]]()
        for number, (name, like) in enumerate(likes.items()):
            # Guards differ, so that a copy of what lies behind an array is seen behind another one.
            start = self.starts[name] = np.full(
                like.nbytes + GUARD, 0x21 + 7 * number % 0xD0, np.uint8
            )
            is_read = name in default.required and like.size
            start[: like.nbytes] = like.ravel(order="K").view(np.uint8) if is_read else pattern
            self._forms[name] = like.shape, like.dtype, like.strides
        self.renew()
        self.launch(default)
        read = self.read()
        kept = [
            name
            for name in read
            if name in default.required and (read[name] == self.starts[name]).all()
        ]
        results = self.results(read)
        self.expected = {name: results[name] for name in results if name not in kept}
        self.changed = [name for name in self.expected if name in default.required]
        self.scales: Mapping[str, Any] = self.expected
        in_call = {*rig.question.forms[""].arrays, *default.required}
        self.own = [name for name in rig.question.compared or () if name not in in_call]

    def launch(
        self, launcher: Launcher, names: Iterable[str] | None = None, own: Collection[str] = ()
    ) -> Sample:
        """Restore the arrays with these names, or all, to their beginning, and launch; return the seconds.

        The launch allocates the arrays that are its `own`: such an output may have another shape for each choice.
        """
        self._restore(self.arrays if names is None else names)
        buffers = {name: array for name, array in self.arrays.items() if name not in own}
        return self.rig.launch(launcher, {**self.values, **buffers})

    def renew(self) -> None:
        """Give each array another place in memory, where it has other neighbours, and launches another time."""
        queue, mode = self.rig.queue, cl.mem_flags.READ_WRITE
        for start in self.starts.values():
            start[-GUARD:] ^= 0x40
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
        copies = {name: np.empty_like(start) for name, start in self.starts.items()}
        for name, content in copies.items():
            cl.enqueue_copy(self.rig.queue, content, self.arrays[name].base_data)
        return copies

    def results(self, read: Arrays) -> Arrays:
        """View bytes, as `read` returns them, as the arrays of the call."""
        return {
            name: np.ndarray(shape, dtype, read[name], strides=strides)
            for name, (shape, dtype, strides) in self._forms.items()
        }

    def find_written(self) -> list[bytes]:
        """Return which elements of each array the default changes."""
        starts, changes = self.results(self.starts), list[bytes]()
        for name, array in self.expected.items():
            # Bytes are compared, since a NaN is not equal to itself.
            pair = [np.ascontiguousarray(side).view(np.uint8) for side in (array, starts[name])]
            changes.append((pair[0] != pair[1]).reshape(array.size, -1).any(axis=1).tobytes())
        return changes

    def difference(self, results: Arrays, but: Collection[str]) -> str:
        """Describe the first difference to what the default computes, or to an input that it leaves as it was."""
        kept = {name: array for name, array in results.items() if name not in but}
        # An output has what the default computes, and any other array what it began with.
        right = {**self.results(self.starts), **self.expected}

        def tolerance(name: str, dtype: Any) -> tuple[float, float]:
            # An input that the default leaves as it was has to keep its bits.
            if name not in self.expected:
                return 0.0, 0.0
            return find_tolerance(self.rig.question.tolerance, name, dtype)

        return difference(kept, right, tolerance, self.scales)

    def find_broken(self, read: Arrays) -> list[str]:
        """Return the names of the arrays behind which something was written."""
        return [
            name
            for name, start in self.starts.items()
            if (read[name][-GUARD:] != start[-GUARD:]).any()
        ]


class Rig:
    """What a child has: a queue, the launchers of the candidates, and the calls by the name of their form."""

    def __init__(self, question: Question) -> None:
        self.question = question
        context = devices.context_at(question.places)
        self.queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self.build = build_of(context, drivers.of)
        self.names: list[str] = []  # of the arrays, in the order of the kernel
        self._launchers: dict[str, Launcher] = {}
        self._calls: dict[str, GuardedCall] = {}
        self._events: list[cl.Event] = []
        self._compared: Collection[str] = question.compared or ()
        self.outputs: Any = ()  # of the last launch
        self._is_limited = False
        self._enqueue = cl.enqueue_nd_range_kernel
        # The invokers take this function from pyopencl at each launch.
        cl.enqueue_nd_range_kernel = self._enqueue_and_note

    def begin(self, form: str, code: Code) -> tuple[Verdict, float, list[Arrays]]:
        """Launch the default at two places in memory; return what became of it, how long that took, and the outputs."""
        began = time.monotonic()
        verdict, results = self._launch_and_compare(code, form, is_default=True)
        outputs = [self._calls[form].expected, results] if verdict.outcome == "ok" else []
        return verdict, time.monotonic() - began, self._select_outputs(outputs)

    def weigh(self, form: str, code: Code) -> tuple[Verdict, float, list[Arrays]]:
        """Launch the default on the absolute values of its inputs: that says how large the terms of a sum are."""
        call = self._calls[form]
        starts, launcher = call.results(call.starts), self._launcher(code)
        unsigned = inputs.strip_signs(starts, call.values, launcher.required)
        weighed = GuardedCall(self, launcher, *unsigned, PATTERN)
        call.scales = weighed.expected
        return Verdict("ok"), 0.0, self._select_outputs([weighed.expected])

    def check(self, codes: Mapping[str, Code]) -> tuple[Verdict, dict[str, Arrays]]:
        """Build a candidate, launch it once on each form, and compare."""
        outputs = {}
        if not self._is_limited and self.queue.device.type & cl.device_type.CPU:
            starts = [start for call in self._calls.values() for start in call.starts.values()]
            limit(sum(start.nbytes for start in starts))
        self._is_limited = True
        for form, code in codes.items():
            if form not in self._calls:
                # The default does not run on this form.
                continue
            verdict, results = self._launch_and_compare(code, form)
            if verdict.outcome != "ok":
                return verdict._replace(detail=verdict.detail + inputs.place(form)), {}
            outputs[form] = {name: results[name] for name in self._compared}
        return Verdict("ok"), outputs

    def sample(self, code: Code, seconds: float) -> Sample:
        """Launch for so many seconds, and return the fastest launch. Inputs that change begin anew each time."""
        is_new, call, samples = code.digest not in self._launchers, self._calls[""], list[Sample]()
        launcher = self._launcher(code)
        while not samples or (
            len(samples) < _LAUNCHES and len(samples) * min(samples).elapsed < seconds
        ):
            taken = call.launch(launcher, None if is_new else call.changed, call.own)
            # The first launch of a candidate counts only if it is long.
            samples += [taken] if taken.elapsed > _LONG_SECONDS or not is_new else []
            is_new = False
        return min(samples)

    def renew(self) -> None:
        """Give the arrays of the call other places in memory."""
        self._calls[""].renew()

    def launch(self, launcher: Launcher, arguments: dict[str, Any]) -> Sample:
        """Launch and wait; return the seconds from the start of the first kernel to the end of the last one.

        Only on a CPU device processor time says whether somebody else slowed a launch.
        """
        self.queue.finish()
        del self._events[:]
        before, options = (
            time.process_time(),
            (self._allocate if self._compared else None, None, False),
        )
        _event, self.outputs = launcher.invoke(launcher.kernels, self.queue, *options, **arguments)
        self.queue.finish()
        processor = time.process_time() - before
        profiles = [event.profile for event in self._events]
        started = min(profile.start for profile in profiles)
        elapsed = 1e-9 * (max(profile.end for profile in profiles) - started)
        is_cpu = self.queue.device.type & cl.device_type.CPU
        return Sample(elapsed, processor if is_cpu else elapsed)

    def _launch_and_compare(
        self, code: Code, form: str, is_default: bool = False
    ) -> tuple[Verdict, Arrays]:
        step = "does not build"
        try:
            launcher, step = self._launcher(code), "does not launch"
            if is_default:
                self._calls[form] = self._begin_form(launcher, form)
            call = self._calls[form]
            call.launch(launcher, own=() if is_default else call.own)
            new = {} if is_default else _select_new(self.outputs, call.own, call.arrays)
            read = call.read()
            results = {**call.results(read), **{name: array.get() for name, array in new.items()}}
        except ChildFault as fault:
            return fault.verdict, {}
        except Exception as error:
            if match := _SHAPES.search(str(error)):
                return Verdict(OTHER_SHAPE, f"{match[1]} has {match[3]}, {BY} {match[2]}"), {}
            lines = [*filter(None, map(str.strip, str(error).splitlines())), ""]
            telling = next((line for line in lines if "error" in line.lower()), lines[0])
            words = re.sub(r"\S*/", "", f"{type(error).__name__}: {telling}")[:200]
            return Verdict(step, words), {}
        broken = call.find_broken(read) + [
            name for name, array in new.items() if self._is_broken(array)
        ]
        if broken:
            return Verdict("writes past the end", f"of {', '.join(broken)}"), {}
        is_unknown = is_default and self.question.compared is not None
        words = "" if is_unknown else call.difference(results, self._compared)
        return Verdict("wrong result", words) if words else Verdict("ok"), results

    def _begin_form(self, launcher: Launcher, form: str) -> GuardedCall:
        """Return the call of a form, from now on at another place in memory.

        Integers are drawn twice: raises ValueError if the default then writes other elements, as integers are places.
        """
        turns = (0, 1) if form == inputs.INTEGERS else (0,)
        pattern = _MARK if form == inputs.INTEGERS else PATTERN
        call, *others = [
            GuardedCall(self, launcher, *self._load_arguments(form, turn), pattern)
            for turn in turns
        ]
        if any(other.find_written() != call.find_written() for other in others):
            raise ValueError("integers of the call are places of elements")
        call.renew()
        return call

    def _load_arguments(self, form: str, turn: int) -> tuple[Arrays, Values]:
        """Return arrays and values of a form of the call."""
        files, values, _sizes, drawn = self.question.forms[form]
        if drawn:
            whole = self._calls[""]
            return inputs.draw(form, drawn, whole.results(whole.starts), values, turn)
        arrays = {}
        for name, (path, shape, dtype, order) in files.items():
            array = np.load(path, mmap_mode="r") if path else inputs.make_up(name, shape, dtype)
            arrays[name] = np.array(array[tuple(map(slice, shape))], order=order)
        return arrays, values

    def _select_outputs(self, results: list[Arrays]) -> list[Arrays]:
        """Return the outputs that the parent compares; before it has said which, all."""
        compared = self.question.compared
        return [
            {name: array for name, array in arrays.items() if name in (compared or arrays)}
            for arrays in results
            if compared is not None
        ]

    def _allocate(self, size: int) -> cl.Buffer:
        """Return memory for an output: a pattern, and a guard behind it."""
        buffer = cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, size + GUARD)
        cl.enqueue_fill_buffer(self.queue, buffer, np.uint8(PATTERN), 0, size + GUARD)
        return buffer

    def _is_broken(self, array: cl_array.Array) -> bool:
        guard, place = np.empty(GUARD, np.uint8), array.base_data.size - GUARD
        cl.enqueue_copy(self.queue, guard, array.base_data, src_offset=place)
        return bool((guard != PATTERN).any())

    def _launcher(self, code: Code) -> Launcher:
        """Return the launcher of a candidate; raises the errors of its build."""
        if code.digest not in self._launchers:
            arguments = code.invoker.arguments
            self.names = [argument.name for argument in arguments if argument.kind in ARRAYS]
            program = self.build.from_source(code.text)
            self._launchers[code.digest] = program.launcher(made_ready(code))
        return self._launchers[code.digest]

    def _enqueue_and_note(
        self, queue: cl.CommandQueue, kernel: cl.Kernel, *given: Any, **named: Any
    ) -> cl.Event:
        """Enqueue, and note the event; raises ChildFault if the device has too little local memory."""
        wanted = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, queue.device)
        if wanted > queue.device.local_mem_size:
            words = f"{wanted} bytes, and the device has {queue.device.local_mem_size}"
            raise ChildFault(Verdict("needs too much local memory", words))
        event = self._enqueue(queue, kernel, *given, **named)
        self._events.append(event)
        return event


def _select_new(outputs: Any, names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs with these names, which a launch has allocated, in the order of the kernel."""
    if isinstance(outputs, dict):
        return {name: outputs[name] for name in names}
    # A launch hands back the given arrays, too.
    new = [output for output in outputs if all(output is not array for array in given.values())]
    return dict(zip(names, new, strict=True))
