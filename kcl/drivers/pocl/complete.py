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
from contextlib import contextmanager
from typing import NamedTuple

import pyopencl as cl

from kcl.base import settings
from kcl.build import compiler, options
from kcl.build.entries import facts_of
from kcl.build.kernels import new_kernel
from kcl.build.program_key import header_parts, headers_in
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.layer import Layer
from kcl.drivers.pocl import poclbin, traces
from kcl.drivers.pocl.damage import BITCODE
from kcl.drivers.pocl.private import WorkCache, sizes_by_kernel, specialised_files, specialised_paths
from kcl.errors import DamagedEntry, UnknownInput

# the facts in a job that only the helper reads: paths and processes are in no entry
_FOR_THE_HELPER = frozenset(
    {"address", "binaries", "build_options", "directory", "environment", "pocl_cache", "process"}
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
        return any(option.startswith("-g") for option in self.options.split())

    @property
    def options(self) -> str:
        return str(self.entry.metadata["build_options"])


class HopelessJob(Exception):
    """A job that cannot be done on this machine in any way."""


class Workshop:
    """Makes entries complete, one after the other, with one private PoCL cache."""

    def __init__(self, cache: WorkCache) -> None:
        self._cache = cache
        self._contexts: dict[str, cl.Context] = {}

    def is_ready(self, task: CompletionTask) -> bool:
        """Tell whether the code of every launched kernel is there, or its wait is over."""
        if task.user_cache is None or task.place is None:
            return True
        there = sizes_by_kernel(specialised_paths(task.user_cache, task.place))
        age = time.time() - task.written
        process = task.entry.metadata.get("process")
        lives = isinstance(process, int) and _lives(process)
        if all(kernel in there for kernel in task.launched) or age < 0 or (process and not lives):
            return True  # a process that has ended compiles no more code
        # Where even the bitcode is missing, the directory is not the one that the process's PoCL uses.
        built = os.path.exists(f"{task.user_cache}/{task.place}/{BITCODE}")
        return age > (_COMPILE_SECONDS if lives and built and not there else _LAUNCH_SECONDS)

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
        context = self._context(task.entry)
        with _with_its_headers(task):
            try:
                made = self._make(context, task, before, short_cut)
            except (ValueError, cl.Error):
                if not short_cut:
                    raise
                self._cache.wipe()
                made = self._make(context, task, before, False)
        if isinstance(made, CompletionTask):
            return made
        _publish(layer, task.entry, before, *made)
        return None

    def _make(
        self, context: cl.Context, task: CompletionTask, before: Entry | None, short_cut: bool
    ) -> CompletionTask | tuple[bytes, str, dict[str, bytes]]:
        """Return the proven binary, its place and its specialised code, or the task if it is too early."""
        try:
            program = self._build(context, task, short_cut)
            place = self._cache.used()
            task = task._replace(place=place)
            if not self.is_ready(task):
                return task
            files = self._files(task, place, before)
            kernels = compiler.kernel_names(program)
            self._cache.plant(place, files)
            stubs = self._cache.plant_stubs(place, kernels) if short_cut else []
            blob: bytes = program.get_info(cl.program_info.BINARIES)[0]  # PoCL freezes it at the first query
            del program
            if short_cut:
                blob = _without_stubs(blob, place, stubs)
            blob = self._without_traces(task, blob, short_cut)
            self._cache.forget(place)
            loaded = _built(cl.Program(context, context.devices, [blob]), task)
            for kernel in kernels:
                new_kernel(loaded, kernel)
            found = self._cache.files(place)
        finally:
            self._cache.clear()
        if any(found.get(path) != content for path, content in files.items()) or not found.keys().isdisjoint(stubs):
            raise ValueError("the binary does not bring back the files that went into it")
        return blob, place, files

    def _context(self, entry: Entry) -> cl.Context:
        """Return a context of the device that a job names by its facts."""
        wanted = {fact: entry.metadata[fact] for fact in ("platform", "device")}
        name = repr(wanted)
        if name not in self._contexts:
            platforms = [one for one in cl.get_platforms() if one.name == wanted["platform"]["name"]]
            devices = [device for platform in platforms for device in platform.get_devices()]
            fitting = [device for device in devices if facts_of(device) == wanted]
            if not fitting:
                raise HopelessJob(f"there is no device {wanted} here")
            self._contexts[name] = cl.Context(fitting[:1])
        return self._contexts[name]

    def _build(self, context: cl.Context, task: CompletionTask, short_cut: bool) -> cl.Program:
        """Build from source, helped by the user's bitcode."""
        if short_cut and task.user_cache is not None:
            if task.place is not None:
                self._cache.seed_one(task.user_cache, task.place)
            else:
                self._cache.seed(task.user_cache, task.written - _SEED_SECONDS)
        source = task.entry.parts["source.cl"].decode("utf-8", "surrogatepass")
        return _built(cl.Program(cl._cl._Program(context, source)), task)

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


def _built(program: cl.Program, task: CompletionTask) -> cl.Program:
    if not compiler.built_silently(program, options.BuildOptions(task.options)):
        raise ValueError("OpenCL does not build the program")
    return program


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
    found = options.parsed(task.options, beside, quotes_stay=True)
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


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
