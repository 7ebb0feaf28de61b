"""Build options: the text that the driver gets, and its parts that count in a key."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcl.errors import UnknownInput

if TYPE_CHECKING:
    import pyopencl as cl


# -include, -imacros, -isystem, -Xclang, @file, -Wp,-include: none of these is an option of OpenCL
_READS_FILES = ("-i", "-X", "--", "@", "-Wp,", "-fmodule", "-fplugin")
# Compiled where they are used: most options have neither quotes nor definitions.
_ASKING = r"\b__(?:DATE__|TIME__|TIMESTAMP__|has_include|has_embed)"
# Drivers agree that a double quote groups and a single one does not. For some drivers a backslash escapes.
_WORD = r'(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*")+'
_HIDDEN = r"\s[-/@]"


class BuildOptions(NamedTuple):
    """`text` as clBuildProgram takes it; `flags` in a normal order; include directories apart, as they are written.

    Made of a program text and the driver; ends in the slot and in the build.
    """

    text: str
    flags: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """The value of a key's part: a blank inside a flag is told apart from a blank between two flags."""
        return " ".join([repr(flag) if set(flag) & set(" \t\n\"'") else flag for flag in self.flags])


def passed(options: Sequence[str]) -> list[str]:
    """Return options as drivers take them: an include directory with a blank in its path is quoted."""
    return [_quoted(option) for option in options]


def names_later_language(flag: str) -> bool:
    """Return True if a build option may name another language than OpenCL C 1, which a driver takes without one."""
    return "std" in flag.lower() and not flag.startswith("-cl-std=CL1")


def build_options(context: cl.Context, options: Sequence[str], beside: str) -> BuildOptions:
    """Return options as pyopencl passes them on: its own, the platform's and the forced ones included.

    Raises UnknownInput for an option that reads a file which is not an `#include`.
    """
    import pyopencl as cl

    data, _path = cl.Program._process_build_options(context, passed(options))
    text = data.decode("utf-8", "surrogateescape")
    return parsed(text, beside)


def parsed(text: str, beside: str) -> BuildOptions:
    """Read the text of build options; `beside` are the driver's own options, which count in the device's identity.

    Raises UnknownInput for options that drivers would read in different ways.
    """
    flags, directories = _sorted(_words(text))
    return BuildOptions(text, flags, (*directories, *_sorted(_words(beside))[1]))


def _quoted(option: str) -> str:
    path = option[2:].strip()
    if option[:2] == "-I" and " " in path and '"' not in path and os.path.isdir(path):
        return f'-I"{path}"'
    return option


def _words(text: str) -> list[str]:
    """Split into words as they are written, with their quotes: the driver gives them their meaning."""
    if '"' not in text and "\\" not in text:
        return text.split()
    words = re.findall(_WORD, text)
    if re.sub(_WORD, "", text).strip() or any(re.search(_HIDDEN, word) for word in words):
        raise UnknownInput(f"drivers read the quotes in these build options in different ways: {text}")
    return words


def _sorted(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Sort words into flags and include directories.

    Switches without a value are facts that are there or not. Of all other words a later one may win, so these keep
    their order.
    """
    switches, ordered, directories, rest = set[str](), list[str](), list[str](), iter(words)
    for word in rest:
        if word.startswith(_READS_FILES):
            raise UnknownInput(f"build option {word} names files that are not in the key; use -I and #include")
        if word[:2] in ("-I", "/I"):
            directories.append(word[2:] or next(rest, ""))
        elif word[:2] in ("-D", "-U"):
            ordered.append(word[:2] + (word[2:] or next(rest, "")))
            if re.search(_ASKING, ordered[-1]):
                raise UnknownInput(f"build option {ordered[-1]} leaves its value to the preprocessor; write the value")
        elif word.startswith("-cl-") and "=" not in word:
            switches.add(word)
        else:
            ordered.append(word)
    return (*sorted(switches), *ordered), directories


def marks(options: BuildOptions) -> list[tuple[str, str]]:
    """Return the marks that stand for the include directories in a stored log, the longest directory first."""
    found = [(f"<include {number}>", one) for number, one in enumerate(options.directories) if os.path.isabs(one)]
    return sorted(found, key=lambda one: len(one[1]), reverse=True)
