"""A job to a complete entry: build in a private PoCL cache, add the specialised code, ask, prove, publish.

PoCL is slow to give out a binary since it compiles the generic function of every kernel, unless its cache holds it.
Here a stub stands in the place of that function, and is cut out of the binary again. The result is never trusted:
the binary is loaded into an emptied cache before it is published. Where anything is unexpected the binary is made
again without stubs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from kcl.base import settings
from kcl.build import options
from kcl.build.program_key import header_parts, headers_in
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.layer import Layer
from kcl.drivers.pocl import poclbin, traces
from kcl.drivers.pocl.damage import BITCODE
from kcl.drivers.pocl.jobs import host, lives
from kcl.drivers.pocl.opencl import Device, Library, Program, RefusedCall
from kcl.drivers.pocl.private import WorkCache, sizes_by_kernel, specialised_files, specialised_paths
from kcl.errors import DamagedEntry, UnknownInput

# the facts in a job that only the helper reads: paths and processes are in no entry
_FOR_THE_HELPER = frozenset(
    {"address", "binaries", "build_options", "directory", "environment", "host", "pocl_cache", "process", "unseen"}
)
_LAUNCH_SECONDS = 2.0  # after that the code of a launched kernel should be there
_COMPILE_SECONDS = 20.0  # while the process lives and no code is there yet
_SEED_SECONDS = 60.0


class CompletionTask(NamedTuple):
    """A job as read from the queue, with the place of its program in PoCL's caches once that is known."""

    entry: Entry
    written: float
    place: str | None = None

    @property
    def user_cache(self) -> str | None:
        cache = self.entry.metadata.get("pocl_cache")
        return None if cache is None else str(cache)

    @property
    def launched(self) -> list[str]:
        """The kernels whose code should appear: those that were launched, or all where that is not known."""
        launched = self.entry.metadata.get("launched")
        return list(self.entry.metadata["kernels"] if launched is None else launched)

    @property
    def has_debug_information(self) -> bool:
        """Whether the user asked for debug information, which names directories of the builder."""
        return any(option.startswith("-g") for option in str(self.entry.metadata["build_options"]).split())

    @property
    def options(self) -> bytes:
        return str(self.entry.metadata["build_options"]).encode("utf-8", "surrogatepass")


class HopelessJob(Exception):
    """A job that cannot be done on this machine in any way."""


class Workshop:
    """Makes entries complete, one after the other, with one OpenCL library and one private PoCL cache."""

    def __init__(self, library: Library, cache: WorkCache) -> None:
        self._library = library
        self._cache = cache
        self._devices: dict[str, Device | None] = {}

    def is_ready(self, task: CompletionTask) -> bool:
        """Tell whether the code of every launched kernel is there, or its wait is over."""
        if task.user_cache is None or task.place is None:
            return True
        there = sizes_by_kernel(specialised_paths(task.user_cache, task.place))
        age = time.time() - task.written
        process = task.entry.metadata.get("process")
        is_alive = task.entry.metadata.get("host") == host() and lives(process)
        if all(kernel in there for kernel in task.launched) or age < 0 or (process and not is_alive):
            return True  # a process that has ended compiles no more code
        # Where even the bitcode is missing, the directory is not the one that the process's PoCL uses.
        built = os.path.exists(f"{task.user_cache}/{task.place}/{BITCODE}")
        return age > (_COMPILE_SECONDS if is_alive and built and not there else _LAUNCH_SECONDS)

    def make(self, task: CompletionTask, short_cut: bool = True) -> CompletionTask | None:
        """Publish the entry and return ``None``; or return the task with its place to be tried again later.

        Any error that it raises makes the job hopeless.
        """
        layer = layers.at(settings.BINARY, str(task.entry.metadata["binaries"]))
        before = _published(layer, task.entry)
        if before is not None and _holds_all(before, task):
            return None
        if before is not None and task.place is None:  # its bitcode need not be looked for, nor made again
            task = task._replace(place=before.metadata.get("place"))
        device = self.device(task.entry)
        if device is None:
            raise HopelessJob("this host lacks the device")
        with _with_its_headers(task):
            try:
                made = self._make(device, task, before, short_cut)
            except (ValueError, RefusedCall):
                if not short_cut:
                    raise
                self._cache.wipe()
                made = self._make(device, task, before, False)
        if isinstance(made, CompletionTask):
            return made
        _publish(layer, task.entry, before, *made)
        return None

    def _make(
        self, device: Device, task: CompletionTask, before: Entry | None, short_cut: bool
    ) -> CompletionTask | tuple[bytes, str, dict[str, bytes]]:
        """Return the proven binary, its place and its specialised code, or the task if it is too early."""
        try:
            with closing(self._build(device, task, short_cut)) as program:
                place = self._cache.used()
                task = task._replace(place=place)
                if not self.is_ready(task):
                    return task
                files = self._files(task, place, before)
                kernels = program.kernel_names()
                self._cache.plant(place, files)
                stubs = self._cache.plant_stubs(place, kernels) if short_cut else []
                blob = program.binary()
            if short_cut:
                blob = _without_stubs(blob, place, stubs)
            blob = self._without_traces(task, blob, short_cut)
            self._cache.forget(place)
            self._prove(device, task, blob, kernels)
            found = self._cache.files(place)
        finally:
            self._cache.clear()
        if any(found.get(path) != content for path, content in files.items()) or not found.keys().isdisjoint(stubs):
            raise ValueError("the binary does not bring back the files that went into it")
        return blob, place, files

    def device(self, entry: Entry) -> Device | None:
        """Return the device of a job; None if this host lacks it."""
        platform, device = entry.metadata["platform"], entry.metadata["device"]
        name = repr((sorted(platform.items()), sorted(device.items())))
        if name not in self._devices:
            self._devices[name] = self._library.device(platform, device)
        return self._devices[name]

    def _build(self, device: Device, task: CompletionTask, short_cut: bool) -> Program:
        """Build from source, helped by the user's bitcode."""
        if short_cut and task.user_cache is not None:
            if task.place is not None:
                self._cache.seed_one(task.user_cache, task.place)
            else:
                self._cache.seed(task.user_cache, task.written - _SEED_SECONDS)
        return device.from_source(task.entry.parts["source.cl"], task.options)

    def _files(self, task: CompletionTask, place: str, before: Entry | None) -> dict[str, bytes]:
        """Return the specialised code: the files of the user's PoCL, and those in an earlier entry."""
        files = {} if before is None else _code_in(before, place)
        if task.user_cache is not None:
            files.update(specialised_files(task.user_cache, place))
        return {path: traces.overwritten(content, self._directories(task)) for path, content in files.items()}

    def _directories(self, task: CompletionTask) -> list[str]:
        """Return the directories in which the code of a program may have been compiled."""
        return [self._cache.path] if task.user_cache is None else [self._cache.path, task.user_cache]

    def _without_traces(self, task: CompletionTask, blob: bytes, short_cut: bool) -> bytes:
        """Return a binary without the place of its build; raises ValueError where a user's bitcode still names it."""
        blob = traces.overwritten(blob, self._directories(task))
        if short_cut and not task.has_debug_information and traces.are_left(blob):
            raise ValueError("the binary names an unknown directory")
        return blob

    def _prove(self, device: Device, task: CompletionTask, blob: bytes, kernels: list[str]) -> None:
        """Load the binary, and create every kernel."""
        with closing(device.from_binary(blob, task.options)) as program:
            program.create_kernels(kernels)


def _without_stubs(blob: bytes, place: str, stubs: list[str]) -> bytes:
    container = poclbin.read(blob)
    if container.program != place:
        raise ValueError(f"a binary of {container.program}, not of {place}")
    return poclbin.write(poclbin.without(container, stubs))


@contextmanager
def _with_its_headers(task: CompletionTask) -> Iterator[None]:
    """Make sure that the program's headers match its key, before and after the block that builds it."""
    source = task.entry.parts["source.cl"].decode("utf-8", "surrogatepass")
    beside = str(task.entry.metadata["environment"].get("POCL_EXTRA_BUILD_FLAGS", ""))
    found = options.parsed(task.options.decode("utf-8", "surrogatepass"), beside, quotes_stay=True)
    try:
        if any(not os.path.isabs(directory) for directory in found.directories):
            os.chdir(str(task.entry.metadata["directory"]))
        _check_headers(task, source, found)
        yield
        _check_headers(task, source, found)
    finally:
        os.chdir("/")


def _check_headers(task: CompletionTask, source: str, found: options.BuildOptions) -> None:
    try:
        now = header_parts(source, found)
    except UnknownInput as error:
        raise HopelessJob(str(error)) from error
    if set(now) != set(headers_in(task.entry.key)):
        raise HopelessJob("a header has changed since the program was built")


def _published(layer: Layer, entry: Entry) -> Entry | None:
    """Return the published entry, if it has the same key and a binary."""
    try:
        found = layer.read(str(entry.metadata["address"]))
    except DamagedEntry:
        return None
    return found if found is not None and found.key == entry.key and "binary" in found.parts else None


def _holds_all(before: Entry, task: CompletionTask) -> bool:
    """Tell whether a published entry leaves nothing to do."""
    if not before.metadata.get("complete"):
        return False
    try:
        place = poclbin.read(before.parts["binary"]).program
    except ValueError:
        return True
    there = [] if task.user_cache is None else specialised_paths(task.user_cache, place)
    return set(there) <= _code_in(before, place).keys()


def _code_in(entry: Entry, place: str) -> dict[str, bytes]:
    """Return the specialised code in an entry's binary, if the binary is of the same program."""
    try:
        container = poclbin.read(entry.parts["binary"])
    except ValueError:
        return {}
    if container.program != place:
        return {}
    return {file.path: file.content for kernel in container.kernels for file in kernel.files}


def _publish(layer: Layer, job: Entry, before: Entry | None, blob: bytes, place: str, files: dict[str, bytes]) -> None:
    """Publish the complete entry of a job; raises the errors of a store."""
    sizes = sizes_by_kernel(files)
    kernels = job.metadata.get("launched") or job.metadata["kernels"]
    complete = all(kernel in sizes for kernel in kernels)
    if before is not None and before.metadata.get("complete") and not complete:
        return  # a complete entry is never replaced by a lesser one
    kept = {name: value for name, value in job.metadata.items() if name not in _FOR_THE_HELPER}
    about = {"place": place, "specialisations": sizes, "complete": complete, "bytes": len(blob)}
    log = traces.without_directories(job.parts.get("build.log", b""))
    entry = Entry(job.key, {**kept, **about}, {**job.parts, "build.log": log, "binary": blob})
    faults: list[Exception] = []
    layer.publish(str(job.metadata["address"]), entry, faults)
    if faults:
        raise faults[0]
