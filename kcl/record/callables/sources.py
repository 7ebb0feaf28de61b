"""The files of the program's code, by which it counts if the user vouches for it.

A package counts by all its files. A lone file counts by itself, and by the files of the program's modules that its text
imports, loaded or not. A module without a file, such as a notebook, counts by the code of the function alone.
Loaded code whose file was changed after the process began is not known.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from kcl.base import process
from kcl.errors import UnknownInput
from kcl.record import distributions, files

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)|import[ \t]+([^#\n]+))", re.MULTILINE)


def parts(name: str) -> dict[str, str]:
    """Return the digests of the files that a module of the program counts by."""
    found: dict[str, str] = {}
    loaded = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        package = getattr(sys.modules.get(module), "__package__", None) or module
        top = package.partition(".")[0]
        place = distributions.place_of(top)
        if f"module {top}" in found or place is None or not os.path.exists(place.path):
            continue
        if distributions.owner(top).kind != distributions.USER:
            continue
        for one in files.listed(((top, place.path),)):
            if one.changed > process.began() and one.path in loaded:
                raise UnknownInput(f"{one.path} was changed after the process began")
        found[f"module {top}"] = files.content(place.path)
        waiting += [] if os.path.isdir(place.path) else _imported(place.path)
    return found


def _imported(path: str) -> Iterator[str]:
    """Yield the names of the modules that a file imports."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        for one, listed in _IMPORT.findall(stream.read()):
            yield from (
                [one] if one else [name.split()[0] for name in listed.split(",") if name.split()]
            )
