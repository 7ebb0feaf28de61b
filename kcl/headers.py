"""The headers of a program: which files its `#include` lines name, and what is in them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from kcl.errors import UnknownInput
from kcl.key import Part

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include|include_next|import|embed)\b[ \t]*([^\n]*)", re.M)
_PROBE = re.compile(r"\b__has_(?:include|embed)\b")
_NAME = re.compile(r'(?:"([^"]+)"|<([^>]+)>)')


def header_parts(source: str, directories: Sequence[str]) -> list[Part]:
    """Return one part for each file that `source` includes, nested ones too, named as it is written.

    `directories` is the search path of the build in its order; paths are in no part. Raises UnknownInput where it
    cannot be known which file the preprocessor would read.
    """
    if "include" not in source and "__has_" not in source and "import" not in source and "embed" not in source:
        return []
    found: dict[str, Part] = {}
    _scan(source.replace("\\\n", ""), "", "the source", directories, found)
    return list(found.values())


def _scan(text: str, place: str, name: str, directories: Sequence[str], found: dict[str, Part]) -> None:
    text = _COMMENT.sub(lambda match: match.group() if match.group().startswith('"') else " ", text)
    if _PROBE.search(text):
        raise UnknownInput(f"{name} asks __has_include: which headers exist is not in the key")
    for directive, rest in _INCLUDE.findall(text):
        written = _NAME.match(rest)
        if directive != "include" or written is None:
            raise UnknownInput(f"{name}: `#{directive} {rest.strip()}` cannot be resolved without the preprocessor")
        quoted, angled = written.groups()
        _follow(quoted or angled, place if quoted else "", name, directories, found)


def _follow(header: str, place: str, name: str, directories: Sequence[str], found: dict[str, Part]) -> None:
    path = _resolve(header, place, directories)
    if path is None:
        raise UnknownInput(f"{name} includes {header!r}, which no include directory holds")
    if not place and os.path.isfile(header) and not os.path.samefile(header, path):
        raise UnknownInput(f"{name} includes {header!r}, which the working directory holds too: drivers differ here")
    # The same name can stand for two files, seen from two places: both count.
    slot = f"{header} {path}"
    if slot in found:
        return
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise UnknownInput(f"{name} includes {header!r}, which cannot be read: {error.strerror}") from error
    found[slot] = Part(f"header {header}", hashlib.sha256(data).hexdigest())
    text = data.decode("utf-8", "replace").replace("\\\r\n", "").replace("\\\n", "")
    _scan(text, os.path.dirname(path), header, directories, found)


def _resolve(header: str, place: str, directories: Sequence[str]) -> str | None:
    for directory in ([place] if place else []) + list(directories):
        path = os.path.join(directory, header)
        if os.path.isfile(path):
            return path
    return None
