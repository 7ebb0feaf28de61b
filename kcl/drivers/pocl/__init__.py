"""PoCL's driver. It takes long to return a binary, so a helper process completes entries in the background.

A process writes a *job* for a program at its first launch. `KCL_PROMOTE` says when a helper is started: `background`
with the first job, `exit` when the process ends, `off` never. `kcl flush` starts one in any case. A hit may be
*partial*: PoCL had to compile for a launch size that the entry lacks. The helper completes that entry in the same way.
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
    """Return LLVM's name of the CPU if a device is PoCL's CPU device; None for another device.

    The name is empty if the device version lacks it. The pattern has the names of this device in all known versions.
    """
    form = r"HSTR: (?:pthread|basic|cpu)-(?:\S+-linux-\w+-(\S+)$)?"
    match = re.search(form, device.version)
    return match and (match[1] or "")


class UsedPrograms:
    """The programs of this process: those made from entries (`loaded`), and those that a helper is to complete.

    `loaded` has the slot and the metadata of the entry by address. Several contexts may share a program.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, tuple[ProgramSlot, Mapping[str, Any]]] = {}

    @property
    def helper(self) -> HelperUse:
        """The jobs of this process for a helper. Made late, so that a run in which every program hits imports nothing."""
        from kcl.drivers.pocl.asking import HelperUse

        # One step: another thread may be faster.
        use: HelperUse = vars(self).setdefault(_HELPER, HelperUse())
        return use

    def partial(self) -> list[ProgramSlot]:
        """Return the slots of programs for which PoCL compiled code that their entries lack."""
        cache = foreign.active_directory("pocl")
        return [
            slot
            for slot, about in list(self.loaded.values())
            if cache is not None and poclbin.lacking(cache, about)
        ]

    def at_exit(self) -> None:
        """Have a helper do the remaining jobs, and add the code that entries lack."""
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


# The attribute in which the state keeps its `HelperUse`.
_HELPER = "_helper"
_state = process.own(UsedPrograms)


class Pocl(Driver):
    """PoCL's driver. Before it returns a binary it compiles a generic function for each kernel, which takes long."""

    may_fork = True

    def loading(self, entry: Entry) -> None:
        """Before PoCL loads a binary, replace the files of its cache that differ from the entry's. Thread-safe.

        PoCL does not check its files, and prefers a file of its cache to the one in the binary, so a damaged file would
        crash every process that loads the program. The entry's files are verified, and are those that PoCL would write for
        the binary. A missing file is left to PoCL. If a file cannot be replaced, the program's whole folder is removed.
        Raises nothing.

        Whole files are compared, which takes 20 to 30 microseconds for a program of two files: a changed byte shows neither
        in a file's form nor, after a backup was restored, in its time.
        """
        try:
            container = poclbin.read(entry.parts["binary"])
        except ValueError:
            # The binary has the format of another version of PoCL.
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
            # `rmtree` leaves a file or a link in the place of the folder.
            with suppress(OSError):
                os.unlink(folder)

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the identity without the CPU's marketing name: PoCL compiles for LLVM's name, in the device version."""
        parts = super().identity(device)
        return tuple([part for part in parts if part.name != "device"]) if _cpu(device) else parts

    def untried(self, device: cl.Device) -> str:
        """Return why programs for a device other than PoCL's CPU are not cached: the helper was made for CPUs."""
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
        """Return the source with a `#line` if it uses `__FILE__`: PoCL compiles a file with another name in each build."""
        return f'#line 1 "program.cl"\n{source}' if "__FILE__" in source else source

    def described(self, slot: ProgramSlot) -> dict[str, Any]:
        """Return the facts that the helper needs."""
        from kcl.drivers.pocl import asking

        return asking.facts(slot.options.text)

    def completed(self, program: cl.Program, slot: ProgramSlot, entry: Entry) -> Entry | None:
        """Return None, since the helper gets the binary later.

        If a header was changed only just now, the binary is fetched at once: the header may change again before the helper
        reads it. That binary has generic code only, none for the launched sizes.
        """
        from kcl.drivers.pocl import asking

        return asking.complete_early(
            slot, entry, lambda: Driver.completed(self, program, slot, entry)
        )

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Write jobs for promises, and start a helper if `KCL_PROMOTE` says so."""
        with layers.binary().reporting("start the helper"):
            if promises:
                _state().helper.request(promises)
                if layers.binary().options.promote == "background":
                    from kcl.drivers.pocl import client

                    client.start(settings.folder("kcl"))

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Write jobs for promises whose launches kcl does not see; a helper starts for them when the process ends."""
        with layers.binary().reporting("ask a helper for the binary"):
            _state().helper.request_late(promises)

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Remember a program made from an entry, to check at the end whether the entry lacked code."""
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
        """Return the entries in the job queue."""
        from kcl.drivers.pocl import jobs

        return jobs.pending(settings.folder("kcl"))

    def quiet(self, folder: str, seconds: float) -> bool:
        """Drop all jobs and end the helper."""
        from kcl.drivers.pocl import client

        return client.quiet(folder, seconds)

    def damaged(self, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the damaged files of PoCL's cache; they are checked by their form."""
        from kcl.drivers.pocl import files

        return files.damaged(folders)

    def files(self, binary: bytes) -> dict[str, bytes]:
        """Return the bitcode and the native code in a binary of PoCL's."""
        return poclbin.read(binary).files() if binary.startswith(poclbin.MAGIC) else {}


def _holds(path: str, content: bytes) -> bool:
    """Return True if a file has exactly this content, or is missing."""
    try:
        with trust.open_to_read(path) as stream:
            return stream.read(len(content) + 1) == content
    except FileNotFoundError:
        return True
    except OSError:
        return False
