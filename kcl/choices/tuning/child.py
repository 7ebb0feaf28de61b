"""The program of a tuning's child process: builds candidates, launches them, compares their results, takes samples.

The parent sends questions through a pipe and gets an answer to each, so it knows at which candidate the child died. A
form of the call has a name: "" is the call itself, `n = 511` the call with `n` less by one.

    begin(form, code)        -> (Verdict, seconds, outputs of two launches) of the default, the right results of the form
    weigh(form, code)        -> the same for the default on absolute values, so that no terms of a sum cancel: this says
                                how large the terms of each result are
    check(codes)             -> (Verdict, outputs that the parent compares, by form) of a candidate
    sample(code, seconds)    -> Sample: the fastest of the launches that fill so many seconds
    renew()                  -> None: the arrays get new memory

The child also ends itself if a question takes too long, since the parent may have died.
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
# The bytes of an output before a launch: NaN as a float, -1 as an integer.
PATTERN = 0xFF
# The same with drawn integers, which never have these bytes.
_MARK = 0xA5
OTHER_SHAPE = "has another shape"
_SHAPES = re.compile(r"shape mismatch on argument '(\w+)' \(got: (.*), expected: (.*)\)")
_LAUNCHES = 20  # of a sample, at most
# A longer launch hardly depends on what is in the processor's caches.
_LONG_SECONDS = 0.1

# a relative tolerance, or name of an output -> relative or (relative, absolute)
Tolerance = None | float | Mapping[str, Any]


class ArrayFile(NamedTuple):
    """An array in a file, of which `shape` is used. Without a path the array is made of random numbers."""

    path: str
    shape: tuple[int, ...]
    dtype: Any
    order: Literal["C", "F"]


class CallForm(NamedTuple):
    """A call on which candidates are compared: its arrays on the host, its other values, and its sizes.

    In a Question the arrays are ArrayFiles. `drawn` has the dtypes of arguments that get random values; see `inputs`.
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
    """The first message to a child: what all questions are about.

    `compared` are the outputs that the parent compares by the user's `compare`: None without one, empty if they are not
    known yet.
    """

    places: devices.DevicePlaces
    forms: dict[str, CallForm]
    tolerance: Tolerance
    compared: tuple[str, ...] | None = None


def find_tolerance(tolerance: Tolerance, name: str, dtype: Any) -> tuple[float, float]:
    """Return the (relative, absolute) tolerance of an output; by default the square root of the dtype's epsilon."""
    wanted = tolerance.get(name) if isinstance(tolerance, Mapping) else tolerance
    if wanted is None:
        return float(np.sqrt(np.finfo(dtype).eps)), 0.0
    return (wanted[0], wanted[1]) if isinstance(wanted, tuple) else (wanted, 0.0)


def main(descriptor: int) -> None:
    """Run the child: answer the parent's questions until it ends the connection."""
    serve(descriptor, Rig)


class GuardedCall:
    """The arguments of one call, outputs too, each with a guard behind it, and the results of the default.

    Arrays that the default reads start with their content, the others with a pattern, so that unwritten elements show.
    `starts` has the start of each as bytes. `expected` has the results of the default, `scales` the magnitudes of their
    terms. `changed` are the inputs that the default writes. `own` are outputs for `compare` that the call does not give:
    the launch allocates them.
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
            # Guards differ, so that a kernel that copies one guard to another is noticed.
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
        """Restore arrays (`names`, by default all) to their start, and launch.

        Outputs in `own` are allocated by the launch, since their shape may depend on the choice.
        """
        self._restore(self.arrays if names is None else names)
        buffers = {name: array for name, array in self.arrays.items() if name not in own}
        return self.rig.launch(launcher, {**self.values, **buffers})

    def renew(self) -> None:
        """Give each array new memory, since its place there affects the time of a launch."""
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
        """Return the bytes of each array with its guard."""
        copies = {name: np.empty_like(start) for name, start in self.starts.items()}
        for name, content in copies.items():
            cl.enqueue_copy(self.rig.queue, content, self.arrays[name].base_data)
        return copies

    def results(self, read: Arrays) -> Arrays:
        """Return bytes from `read` as the arrays of the call."""
        return {
            name: np.ndarray(shape, dtype, read[name], strides=strides)
            for name, (shape, dtype, strides) in self._forms.items()
        }

    def find_written(self) -> list[bytes]:
        """Return, for each result, which elements the default changes, one byte for each."""
        starts, changes = self.results(self.starts), list[bytes]()
        for name, array in self.expected.items():
            # Bytes are compared, since a NaN is not equal to itself.
            pair = [np.ascontiguousarray(side).view(np.uint8) for side in (array, starts[name])]
            changes.append((pair[0] != pair[1]).reshape(array.size, -1).any(axis=1).tobytes())
        return changes

    def difference(self, results: Arrays, but: Collection[str]) -> str:
        """Describe the first difference from the default's results, or from an input that the default does not change."""
        kept = {name: array for name, array in results.items() if name not in but}
        # Other arrays must be unchanged.
        right = {**self.results(self.starts), **self.expected}

        def tolerance(name: str, dtype: Any) -> tuple[float, float]:
            # An unchanged input must keep its bits.
            if name not in self.expected:
                return 0.0, 0.0
            return find_tolerance(self.rig.question.tolerance, name, dtype)

        return difference(kept, right, tolerance, self.scales)

    def find_broken(self, read: Arrays) -> list[str]:
        """Return the names of the arrays whose guard was overwritten."""
        return [
            name
            for name, start in self.starts.items()
            if (read[name][-GUARD:] != start[-GUARD:]).any()
        ]


class Rig:
    """The object that answers in a child: it has a queue, the launchers of candidates, and the calls by form."""

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
        # Invokers read this function from pyopencl at each launch, so all events are noted.
        cl.enqueue_nd_range_kernel = self._enqueue_and_note

    def begin(self, form: str, code: Code) -> tuple[Verdict, float, list[Arrays]]:
        """Launch the default twice, with other memory; return the verdict, the seconds, and both outputs."""
        began = time.monotonic()
        verdict, results = self._launch_and_compare(code, form, is_default=True)
        outputs = [self._calls[form].expected, results] if verdict.outcome == "ok" else []
        return verdict, time.monotonic() - began, self._select_outputs(outputs)

    def weigh(self, form: str, code: Code) -> tuple[Verdict, float, list[Arrays]]:
        """Launch the default on the absolute values of its inputs, to find how large the terms of each sum are."""
        call = self._calls[form]
        starts, launcher = call.results(call.starts), self._launcher(code)
        unsigned = inputs.strip_signs(starts, call.values, launcher.required)
        weighed = GuardedCall(self, launcher, *unsigned, PATTERN)
        call.scales = weighed.expected
        return Verdict("ok"), 0.0, self._select_outputs([weighed.expected])

    def check(self, codes: Mapping[str, Code]) -> tuple[Verdict, dict[str, Arrays]]:
        """Build a candidate, launch it once on each form, and compare its results."""
        outputs = {}
        if not self._is_limited and self.queue.device.type & cl.device_type.CPU:
            starts = [start for call in self._calls.values() for start in call.starts.values()]
            limit(sum(start.nbytes for start in starts))
        self._is_limited = True
        for form, code in codes.items():
            if form not in self._calls:
                # A form that was left out, since the default does not run on it.
                continue
            verdict, results = self._launch_and_compare(code, form)
            if verdict.outcome != "ok":
                return verdict._replace(detail=verdict.detail + inputs.place(form)), {}
            outputs[form] = {name: results[name] for name in self._compared}
        return Verdict("ok"), outputs

    def sample(self, code: Code, seconds: float) -> Sample:
        """Launch repeatedly for some seconds; return the fastest launch. Inputs that change are restored each time."""
        is_new, call, samples = code.digest not in self._launchers, self._calls[""], list[Sample]()
        launcher = self._launcher(code)
        while not samples or (
            len(samples) < _LAUNCHES and len(samples) * min(samples).elapsed < seconds
        ):
            taken = call.launch(launcher, None if is_new else call.changed, call.own)
            # The first launch counts only if it is long, since caches are cold.
            samples += [taken] if taken.elapsed > _LONG_SECONDS or not is_new else []
            is_new = False
        return min(samples)

    def renew(self) -> None:
        """Give the arrays of the call new memory."""
        self._calls[""].renew()

    def launch(self, launcher: Launcher, arguments: dict[str, Any]) -> Sample:
        """Launch and wait; return the time from the start of the first kernel to the end of the last one.

        On a CPU device the sample also has processor time, which shows whether other processes slowed the launch.
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
        """Return the call of a form, with new memory for the next launch.

        Random integers are drawn twice. Raises ValueError if the default then writes other elements: the integers are
        indices.
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
        """Return the arrays and the other values of one of the calls on which candidates are tried.

        If its inputs are drawn at random, `turn` chooses the random numbers.
        """
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
        """Return the outputs that the parent compares; all of them if it does not know yet which."""
        compared = self.question.compared
        return [
            {name: array for name, array in arrays.items() if name in (compared or arrays)}
            for arrays in results
            if compared is not None
        ]

    def _allocate(self, size: int) -> cl.Buffer:
        """Allocate memory for an output, filled with the pattern, with a guard behind it."""
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
        self, queue: cl.CommandQueue, kernel: cl.Kernel, *sizes: Any, **named: Any
    ) -> cl.Event:
        """Enqueue a kernel and note its event; raises ChildFault if the device has too little local memory."""
        wanted = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, queue.device)
        if wanted > queue.device.local_mem_size:
            words = f"{wanted} bytes, and the device has {queue.device.local_mem_size}"
            raise ChildFault(Verdict("needs too much local memory", words))
        event = self._enqueue(queue, kernel, *sizes, **named)
        self._events.append(event)
        return event


def _select_new(outputs: Any, names: Iterable[str], passed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs that a launch has allocated, by these names, which are in the kernel's order."""
    if isinstance(outputs, dict):
        return {name: outputs[name] for name in names}
    # A launch also returns the arrays that were passed to it.
    new = [output for output in outputs if all(output is not array for array in passed.values())]
    return dict(zip(names, new, strict=True))
