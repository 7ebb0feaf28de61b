"""Build, the second stage: from a program text to a program that is built, through the binary layer."""

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

    `holder` is the user's own pyopencl program, if the build is for one: nothing else gets what is built, and kcl does
    not see its launches. `site` is the line of the program that builds it, for display.
    """

    text: ProgramText
    holder: cl.Program | None = None
    site: str = ""


class BuiltProgram:
    """A built program; alive as long as a launcher, a queue or a context of the user holds it.

    The Kernels of one text share one program, unless its variables outlive a launch (`Build.keeps_state`).
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
        # True if the program was made of entries.
        self.is_stored = False
        # The compiler's messages from the build of the source, by device.
        self.logs: tuple[str, ...] = ()
        # What its entries lack; None for a program that was made of entries.
        self.unfinished: UnfinishedEntries | None = None

    def kernels(self, names: Sequence[str]) -> dict[str, cl.Kernel]:
        """Return new kernel objects, for one thread alone; raises RecipeError where the program has none."""
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

        `own_events` are those known to be of its queue. Without them it does not learn from its calls.
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
        """Have the entries completed as the program is: without a launch the driver specialises no code."""
        if self.unfinished is not None:
            self.unfinished.note_prepared()

    def note_call(self, launcher: Launcher, arguments: Mapping[str, Any] | None = None) -> None:
        """Note that the kernels of a launcher were launched, with these arguments if they are known."""
        if self.unfinished is None:
            return

        def note(known: Mapping[str, Any]) -> dict[str, Any]:
            # Imported on a miss.
            from kcl.launch import first

            return first.noted(launcher.invoke, launcher.kernels, known)

        noted = dict if arguments is None else functools.partial(note, arguments)
        self.unfinished.note_launches(launcher.names, noted)


def _learn(launcher: Launcher, queue: cl.CommandQueue, arguments: dict[str, Any]) -> Play | None:
    # Imported when a kernel turns out to be called often.
    from kcl.launch import replay

    return replay.learn(launcher, queue, arguments)


class Build(Stage[BuildRequest]):
    """The stage of one context, with the facts known about it. Programs live as long as the user's queues.

    `program` lets one thread at a time ask for one program. The OpenCL C of a miss stands in the row of the generator
    layer.
    """

    verb = "built"
    unusable = "the driver refused the binary"

    def __init__(self, context: cl.Context, driver: Driver) -> None:
        # The first `cl.Kernel` would import `pyopencl.invoker`: slow, and fatal on a bad cache.
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
        """The devices of the context with their folders, in its order: asking costs more than a look-up in memory."""
        return [(device, self.driver.folder(device)) for device in self.context.devices]

    @computed_once
    def identities(self) -> list[tuple[Part, ...]]:
        """The identity of each device of the context, in its order."""
        return [self.driver.identity(device) for device, _folder in self.devices]

    @computed_once
    def untried(self) -> str:
        """The reason why nothing is stored for a device of the context; empty where entries are stored."""
        return next(filter(None, [self.driver.untried(device) for device, _ in self.devices]), "")

    def off(self, _wanted: BuildRequest) -> str:
        """Return why the layer is off, or why nothing is stored for these devices."""
        return self.layer.off() or self.untried

    def options(self, flags: tuple[str, ...]) -> BuildOptions:
        """Return options as the driver gets them now; raises UnknownInput as `build_options` does."""
        return build_options(self.context, flags, self.driver.added_options())

    def slots(self, text: ProgramText) -> list[ProgramSlot]:
        """Return the slot of a program for each device; raises UnknownInput where the headers cannot be known."""
        now = variables()
        devices = [
            (*device, (*parts, *now))
            for device, parts in zip(self.devices, self.identities, strict=True)
        ]
        return slots_of(text, self.options(text.options), devices)

    def headers_digest(self, text: ProgramText) -> str:
        """Digest what a build reads beside the text now: headers, and variables of drivers; empty if there are none.

        New every time if the headers cannot be known.
        """
        parts = [*variables()]
        if may_read(text.source):
            try:
                parts += header_parts(text.source, self.options(text.options))
            except UnknownInput:
                parts.append(Part("unknown", os.urandom(16).hex()))
        return Key(parts).digest if parts else ""

    def keeps_state(self, text: ProgramText) -> bool:
        """Return True if a program may have variables that outlive a launch, which OpenCL C 1 does not have."""
        try:
            options = self.options(text.options)
        except UnknownInput:
            return True
        # Without a language a driver takes OpenCL C 1.
        flags = (*options.flags, *options.beside.split())
        return any("std" in flag.lower() and not flag.startswith("-cl-std=CL1") for flag in flags)

    @staticmethod
    def digest(text: ProgramText, headers: str) -> str:
        """Digest a program text with the content of its headers; the choice of kernels makes no difference."""
        beside = f"{text.options!r} {headers} {text.source}"
        return hashlib.sha256(beside.encode("utf-8", "surrogatepass")).hexdigest()

    def program(self, wanted: BuildRequest, digest: str, lead: Lead) -> BuiltProgram:
        """Return a program for Kernels: a living one, one from the binary layer, or a new build.

        `digest` stands for the text and its headers. Raises pyopencl's own error where the source does not compile, and
        what the user's filters make of the compiler's warning.
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
        """Build from source; no other launcher shares the program, and it is not stored."""
        from kcl.programs import compilation

        mark = self.driver.mark(text.source, lambda: self.headers_digest(text))
        # A hit spared the driver the build at which it would have read them.
        with (
            spans.span("build", text.kernel, self.layer.name),
            foreign.variables(foreign.read_variables()),
        ):
            source = self.driver.given(text.source)
            return BuiltProgram(
                self, compilation.from_source(self.context, text, source, mark, holder)
            )

    def rebuilt(self, wanted: BuildRequest, digest: str, slots: list[ProgramSlot]) -> BuiltProgram:
        """Build from source, whatever the layer holds, and store the entries."""
        made = self.make(wanted, Look("error", beside=slots))
        for address, entry in made.publish:
            self.layer.publish(address, entry)
        built: BuiltProgram = made.value
        self._programs[digest] = built
        return built

    # the verbs of the look-up

    def name(self, wanted: BuildRequest) -> str:
        """The name of the kernel."""
        return wanted.text.kernel

    def lead_digest(self, _wanted: BuildRequest, look: Look) -> str:
        """Return the digest of the keys for all devices."""
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
        """Create the program and its kernels; raises the driver's error for a binary that it refuses."""
        text = wanted.text
        for entry in look.entries:
            self.driver.loading(entry)
        slots: list[ProgramSlot] = look.beside
        devices = [slot.device for slot in slots]
        built = BuiltProgram(
            self, of_binaries(self.context, devices, look.entries, text, slots[0].options)
        )
        # This raises for a kernel that is not there.
        built.kernels(text.kernels)
        built.is_stored = True
        built.logs = tuple(map(_log, look.entries, slots))
        for slot, entry in zip(slots, look.entries, strict=True):
            self.driver.loaded(slot, entry)
            self._dump(text, slot.address, entry)
        return look._replace(value=built)

    def make(self, wanted: BuildRequest, look: Look) -> Look:
        """Build from source, with the entries that the driver completes at once, and promises of the others."""
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
        """Build, and keep nothing; raises pyopencl's own error where the source does not compile."""
        try:
            self.from_source(wanted.text, wanted.holder)
        except cl.Error:
            raise
        except Exception as error:
            events.logger().info("kernel %r was not built: %r", wanted.text.kernel, error)
        return ""

    def explain_error(self, error: BaseException) -> str:
        """Return that the source does not compile, with the first error in the compiler's log."""
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
    """Return a look with the key of the first missing entry, or the first key where no entry is missing."""
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
    """The stages of the contexts that are in use.

    The context of a living Build lives, so no other context has its handle.
    """

    def __init__(self) -> None:
        super().__init__()
        # By the handle of the context.
        self.builds: weakref.WeakValueDictionary[int, Build] = weakref.WeakValueDictionary()

    def on_change(self) -> None:
        """Forget the stages: their programs were looked up elsewhere."""
        self.builds = weakref.WeakValueDictionary()


_state = process.own(ContextBuilds)


def is_current(build: Build) -> bool:
    """Return True if a stage looked up its programs in the current place of kcl's files."""
    return _state().builds.get(build.context.int_ptr) is build


def build_of(context: cl.Context, driver_of: Callable[[cl.Context], Driver]) -> Build:
    """Return the stage of a context, or make it with its driver."""
    state, handle = _state(), context.int_ptr
    builds = state.builds
    build = builds.get(handle)
    if build is not None:
        return build
    # A second object for the same context: the bindings of the user's object must not keep that object alive.
    own = cl.Context.from_int_ptr(handle, retain=True)
    build = Build(own, driver_of(own))
    # Without the lock up to here: the driver may be imported. Another thread may have been faster.
    with state.lock:
        return builds.setdefault(handle, build)
