"""The program key: the inputs that decide a program binary. OpenCL C, build options, headers, and the device.

The text of the build options goes to the driver; their parsed form goes into the key.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.errors import UnknownInput

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.code import ProgramText

FORMAT = "1"
# Within bounds, so that the search takes a time in proportion to the text.
_ATTRIBUTES = r"(?:__attribute__[^;{}]{0,400}?\)\s*)?"
_KERNEL = re.compile(rf"kernel\s+{_ATTRIBUTES}void\s+{_ATTRIBUTES}(?!__attribute__)(\w+)")
_HEADER = "header "
# A program reads other files, or the time, only by one of these words, or by a word that a continued line cuts or that
# `##` (also written as a digraph or trigraph) puts together. "incbin" is the assembler's.
_READING = (
    "include",
    "import",
    "embed",
    "incbin",
    "__DA",
    "__TI",
    "__h",
    "##",
    "%:",
    "??=",
    "??/",
    "\0",
)
# Both patterns begin with a fixed text: such a pattern is found quickly in a text of 100 kB.
_ASM = r"asm(?:__)?\b"
_HIDING = {"\\": r"\\[ \t\f\v]*[\r\n]", "asm": _ASM}
# -include, -imacros, -isystem, -Xclang, @file, -Wp,-include: none of these is an option of OpenCL
_READS_FILES = ("-i", "-X", "--", "@", "-Wp,", "-fmodule", "-fplugin")
# These stay uncompiled: most options have neither quotes nor definitions.
_ASKING = r"\b__(?:DATE__|TIME__|TIMESTAMP__|has_include|has_embed)|##|%:|\?\?="
# All drivers group by double quotes and not by single ones. Some treat a backslash as an escape.
_OPTION = r'(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*")+'
_HIDDEN = r"\s[-/@]"


class BuildOptions(NamedTuple):
    """Parsed build options: `text` for clBuildProgram, `flags` in a normal order, and the include `directories`.

    `beside` are the options that the driver adds.

    Made of a program text and the driver; ends in the slot and in the build.
    """

    text: str
    flags: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    beside: str = ""

    @property
    def part(self) -> str:
        """The flags as the value of a key part; a flag that contains a blank is quoted."""
        return " ".join(
            [repr(flag) if set(flag) & set(" \t\n\"'") else flag for flag in self.flags]
        )


class ProgramSlot(NamedTuple):
    """The key and address of one program for one device in the binary layer.

    Made by the search of the second stage; ends in its Look and in the entry.
    """

    device: cl.Device
    key: Key
    address: str
    options: BuildOptions


def slots_of(
    text: ProgramText,
    options: BuildOptions,
    devices: Iterable[tuple[cl.Device, str, Sequence[Part]]],
) -> list[ProgramSlot]:
    """Return the slot of a program for each (device, folder, identity).

    Raises UnknownInput if the headers cannot be known.
    """
    common = [
        Part("format", FORMAT),
        Part("source", text.source_digest),
        Part("options", options.part),
        *header_parts(text.source, options),
    ]
    slots = []
    # The address does not depend on which kernel is wanted, since all kernels of a program share an entry.
    shown = first_kernel(text.source) or text.kernel
    for device, folder, parts in devices:
        key = Key([*common, *parts])
        slots.append(ProgramSlot(device, key, address(key.digest, folder, shown), options))
    return slots


def first_kernel(source: str) -> str:
    """Return the name of the first kernel in a text; empty if none is found."""
    # `__` is checked here and not in the pattern: one that begins with a fixed text is found quickly in 100 kB.
    for match in _KERNEL.finditer(source):
        if not source[: match.start()].removesuffix("__")[-1:].isidentifier():
            return match[1]
    return ""


# Cached, since a warm start asks twice. A single pattern of all words would take a millisecond to compile and to search.
@functools.lru_cache(maxsize=4)
def may_read(source: str) -> bool:
    """Return True if the preprocessor might read anything but `source`."""
    return any(word in source for word in _READING) or any(
        mark in source and re.search(pattern, source) for mark, pattern in _HIDING.items()
    )


def header_parts(source: str, options: BuildOptions) -> list[Part]:
    """Return the key parts of headers. Most programs have none, and then `headers` is not imported."""
    if not may_read(source):
        return []
    from kcl.programs import headers

    return headers.header_parts(source, options.directories, (*options.flags, options.beside))


def changed_file(files: Mapping[str, str]) -> str:
    """Return the path of a file that has changed since `header_files`; empty if none has."""
    if not files:
        return ""
    from kcl.programs import headers

    return headers.changed_file(files)


def headers_stand(source: str, options: BuildOptions, key: Key) -> bool:
    """Return True if the headers of a program are still those of its key."""
    before = [part for part in key.parts if part.name.startswith(_HEADER)]
    try:
        return not before or header_parts(source, options) == before
    except UnknownInput:
        return False


def passed(options: Sequence[str]) -> list[str]:
    """Return options for a driver: an include directory with a blank in its path is quoted."""
    return [_quoted(option) for option in options]


def build_options(context: cl.Context, options: Sequence[str], beside: str) -> BuildOptions:
    """Return the options that pyopencl would pass to the driver, with those that it adds itself.

    Raises UnknownInput for an option that reads a file other than by `#include`.
    """
    import pyopencl as cl

    data, _path = cl.Program._process_build_options(context, passed(options))
    text = data.decode("utf-8", "surrogateescape")
    return parsed(text, beside)


# Cached, since the programs of a process share a few sets of options.
@functools.lru_cache(maxsize=64)
def parsed(text: str, beside: str) -> BuildOptions:
    """Parse the text of build options; `beside` are those that the driver adds, which the device's identity covers.

    Raises UnknownInput for options that drivers would read in different ways.
    """
    flags, directories = _sorted(_words(text))
    return BuildOptions(text, flags, (*directories, *_sorted(_words(beside))[1]), beside)


def _quoted(option: str) -> str:
    path = option[2:].strip()
    if option[:2] == "-I" and " " in path and '"' not in path and os.path.isdir(path):
        return f'-I"{path}"'
    return option


def _words(text: str) -> list[str]:
    """Split options into words, with their quotes; raise UnknownInput if drivers would split them differently."""
    if '"' not in text and "\\" not in text:
        return text.split()
    words = re.findall(_OPTION, text)
    if re.sub(_OPTION, "", text).strip() or any(re.search(_HIDDEN, word) for word in words):
        raise UnknownInput(
            f"drivers read the quotes in these build options in different ways: {text}"
        )
    return words


def _sorted(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Separate words into flags in a normal order, and include directories.

    The `-cl-` switches without a value are sorted. All others keep their order, since a later one may override an earlier.
    """
    switches, ordered, directories, rest = set[str](), list[str](), list[str](), iter(words)
    for word in rest:
        if word.startswith(_READS_FILES):
            raise UnknownInput(
                f"build option {word} names files that are not in the key; use -I and #include"
            )
        if word[:2] in ("-I", "/I"):
            directories.append(word[2:] or next(rest, ""))
        elif word[:2] in ("-D", "-U"):
            ordered.append(word[:2] + (word[2:] or next(rest, "")))
            # The definition as a driver sees it that removes quotes.
            whole = ordered[-1].replace('"', "")
            if re.search(_ASKING, whole):
                raise UnknownInput(
                    f"build option {ordered[-1]} leaves its value to the preprocessor; write the value"
                )
            if re.search(rf"(?<![A-Za-z0-9])_*{_ASM}", whole):
                raise UnknownInput(
                    f"build option {ordered[-1]} may let the assembler read a file; write asm in the source"
                )
        elif word.startswith("-cl-") and "=" not in word:
            switches.add(word)
        else:
            ordered.append(word)
    return (*sorted(switches), *ordered), directories


def marks(options: BuildOptions) -> list[tuple[str, str]]:
    """Return (mark, directory) for the include directories, which stored logs name by marks; the longest path first."""
    pairs = [
        (f"<include {number}>", directory)
        for number, directory in enumerate(options.directories)
        if os.path.isabs(directory)
    ]
    return sorted(pairs, key=lambda pair: len(pair[1]), reverse=True)
