"""A job to a complete entry: build in a private PoCL cache, add the specialised code, ask, prove, publish.

PoCL is slow to give out a binary since it compiles the generic function of every kernel, unless its cache holds it.
Here a stub stands in the place of that function, and is cut out of the binary again. The result is never trusted:
the binary is loaded into an emptied cache before it is published. Where anything is unexpected the binary is made
again without stubs.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from typing import NamedTuple

from kcl.base import settings
from kcl.build import options
from kcl.build.program_key import header_parts, headers_in
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.layer import Layer
from kcl.drivers.pocl import poclbin, traces
from kcl.drivers.pocl.files import BITCODE, WorkCache, sizes_by_kernel, specialised_files, specialised_paths
from kcl.drivers.pocl.jobs import host, lives
from kcl.drivers.pocl.opencl import Device, RefusedCall
from kcl.errors import DamagedEntry

# the facts in a job that only the helper reads: paths and processes are in no entry
_FOR_THE_HELPER = frozenset(
    {"address", "binaries", "build_options", "directory", "environment", "host", "pocl_cache", "process"}
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
    def options(self) -> str:
        return str(self.entry.metadata["build_options"])

    def code(self) -> list[str]:
        """Return the paths of the code that the user's PoCL has made so far."""
        known = self.user_cache is not None and self.place is not None
        return specialised_paths(str(self.user_cache), str(self.place)) if known else []

    def is_ready(self) -> bool:
        """Return True if the code of every launched kernel is there, or its wait is over."""
        if self.user_cache is None or self.place is None:
            return True
        there = sizes_by_kernel(self.code())
        age = time.time() - self.written
        process = self.entry.metadata.get("process")
        is_alive = self.entry.metadata.get("host") == host() and lives(process)
        if all(kernel in there for kernel in self.launched) or age < 0 or (process and not is_alive):
            return True  # a process that has ended compiles no more code
        # Where even the bitcode is missing, the directory is not the one that the process's PoCL uses.
        built = os.path.exists(f"{self.user_cache}/{self.place}/{BITCODE}")
        return age > (_COMPILE_SECONDS if is_alive and built and not there else _LAUNCH_SECONDS)


class Workshop:
    """Makes entries complete, one after the other, for one device with one private PoCL cache."""

    def __init__(self, device: Device, cache: WorkCache) -> None:
        self._device = device
        self._cache = cache

    def make(self, task: CompletionTask) -> CompletionTask | None:
        """Publish the entry and return ``None``; or return the task with its place to be tried again later.

        Any error that it raises makes the job hopeless.
        """
        layer = layers.at(settings.BINARY, str(task.entry.metadata["binaries"]))
        before = _published(layer, task.entry)
        if before is not None:
            place = before.metadata.get("place")
            task = task._replace(place=task.place or place)  # its bitcode need not be looked for, nor made again
            if before.metadata.get("complete") and set(task.code()) <= _code_in(before, place).keys():
                return None
        try:
            with suppress(OSError):  # for relative include directories
                os.chdir(str(task.entry.metadata.get("directory", "/")))
            try:
                made = self._make(task, before, True)
            except (ValueError, RefusedCall):
                self._cache.wipe()
                made = self._make(task, before, False)
            if isinstance(made, CompletionTask):
                return made
            _check_headers(task)
        finally:
            os.chdir("/")
        _publish(layer, task.entry, before, *made)
        return None

    def _make(
        self, task: CompletionTask, before: Entry | None, short_cut: bool
    ) -> CompletionTask | tuple[bytes, str, dict[str, bytes]]:
        """Return the proven binary, its place and its specialised code, or the task if it is too early."""
        options = task.options.encode("utf-8", "surrogatepass")
        try:
            if short_cut and task.user_cache is not None:  # the user's bitcode helps
                if task.place is not None:
                    self._cache.seed_one(task.user_cache, task.place)
                else:
                    self._cache.seed(task.user_cache, task.written - _SEED_SECONDS)
            with closing(self._device.from_source(task.entry.parts["source.cl"], options)) as program:
                place = self._cache.used()
                task = task._replace(place=place)
                if not task.is_ready():
                    return task
                files = self._files(task, place, before)
                kernels = program.kernel_names()
                self._cache.plant(place, files)
                stubs = self._cache.plant_stubs(place, kernels) if short_cut else []
                blob = program.binary()
            if short_cut:
                blob = _without_stubs(blob, place, stubs)
            blob = traces.overwritten(blob, self._directories(task))
            has_debug_information = any(option.startswith("-g") for option in task.options.split())
            if short_cut and not has_debug_information and traces.are_left(blob):
                raise ValueError("the user's bitcode names an unknown directory")
            self._cache.forget(place)
            with closing(self._device.from_binary(blob, options)) as proof:
                proof.create_kernels(kernels)
            found = self._cache.files(place)
        finally:
            self._cache.clear()
        if any(found.get(path) != content for path, content in files.items()) or not found.keys().isdisjoint(stubs):
            raise ValueError("the binary does not bring back the files that went into it")
        return blob, place, files

    def _files(self, task: CompletionTask, place: str, before: Entry | None) -> dict[str, bytes]:
        """Return the specialised code: the files of the user's PoCL, and those in an earlier entry."""
        files = {} if before is None else _code_in(before, place)
        if task.user_cache is not None:
            files.update(specialised_files(task.user_cache, place))
        return {path: traces.overwritten(content, self._directories(task)) for path, content in files.items()}

    def _directories(self, task: CompletionTask) -> list[str]:
        """Return the directories in which the code of a program may have been compiled."""
        return [self._cache.path] if task.user_cache is None else [self._cache.path, task.user_cache]


def _without_stubs(blob: bytes, place: str, stubs: list[str]) -> bytes:
    container = poclbin.read(blob)
    if container.program != place:
        raise ValueError(f"a binary of {container.program}, not of {place}")
    return container.without(stubs).pack()


def _check_headers(task: CompletionTask) -> None:
    """Raise ValueError if a header has changed since the key was made, and UnknownInput as `header_parts` does."""
    source = task.entry.parts["source.cl"].decode("utf-8", "surrogatepass")
    beside = str(task.entry.metadata["environment"].get("POCL_EXTRA_BUILD_FLAGS", ""))
    now = header_parts(source, options.parsed(task.options, beside))
    if set(now) != set(headers_in(task.entry.key)):
        raise ValueError("a header has changed since the program was built")


def _published(layer: Layer, entry: Entry) -> Entry | None:
    """Return the published entry, if it has the same key and a binary."""
    try:
        found = layer.read(str(entry.metadata["address"]))
    except DamagedEntry:
        return None
    return found if found is not None and found.key == entry.key and "binary" in found.parts else None


def _code_in(entry: Entry, place: str | None) -> dict[str, bytes]:
    """Return the specialised code in an entry's binary, if the binary is of the same program."""
    try:
        container = poclbin.read(entry.parts["binary"])
    except ValueError:
        return {}
    return container.code() if container.program == place else {}


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
