"""Pocl: PoCL's driver. It is slow to give out a binary, so a helper completes entries.

A process writes the job of a program at its first launch. `KCL_PROMOTE` says when a helper is started: `background`
with the first job, `exit` as the process ends, `off` never by itself. `flush` starts one now, whatever the variable
says. Entries that were found are checked too: if PoCL compiled for a launch size that the entry lacks, the hit was
partial, and the entry is completed in the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kcl import foreign
from kcl.base import process, settings
from kcl.base.settings import trust
from kcl.cache import layers
from kcl.cache.stores.directory import publish
from kcl.drivers.pocl import poclbin
from kcl.programs.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyopencl as cl

    from kcl.cache.entry import Entry
    from kcl.cache.key import Part
    from kcl.drivers.pocl.asking import HelperUse
    from kcl.programs.driver import Progress, Promise
    from kcl.programs.open_jobs import OpenJobs
    from kcl.programs.program_key import ProgramSlot


def _cpu(device: cl.Device) -> str | None:
    """Return LLVM's name of PoCL's device for the CPU, empty if its version lacks that; None for any other device.

    The names of these devices are those of the versions so far.
    """
    form = r"HSTR: (?:pthread|basic|cpu)-(?:\S+-linux-\w+-(\S+)$)?"
    match = re.search(form, device.version)
    return match and (match[1] or "")


class UsedPrograms:
    """The programs that this process uses: `loaded` are made of entries, the others are asked of a helper.

    `loaded` has the slot of each program, and the metadata of its entry, by address. Any number of contexts may share a
    program.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, tuple[ProgramSlot, Mapping[str, Any]]] = {}

    @property
    def helper(self) -> HelperUse:
        """The use of a helper. A run of which every program hits uses none, and imports no module for it."""
        from kcl.drivers.pocl.asking import HelperUse

        # One step: another thread may be faster.
        use: HelperUse = vars(self).setdefault(_HELPER, HelperUse())
        return use

    def partial(self) -> list[ProgramSlot]:
        """Return the programs for which PoCL compiled code that their entries lack."""
        cache = foreign.active_directory("pocl")
        return [
            slot
            for slot, about in list(self.loaded.values())
            if cache is not None and poclbin.lacking(cache, about)
        ]

    def at_exit(self) -> None:
        """Have a helper do what is left, and add the code that the entries lack."""
        with layers.binary().reporting("complete entries"):
            if layers.binary().options.promote == "off":
                return
            partial: list[ProgramSlot] = []
            try:
                partial = self.partial()
            finally:
                if partial or _HELPER in vars(self):
                    self.helper.complete(partial)

    before_change = at_exit


# The attribute that a state has after the first use of a helper.
_HELPER = "_helper"
_state = process.own(UsedPrograms)


class Pocl(Driver):
    """PoCL's driver: when it is asked for a binary, it compiles a generic function of every kernel first."""

    may_fork = True

    def loading(self, entry: Entry) -> None:
        """Replace the files of PoCL's cache that differ from the entry's; raises nothing. Thread-safe.

        PoCL checks none of its files, and uses a file of its cache in place of the one in a binary: a damaged file ends
        every process that loads the program. PoCL wrote these files, or would write them for the binary, whose digest
        was verified. It writes a missing file itself. If a file cannot be replaced the program is removed. What stays
        in the way is a fault that PoCL will report.

        The bytes are compared, which takes 20 to 30 microseconds for a program of two files. A file's form does not show
        a changed byte, and a restored backup changes its time.
        """
        try:
            container = poclbin.read(entry.parts["binary"])
        except ValueError:
            # The binary is of another PoCL.
            return
        folder = f"{os.path.abspath(foreign.directory_in_use('pocl'))}/{container.program}"
        own = {folder + path: content for path, content in container.files().items()}
        files = {path: content for path, content in own.items() if not _holds(path, content)}
        try:
            if files:
                trust.check_writer(folder)
            for path, content in files.items():
                publish(path, content)
        except PermissionError:
            # Root makes no files in the home of another user, who could not read them.
            return
        except OSError:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
            # A file or a link in the place of the folder is left by that.
            with suppress(OSError):
                os.unlink(folder)

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the parts without the marketing name of a CPU: PoCL compiles for LLVM's name in the device version."""
        parts = super().identity(device)
        return tuple([part for part in parts if part.name != "device"]) if _cpu(device) else parts

    def untried(self, device: cl.Device) -> str:
        """Name a device of PoCL's that is not its CPU: the helper is made for CPUs."""
        return (
            ""
            if _cpu(device) is not None
            else f"kcl has not been tried with PoCL's device {device.name}"
        )

    def folder(self, device: cl.Device) -> str:
        """Return LLVM's name of a CPU, for example `pocl-znver3`; the name of any other device."""
        cpu = _cpu(device)
        return f"pocl-{cpu}" if cpu else super().folder(device)

    def added_options(self) -> str:
        """Return the options in `POCL_EXTRA_BUILD_FLAGS`."""
        return foreign.read_variables().get("POCL_EXTRA_BUILD_FLAGS", "")

    def given(self, source: str) -> str:
        """Give `__FILE__` one value: PoCL compiles a file whose name is another one for each build."""
        return f'#line 1 "program.cl"\n{source}' if "__FILE__" in source else source

    def described(self, slot: ProgramSlot) -> dict[str, Any]:
        """Return the facts that the helper needs."""
        from kcl.drivers.pocl import asking

        return asking.facts(slot.options.text)

    def completed(self, program: cl.Program, slot: ProgramSlot, entry: Entry) -> Entry | None:
        """Return None: the helper asks for the binary, and spares the user's process the time.

        Of a program whose header is too new for that the binary is asked for now. It holds the code that fits every
        local size, and none for the launches.
        """
        from kcl.drivers.pocl import asking

        return asking.complete_early(
            slot, entry, lambda: Driver.completed(self, program, slot, entry)
        )

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Write jobs: the driver will have compiled the code of the program. Start a helper if it is time."""
        with layers.binary().reporting("start the helper"):
            if promises:
                _state().helper.request(promises)
                if layers.binary().options.promote == "background":
                    from kcl.drivers.pocl import client

                    client.start(settings.folder("kcl"))

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Write jobs for a program whose launches kcl does not see; no helper is started for them before the end."""
        with layers.binary().reporting("ask a helper for the binary"):
            _state().helper.request_late(promises)

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Remember a program made of an entry, to check at the end whether the entry lacked any code."""
        if entry.metadata.get("place") and layers.binary().options.promote != "off":
            _state().loaded[slot.address] = slot, entry.metadata

    def awaited(self, slot: ProgramSlot) -> bool:
        """Wait for the helper that makes a missing entry; return False if none does, or if a build is faster."""
        with layers.binary().reporting("wait for the helper"):
            if _state().helper.wait(slot):
                return True
        return False

    def is_asked(self, slot: ProgramSlot) -> bool:
        """Return True if this process has written the job of a slot."""
        with layers.binary().reporting("wait for the helper"):
            if slot.address in _state().helper.asked:
                return True
        return False

    def flush(self, seconds: float, progress: Progress | None) -> bool:
        """Complete the entries of all programs that this process launched, and wait for it; see `kcl.flush`."""
        state = _state()
        with layers.binary().reporting("wait for the helper"):
            if state.helper.flush(state.partial, seconds, progress):
                return True
        return False

    def pending(self) -> OpenJobs | None:
        """Return the entries in the jobs."""
        from kcl.drivers.pocl import jobs

        return jobs.pending(settings.folder("kcl"))

    def quiet(self, folder: str, seconds: float) -> bool:
        """Drop all jobs and end the helper."""
        from kcl.drivers.pocl import client

        return client.quiet(folder, seconds)

    def damaged(self, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Judge the files of PoCL's cache by their form."""
        from kcl.drivers.pocl import files

        return files.damaged(folders)

    def files(self, binary: bytes) -> dict[str, bytes]:
        """Return the bitcode and the native code in a container of PoCL's."""
        return poclbin.read(binary).files() if binary.startswith(poclbin.MAGIC) else {}


def _holds(path: str, content: bytes) -> bool:
    """Return True if a file holds these bytes, or is missing."""
    try:
        with trust.open_to_read(path) as stream:
            return stream.read(len(content) + 1) == content
    except FileNotFoundError:
        return True
    except OSError:
        return False
