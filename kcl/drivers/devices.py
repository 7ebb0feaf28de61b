"""The devices of this machine, as the keys of their programs describe them."""

from __future__ import annotations

from collections.abc import Iterable

from kcl import drivers
from kcl.build import identity, program_key
from kcl.cache.key import Key, Part

UNITS = "compute units"
_OF_A_PROGRAM = ("source", "options", "header")  # the first words of the parts that another program has otherwise


def parts(found: Iterable[Part]) -> list[Part]:
    """Return the parts of a program key for a device with this identity, as of now."""
    return [Part("format", program_key.FORMAT), *found, *identity.variables()]


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

    mine = Key([part for part in key.parts if not part.name.startswith(_OF_A_PROGRAM)])
    try:
        found = [one for one in cl.get_platforms() if one.name == dict(key.parts).get("platform")]
    except cl.Error:  # no platform at all
        found = []
    here = [Key(parts(drivers.named(one.name).identity(device))) for one in found for device in one.get_devices()]
    return mine, min(here, key=lambda one: len(mine.diff(one)), default=None)
