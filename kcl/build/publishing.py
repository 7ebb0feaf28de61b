"""What is stored of a program that was built: its entry, with the binary where the driver gives it out at once."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl.cache import layers
from kcl.caches import directory_in_use, state
from kcl.drivers.identity import is_pocl
from kcl.cache.entry import Entry

if TYPE_CHECKING:
    from kcl.generate.code import Generated
    from kcl.build.program import Slot


def entry_of(generated: Generated, slot: Slot, log: str, seconds: float, arguments: Mapping[str, Any] | None) -> Entry:
    """Describe a program that was built in `seconds`, for a launch with these arguments; its binary is not in it."""
    device = slot.device
    metadata = {
        "kernel": generated.kernel,
        "kernels": list(generated.kernels),
        "options": list(slot.options.flags),
        "platform": {"name": device.platform.name, "version": device.platform.version},
        "device": {"name": device.name, "driver": device.driver_version},
        "seconds": seconds,
        "created": int(time.time()),
        **_launch(arguments),
    }
    if is_pocl(device):
        metadata["binaries"] = layers.binary().place
        metadata["build_options"] = slot.options.text
        metadata["pocl_cache"] = os.path.abspath(directory_in_use("pocl")) if state("pocl").on else None
    source = generated.source.encode("utf-8", "surrogatepass")
    return Entry(slot.key, metadata, {"source.cl": source, "build.log": log.encode("utf-8", "surrogatepass")})


def publish(program: cl.Program, slot: Slot, entry: Entry) -> int:
    """Store an entry with its binary, which the driver is asked for; returns the bytes stored, 0 without one."""
    layer = layers.binary()
    try:
        devices = program.get_info(cl.program_info.DEVICES)
        binary = program.get_info(cl.program_info.BINARIES)[devices.index(slot.device)]
    except (cl.Error, ValueError, IndexError) as error:
        layer.fault("ask the driver for the binary", error)
        return 0
    if not binary:
        return 0
    whole = Entry(entry.key, {**entry.metadata, "complete": True}, {**entry.parts, "binary": binary})
    return layer.publish(slot.address, whole)


def _launch(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe the launch that a program is built for; nothing where that cannot be known."""
    if arguments is None:
        return {}
    from kcl.build import shapes

    try:
        return {"launch": shapes.described(arguments)}
    except shapes.Unknown:
        return {}
