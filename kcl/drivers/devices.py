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

# of each device the place of its platform, its place in that, its name
DevicePlaces = tuple[tuple[int, int, str], ...]
UNITS = "compute units"
# the first words of the parts that another program has otherwise
OF_A_PROGRAM = (
    "source",
    "options",
    "header",
)


def parts(found: Iterable[Part]) -> list[Part]:
    """Return the parts of a program key for a device with this identity, as of now."""
    return [Part("format", program_key.FORMAT), *found, *variables()]


def of_table(key: Key) -> Key:
    """Return the parts of a key of tuned choices that `parts` gave it: they stand before the compute units."""
    names = [part.name for part in key.parts]
    first = names.index("format") if "format" in names else 0
    return Key(key.parts[first : names.index(UNITS) if UNITS in names else 0])


def compared(key: Key) -> tuple[Key, Key | None]:
    """Return the parts of a program key that describe its device, and those of the most similar device here.

    None stands for a machine without a device of the platform. The first call asks OpenCL for platforms.
    """
    import pyopencl as cl

    mine = Key([part for part in key.parts if not part.name.startswith(OF_A_PROGRAM)])
    try:
        found = [one for one in cl.get_platforms() if one.name == dict(key.parts).get("platform")]
    except cl.Error:  # no platform at all
        found = []
    here = [
        Key(parts(drivers.named(one.name).identity(device)))
        for one in found
        for device in one.get_devices()
    ]
    return mine, min(here, key=lambda one: len(mine.diff(one)), default=None)


def places_of(context: cl.Context) -> DevicePlaces:
    """Return the places of a context's devices; none if one has no place, for example a part of a device."""
    import pyopencl as cl

    places = {
        device: (number, place, device.name)
        for number, platform in enumerate(cl.get_platforms())
        for place, device in enumerate(platform.get_devices())
    }
    found = tuple([places[device] for device in context.devices if device in places])
    return found if len(found) == len(context.devices) else ()


@functools.cache
def context_at(places: DevicePlaces) -> cl.Context:
    """Return a context of the devices at these places; raises LookupError if another device is there."""
    import pyopencl as cl

    platforms = cl.get_platforms()
    found = [(platforms[number].get_devices()[place], name) for number, place, name in places]
    other = [name for device, name in found if device.name != name]
    if other:
        raise LookupError(f"device {other[0]} is not found in this process")
    return cl.Context([device for device, _name in found])
