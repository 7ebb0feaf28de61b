"""The devices of this machine, as the keys of their programs describe them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcl import drivers
from kcl.cache.key import Key, Part
from kcl.programs import program_key
from kcl.programs.driver import variables

if TYPE_CHECKING:
    import pyopencl as cl

# For each device: the number of its platform, its number in the platform, its name.
DevicePlaces = tuple[tuple[int, int, str], ...]
UNITS = "compute units"
# The beginnings of the names of those key parts that belong to the program and not to the device.
OF_A_PROGRAM = ("source", "options", "header")


def parts(identity: Iterable[Part]) -> list[Part]:
    """Return those parts of a program key that describe a device with this identity and the current variables."""
    return [Part("format", program_key.FORMAT), *identity, *variables()]


def of_table(key: Key) -> Key:
    """Return the parts of a tuning table's key that came from `parts`; they precede the number of compute units."""
    names = [part.name for part in key.parts]
    first = names.index("format") if "format" in names else 0
    return Key(key.parts[first : names.index(UNITS) if UNITS in names else 0])


def compared(key: Key) -> tuple[Key, Key | None]:
    """Return the parts of a program key that describe its device, and those of the most similar device here.

    The second is None if this machine has no device of that platform. The first call asks OpenCL for its platforms.
    """
    import pyopencl as cl

    mine = Key([part for part in key.parts if not part.name.startswith(OF_A_PROGRAM)])
    try:
        name = dict(key.parts).get("platform")
        platforms = [platform for platform in cl.get_platforms() if platform.name == name]
    except cl.Error:
        # There is no platform at all.
        platforms = []
    here = [
        Key(parts(drivers.named(platform.name).identity(device)))
        for platform in platforms
        for device in platform.get_devices()
    ]
    return mine, min(here, key=lambda other: len(mine.diff(other)), default=None)


def places_of(context: cl.Context) -> DevicePlaces:
    """Return the places of a context's devices; empty if OpenCL does not list one of them, such as a sub-device."""
    import pyopencl as cl

    places = {
        device: (number, place, device.name)
        for number, platform in enumerate(cl.get_platforms())
        for place, device in enumerate(platform.get_devices())
    }
    own_places = tuple([places[device] for device in context.devices if device in places])
    return own_places if len(own_places) == len(context.devices) else ()


@functools.cache
def context_at(places: DevicePlaces) -> cl.Context:
    """Return a context of the devices at these places; raises LookupError if another device is there."""
    import pyopencl as cl

    platforms = cl.get_platforms()
    named_devices = [
        (platforms[number].get_devices()[place], name) for number, place, name in places
    ]
    other = [name for device, name in named_devices if device.name != name]
    if other:
        raise LookupError(f"device {other[0]} is not found in this process")
    return cl.Context([device for device, _name in named_devices])
