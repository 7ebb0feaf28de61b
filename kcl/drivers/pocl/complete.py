"""Makes a complete entry from a job: builds in a private PoCL cache, adds the specialised code, gets the binary.

PoCL compiles a generic function of each kernel before it returns a binary, unless its cache has one. To save that time
kcl puts a stub into the cache, and cuts it out of the binary again. The result is tested before it is published: the
binary is loaded with an emptied cache. If anything is unexpected the binary is made again without stubs.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress

from kcl.base import settings
from kcl.cache import layers
from kcl.cache.entry import Entry, origin
from kcl.cache.layer import Layer
from kcl.cache.locks import state_of
from kcl.drivers.pocl import poclbin, traces
from kcl.drivers.pocl.files import BITCODE, WorkCache, has_code, specialised_files
from kcl.drivers.pocl.jobs import host
from kcl.drivers.pocl.opencl import Device, RefusedCall
from kcl.drivers.pocl.poclbin import sizes_by_kernel, specialised_paths
from kcl.errors import DamagedEntry
from kcl.programs.program_key import headers_stand, parsed

# The metadata of a job that only the helper reads; entries must not contain paths and process ids.
_FOR_THE_HELPER = frozenset(
    {
        "address",
        "binaries",
        "build_options",
        "directory",
        "environment",
        "host",
        "pocl_cache",
        "process",
    }
)
# The age of a job at which the code of a launched kernel should be in the user's cache.
_LAUNCH_SECONDS = 2.0
# The same age if the user's process is still running and has no code yet.
_COMPILE_SECONDS = 20.0
_SEED_SECONDS = 60.0
_PAUSE = 0.02


class Workshop:
    """Completes entries one after the other, for one device, in one private PoCL cache."""

    def __init__(self, device: Device, cache: WorkCache) -> None:
        self._device = device
        self._cache = cache

    def make(self, job: Entry, written: float) -> None:
        """Complete and publish the entry of a job. An error means that the job cannot be done.

        `written` is the time of the job. If headers have changed since, nothing is published: no program has this key now.
        """
        layer = layers.at(settings.BINARY, str(job.metadata["binaries"]))
        before = _published(layer, job)
        if before is not None and before.metadata.get("complete"):
            place = str(before.metadata.get("place"))
            if set(_users_code(job, place)) <= _code_in(before, place).keys():
                return
        try:
            # Relative include directories begin at the working directory of the user's process.
            with suppress(OSError):
                os.chdir(str(job.metadata.get("directory", "/")))
            if not _headers_stand(job):
                return
            try:
                made = self._make(job, written, before, True)
            except poclbin.UnknownContainer:
                raise
            except (ValueError, RefusedCall):
                # Once more without the user's bitcode and without stubs.
                self._cache.wipe()
                made = self._make(job, written, before, False)
            is_current = _headers_stand(job)
        finally:
            os.chdir("/")
        if is_current:
            _publish(layer, job, before, *made)

    def _make(
        self, job: Entry, written: float, before: Entry | None, short_cut: bool
    ) -> tuple[bytes, str, dict[str, bytes]]:
        """Return the tested binary, its place in PoCL's cache, and its specialised code."""
        text, user = str(job.metadata["build_options"]), job.metadata.get("pocl_cache")
        options = text.encode("utf-8", "surrogatepass")
        directories = [self._cache.path, *filter(None, [user])]
        try:
            if short_cut and user is not None:
                self._seed(user, written, before)
            with closing(self._device.from_source(job.parts["source.cl"], options)) as program:
                place = self._cache.used()
                while not is_ready(job, written, place):
                    time.sleep(_PAUSE)
                code = {} if before is None else _code_in(before, place)
                code |= {} if user is None else specialised_files(user, place)
                for path, content in code.items():
                    code[path] = traces.overwritten(content, directories)
                kernels = program.kernel_names()
                self._cache.plant(place, code)
                stubs = self._cache.plant_stubs(place, kernels) if short_cut else []
                blob = program.binary()
            poclbin.check(blob)
            if short_cut:
                blob = _without_stubs(blob, place, stubs)
            blob = traces.overwritten(blob, directories)
            has_debug_information = any(option.startswith("-g") for option in text.split())
            if short_cut and not has_debug_information and traces.are_left(blob):
                raise ValueError("the user's bitcode names an unknown directory")
            # Removed from the cache, so that all files that are loaded now come from the binary.
            self._cache.forget(place)
            with closing(self._device.from_binary(blob, options)) as proof:
                proof.create_kernels(kernels)
            unpacked = self._cache.files(place)
        finally:
            self._cache.clear()
        libraries = [path for path in code if path.endswith(".so")]
        is_whole = all(unpacked.get(path) == code[path] for path in libraries)
        if not is_whole or not unpacked.keys().isdisjoint(stubs):
            raise ValueError("the binary does not bring back the files that went into it")
        return blob, place, code

    def _seed(self, user: str, written: float, before: Entry | None) -> None:
        """Copy the user's bitcode, with which a build from source is 20 times faster."""
        if before is not None:
            self._cache.seed_one(user, str(before.metadata.get("place")))
        else:
            self._cache.seed(user, written - _SEED_SECONDS)


def is_ready(job: Entry, written: float, place: str) -> bool:
    """Return True if the user's PoCL cache has the code of every launched kernel, or if it is not worth waiting longer.

    `written` is the time of the job in seconds since the epoch, `place` the program's place in PoCL's caches.
    """
    about = job.metadata
    if about.get("pocl_cache") is None:
        return True
    there = sizes_by_kernel(_users_code(job, place))
    age = time.time() - written
    process, launched = about.get("process"), about.get("launched")
    is_alive = about.get("host") == host() and bool(state_of(str(process)))
    wanted = about["kernels"] if launched is None else launched
    if has_code(wanted, there) or age < 0 or (process and not is_alive):
        # The code is complete, or no more will come, since the process has ended.
        return True
    # If even the bitcode is missing, the process's PoCL uses another directory, and waiting is of no use.
    built = os.path.exists(f"{about['pocl_cache']}/{place}/{BITCODE}")
    return age > (_COMPILE_SECONDS if is_alive and built and not there else _LAUNCH_SECONDS)


def _users_code(job: Entry, place: str) -> list[str]:
    """Return the paths of the specialised code that the user's PoCL has made for a program so far."""
    cache = job.metadata.get("pocl_cache")
    return [] if cache is None else specialised_paths(cache, place)


def _without_stubs(blob: bytes, place: str, stubs: list[str]) -> bytes:
    container = poclbin.read(blob)
    if container.program != place:
        raise ValueError(f"a binary of {container.program}, not of {place}")
    return container.without(stubs).pack()


def _headers_stand(job: Entry) -> bool:
    """Return True if the headers are still those of the build."""
    source = job.parts["source.cl"].decode("utf-8", "surrogatepass")
    beside = str(job.metadata["environment"].get("POCL_EXTRA_BUILD_FLAGS", ""))
    return headers_stand(source, parsed(str(job.metadata["build_options"]), beside), job.key)


def _published(layer: Layer, entry: Entry) -> Entry | None:
    """Return the entry that is published already, if it has the same key and a binary."""
    try:
        published = layer.read(str(entry.metadata["address"]))
    except DamagedEntry:
        return None
    is_whole = published is not None and published.key == entry.key and "binary" in published.parts
    return published if is_whole else None


def _code_in(entry: Entry, place: str | None) -> dict[str, bytes]:
    """Return the specialised code in an entry's binary; none if the binary belongs to another program."""
    try:
        container = poclbin.read(entry.parts["binary"])
    except ValueError:
        return {}
    return container.code() if container.program == place else {}


def _publish(
    layer: Layer, job: Entry, before: Entry | None, blob: bytes, place: str, files: dict[str, bytes]
) -> None:
    """Publish the complete entry of a job; raises the errors of a store."""
    sizes = sizes_by_kernel(files)
    kernels = job.metadata.get("launched") or job.metadata["kernels"]
    complete = has_code(kernels, sizes)
    if before is not None and before.metadata.get("complete") and not complete:
        # A complete entry is never replaced by an incomplete one.
        return
    kept = {name: value for name, value in job.metadata.items() if name not in _FOR_THE_HELPER}
    about = {"place": place, "specialisations": sizes, "complete": complete, "bytes": len(blob)}
    log = traces.without_directories(job.parts.get("build.log", b""))
    entry = Entry(
        job.key,
        {**kept, **about, **origin(before)},
        {**job.parts, "build.log": log, "binary": blob},
    )
    faults: list[Exception] = []
    layer.publish(str(job.metadata["address"]), entry, faults)
    if faults:
        raise faults[0]
