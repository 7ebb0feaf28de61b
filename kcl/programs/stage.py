"""`Build`, the second stage: from a program text to a built program, through the binary layer."""

from __future__ import annotations

import functools
import hashlib
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyopencl as cl

from kcl import foreign
from kcl.base import computed_once, events, port, process, spans
from kcl.cache import layers
from kcl.cache.entry import Entry, recorded_seconds
from kcl.cache.key import Key, Part
from kcl.cache.lead import Lead
from kcl.cache.lookup import Look, Searching, Stage, obtain
from kcl.errors import RecipeError, UnknownInput
from kcl.launch import Kernels, Launcher, Play
from kcl.programs.driver import BEING_COMPLETED, variables
from kcl.programs.kernels import generate_late, kernel_names, of_binaries, warn
from kcl.programs.program_key import (
    BuildOptions,
    ProgramSlot,
    build_options,
    header_parts,
    marks,
    may_read,
    slots_of,
)

if TYPE_CHECKING:
    from kcl.cache.layer import Layer
    from kcl.code import LaunchableCode, ProgramText
    from kcl.programs.compilation import UnfinishedEntries
    from kcl.programs.driver import Driver


class BuildRequest(NamedTuple):
    """A program text to be built.

    Made by the line of a Kernel or for an unchanged program; ends in the second stage.

    `holder` is the user's own pyopencl program if the build is for one: the result is not shared then, and kcl does not see
    its launches. `site` is the line of the user's program that builds it, for display.
    """

    text: ProgramText
    holder: cl.Program | None = None
    site: str = ""


class BuiltProgram:
    """A built program. It lives as long as a launcher refers to it.

    Kernels with equal program texts share it, unless its variables outlive a launch (`Build.keeps_state`).
    """

    __slots__ = (
        "__weakref__",
        "build",
        "is_stored",
        "logs",
        "program",
        "unfinished",
    )

    def __init__(self, build: Build, program: cl.Program) -> None:
        self.build = build
        self.program = program
        # True if the program was made from entries.
        self.is_stored = False
        # The compiler's messages from the build of the source, by device.
        self.logs: tuple[str, ...] = ()
        # Its new entries that still lack something; None for a program made from entries.
        self.unfinished: UnfinishedEntries | None = None

    def kernels(self, names: Sequence[str]) -> dict[str, cl.Kernel]:
        """Return new kernel objects, for use by one thread; raises RecipeError if the program lacks a name."""
        try:
            return {name: cl.Kernel(self.program, name) for name in names}
        except cl.LogicError as error:
            there = kernel_names(self.program)
            lacking = [name for name in names if name not in there]
            if not (lacking and there):
                raise
            unknown = RecipeError(
                f"the program has no kernel {lacking[0]!r}; it has {', '.join(there)}"
            )
            raise unknown from error

    def launcher(
        self, ready: LaunchableCode, own_events: dict[cl.Event, None] | None = None
    ) -> Launcher:
        """Return a launcher of code, with kernel objects of its own.

        `own_events` are events known to belong to its queue. Without them it does not learn to play calls.
        """
        kernels = Kernels()
        for name, kernel in self.kernels(ready.code.text.kernels).items():
            setattr(kernels, name, kernel)
        invoker = ready.code.invoker
        required = [
            argument.name
            for argument in invoker.arguments
            if argument.required and argument.name not in invoker.packed
        ]
        learn = None if own_events is None else _learn
        return Launcher(
            ready.invoke,
            kernels,
            self,
            frozenset(required),
            own_events,
            learn,
            frozenset(invoker.inferred),
        )

    def warn(self) -> None:
        """Warn with the compiler's messages; raises what the user's filters raise."""
        warn([device for device, _name in self.build.devices], self.logs)

    def note_prepared(self) -> None:
        """Have the entries completed now although no kernel was launched, so without specialised code."""
        if self.unfinished is not None:
            self.unfinished.note_prepared()

    def note_call(self, launcher: Launcher, arguments: Mapping[str, Any] | None = None) -> None:
        """Note that a launcher launched its kernels; the first launch is recorded if `arguments` are known."""
        if self.unfinished is None:
            return

        def note(values: Mapping[str, Any]) -> dict[str, Any]:
            # Imported late: only a miss needs it.
            from kcl.launch import first

            return first.noted(launcher.invoke, launcher.kernels, values)

        noted = dict if arguments is None else functools.partial(note, arguments)
        self.unfinished.note_launches(launcher.names, noted)


def _learn(launcher: Launcher, queue: cl.CommandQueue, arguments: dict[str, Any]) -> Play | None:
    # Imported late: only for kernels that are called often.
    from kcl.launch import replay

    return replay.learn(launcher, queue, arguments)


class Build(Stage[BuildRequest]):
    """The build stage of one context, with what is known of its devices and its living programs.

    If threads ask for the same program, one gets it and the others wait.
    """

    verb = "built"
    unusable = "the driver refused the binary"

    def __init__(self, context: cl.Context, driver: Driver) -> None:
        # Else the first `cl.Kernel` would import `pyopencl.invoker`, which is slow, and fails without a usable cache.
        generate_late()
        self.context = context
        self.driver = driver
        self._programs: weakref.WeakValueDictionary[str, BuiltProgram] = (
            weakref.WeakValueDictionary()
        )

    @property
    def layer(self) -> Layer:
        """The binary layer."""
        return layers.binary()

    @computed_once
    def devices(self) -> list[tuple[cl.Device, str]]:
        """The devices of the context, each with the name of its folder. Kept, since asking OpenCL takes time."""
        return [(device, self.driver.folder(device)) for device in self.context.devices]

    @computed_once
    def identities(self) -> list[tuple[Part, ...]]:
        """The identity of each device of the context."""
        return [self.driver.identity(device) for device, _folder in self.devices]

    @computed_once
    def untried(self) -> str:
        """Why programs for a device of the context are not cached; empty if they are."""
        return next(filter(None, [self.driver.untried(device) for device, _ in self.devices]), "")

    def off(self, _wanted: BuildRequest) -> str:
        """Return why the layer is off, or why programs for these devices are not cached."""
        return self.layer.off() or self.untried

    def options(self, flags: tuple[str, ...]) -> BuildOptions:
        """Return the parsed build options of a program; raises UnknownInput as `build_options` does."""
        return build_options(self.context, flags, self.driver.added_options())

    def slots(self, text: ProgramText) -> list[ProgramSlot]:
        """Return the slot of a program for each device; raises UnknownInput if the headers cannot be known."""
        now = variables()
        devices = [
            (*device, (*parts, *now))
            for device, parts in zip(self.devices, self.identities, strict=True)
        ]
        return slots_of(text, self.options(text.options), devices)

    def headers_digest(self, text: ProgramText) -> str:
        """Return a digest of what a build reads beside the text: headers, and variables of drivers; empty if neither.

        If the headers cannot be known, each call returns another digest.
        """
        parts = [*variables()]
        if may_read(text.source):
            try:
                parts += header_parts(text.source, self.options(text.options))
            except UnknownInput:
                parts.append(Part("unknown", os.urandom(16).hex()))
        return Key(parts).digest if parts else ""

    def keeps_state(self, text: ProgramText) -> bool:
        """Return True if a program may have variables that outlive a launch, which only OpenCL C 2 and later have."""
        try:
            options = self.options(text.options)
        except UnknownInput:
            return True
        # Without `-cl-std` the language is OpenCL C 1.
        flags = (*options.flags, *options.beside.split())
        return any("std" in flag.lower() and not flag.startswith("-cl-std=CL1") for flag in flags)

    @staticmethod
    def digest(text: ProgramText, headers: str) -> str:
        """Return a digest of source, options and headers. It is the same whichever kernels of the program are wanted."""
        beside = f"{text.options!r} {headers} {text.source}"
        return hashlib.sha256(beside.encode("utf-8", "surrogatepass")).hexdigest()

    def program(self, wanted: BuildRequest, digest: str, lead: Lead) -> BuiltProgram:
        """Return a program for Kernels: a living one, one from the binary layer, or a new build.

        `digest` is that of the text and its headers. Raises pyopencl's own error if the source does not compile, and the
        compiler's warning if the user's filters turn it into an error.
        """
        with lead.alone(f"{id(self)} {digest}"):
            living = self._programs.get(digest)
            if living is not None:
                return living
            built: BuiltProgram = obtain(self, wanted, lead)
            self._programs[digest] = built
        built.warn()
        return built

    def from_source(self, text: ProgramText, holder: cl.Program | None = None) -> BuiltProgram:
        """Build from source; the program is neither shared nor stored."""
        from kcl.programs import compilation

        mark = self.driver.mark(text.source, lambda: self.headers_digest(text))
        # Built with the variables as drivers read them first: after a hit the driver itself may not have read them yet.
        with (
            spans.span("build", text.kernel, self.layer.name),
            foreign.variables(foreign.read_variables()),
        ):
            source = self.driver.given(text.source)
            return BuiltProgram(
                self, compilation.from_source(self.context, text, source, mark, holder)
            )

    def rebuilt(self, wanted: BuildRequest, digest: str, slots: list[ProgramSlot]) -> BuiltProgram:
        """Build from source even if the layer has entries, and store new ones."""
        made = self.make(wanted, Look("error", beside=slots))
        for address, entry in made.publish:
            self.layer.publish(address, entry)
        built: BuiltProgram = made.value
        self._programs[digest] = built
        return built

    # the methods that the look-up calls

    def name(self, wanted: BuildRequest) -> str:
        """The name of the kernel."""
        return wanted.text.kernel

    def lead_digest(self, _wanted: BuildRequest, look: Look) -> str:
        """Return a digest of the keys for all devices."""
        return Key([Part("program key", slot.key.digest) for slot in look.beside]).digest

    def search(self, wanted: BuildRequest) -> Searching:
        """Look for the entry of each device."""
        slots = self.slots(wanted.text)
        entries, outcome, reason = [], "hit", ""
        for slot in slots:
            answer = yield slot.address, slot.key
            is_missing = answer.entry is None and answer.outcome == "miss"
            if is_missing and self.driver.awaited(slot):
                answer = yield slot.address, slot.key
                reason = reason or "waited for the helper that completes it"
            if answer.entry is not None:
                entries.append(answer.entry)
            elif outcome != "error":
                outcome, reason = answer.outcome, answer.reason
                if outcome == "miss" and self.driver.is_asked(slot):
                    reason = BEING_COMPLETED
        return _look(slots, entries, outcome, reason)

    def load(self, wanted: BuildRequest, look: Look) -> Look:
        """Make the program from the entries' binaries; raises the driver's error if it refuses one."""
        text = wanted.text
        for entry in look.entries:
            self.driver.loading(entry)
        slots: list[ProgramSlot] = look.beside
        devices = [slot.device for slot in slots]
        built = BuiltProgram(
            self, of_binaries(self.context, devices, look.entries, text, slots[0].options)
        )
        # Raises if a kernel is missing.
        built.kernels(text.kernels)
        built.is_stored = True
        built.logs = tuple(map(_log, look.entries, slots))
        for slot, entry in zip(slots, look.entries, strict=True):
            self.driver.loaded(slot, entry)
            self._dump(text, slot.address, entry)
        return look._replace(value=built)

    def make(self, wanted: BuildRequest, look: Look) -> Look:
        """Build from source; publish the entries that the driver completes at once, and promise the others."""
        from kcl.programs import compilation

        started = time.perf_counter()
        built = self.from_source(wanted.text, wanted.holder)
        seconds = time.perf_counter() - started
        built.logs = tuple(compilation.logs(built.program))
        more = {"seconds": seconds, "site": wanted.site}
        entries, promises = compilation.entries(
            self.driver, self.layer, wanted.text, built.program, look, built.logs, **more
        )
        for address, entry in (*entries, *promises):
            self._dump(wanted.text, address, entry)
        if wanted.holder is not None:
            self.driver.unseen(promises)
            return look._replace(value=built, publish=entries)
        if entries or promises:
            built.unfinished = compilation.UnfinishedEntries(
                self.driver, self.layer, built.program, entries, promises
            )
        return look._replace(value=built, publish=entries, promised=bool(promises))

    def attempt(self, wanted: BuildRequest) -> str:
        """Build and store nothing; raises pyopencl's own error if the source does not compile."""
        try:
            self.from_source(wanted.text, wanted.holder)
        except cl.Error:
            raise
        except Exception as error:
            events.logger().info("kernel %r was not built: %r", wanted.text.kernel, error)
        return ""

    def explain_error(self, error: BaseException) -> str:
        """Return "does not compile" with the first error of the compiler's log; empty for another error."""
        from kcl.programs import compilation

        return compilation.refusal(error)

    def _dump(self, text: ProgramText, address: str, entry: Entry) -> None:
        if self.layer.options.dump:
            port("dump").program(text.source_digest, address, entry)


def _log(entry: Entry, slot: ProgramSlot) -> str:
    """Return the log of an entry's build, with the include directories of this run."""
    log = entry.parts.get("build.log", b"").decode("utf-8", "replace")
    for mark, directory in marks(slot.options) if log else ():
        log = log.replace(mark, directory)
    return log


def _look(slots: list[ProgramSlot], entries: list[Entry], outcome: str, reason: str) -> Look:
    """Return the look of a search. Its key is that of the first missing entry, or the first key if all are there."""
    there = {entry.key.digest for entry in entries} if outcome != "hit" else set()
    key = next((slot.key for slot in slots if slot.key.digest not in there), None)
    size, spared = 0, 0.0
    if outcome == "hit":
        size = sum(len(entry.parts["binary"]) for entry in entries)
        # One build serves all devices; each entry records it.
        spared = max(recorded_seconds(entry) for entry in entries)
    places = tuple([(slot.address, slot.key) for slot in slots])
    return Look(outcome, reason, key, "", places, tuple(entries), size, spared, beside=slots)


class ContextBuilds(process.LockedState):
    """The Build of each context in use.

    A Build keeps its context alive, so no other context can get the same handle.
    """

    def __init__(self) -> None:
        super().__init__()
        # By the handle of the context.
        self.builds: weakref.WeakValueDictionary[int, Build] = weakref.WeakValueDictionary()

    def on_change(self) -> None:
        """Forget the stages, since their programs were looked up in another place."""
        self.builds = weakref.WeakValueDictionary()


_state = process.own(ContextBuilds)


def is_current(build: Build) -> bool:
    """Return True if a stage belongs to the current place of kcl's files."""
    return _state().builds.get(build.context.int_ptr) is build


def build_of(context: cl.Context, driver_of: Callable[[cl.Context], Driver]) -> Build:
    """Return the stage of a context, or make it with its driver."""
    state, handle = _state(), context.int_ptr
    builds = state.builds
    build = builds.get(handle)
    if build is not None:
        return build
    # A second Python object for the same context: the stage must not keep the user's object alive.
    own = cl.Context.from_int_ptr(handle, retain=True)
    build = Build(own, driver_of(own))
    # The lock is taken only here, since the line above may import the driver. Another thread may have been faster.
    with state.lock:
        return builds.setdefault(handle, build)
