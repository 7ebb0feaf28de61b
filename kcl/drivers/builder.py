"""The child process of `kcl rebuild`: it builds the programs of entries for this machine's devices and launches them.

The parent calls these methods:

    devices()                       -> the names of the devices that were asked for
    build(device, address, blob)    -> (Verdict, address of the new entry): "there", "built", or what is wrong
    launch()                        -> what is wrong with a launch of that program, empty if nothing is
    leave()                         -> None: the program is completed without specialised code

No front end is needed: an entry has the source of its program and its first launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyopencl as cl

from kcl import drivers
from kcl.base.settings import option
from kcl.cache.entry import Entry, entry_at
from kcl.cache.key import Part
from kcl.drivers.child import Verdict, serve
from kcl.errors import UnknownInput
from kcl.launch import first
from kcl.programs.compilation import refusal, text_of
from kcl.programs.headers import ABSENT
from kcl.programs.stage import Build, BuildRequest, BuiltProgram, build_of

THERE, BUILT, FAILED, LACKS_HEADER = "there", "built", "does not build", "lacks a header"


class Order(NamedTuple):
    """The task of a child: the folder of the cache, include directories, and a text that the device's name contains."""

    folder: str
    directories: tuple[str, ...] = ()
    device: str = ""


def main(descriptor: int) -> None:
    """Run the child: build for the parent until it ends the connection."""
    serve(descriptor, Builder)


class Builder:
    """The build stages of the child, one for each kind of device, and the program that was built last."""

    def __init__(self, order: Order) -> None:
        option.cache_dir(order.folder)
        self._order = order
        self._builds = list(_builds(order.device.lower()))
        self._built: BuiltProgram | None = None
        self._launches: dict[str, Any] = {}

    def devices(self) -> list[str]:
        """Return the name of each kind of device."""
        return [
            f"{build.devices[0][0].platform.name}, {build.devices[0][1]}" for build in self._builds
        ]

    def build(self, device: int, address: str, blob: bytes) -> tuple[Verdict, str]:
        """Build the program of an entry for a device, unless a complete entry is there."""
        build, entry = self._builds[device], entry_at(address, blob)
        try:
            # pyopencl adds these flags itself, so the stored ones are dropped.
            added = build.options(()).flags
            flags = [flag for flag in entry.metadata["options"] if flag not in added]
            flags += [f"-I{directory}" for directory in self._order.directories]
            text = text_of(entry, tuple(flags))
            slots = build.slots(text)
            if lost := _lost(entry, slots[0].key.parts):
                return Verdict(LACKS_HEADER, lost), ""
            stored = build.layer.read(slots[0].address)
            if stored is not None and stored.metadata.get("complete"):
                return Verdict(THERE), slots[0].address
            wanted = BuildRequest(text, site=str(entry.metadata.get("site", "")))
            self._built = build.rebuilt(wanted, build.digest(text, ""), slots)
        except UnknownInput as error:
            return Verdict(LACKS_HEADER, str(error)), ""
        except Exception as error:
            return Verdict(FAILED, refusal(error) or f"{type(error).__name__}: {error}"), ""
        launched = entry.metadata.get("launched")
        launches = launched if isinstance(launched, dict) else {}
        self._launches = {name: launch for name, launch in launches.items() if launch}
        return Verdict(BUILT), slots[0].address

    def launch(self) -> str:
        """Launch the program as in its recorded first launch; return the fault, empty for none."""
        assert self._built is not None
        fault = "" if self._launches else "its first launch is not recorded"
        try:
            queue = cl.CommandQueue(self._built.build.context)
            fault = fault or first.launch(queue, self._built.program, self._launches)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            self.leave()
        elif self._built.unfinished is not None:
            self._built.unfinished.note_launches(self._launches, lambda: self._launches)
        return fault

    def leave(self) -> None:
        """Have the program's entry completed without a launch."""
        assert self._built is not None
        self._built.note_prepared()


def _builds(text: str) -> Iterator[Build]:
    """Yield a stage for each kind of device whose name contains a text; equal devices are one kind."""
    seen = set[tuple[Part, ...]]()
    for platform in cl.get_platforms():
        for device in platform.get_devices():
            identity = drivers.named(platform.name).identity(device)
            if identity not in seen and text in f"{platform.name} {device.name}".lower():
                seen.add(identity)
                build = build_of(cl.Context([device]), drivers.of)
                if not build.untried:
                    yield build


def _lost(entry: Entry, now: tuple[Part, ...]) -> str:
    """Name the headers of an entry that are not found here; empty if there are none."""
    before = {part.name for part in entry.key.parts if part.value == ABSENT}
    return ", ".join(
        [
            part.name.partition(" ")[2]
            for part in now
            if part.value == ABSENT and part.name not in before
        ]
    )
