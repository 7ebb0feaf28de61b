"""Entries of the binary layer: the facts stored beside a program's binary."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from kcl.cache.entry import Entry

if TYPE_CHECKING:
    from kcl.build.driver import Driver
    from kcl.build.program_key import ProgramSlot
    from kcl.code import ProgramText


def log_of(entry: Entry, slot: ProgramSlot) -> str:
    """Return the log of an entry's build, with the include directories of this run."""
    log = entry.parts.get("build.log", b"").decode("utf-8", "replace")
    for mark, directory in _marks(slot):
        log = log.replace(mark, directory)
    return log


def _marks(slot: ProgramSlot) -> list[tuple[str, str]]:
    """Return the marks that stand for the include directories in a stored log, the longest directory first."""
    marks = [(f"<include {number}>", one) for number, one in enumerate(slot.options.directories) if os.path.isabs(one)]
    return sorted(marks, key=lambda one: len(one[1]), reverse=True)


def entry_of(text: ProgramText, slot: ProgramSlot, log: str, seconds: float, driver: Driver) -> Entry:
    """Describe a program that was built in `seconds`; its binary is not in it."""
    device = slot.device
    for mark, directory in _marks(slot):
        log = log.replace(directory, mark)  # the log names headers by their place
    metadata = {
        "kernel": text.kernel,
        "kernels": list(text.kernels),
        "program": text.source_digest,
        "options": list(slot.options.flags),
        "platform": {"name": device.platform.name, "version": device.platform.version},
        "device": {"name": device.name, "driver": device.driver_version},
        "seconds": seconds,
        "created": int(time.time()),
        **driver.described(slot),
    }
    source = driver.given(text.source).encode("utf-8", "surrogatepass")
    return Entry(slot.key, metadata, {"source.cl": source, "build.log": log.encode("utf-8", "surrogatepass")})
