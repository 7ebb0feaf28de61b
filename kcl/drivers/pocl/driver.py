"""Pocl: PoCL's driver. It is slow to give out a binary, so a helper completes entries.

A process writes the job of a program at its first launch. `KCL_PROMOTE` says when a helper is started: `background`
with the first job, `exit` as the process ends, `off` never by itself. `flush` starts one now, whatever the variable
says. Entries that were found are checked too: if PoCL compiled for a launch size that the entry lacks, the hit was
partial, and the entry is completed in the same way.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl import foreign
from kcl.base import process
from kcl.base.settings import option, trust
from kcl.cache import layers
from kcl.cache.entry import Entry, recorded_seconds
from kcl.cache.stores.directory import publish
from kcl.drivers.pocl import poclbin
from kcl.errors import CacheFault, UnknownInput
from kcl.programs.driver import Driver
from kcl.programs.program_key import may_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyopencl as cl

    from kcl.cache.key import Key, Part
    from kcl.drivers.pocl import client
    from kcl.programs.driver import Progress, Promise
    from kcl.programs.open_jobs import OpenJobs
    from kcl.programs.program_key import ProgramSlot

# How long a process waits for a helper that shows no progress. If only a hit will do, it can only wait.
_PATIENCE = 2.0
_STRICT_PATIENCE = 60.0


def _cpu(device: cl.Device) -> str:
    """Return LLVM's name of the CPU that a device compiles for; empty for any other device."""
    match = re.search(r"HSTR: (?:pthread|basic|cpu)-\S+-linux-\w+-(\S+)$", device.version)
    return match[1] if match else ""


def _is_cpu(device: cl.Device) -> bool:
    """Return True for PoCL's own devices for the CPU, whose names are those of the versions so far."""
    return re.search(r"HSTR: (?:pthread|basic|cpu)-", device.version) is not None


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


class HelperUse:
    """The waiting of this process for a helper, and its programs by address.

    `stall` is how long the helper has shown no progress, None before the first wait. `worth` are the seconds that it
    takes to build the programs awaited so far, less those waited. `in_vain` is True after a wait that brought no entry.
    Any number of contexts may share a program that was launched or loaded. `unseen` are the addresses of programs whose
    launches kcl does not see: their code is there as the process ends.
    """

    def __init__(self) -> None:
        self.stall: client.Stall | None = None
        self.worth = 0.0
        self.in_vain = False
        self.used: dict[str, UsedProgram] = {}
        self.unseen: set[str] = set()
        # True if this process has written a job.
        self.has_asked = False

    def at_exit(self) -> None:
        """Have a helper do what is left."""
        if layers.binary().chosen.promote != "off":
            _hand_over(self)
            if self.has_asked:
                _start()

    before_change = at_exit


_state = process.own(HelperUse)


@contextmanager
def _reporting(what: str) -> Iterator[None]:
    """Report that the helper, or the place of its jobs, fails: programs run as they would without it."""
    try:
        yield
    except (OSError, ImportError, CacheFault, ValueError) as error:
        layers.binary().fault(what, error)


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
        return "" if _is_cpu(device) else f"kcl has not been tried with PoCL's device {device.name}"

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
        """Return the facts that the helper needs: the store, the options, the variables, and PoCL's own cache."""
        return _facts(slot.options.text)

    def completed(self, program: cl.Program, slot: ProgramSlot, entry: Entry) -> Entry | None:
        """Return None: the helper asks for the binary, and spares the user's process the time.

        A header that was written since kcl was imported may be another one before the helper reads it. Of such a
        program the binary is asked for now. It holds the code that fits every local size, and none for the launches.
        """
        source = entry.parts["source.cl"].decode("utf-8", "surrogatepass")
        if not may_read(source):
            return None
        from kcl.drivers.pocl import traces
        from kcl.programs import headers

        try:
            newest = headers.newest(source, slot.options.directories)
        except (OSError, UnknownInput):
            # A header is gone.
            return None
        if newest <= process.STARTED / 1e9:
            return None
        whole = super().completed(program, slot, entry)
        assert whole is not None
        own, folder = _facts(""), os.path.abspath(foreign.directory_in_use("pocl"))
        about = {name: value for name, value in whole.metadata.items() if name not in own}
        blob = traces.overwritten(whole.parts["binary"], [folder])
        log = traces.without_directories(whole.parts["build.log"])
        return Entry(entry.key, about, {**whole.parts, "build.log": log, "binary": blob})

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Write jobs: the driver will have compiled the code of the program. Start a helper if it is time."""
        if promises:
            _request(promises)
            if layers.binary().chosen.promote == "background":
                _start()

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Write jobs for a program whose launches kcl does not see; no helper is started for them before the end."""
        _request(promises)
        _state().unseen.update([address for address, _job in promises])

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Remember a program made of an entry, to check at the end whether the entry lacked any code."""
        if entry.metadata.get("place") and layers.binary().chosen.promote != "off":
            program = UsedProgram(
                slot.address, entry.key, slot.options.text, entry.metadata, slot.device
            )
            _state().used[slot.address] = program

    def awaited(self, slot: ProgramSlot, is_there: bool = False) -> bool:
        """Wait for the helper that makes a missing entry; return False if none does, or if a build is faster.

        A build is fast if PoCL's own cache has the program, and so is what an entry lacks that `is_there`. Else the wait
        ends after two seconds in which the helper has done nothing, or as many as the builds and first launches of all
        programs that were awaited take.
        """
        state, layer, digest = _state(), layers.binary(), slot.key.digest
        if is_there or slot.address in state.unseen:
            if not is_there and layer.chosen.promote == "background":
                # The program is built again: it was launched meanwhile.
                _start()
            return False
        try:
            from kcl.drivers.pocl import client, jobs

            folder = option.folder("kcl")
            queue = jobs.JobQueue(folder)
            job = queue.find(digest)
            if job is None:
                # The job has gone: a helper may have done it already.
                return queue.has_helper()
            starts = layer.chosen.promote != "off"
            if "hit" in layer.chosen.strict:
                client.wait(folder, digest, _STRICT_PATIENCE, starts=starts)
            else:
                entry = queue.read(job)
                if entry is None or _is_built(entry, state.in_vain):
                    return False
                # PoCL specialises the code at the first launch, which takes about as long as the build.
                state.worth += 2 * recorded_seconds(entry)
                state.stall, waited = client.wait(
                    folder, digest, _PATIENCE, state.worth, starts, state.stall
                )
                state.worth -= waited
            is_done = queue.find(digest) is None
            state.in_vain = not is_done
            return is_done
        except (OSError, ImportError, CacheFault) as error:
            layer.fault("wait for the helper", error)
            return False

    def is_asked(self, slot: ProgramSlot) -> bool:
        """Return True if this process has written the job of a slot."""
        return slot.address in _state().used

    def flush(self, seconds: float, progress: Progress | None) -> bool:
        """Complete the entries of all programs that this process launched, and wait for it; see `kcl.flush`."""
        state, folder, done = _state(), option.folder("kcl"), False
        with _reporting("wait for the helper"):
            from kcl.cache.progress import ProgressLine
            from kcl.drivers.pocl import client

            with ProgressLine() as line:
                told = progress or (
                    lambda done, total: line.say(f"completing entries: {done} of {total}")
                )
                # A job in work may lack the size of a later launch.
                if state.has_asked:
                    client.idle(folder, seconds, told, starts=True)
                _hand_over(state)
                done = client.idle(folder, seconds, told, starts=True)
            client.dismiss(folder)
        return done

    def pending(self) -> OpenJobs | None:
        """Return the entries in the jobs."""
        from kcl.drivers.pocl import jobs

        return jobs.pending(option.folder("kcl"))

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


def _facts(options: str) -> dict[str, Any]:
    return {
        "binaries": layers.binary().place,
        "build_options": options,
        "environment": foreign.read_variables(),
        "pocl_cache": _own_cache(),
    }


def _own_cache() -> str | None:
    """Return the directory of PoCL's own cache, None if that is off."""
    return None if foreign.off("pocl") else os.path.abspath(foreign.directory_in_use("pocl"))


def _is_built(job: Entry, in_vain: bool) -> bool:
    """Return True if PoCL's cache here has the program of a job, and the code of its launches.

    The process that wrote the job built it there, and PoCL may still compile at a launch as long as that process runs.
    After a wait in vain the program is enough: a slow helper would be awaited for each one.
    """
    from kcl.cache.locks import state_of

    facts = job.metadata
    cache, writer = facts.get("pocl_cache"), str(facts.get("process", ""))
    is_here = cache is not None and cache == _own_cache() and os.path.isdir(cache)
    return is_here and (in_vain or writer == str(os.getpid()) or not state_of(writer))


def _start() -> None:
    """Make sure that a helper works on the jobs, if there are any; raises nothing."""
    with _reporting("start the helper"):
        from kcl.drivers.pocl import client

        client.start(option.folder("kcl"))


def _hand_over(state: HelperUse) -> None:
    """Write jobs for the code that PoCL compiled and no entry has."""
    state.unseen.clear()
    with _reporting("complete entries"):
        _request(_partial(list(state.used.values())))


def _request(jobs: Iterable[Promise]) -> None:
    """Write jobs, and remember their programs: later launches may need further code."""
    state = _state()
    for address, entry in jobs:
        state.has_asked = True
        state.used.setdefault(
            address, UsedProgram(address, entry.key, entry.metadata["build_options"])
        )
        try:
            from kcl.drivers.pocl import client

            client.request(option.folder("kcl"), address, entry)
        except Exception as error:
            layers.binary().fault("ask a helper for the binary", error)


def _partial(used: list[UsedProgram]) -> list[Promise]:
    """Return the jobs of programs for which the driver compiled code that their entry lacks."""
    cache = _own_cache()
    if not used or cache is None:
        return []
    jobs, kernels = [], set[str]()
    for program in used:
        if program.about is not None and not _lacking(cache, program.about):
            continue
        # A helper may have completed the entry since.
        entry = layers.binary().look_up(program.address, program.key).entry
        lacking = (
            _lacking(cache, entry.metadata)
            if entry is not None and entry.metadata.get("place")
            else []
        )
        if entry is not None and lacking:
            jobs.append((program.address, _job_of(entry, program)))
            kernels.update(lacking if program.about is not None else ())
    if kernels:
        note = (
            f"partial hit: PoCL compiled code of {', '.join(sorted(kernels))} that the entries lack"
        )
        layers.binary().note(f"{note}; a helper adds it: `python -m kcl wait` waits for that")
    return jobs


def _lacking(cache: str, about: Mapping[str, Any]) -> list[str]:
    """Name the kernels for which PoCL has code that the entry lacks, also kernels that the entry does not name."""
    from kcl.drivers.pocl import files

    there, specialised = (
        files.sizes_by_kernel(files.specialised_paths(cache, about["place"])),
        about["specialisations"],
    )
    return [
        kernel
        for kernel, sizes in there.items()
        if {*sizes} - {files.GENERIC, *specialised.get(kernel, ())}
    ]


def _job_of(entry: Entry, program: UsedProgram) -> Entry:
    about = _facts(program.options)
    if program.device is not None:
        about["device"] = {"name": program.device.name, "driver": program.device.driver_version}
    parts = {name: part for name, part in entry.parts.items() if name != "binary"}
    return Entry(entry.key, {**entry.metadata, **about, "created": int(time.time())}, parts)


def _holds(path: str, content: bytes) -> bool:
    """Return True if a file holds these bytes, or is missing."""
    try:
        with trust.reading(path) as stream:
            return stream.read(len(content) + 1) == content
    except FileNotFoundError:
        return True
    except OSError:
        return False
