"""The program key: the inputs that decide a program binary. OpenCL C, build options, headers, and the device."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.errors import UnknownInput

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.build.options import BuildOptions
    from kcl.code import ProgramText

FORMAT = "1"
_KERNEL = re.compile(
    r"kernel\s+(?:__attribute__\s*\(\(.*?\)\)\s*)*void\s+(?:__attribute__\s*\(\(.*?\)\)\s*)*(\w+)", re.DOTALL
)
_HEADER = "header "
# The preprocessor reads other files only through one of these words, or through a word that a continued line cuts.
_READING = ("include", "import", "embed", "incbin", "__DA", "__TI", "__h", "%:", "??=", "??/", 'R"')
_CONTINUED = r"\\[ \t\f\v]*[\r\n]"


class ProgramSlot(NamedTuple):
    """The place of one program on one device in the binary layer.

    Made by the search of the second stage; ends in its Look and in the entry.
    """

    device: cl.Device
    key: Key
    address: str
    options: BuildOptions


def slots_of(
    text: ProgramText, options: BuildOptions, devices: Iterable[tuple[cl.Device, str, Sequence[Part]]]
) -> list[ProgramSlot]:
    """Return the slot of a program for each device, which comes with its folder and its identity.

    Raises UnknownInput where the headers cannot be known.
    """
    common = [
        Part("format", FORMAT),
        Part("source", text.source_digest),
        Part("options", options.part),
        *header_parts(text.source, options),
    ]
    slots = []
    # The wanted kernel has no part in it: a program has one entry, whichever of its kernels is asked for first.
    shown = first_kernel(text.source) or text.kernel
    for device, folder, parts in devices:
        key = Key([*common, *parts])
        slots.append(ProgramSlot(device, key, address(key.digest, folder, shown), options))
    return slots


def first_kernel(source: str) -> str:
    """Return the name of the first kernel in a text, empty where none is seen."""
    # A pattern that begins with a word is found at once in a text of 100 kB.
    for found in _KERNEL.finditer(source):
        if not source[: found.start()].removesuffix("__")[-1:].isidentifier():
            return found[1]
    return ""


# Asked twice on a warm start. To compile one pattern of all words takes a millisecond, and to search for it as long.
@functools.lru_cache(maxsize=4)
def may_read(source: str) -> bool:
    """Tell whether the preprocessor might read anything but `source`."""
    if any(word in source for word in _READING):
        return True
    return "\\" in source and re.search(_CONTINUED, source) is not None


def header_parts(source: str, options: BuildOptions) -> list[Part]:
    """Return the parts of headers; most programs have none, and import nothing for them."""
    if not may_read(source):
        return []
    from kcl.build import headers

    return headers.header_parts(source, options.directories)


def headers_stand(source: str, options: BuildOptions, key: Key) -> bool:
    """Return True if the headers of a program are as its key has them."""
    before = [part for part in key.parts if part.name.startswith(_HEADER)]
    try:
        return not before or header_parts(source, options) == before
    except UnknownInput:
        return False
