"""The headers of a program: which files its `#include` lines name, and what is in them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from kcl.errors import UnknownInput
from kcl.key import Part

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
_INCLUDE = re.compile(r"^[ \t\f\v]*#[ \t\f\v]*(include|include_next|import|embed)\b[ \t\f\v]*([^\n]*)", re.M)
_PROBE = re.compile(r"\b__has_(?:include|embed)\b")
_CLOCK = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b")
# other ways to write # and \, which the preprocessor may take for them
_SPELLED = re.compile(r"^[ \t\f\v]*(?:%:|\?\?=)|\?\?/[ \t]*$", re.M)
_MAY_READ = re.compile(r"include|import|embed|__DATE__|__TIME|%:|\?\?[=/]|\\[ \t\f\v]*[\r\n]")
_CONTINUED = re.compile(r"\\[ \t\f\v]*\n")
_NAME = re.compile(r'(?:"([^"]+)"|<([^>]+)>)')


def header_parts(source: str, directories: Sequence[str]) -> list[Part]:
    """Return one part for each file that `source` includes, nested ones too, named as it is written.

    `directories` is the search path of the build in its order; paths are in no part. Raises UnknownInput where it
    cannot be known which file the preprocessor would read.
    """
    if not may_read(source):
        return []
    found: dict[str, Part] = {}
    _scan(_joined(source), "", "the source", directories, found)
    return list(found.values())


def may_read(source: str) -> bool:
    """Tell whether the preprocessor might read anything but `source`."""
    return _MAY_READ.search(source) is not None


def _joined(text: str) -> str:
    """Join lines that a backslash continues, blanks behind it or not; write every end of a line alike."""
    return _CONTINUED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _scan(text: str, place: str, name: str, directories: Sequence[str], found: dict[str, Part]) -> None:
    text = _COMMENT.sub(lambda match: match.group() if match.group()[0] in "\"'" else " ", text)
    if _PROBE.search(text):
        raise UnknownInput(f"{name} asks __has_include: which headers exist is not in the key")
    if _CLOCK.search(text):
        raise UnknownInput(f"{name} asks the preprocessor for the time; pass it as a build option")
    if _SPELLED.search(text):
        raise UnknownInput(f"{name} holds a digraph or trigraph, which may be a directive; write # and \\ as such")
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
    text = _joined(data.decode("utf-8", "replace"))
    _scan(text, os.path.dirname(path), header, directories, found)


def _resolve(header: str, place: str, directories: Sequence[str]) -> str | None:
    for directory in ([place] if place else []) + list(directories):
        path = os.path.join(directory, header)
        if os.path.isfile(path):
            return path
    return None
