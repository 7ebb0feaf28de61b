"""Entries of the binary layer: the facts stored beside a program's binary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kcl.build.options import marks
from kcl.cache.entry import Entry

if TYPE_CHECKING:
    from kcl.build.driver import Driver
    from kcl.build.program_key import ProgramSlot
    from kcl.code import ProgramText


def entry_of(text: ProgramText, slot: ProgramSlot, log: str, seconds: float, driver: Driver) -> Entry:
    """Describe a program that was built in `seconds`; its binary is not in it."""
    device = slot.device
    for mark, directory in marks(slot.options):
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
