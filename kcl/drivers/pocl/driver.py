"""Pocl: PoCL's driver. It is slow to give out a binary, so a helper completes entries."""

from __future__ import annotations

import functools
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcl import caches
from kcl.base import process
from kcl.base.settings import option
from kcl.build.driver import Driver
from kcl.cache import layers, places
from kcl.drivers.pocl import completion, poclbin, repair
from kcl.errors import CacheFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyopencl as cl

    from kcl.build.driver import DamagedFile, OpenJobs
    from kcl.build.program_key import ProgramSlot
    from kcl.cache.entry import Entry
    from kcl.cache.key import Part

_EXTRA = "POCL_EXTRA_BUILD_FLAGS"
# How long a process waits in all for entries that a helper still completes, beyond the helper's progress, before it
# builds the programs itself. If only a hit will do, it can only wait.
_PATIENCE = 2.0
_STRICT_PATIENCE = 60.0


def _cpu(device: cl.Device) -> str:
    """Return LLVM's name of the CPU that a device compiles for; empty for any other device."""
    found = re.search(r"HSTR: (?:pthread|basic|cpu)-\S+-linux-\w+-(\S+)$", device.version)
    return found[1] if found else ""


class State:
    """The seconds that this process may still wait for a helper, and the jobs that it found."""

    left = _PATIENCE

    @functools.cached_property
    def jobs(self) -> frozenset[str]:
        """The key digests of the jobs that waited as the process began to look up.

        An earlier run then launched code that the entry lacks. Most runs find no job, and ask no queue.
        """
        with suppress(OSError):  # a folder that cannot be read holds no job
            return frozenset([job.name for job in Path(option.folder("kcl"), places.PENDING).glob("*/*")])
        return frozenset()

    def on_change(self) -> None:
        """Forget the jobs: their place has changed."""
        self.__dict__.pop("jobs", None)


_state = process.own(State)


class Pocl(Driver):
    """PoCL's driver: when it is asked for a binary, it compiles a generic function of every kernel first."""

    launched = staticmethod(completion.launched)
    unseen = staticmethod(completion.unseen)
    flush = staticmethod(completion.flush)
    loading = staticmethod(repair.repair)

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the parts without the marketing name of a CPU: PoCL compiles for LLVM's name in the device version."""
        parts = super().identity(device)
        return tuple([part for part in parts if part.name != "device"]) if _cpu(device) else parts

    def folder(self, device: cl.Device) -> str:
        """Return LLVM's name of a CPU, for example `pocl-znver3`; the name of any other device."""
        cpu = _cpu(device)
        return f"pocl-{cpu}" if cpu else super().folder(device)

    def added_options(self) -> str:
        """Return the options in `POCL_EXTRA_BUILD_FLAGS`."""
        return caches.read_variables().get(_EXTRA, "")

    def given(self, source: str) -> str:
        """Give `__FILE__` one value: PoCL compiles a file whose name is another one for each build."""
        return f'#line 1 "program.cl"\n{source}' if "__FILE__" in source else source

    def described(self, slot: ProgramSlot) -> dict[str, Any]:
        """Return the facts that the helper needs: the store, the options, the variables, and PoCL's own cache."""
        folder = None if caches.off("pocl") else os.path.abspath(caches.directory_in_use("pocl"))
        return {
            "binaries": layers.binary().place,
            "build_options": slot.options.text,
            "environment": caches.read_variables(),
            "pocl_cache": folder,
        }

    def completed(self, _program: cl.Program, _slot: ProgramSlot, _entry: Entry) -> Entry | None:
        """Return None: the helper asks for the binary."""
        return None

    def memory(self, binary_bytes: int) -> int:
        """Return the bytes of a program: PoCL keeps the binary and its results of it; a small binary has 48 kB."""
        return (96 << 10) + 2 * (binary_bytes or 48 << 10)

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Remember the entry, to check at the end whether it lacked any code."""
        completion.loaded(slot.address, entry, slot.options.text, slot.device)

    def awaited(self, slot: ProgramSlot, is_there: bool = False) -> bool:
        """Wait for the helper that completes the entry; return False if none does, or if it takes too long."""
        state, layer, digest = _state(), layers.binary(), slot.key.digest
        if (is_there and digest not in state.jobs) or completion.is_unseen(slot.address):
            return False
        try:
            from kcl.drivers.pocl import client, jobs

            folder = option.folder("kcl")
            queue = jobs.JobQueue(folder)
            if queue.find(digest) is None:
                return digest in state.jobs  # the helper was faster
            bound = _STRICT_PATIENCE if "hit" in layer.chosen.strict else state.left
            state.left -= client.wait(folder, digest, bound, layer.chosen.promote != "off")
            return queue.find(digest) is None
        except (OSError, ImportError, CacheFault) as error:
            layer.fault("wait for the helper", error)
            return False

    def pending(self) -> OpenJobs | None:
        """Return the entries in the jobs."""
        from kcl.drivers.pocl import jobs

        return jobs.pending(option.folder("kcl"))

    def quiet(self, folder: str, seconds: float) -> bool:
        """Drop all jobs and end the helper."""
        from kcl.drivers.pocl import client

        return client.quiet(folder, seconds)

    def damaged(self, folders: Iterable[str]) -> Iterator[DamagedFile]:
        """Judge the files of PoCL's cache by their form."""
        from kcl.drivers.pocl import files

        return files.damaged(folders)

    def files(self, binary: bytes) -> dict[str, bytes]:
        """Return the bitcode and the native code in a container of PoCL's."""
        return poclbin.read(binary).files() if binary.startswith(poclbin.MAGIC) else {}
