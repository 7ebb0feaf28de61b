"""Digests of the files of the program's own code, which become key parts if the user vouches for it.

A module in a package counts by all files of the package, or by the archive that contains it. A lone file counts by
itself and the files of those of the program's modules that its text imports, loaded or not. Code without a file, as in a
notebook, has no part here. If a file was changed after the process began, the loaded code is unknown.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from itertools import chain

from kcl.base import process
from kcl.errors import UnknownInput
from kcl.generate import distributions, files

_GAP = r"(?:[ \t]|\\\n)+"
# Imports anywhere in a line. A false match does no harm: it only adds a file to the key.
_IMPORT = re.compile(
    rf"\bfrom{_GAP}([\w.]+){_GAP}import\b"
    rf"|\bimport{_GAP}([\w.]+(?:{_GAP}as{_GAP}\w+)?(?:{_GAP})?(?:,(?:{_GAP})?[\w.]+(?:{_GAP}as{_GAP}\w+)?(?:{_GAP})?)*)"
    r"|import(?:_module|__)\(\s*[\"']([\w.]+)"
)


def parts(name: str) -> dict[str, str]:
    """Return key parts for the files by which a module of the program counts."""
    digests: dict[str, str] = {}
    # Copied, since another thread may import a module meanwhile.
    loaded = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        package = getattr(sys.modules.get(module), "__package__", None) or module
        top = package.partition(".")[0]
        place = distributions.place_of(top) if top else None
        if f"module {top}" in digests or place is None:
            continue
        if distributions.owner(top).kind != distributions.USER:
            continue
        paths = [place.path]
        # A namespace package may have several folders.
        if os.path.isdir(place.path):
            paths = [*getattr(sys.modules.get(top), "__path__", paths)]
        listed = [[*files.listed((("", path),))] for path in paths]
        is_packed = not os.path.exists(place.path)
        # Neither a file nor inside an archive.
        if is_packed and os.path.isdir(listed[0][0].path):
            continue
        for file in chain.from_iterable(listed):
            if file.changed > process.began() and (is_packed or file.path in loaded):
                raise UnknownInput(f"{file.path} was changed after the process began")
        digests[f"module {top}"] = " ".join(
            [
                _digest(path, files.stamp(files_of_path))
                for path, files_of_path in zip(paths, listed, strict=True)
            ]
        )
        waiting += _imported(place.path) if os.path.isfile(place.path) else []
    return digests


@functools.lru_cache(maxsize=256)
def _digest(path: str, _seen: str) -> str:
    """Return the digest of a file or folder; cached by the stamp of its sizes, times and inodes."""
    return files.digest_of(path)


def _imported(path: str) -> Iterator[str]:
    """Yield the names of the modules that a file imports."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        for package, listed, called in _IMPORT.findall(stream.read()):
            yield from filter(None, (package, called))
            yield from [name.split()[0].strip("\\") for name in listed.split(",") if name.split()]
