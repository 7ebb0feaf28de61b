"""Completing entries: when programs are handed to a helper, for drivers that are slow to give out a binary (PoCL).

A process writes the job of a program at its first launch. `KCL_PROMOTE` says when a helper is started: `background`
with the first job, `exit` as the process ends, `off` never by itself. `flush` starts one now, whatever the variable
says. Entries that were found are checked too: if the driver compiled for a launch size that the entry lacks, the hit
was partial, and the entry is completed in the same way.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kcl import caches
from kcl.base import events, process
from kcl.base.settings import option
from kcl.build.driver import Promise
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.errors import CacheFault

if TYPE_CHECKING:
    import pyopencl as cl

Progress = Callable[[int, int], object]

_PARTIAL = "partial hit"


class LoadedProgram(NamedTuple):
    """A program made of an entry: the entry's address, its content, the options as the driver got them, the device.

    The device is None for an entry of this machine. An entry that was made elsewhere may name an equal device.
    """

    address: str
    key: Key
    kernel: str
    place: str
    sizes: dict[str, list[str]]
    options: str
    device: cl.Device | None = None


Thing = TypeVar("Thing", Promise, LoadedProgram)


class State:
    """The programs that were launched and loaded, by address: any number of contexts may share one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.unseen: dict[str, Promise] = {}
        self.requested: dict[str, Promise] = {}  # a helper may have these; later launches may have had other sizes
        self.loaded: dict[str, LoadedProgram] = {}

    def at_exit(self) -> None:
        """Have a helper do what is left."""
        if layers.binary().chosen.promote != "off" and (self.unseen or self.requested or self.loaded):
            _hand_over(self)
            if self.requested:
                start()

    before_change = at_exit


_state = process.own(State)


def launched(jobs: tuple[Promise, ...]) -> None:
    """Take the jobs of a launched program: the driver will have compiled its code for the launch."""
    if jobs:
        _request(jobs)
        _keep(_state().requested, jobs)
        if layers.binary().chosen.promote == "background":
            start()


def unseen(jobs: tuple[Promise, ...]) -> None:
    """Take the jobs of a program whose launches kcl does not see; a helper does them after the end of the process."""
    _request(jobs, unseen=True)
    _keep(_state().unseen, jobs)


def loaded(address: str, entry: Entry, options: str, device: cl.Device) -> None:
    """Remember a program made of an entry, to check at the end whether the entry lacked any code."""
    found = _loaded(address, entry, options)
    if found is not None and layers.binary().chosen.promote != "off":
        _keep(_state().loaded, (found._replace(device=device),))


def _loaded(address: str, entry: Entry, options: str) -> LoadedProgram | None:
    about = entry.metadata
    place = about.get("place")
    return place and LoadedProgram(address, entry.key, about["kernel"], place, about["specialisations"], options)


def flush(seconds: float = 600.0, progress: Progress | None = None) -> bool:
    """Complete the entries of all programs that this process launched, and wait for it; documented at `kcl.flush`."""
    state = _state()
    folder = option.folder("kcl")
    try:
        from kcl.cache.progress import ProgressLine
        from kcl.drivers.pocl import client

        with ProgressLine() as line:
            told = progress or (lambda done, total: line.say(f"completing entries: {done} of {total}"))
            if state.requested:  # a job in work may lack the size of a later launch
                client.idle(folder, seconds, told, starts=True)
            _hand_over(state)
            client.start(folder)
            done = client.idle(folder, seconds, told, starts=True)
        client.dismiss(folder)
        return done
    except (OSError, ImportError, CacheFault) as error:
        layers.binary().fault("wait for the helper", error)
        return False


def start() -> None:
    """Make sure that a helper works on the jobs, if there are any; raises nothing."""
    try:
        from kcl.drivers.pocl import client

        client.start(option.folder("kcl"))
    except (OSError, ImportError, CacheFault) as error:
        layers.binary().fault("start the helper", error)


def _keep(kept: dict[str, Thing], new: tuple[Thing, ...]) -> None:
    with _state().lock:
        kept.update({one.address: one for one in new})


def _hand_over(state: State) -> None:
    """Write jobs for the code that PoCL compiled and no entry has: of unseen programs, and of later launches."""
    with state.lock:
        unseen, requested, programs = [*state.unseen.values()], [*state.requested.values()], [*state.loaded.values()]
        state.requested.update(state.unseen)
        state.unseen.clear()
    try:
        lacking = _partial(programs, _PARTIAL) + _partial(_completed(requested), "launched later")
        _request((*unseen, *lacking))
        _keep(state.requested, lacking)
    except (OSError, ImportError, CacheFault, ValueError) as error:
        layers.binary().fault("complete entries", error)


def _request(jobs: tuple[Promise, ...], unseen: bool = False) -> None:
    for job in jobs:
        try:
            from kcl.drivers.pocl import client

            client.request(option.folder("kcl"), job.address, job.entry, unseen)
        except Exception as error:
            layers.binary().fault("ask a helper for the binary", error)


def _completed(requested: Iterable[Promise]) -> list[LoadedProgram]:
    """Return the entries that a helper has completed since: they cover the launch sizes until then."""
    found = []
    for job in requested:
        entry = layers.binary().look_up(job.address, job.entry.key).entry
        loaded = _loaded(job.address, entry, job.entry.metadata["build_options"]) if entry is not None else None
        if loaded is not None:
            found.append(loaded)
    return found


def _partial(programs: list[LoadedProgram], words: str) -> tuple[Promise, ...]:
    """Return the jobs of programs for which the driver compiled code that their entry lacks."""
    if not programs or not caches.state("pocl").on:
        return ()
    cache = os.path.abspath(caches.directory_in_use("pocl"))
    jobs, lacked = [], Counter[str]()
    for program in programs:
        found = layers.binary().look_up(program.address, program.key) if _lacking(cache, program) else None
        if found is None or found.entry is None:
            continue
        lacking = _lacking(cache, program._replace(sizes=found.entry.metadata.get("specialisations", {})))
        if lacking:
            jobs.append(Promise(program.address, _job_of(found.entry, program, cache)))
            lacked[" and ".join(lacking)] += 1
    for code, count in lacked.items():
        entries = "the entry lacks" if count == 1 else f"the entries of {count} programs lack"
        note = f"{words}: PoCL compiled {code}, which {entries}; a helper adds it: `python -m kcl wait` waits for that"
        events.logger().info("%s", note)
        if words == _PARTIAL:
            layers.binary().notes.append(note)
    return tuple(jobs)


def _lacking(cache: str, program: LoadedProgram) -> list[str]:
    """Name the code that PoCL has and the entry lacks, also for kernels that the entry does not name."""
    from kcl.drivers.pocl import private

    there = private.sizes_by_kernel(private.specialised_paths(cache, program.place))
    known = {kernel: {private.GENERIC, *program.sizes.get(kernel, ())} for kernel in there}
    return [_launch(kernel, size) for kernel, sizes in there.items() for size in sizes if size not in known[kernel]]


def _launch(kernel: str, size: str) -> str:
    """Name the launches that PoCL's code of a size serves, for example `64-1-1-goffs0-smallgrid`."""
    *axes, flags = f"{size}-".split("-", 3)
    while len(axes) > 1 and axes[-1] == "1":
        axes.pop()
    local = axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
    offset = "" if "goffs0" in flags else " with a global offset"
    return f"{kernel} at local size {local}{offset}{'' if 'smallgrid' in flags else ' in a large grid'}"


def _job_of(entry: Entry, program: LoadedProgram, cache: str) -> Entry:
    about: dict[str, Any] = {"binaries": layers.binary().place, "build_options": program.options, "pocl_cache": cache}
    if program.device is not None:
        about["device"] = {"name": program.device.name, "driver": program.device.driver_version}
    parts = {name: part for name, part in entry.parts.items() if name != "binary"}
    return Entry(entry.key, {**entry.metadata, **about, "created": int(time.time())}, parts)
