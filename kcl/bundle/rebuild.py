"""Builds the programs of a bundle, or of the cache, for the devices of this machine, in child processes.

A program that crashes or blocks its process costs only that child. If a driver gives out binaries late, their entries
are completed later, as in any other run.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from typing import Any, NamedTuple

from kcl import bundle, drivers
from kcl.base import settings
from kcl.base.settings import option
from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.progress import ProgressLine
from kcl.drivers import builder, devices
from kcl.drivers.child import ChildFault, PythonChild, Verdict
from kcl.errors import CacheFault, DamagedEntry

_MODULE = "kcl.drivers.builder"
_START_SECONDS, _BUILD_SECONDS, _LAUNCH_SECONDS = 120.0, 600.0, 30.0
# The default is small, because each child needs as much memory as an OpenCL driver takes.
_MOST_JOBS = 8


class Rebuilt(NamedTuple):
    """The result of building a program for a device; `launch` says why its launch failed, and is empty if it did not."""

    kernel: str
    device: str
    verdict: Verdict
    address: str = ""
    launch: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the cache has the program's entry now."""
        return bool(self.address) and contents.read_entry(layers.binary(), self.address) is not None


def of_file(file: str, to: str | None, jobs: int | None = None, **order: Any) -> list[Rebuilt]:
    """Rebuild the programs of a bundle; put them and its other entries into the cache, or into a new bundle `to`.

    Raises OSError, and CacheFault if the bundle is damaged.
    """
    data, info = bundle.read_file(file), CacheInfo()
    entries = dict(contents.unpack(data, info))
    if info.refused:
        raise DamagedEntry(f"{file}: {': '.join(info.refused[0])}")
    programs = [entry for (kind, _), entry in entries.items() if kind == settings.BINARY]
    with ExitStack() as block:
        if to:
            # The new bundle is made from a temporary cache.
            folder = block.enter_context(tempfile.TemporaryDirectory(prefix="kcl-rebuild-"))
            block.enter_context(option.cache_dir(folder))
        contents.load(data, usable=True)
        done = of_programs(programs, jobs, **order)
        if to:
            new = {place: entry for place, entry in entries.items() if place[0] != settings.BINARY}
            for address in dict.fromkeys([rebuilt.address for rebuilt in done]):
                entry = contents.read_entry(layers.binary(), address) if address else None
                if entry is not None:
                    contents.add(new, settings.BINARY, address, entry, info)
            bundle.write(to, new, CacheInfo())
    return done


def of_programs(programs: Iterable[Entry], jobs: int | None = None, **order: Any) -> list[Rebuilt]:
    """Rebuild the programs of entries into the cache; raises CacheFault if there is no device for them."""
    if off := layers.binary().off():
        raise CacheFault(f"the binary layer is off: {off}")
    chosen: dict[Any, Entry] = {}
    # If a program has several entries, the one is used that has a record of a launch.
    for entry in programs:
        same = tuple(
            [part for part in entry.key.parts if part.name.startswith(devices.OF_A_PROGRAM)]
        )
        if same not in chosen or isinstance(entry.metadata.get("launched"), dict):
            chosen[same] = entry
    crew = _Crew(builder.Order(option.get_cache_dir(), **order))
    most = max(1, min(jobs or min(settings.processors(), _MOST_JOBS), len(chosen)))
    done: list[Rebuilt] = []
    with ProgressLine() as line, ThreadPoolExecutor(most) as pool:
        try:
            names = pool.submit(crew.devices).result()
            tasks = [*product(chosen.values(), enumerate(names))]
            for result in pool.map(crew.rebuild, tasks):
                done.append(result)
                line.say(f"{len(done)} of {len(tasks)} rebuilt")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            crew.end()
    # A driver may give out a binary late, so the entries are completed first.
    drivers.flush()
    lost = Verdict(builder.FAILED, "it is not complete: `kcl status` says why")
    return [
        rebuilt if rebuilt.is_there or not rebuilt.address else rebuilt._replace(verdict=lost)
        for rebuilt in done
    ]


class _Crew:
    """The child processes of a rebuild, one for each thread."""

    def __init__(self, order: builder.Order) -> None:
        self._order = order
        self._children: dict[int, PythonChild] = {}
        self._is_over = False

    def devices(self) -> list[str]:
        """Return the names of the devices for which programs are built; raises CacheFault if there is none."""
        names: list[str] = self._ask(_START_SECONDS, "devices")
        if not names:
            named = self._order.device
            why = f"has {named!r} in its name" if named else "takes programs of kcl"
            raise CacheFault(f"no device of this machine {why}")
        return names

    def rebuild(self, task: tuple[Entry, tuple[int, str]]) -> Rebuilt:
        """Build a program for a device and launch it; if the launch fails, its entry is completed without."""
        entry, (number, name) = task
        build = ("build", number, entry.key.digest, entry.pack())
        result = Rebuilt(str(entry.metadata.get("kernel", "")), name, Verdict(builder.BUILT))
        try:
            verdict, address = self._ask(_BUILD_SECONDS, *build)
            launch = self._launch(build) if verdict.outcome == builder.BUILT else ""
            return result._replace(verdict=verdict, address=address, launch=launch)
        except ChildFault as fault:
            return result._replace(verdict=Verdict(builder.FAILED, str(fault)))

    def _launch(self, build: tuple[Any, ...]) -> str:
        """Launch the program that was built last; return why that failed, or an empty text."""
        try:
            return str(self._ask(_LAUNCH_SECONDS, "launch"))
        except ChildFault as fault:
            # The launch has ended the child. A new child builds the program again, and completes it without a launch.
            if self._ask(_BUILD_SECONDS, *build)[0].outcome == builder.BUILT:
                self._ask(_BUILD_SECONDS, "leave")
            return str(fault)

    def _ask(self, seconds: float, *question: Any) -> Any:
        """Ask the child of this thread a question; start a child if there is none, or if the last one has ended."""
        children, thread = self._children, threading.get_ident()
        if thread not in children:
            children[thread] = PythonChild(_MODULE, settings.environment_alone())
            children[thread].begin(self._order)
        try:
            if self._is_over:
                # `end` may have run before this child was entered.
                children[thread].end()
                raise ChildFault(Verdict("stopped"))
            return children[thread].ask(seconds, *question)
        except ChildFault:
            del children[thread]
            raise

    def end(self) -> None:
        """End all children; later questions raise ChildFault."""
        self._is_over = True
        for child in list(self._children.values()):
            child.end()
