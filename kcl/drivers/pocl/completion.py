"""Completing entries: when programs are handed to a helper, for drivers that are slow to give out a binary (PoCL).

A process writes the job of a program at its first launch. `KCL_PROMOTE` says when a helper is started: `background`
with the first job, `exit` as the process ends, `off` never by itself. `flush` starts one now, whatever the variable
says. Entries that were found are checked too: if the driver compiled for a launch size that the entry lacks, the hit
was partial, and the entry is completed in the same way.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl import caches
from kcl.base import events, process
from kcl.base.settings import option
from kcl.build.driver import Progress, Promise
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.errors import CacheFault

if TYPE_CHECKING:
    import pyopencl as cl


class UsedProgram(NamedTuple):
    """A program whose code may lack in its entry: it was made of the entry, or its job was written.

    `about` are the metadata of the entry, None if there was no entry. The device is None for an entry of this machine:
    an entry that was made elsewhere may name an equal device.
    """

    address: str
    key: Key
    options: str
    about: Mapping[str, Any] | None = None
    device: cl.Device | None = None


class State:
    """The programs that were launched and loaded, by address: any number of contexts may share one.

    `unseen` are the addresses of programs whose launches kcl does not see: their code is there as the process ends.
    """

    def __init__(self) -> None:
        self.used: dict[str, UsedProgram] = {}
        self.unseen: set[str] = set()
        self.has_asked = False  # this process has written a job

    def at_exit(self) -> None:
        """Have a helper do what is left."""
        if layers.binary().chosen.promote != "off":
            _hand_over(self)
            if self.has_asked:
                start()

    before_change = at_exit


_state = process.own(State)


def launched(promises: tuple[Promise, ...]) -> None:
    """Write jobs for a launched program: the driver will have compiled its code. Start a helper if it is time."""
    if promises:
        _request(promises)
        if layers.binary().chosen.promote == "background":
            start()


def unseen(promises: tuple[Promise, ...]) -> None:
    """Write jobs for a program whose launches kcl does not see; no helper is started for them before the end."""
    _request(promises)
    _state().unseen.update([job.address for job in promises])


def loaded(address: str, entry: Entry, options: str, device: cl.Device) -> None:
    """Remember a program made of an entry, to check at the end whether the entry lacked any code."""
    if entry.metadata.get("place") and layers.binary().chosen.promote != "off":
        _state().used[address] = UsedProgram(address, entry.key, options, entry.metadata, device)


def flush(seconds: float, progress: Progress | None, starts: bool) -> bool:
    """Complete the entries of all programs that this process launched, and wait for it; documented at `kcl.flush`."""
    state, folder = _state(), option.folder("kcl")
    try:
        from kcl.cache.progress import ProgressLine
        from kcl.drivers.pocl import client

        if not starts:
            return client.idle(folder, seconds, progress)
        with ProgressLine() as line:
            told = progress or (lambda done, total: line.say(f"completing entries: {done} of {total}"))
            if state.has_asked:  # a job in work may lack the size of a later launch
                client.idle(folder, seconds, told, starts=True)
            _hand_over(state)
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


def _hand_over(state: State) -> None:
    """Write jobs for the code that PoCL compiled and no entry has."""
    state.unseen.clear()
    try:
        _request(_partial(list(state.used.values())))
    except (OSError, ImportError, CacheFault, ValueError) as error:
        layers.binary().fault("complete entries", error)


def is_unseen(address: str) -> bool:
    """Return True if this process builds programs for an entry, and hands them over only as it ends."""
    return address in _state().unseen


def _request(jobs: Iterable[Promise]) -> None:
    """Write jobs, and remember their programs: later launches may need further code."""
    state = _state()
    for address, entry in jobs:
        state.has_asked = True
        state.used.setdefault(address, UsedProgram(address, entry.key, entry.metadata["build_options"]))
        try:
            from kcl.drivers.pocl import client

            client.request(option.folder("kcl"), address, entry)
        except Exception as error:
            layers.binary().fault("ask a helper for the binary", error)


def _partial(used: list[UsedProgram]) -> list[Promise]:
    """Return the jobs of programs for which the driver compiled code that their entry lacks."""
    if not used or caches.off("pocl"):
        return []
    cache = os.path.abspath(caches.directory_in_use("pocl"))
    jobs, lacked = [], Counter[str]()
    for program in used:
        if program.about is not None and not _lacking(cache, program.about):
            continue
        entry = layers.binary().look_up(program.address, program.key).entry  # a helper may have completed it since
        lacking = _lacking(cache, entry.metadata) if entry is not None and entry.metadata.get("place") else []
        if entry is not None and lacking:
            jobs.append(Promise(program.address, _job_of(entry, program, cache)))
            lacked[" and ".join(lacking)] += program.about is not None
    for code, count in lacked.items():
        entries = "the entry lacks" if count < 2 else f"the entries of {count} programs lack"
        note = f"PoCL compiled {code}, which {entries}; a helper adds it: `python -m kcl wait` waits for that"
        events.logger().info("%s", note)
        if count:
            layers.binary().notes.append(f"partial hit: {note}")
    return jobs


def _lacking(cache: str, about: Mapping[str, Any]) -> list[str]:
    """Name the code that PoCL has and the entry lacks, also for kernels that the entry does not name."""
    from kcl.drivers.pocl import files

    there = files.sizes_by_kernel(files.specialised_paths(cache, about["place"]))
    known = {kernel: {files.GENERIC, *about["specialisations"].get(kernel, ())} for kernel in there}
    return [_launch(kernel, size) for kernel, found in there.items() for size in found if size not in known[kernel]]


def _launch(kernel: str, size: str) -> str:
    """Name the launches that PoCL's code of a size serves, for example `64-1-1-goffs0-smallgrid`."""
    axes = size.split("-")[:3]
    while len(axes) > 1 and axes[-1] == "1":
        axes.pop()
    return f"{kernel} at local size {axes[0] if len(axes) == 1 else '(' + ', '.join(axes) + ')'}"


def _job_of(entry: Entry, program: UsedProgram, cache: str) -> Entry:
    about: dict[str, Any] = {"binaries": layers.binary().place, "build_options": program.options, "pocl_cache": cache}
    if program.device is not None:
        about["device"] = {"name": program.device.name, "driver": program.device.driver_version}
    parts = {name: part for name, part in entry.parts.items() if name != "binary"}
    return Entry(entry.key, {**entry.metadata, **about, "created": int(time.time())}, parts)
