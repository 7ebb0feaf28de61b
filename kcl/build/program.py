"""Generated code to a program that is built: through the binary layer, or from source and into it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl import caches, events, settings
from kcl import settings as option
from kcl.build import compiler
from kcl.drivers.pocl import completing
from kcl.cache import layers
from kcl.caches import postponed
from kcl.build.options import BuildOptions, build_options
from kcl.drivers.pocl.completing import Job
from kcl.drivers.identity import identity, is_pocl
from kcl.cache.entry import Entry, recorded_seconds
from kcl.errors import CacheFault, UnknownInput
from kcl.events import Event
from kcl.cache.key import Key, Part
from kcl.build.kernels import new_kernel
from kcl.cache.makers import Makers
from kcl.namedtuple import NamedTuple
from kcl.build.preprocessor import may_read
from kcl.cache.stores.base import address

if TYPE_CHECKING:
    from kcl.drivers.pocl.prebuild import Ahead, Made
    from kcl.cache.flight import Flight
    from kcl.generate.code import Generated

FORMAT = "1"
NVIDIA = "NVIDIA CUDA"
# What a process waits for an entry that a helper is still completing, and in all, before it builds programs itself;
# where only a hit will do, waiting is all that is left.
_PATIENCE = 2.0
_PATIENCE_IN_ALL = 10.0
_STRICT_PATIENCE = 60.0

_waited = 0.0


class Home:
    """One context with what is known about it; its programs live as long as the user's queues and contexts do."""

    __slots__ = (
        "__weakref__",
        "_devices",
        "_identities",
        "_make",
        "_on_pocl",
        "_options",
        "ahead",
        "context",
        "makers",
        "programs",
    )

    def __init__(self, context: cl.Context) -> None:
        postponed.module("pyopencl.invoker")  # the first cl.Kernel would import it: slow, and fatal on a bad cache
        self.context = context
        self.ahead: Ahead | None = None
        self.programs: weakref.WeakValueDictionary[str, Built] = weakref.WeakValueDictionary()
        # Threads that need the same program at once build it once; those that need another one do not wait.
        self.makers = Makers()
        self._devices: list[tuple[cl.Device, str]] | None = None
        self._identities: list[tuple[Part, ...]] | None = None
        self._options: dict[tuple[object, ...], BuildOptions] = {}
        self._make: Callable[[cl.Program, str], cl.Kernel] | None = None
        self._on_pocl: bool | None = None

    @property
    def on_pocl(self) -> bool:
        """Whether PoCL drives all devices of the context."""
        if self._on_pocl is None:
            self._on_pocl = all(is_pocl(device) for device, _name in self.devices)
        return self._on_pocl

    @property
    def devices(self) -> list[tuple[cl.Device, str]]:
        """The devices of the context with their names, in its order: asking costs more than a look-up in memory."""
        if self._devices is None:
            self._devices = [(device, device.name) for device in self.context.devices]
        return self._devices

    @property
    def identities(self) -> list[tuple[Part, ...]]:
        """The identity of each device of the context, in its order."""
        if self._identities is None:
            self._identities = [identity(device) for device in self.context.devices]
        return self._identities

    def kernels(self, program: cl.Program, names: Iterable[str]) -> dict[str, cl.Kernel]:
        """Return new kernel objects, to be launched by an invoker."""
        if self._make is None:
            # For NVIDIA's devices pyopencl also looks, as it makes a kernel, whether its arguments are too large.
            on_nvidia = any("cl_nv_device_attribute_query" in device.extensions for device, _name in self.devices)
            self._make = cl.Kernel if on_nvidia else new_kernel
        return {name: self._make(program, name) for name in names}

    def options(self, given: tuple[str, ...]) -> BuildOptions:
        """Return options as the driver gets them now; raises UnknownInput as `build_options` does."""
        if any(" " in option for option in given):  # how it is passed on depends on what is on disk
            return build_options(self.context, given)
        beside = (given, settings.variable("PYOPENCL_BUILD_OPTIONS"), *caches.code_variables())
        found = self._options.get(beside)
        if found is None:
            found = self._options[beside] = build_options(self.context, given)
        return found


class Built:
    """A built program; alive as long as a launcher, a queue or a context of the user holds it."""

    __slots__ = ("__weakref__", "_spare", "flight", "home", "jobs", "program", "stored")

    def __init__(self, home: Home, program: cl.Program, spare: dict[str, cl.Kernel] | None = None) -> None:
        self.home = home
        self.program = program
        self.jobs: tuple[Job, ...] = ()
        self.flight: Flight | None = None  # what others wait for, until the jobs are written
        self.stored: tuple[Slot, ...] = ()  # the entries that it was made of, until its results were compared
        self._spare = [spare] if spare else []

    def kernels(self, names: Iterable[str]) -> dict[str, cl.Kernel]:
        """Return kernel objects of these names that nobody else has: one thread must not set another's arguments."""
        try:
            return self._spare.pop()
        except IndexError:
            return self.home.kernels(self.program, names)


class Slot(NamedTuple):
    """The place of one program on one device in the binary layer."""

    device: cl.Device
    key: Key
    address: str
    options: BuildOptions


class Look(NamedTuple):
    """What was found for a program: the entries that are there, of a slot for each device, and the worst outcome."""

    slots: list[Slot]
    entries: list[Entry]
    outcome: str
    reason: str
    made: Made | None = None  # what was made of the entry ahead

    @property
    def there(self) -> frozenset[str]:
        """The digests of the entries."""
        return frozenset([entry.key.digest for entry in self.entries])

    @property
    def key(self) -> Key | None:
        """The first key, of those that have no entry where it is no hit; None where there is no such."""
        there = () if self.outcome == "hit" else self.there
        return next((slot.key for slot in self.slots if slot.key.digest not in there), None)

    def event(self, kernel: str, seconds: float = 0.0, size: int = 0, saved: float = 0.0) -> Event:
        """Return the event of the look-up."""
        key = self.key
        return Event("binary", kernel, key.digest if key else "", self.outcome, self.reason, seconds, size, saved)


# The context of a living Home lives, so its handle is nobody else's: comparing handles is safe here.
_homes: weakref.WeakSet[Home] = weakref.WeakSet()
_lock = threading.RLock()  # a signal handler may launch in the same thread


def home_of(context: cl.Context) -> Home:
    """Return what is known about `context`, or begin to know it."""
    with _lock:
        for home in tuple(_homes):
            if home.context == context:
                return home
        home = Home(context)
        _homes.add(home)
        return home


class Lead(NamedTuple):
    """How the caller of `built` and other threads and processes share work on the code that the program is built from.

    `wait` waits until who makes that code has the lead for the program; `land` lets go of who waits for the caller.
    """

    wait: Callable[[], object] = lambda: None
    land: Callable[[], object] = lambda: None


ALONE = Lead()


def built(
    home: Home,
    generated: Generated,
    digest: str,
    arguments: Mapping[str, Any] | None = None,
    lead: Lead = ALONE,
) -> Built:
    """Return the program of `generated`: one that lives, one from the binary layer, or a new build.

    `digest` stands for `generated` and its headers; a new entry keeps the shapes of the `arguments` that it is built
    for. A thread that waits for another one holds nothing that this other one may want. Raises pyopencl's own error
    where the source does not compile.
    """
    search = _Search(home, generated, arguments, lead)
    found = search.result(digest, search.first)
    if found is None:
        lead.wait()
        found = search.result(digest, search.second)
    assert found is not None
    return found


def compiled(home: Home, generated: Generated) -> Built:
    """Build from source; the program is nobody else's and is not stored."""
    return Built(home, compiler.from_source(home.context, generated, _header_mark(home.context, generated)))


def rebuilt(home: Home, generated: Generated, digest: str, slots: list[Slot]) -> Built:
    """Build from source in place of entries that were set aside, and store the new ones."""
    with home.makers.turn(digest, generated.kernel, ALONE.land):
        found, _size = _from_source(home, generated, slots)
        home.programs[digest] = found
        return found


def slots_of(home: Home, generated: Generated) -> list[Slot]:
    """Return the key of the program for each device; raises UnknownInput where the headers cannot be known."""
    options = home.options(generated.options)
    common = [
        Part("format", FORMAT),
        Part("source", hashlib.sha256(generated.source.encode("utf-8", "surrogatepass")).hexdigest()),
        Part("options", options.part),
        *_header_parts(generated.source, options),
    ]
    slots = []
    for (device, name), parts in zip(home.devices, home.identities, strict=True):
        key = Key([*common, *parts])
        slots.append(Slot(device, key, address(key.digest, name, generated.kernels[0]), options))
    return slots


def headers_digest(context: cl.Context, generated: Generated) -> str:
    """Digest what the headers hold now: empty where there are none, new every time where it cannot be known."""
    if not may_read(generated.source):
        return ""
    try:
        parts = _header_parts(generated.source, build_options(context, generated.options))
    except UnknownInput:
        parts = [Part("unknown", os.urandom(16).hex())]
    return Key(parts).digest if parts else ""


def launched(found: Built) -> None:
    """Tell that the program was launched: what the driver specialises will be there, so the entry can be completed."""
    jobs, found.jobs = found.jobs, ()
    completing.launched(jobs)
    flight, found.flight = found.flight, None
    if flight is not None:
        flight.land()


def inspect(home: Home, generated: Generated) -> tuple[str, str]:
    """Say what a look-up would find now, as (outcome, reason), without building anything."""
    layer = layers.binary()
    if layer.off():
        return "bypass", f"off: {layer.off()}"
    try:
        found = [layer.look_up(slot.address, slot.key) for slot in slots_of(home, generated)]
    except UnknownInput as error:
        return "bypass", str(error)
    worst = next((one for one in found if one.entry is None), found[0])
    return worst.outcome, worst.reason


class _Search:
    """The search for a program: in the context, in the layer, and after a wait for others in the layer once more."""

    def __init__(self, home: Home, generated: Generated, arguments: Mapping[str, Any] | None, lead: Lead) -> None:
        self._home = home
        self._generated = generated
        self._arguments = arguments
        self._lead = lead
        self._layer = layers.binary()
        self._started = time.perf_counter()
        self._slots: list[Slot] = []

    def result(self, digest: str, make: Callable[[], Built | None]) -> Built | None:
        """Return the program that lives in the context, or what `make` returns; one thread makes it."""
        with self._home.makers.turn(digest, self._generated.kernel, self._lead.land):
            found = self._home.programs.get(digest)
            if found is None:
                found = make()
                if found is not None:
                    self._home.programs[digest] = found
            return found

    def first(self) -> Built | None:
        """Return the program, of the layer or of source; None for a miss that others may be making."""
        look = _look(self._layer, self._home, self._generated)
        self._slots = look.slots
        if look.outcome == "miss" and "hit" not in self._layer.strict:
            return None
        return self._made(look)

    def second(self) -> Built:
        """Return the program of a miss: take the lead for it, or wait for who has it, and look again."""
        name = self._generated.kernel
        together = Key([Part("program key", slot.key.digest) for slot in self._slots])
        flight = self._layer.join(together.digest, name, self._lead.land)
        self._lead.land()
        try:
            look = _find(self._layer, self._slots, name)
            if look.outcome == "hit" and flight is not None:
                flight.land()
                look = look._replace(reason=look.reason or f"{flight.by} built it meanwhile")
            found = self._made(look)
            if found.jobs:  # the others go on when the helper is asked, after the first launch
                found.flight, flight = flight, None
            return found
        finally:
            if flight is not None:
                flight.land()

    def _made(self, look: Look) -> Built:
        """Make the program of the entries that were found, else of source, and report."""
        layer, home, generated = self._layer, self._home, self._generated
        if look.outcome == "hit":
            try:
                found = loaded(home, generated, look.slots, look.entries, look.made)
                # One build for all devices, of which each entry tells.
                spared = max(recorded_seconds(entry) for entry in look.entries)
                size = sum(len(entry.parts["binary"]) for entry in look.entries)
            except Exception as error:
                for slot, entry in zip(look.slots, look.entries, strict=True):
                    layer.set_aside(slot.address, entry.pack(), error)
                look = Look(look.slots, [], "error", f"the driver refused the binary: {error}")
            else:
                _report(look, generated.kernel, time.perf_counter() - self._started, size, spared)
                return found
        layer.demand_hit(look.event(generated.kernel), look.key)
        size = 0
        try:
            found, size = _from_source(home, generated, look.slots, self._arguments, look.there)
        finally:
            _report(look, generated.kernel, time.perf_counter() - self._started, size)
        return found


def _report(look: Look, kernel: str, seconds: float, size: int, spared: float = 0.0) -> None:
    """Emit the event of a look-up, and a hit for each of the other devices whose entry was there."""
    hit, event = look.outcome == "hit", look.event(kernel, seconds, size, spared and spared - seconds)
    events.emit(event, look.key, [event.key] if hit else ())
    reason = "" if hit else "another device of the context missed: built from source with it"
    others = look.there - {event.key}
    for digest, key in {slot.key.digest: slot.key for slot in look.slots if slot.key.digest in others}.items():
        events.emit(Event(event.layer, kernel, digest, "hit", reason, 0.0, 0), key, [digest])


def _look(layer: layers.Layer, home: Home, generated: Generated) -> Look:
    """Look in the binary layer, and before that among what was made ahead."""
    off = layer.off()
    if off:
        return Look([], [], "bypass", f"off: {off}")
    try:
        slots = slots_of(home, generated)
    except UnknownInput as error:
        return Look([], [], "bypass", str(error))
    made = _made_ahead(layer, home, slots)
    if made is not None:
        return Look(slots, [made.entry], "hit", "made ahead", made)
    return _find(layer, slots, generated.kernel)


def _made_ahead(layer: layers.Layer, home: Home, slots: list[Slot]) -> Made | None:
    """Return the program if it was made ahead: on PoCL while its cache is on, for contexts of one device."""
    if not (layer.ahead and len(slots) == 1 and home.on_pocl):
        return None
    try:
        if home.ahead is None or home.ahead.layer is not layer:
            from kcl.drivers.pocl.prebuild import Ahead

            if not caches.state("pocl").on:
                # PoCL removes the files of a program then as it is released, those of its like with them.
                layer.ahead = False
                return None
            home.ahead = Ahead(layer, home.context, slots[0])
        return home.ahead.take(slots[0])
    except Exception as error:
        layer.ahead = False
        layer.fault("make programs ahead", error)
        return None


def _find(layer: layers.Layer, slots: list[Slot], kernel: str) -> Look:
    """Look for the entry of each device."""
    entries, outcome, reason = [], "hit", ""
    for slot in slots:
        found = layer.look_up(slot.address, slot.key)
        if found.outcome == "miss" and _awaited(layer, slot, kernel):
            found = layer.look_up(slot.address, slot.key)
            reason = reason or "waited for the helper that completes it"
        if found.entry is not None:
            entries.append(found.entry)
        elif outcome != "error":
            outcome, reason = found.outcome, found.reason
    return Look(slots, entries, outcome, reason)


def _awaited(layer: layers.Layer, slot: Slot, kernel: str) -> bool:
    """Wait for the helper that is making the entry of `slot`; False where there is none, or it takes too long."""
    global _waited
    if not is_pocl(slot.device):
        return False
    folder, digest = option.folder("kcl"), slot.key.digest
    started = time.monotonic()
    try:
        from kcl.drivers import pocl

        if not pocl.pending(folder, digest):
            return False
        patience = _STRICT_PATIENCE if "hit" in layer.strict else min(_PATIENCE, _PATIENCE_IN_ALL - _waited)
        return pocl.wait(folder, digest, patience, settings.environment(), kernel)
    except (OSError, ImportError, CacheFault) as error:
        layer.fault("wait for the helper", error)
        return False
    finally:
        _waited += time.monotonic() - started


def loaded(
    home: Home, generated: Generated, slots: list[Slot], entries: list[Entry], made: Made | None = None
) -> Built:
    """Create the program and its kernels; raises what the driver raises for a binary that it does not take.

    `made` is what was made of the entry already.
    """
    silent = slots[0].options if home.on_pocl else None
    if made is not None:
        program = made.program
    else:
        program = compiler.of_binaries(home.context, [slot.device for slot in slots], entries)
    compiler.finish(program, generated, entries, silent, made is not None and made.is_built)
    found = Built(home, program, home.kernels(program, generated.kernels))
    found.stored = tuple(slots)
    for slot, entry in zip(slots, entries, strict=True):
        completing.loaded(slot.address, entry, slot.options.text)
    return found


def _from_source(
    home: Home,
    generated: Generated,
    slots: list[Slot],
    arguments: Mapping[str, Any] | None = None,
    there: frozenset[str] = frozenset(),
) -> tuple[Built, int]:
    """Build, and publish what the driver gives out at once and is not `there`: (program, bytes published)."""
    from kcl.build import publishing  # needed on a miss only

    started = time.perf_counter()
    found, size = compiled(home, generated), 0
    seconds = time.perf_counter() - started
    if slots and not _headers_stand(home.context, generated, slots[0]):
        return found, 0
    wanted = {slot.key.digest: (slot, log) for slot, log in zip(slots, compiler.logs(found.program), strict=False)}
    for slot, log in [pair for digest, pair in wanted.items() if digest not in there]:
        entry = publishing.entry_of(generated, slot, log, seconds, arguments)
        if is_pocl(slot.device):
            # PoCL compiles a generic function of every kernel when it is asked for the binary.
            found.jobs += (Job(slot.address, entry),)
        else:
            size += publishing.publish(found.program, slot, entry)
    return found, size


def _headers_stand(context: cl.Context, generated: Generated, slot: Slot) -> bool:
    """Tell whether the headers are those of the key: the driver read them later than we did."""
    before = [part for part in slot.key.parts if part.name.startswith("header ")]
    if not before:
        return True
    try:
        now = _header_parts(generated.source, build_options(context, generated.options))
    except UnknownInput:
        return False
    return now == before


def _header_mark(context: cl.Context, generated: Generated) -> str:
    if context.devices[0].platform.name != NVIDIA or "#include" not in generated.source.replace(" ", ""):
        return ""
    # NVIDIA's ComputeCache does not see a changed header; a definition that nobody reads makes it look again.
    return f"-DKCL_HEADERS_{headers_digest(context, generated)[:32]}"


def _header_parts(source: str, options: BuildOptions) -> list[Part]:
    """Return the parts of headers; most programs have none, and what reads them is not imported for those."""
    if not may_read(source):
        return []
    from kcl.build.headers import header_parts

    return header_parts(source, options)
