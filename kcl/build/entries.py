"""Entries of the binary layer: the facts stored beside a program's binary."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.cache.entry import Entry

if TYPE_CHECKING:
    from kcl.build.driver import Driver
    from kcl.build.program_key import ProgramSlot
    from kcl.code import ProgramText


def entry_of(
    text: ProgramText, slot: ProgramSlot, log: str, seconds: float, launch: Mapping[str, Any] | None, driver: Driver
) -> Entry:
    """Describe a program that was built in `seconds`, for a launch of these shapes; its binary is not in it."""
    device = slot.device
    for directory in sorted(filter(os.path.isabs, slot.options.directories), key=len, reverse=True):
        log = log.replace(directory, os.path.basename(directory) or directory)  # the log names headers by their place
    metadata = {
        "kernel": text.kernel,
        "kernels": list(text.kernels),
        "program": text.source_digest,
        "options": list(slot.options.flags),
        "platform": {"name": device.platform.name, "version": device.platform.version},
        "device": {"name": device.name, "driver": device.driver_version},
        "seconds": seconds,
        "created": int(time.time()),
        **({} if launch is None else {"launch": launch}),
        **driver.described(slot),
    }
    source = driver.given(text.source).encode("utf-8", "surrogatepass")
    return Entry(slot.key, metadata, {"source.cl": source, "build.log": log.encode("utf-8", "surrogatepass")})
