"""The user's process and PoCL's helper: it writes jobs, waits for entries, and reports code that entries lack.

A run in which every program hits does not import this module.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kcl import foreign
from kcl.base import process, settings
from kcl.cache import layers
from kcl.cache.entry import Entry, recorded_seconds
from kcl.cache.locks import state_of
from kcl.drivers.pocl import client, jobs, poclbin, traces
from kcl.errors import UnknownInput
from kcl.programs import headers
from kcl.programs.program_key import may_read

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.cache.key import Key
    from kcl.programs.driver import Progress, Promise
    from kcl.programs.program_key import ProgramSlot

# The seconds to wait for a helper that shows no progress. The second is for `KCL_STRICT=hit`, under which only the
# helper's entry helps.
_PATIENCE = 2.0
_STRICT_PATIENCE = 60.0


class HelperUse:
    """The jobs that this process has written for a helper, and its waits for them.

    `asked` has, by address, the key and the options of each program with a job, since later launches may need more code;
    also the device if the program was made from an entry, since an entry from elsewhere may name an equal device. `late`
    are the addresses of programs whose launches kcl does not see: their code is complete when the process ends. `stall`
    measures how long the helper has shown no progress. `worth` is the time in seconds that building the awaited programs
    would take, less the time waited. `in_vain` is True after a wait that brought no entry.
    """

    def __init__(self) -> None:
        self.asked: dict[str, tuple[Key, str, cl.Device | None]] = {}
        self.late: set[str] = set()
        self.stall = client.Stall()
        self.worth = 0.0
        self.in_vain = False

    def request(self, promises: Iterable[Promise]) -> None:
        """Write the jobs of promises, and remember their programs."""
        for address, entry in promises:
            options = entry.metadata["build_options"]
            self.asked.setdefault(address, (entry.key, options, None))
            try:
                client.request(settings.folder("kcl"), address, entry)
            except Exception as error:
                layers.binary().fault("ask a helper for the binary", error)

    def request_late(self, promises: tuple[Promise, ...]) -> None:
        """Write the jobs of a program whose launches kcl does not see."""
        self.request(promises)
        self.late.update([address for address, _job in promises])

    def wait(self, slot: ProgramSlot) -> bool:
        """Wait for the helper that makes a missing entry; return False if none does, or if a build is faster.

        A build is fast if PoCL's own cache has the program. Otherwise the wait ends after two seconds without progress of
        the helper, or once all waits together have taken as long as building and launching the awaited programs would.
        """
        layer, digest, folder = layers.binary(), slot.key.digest, settings.folder("kcl")
        if slot.address in self.late:
            if layer.options.promote == "background":
                # The program is built a second time, so it was launched meanwhile, and its code is complete.
                client.start(folder)
            return False
        queue = jobs.JobQueue(folder)
        job = queue.find(digest)
        if job is None:
            # Without a job there is nothing to wait for, unless a running helper has just done it.
            return queue.has_helper()
        starts = layer.options.promote != "off"
        if "hit" in layer.options.strict:
            client.wait(folder, digest, client.Stall(), _STRICT_PATIENCE, starts=starts)
        else:
            entry = queue.read(job)
            if entry is None or _is_built(entry, self.in_vain):
                return False
            # PoCL specialises the code at the first launch, which takes about as long as the build.
            self.worth += 2 * recorded_seconds(entry)
            self.worth -= client.wait(folder, digest, self.stall, _PATIENCE, self.worth, starts)
        self.in_vain = queue.find(digest) is not None
        return not self.in_vain

    def flush(
        self,
        partial: Callable[[], list[ProgramSlot]],
        seconds: float,
        progress: Progress | None,
    ) -> bool:
        """Complete the entries of all programs that this process launched, and wait for it; see `kcl.flush`."""
        from kcl.cache.progress import ProgressLine

        folder = settings.folder("kcl")
        with ProgressLine() as line:
            told = progress or (
                lambda done, total: line.say(f"completing entries: {done} of {total}")
            )
            # First the jobs that are there: one in work may lack the size of a later launch.
            if self.asked:
                client.idle(folder, seconds, told, starts=True)
            with layers.binary().reporting("complete entries"):
                self._hand_over(partial())
            done = client.idle(folder, seconds, told, starts=True)
        client.dismiss(folder)
        return done

    def complete(self, partial: list[ProgramSlot]) -> None:
        """Have a helper add the code that entries lack: those in `partial`, and those with jobs of this process."""
        try:
            self._hand_over(partial)
        finally:
            if self.asked:
                client.start(settings.folder("kcl"))

    def _hand_over(self, partial: list[ProgramSlot]) -> None:
        """Write jobs for code that PoCL has compiled and that the entries lack."""
        cache = foreign.active_directory("pocl")
        self.late.clear()
        if cache is None:
            return
        for slot in partial:
            self.asked[slot.address] = slot.key, slot.options.text, slot.device
        promises, kernels = list[tuple[str, Entry]](), set[str]()
        for address, (key, options, device) in [*self.asked.items()]:
            # Read again, since a helper may have completed the entry in the meantime.
            entry = layers.binary().look_up(address, key).entry
            if entry is None or not (lacking := poclbin.lacking(cache, entry.metadata)):
                continue
            about = {**entry.metadata, **facts(options), "created": int(time.time())}
            if device is not None:
                about["device"] = {"name": device.name, "driver": device.driver_version}
                kernels.update(lacking)
            parts = {name: part for name, part in entry.parts.items() if name != "binary"}
            promises.append((address, Entry(entry.key, about, parts)))
        if kernels:
            layers.binary().note(
                f"partial hit: PoCL compiled code of {', '.join(sorted(kernels))} that the entries lack; a helper adds "
                "it: `python -m kcl wait` waits for that"
            )
        self.request(promises)


def facts(options: str) -> dict[str, Any]:
    """Return the metadata that the helper needs: the store, the options, the variables, and PoCL's own cache."""
    return {
        "binaries": layers.binary().place,
        "build_options": options,
        "environment": foreign.read_variables(),
        "pocl_cache": foreign.active_directory("pocl"),
    }


def complete_early(
    slot: ProgramSlot, entry: Entry, ask: Callable[[], Entry | None]
) -> Entry | None:
    """Return the entry with the binary from `ask` if a header is newer than this process; else None.

    Such a header may change again before the helper reads it. As in the helper's entries, paths of this process are
    removed.
    """
    source = entry.parts["source.cl"].decode("utf-8", "surrogatepass")
    try:
        if not may_read(source) or (
            headers.newest(source, slot.options.directories) <= process.STARTED / 1e9
        ):
            return None
    except (OSError, UnknownInput):
        # A header is gone.
        return None
    whole = ask()
    assert whole is not None
    names, folder = facts(""), os.path.abspath(foreign.directory_in_use("pocl"))
    about = {name: value for name, value in whole.metadata.items() if name not in names}
    blob = traces.overwritten(whole.parts["binary"], [folder])
    log = traces.without_directories(whole.parts["build.log"])
    return Entry(whole.key, about, {**whole.parts, "build.log": log, "binary": blob})


def _is_built(job: Entry, in_vain: bool) -> bool:
    """Return True if PoCL's own cache has the program of a job, so that building it is fast.

    The process that wrote the job built it there. While that process runs, code for its launches may still be missing, so
    the answer is False. After one wait `in_vain` this is ignored, or each program would wait for a slow helper.
    """
    about = job.metadata
    cache, writer = about.get("pocl_cache"), str(about.get("process", ""))
    is_here = (
        cache is not None and cache == foreign.active_directory("pocl") and os.path.isdir(cache)
    )
    return is_here and (in_vain or writer == str(os.getpid()) or not state_of(writer))
