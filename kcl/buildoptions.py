"""Build options: the text that the driver gets, and what of it counts in a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcl.errors import UnknownInput

if TYPE_CHECKING:
    import pyopencl as cl

_READS_FILES = ("-include", "-imacros", "-Xclang", "-isystem", "-iquote")


class BuildOptions(NamedTuple):
    """`text` as clBuildProgram takes it; `flags` in a normal order, without paths; include `directories` in theirs."""

    text: str
    flags: tuple[str, ...]
    directories: tuple[str, ...]

    @property
    def part(self) -> str:
        """The value of a key's part: a blank inside of a flag is not one between two."""
        return " ".join([repr(flag) if set(flag) & set(" \t\n\"'") else flag for flag in self.flags])


def build_options(context: cl.Context, options: Sequence[str]) -> BuildOptions:
    """Return options as pyopencl passes them on: its own, the platform's and the forced ones included.

    Raises UnknownInput for an option that reads a file which is not an `#include`.
    """
    import pyopencl as cl

    data, _path = cl.Program._process_build_options(context, list(options))
    text = data.decode("utf-8", "surrogateescape")
    flags, directories = _sort(_split(text))
    return BuildOptions(text, tuple(flags), tuple(directories))


def _split(text: str) -> list[str]:
    if '"' not in text and "'" not in text and "\\" not in text:
        return text.split()
    import shlex

    return shlex.split(text)


def _sort(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split words into flags and include directories.

    Switches without a value are facts that are there or not; of everything else a later one may win, so it keeps its
    order.
    """
    switches: set[str] = set()
    ordered: list[str] = []
    directories: list[str] = []
    rest = iter(word.strip() for word in words)
    for word in rest:
        if word.startswith(_READS_FILES):
            raise UnknownInput(f"build option {word} names files that are not in the key; use -I and #include")
        if word[:2] in ("-I", "/I"):
            directories.append(word[2:].strip() or next(rest, ""))
        elif word[:2] in ("-D", "-U"):
            ordered.append(word[:2] + (word[2:].strip() or next(rest, "")))
        elif word.startswith("-cl-") and "=" not in word:
            switches.add(word)
        elif word:
            ordered.append(word)
    return [*sorted(switches), *ordered], directories
