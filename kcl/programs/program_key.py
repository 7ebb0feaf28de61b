"""The program key: the inputs that decide a program binary. OpenCL C, build options, headers, and the device.

Of the build options some parts count in a key, and the driver gets their text.
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
# The preprocessor reads other files, or the time, only through one of these words, or through a word that a continued line
# cuts. `##`, also as a digraph or trigraph, puts a word together. The assembler may read a file, too.
_READING = (
    *(
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
    ),
)
# A pattern that begins with a word is found at once in a text of 100 kB.
_ASM = r"asm(?:__)?\b"
_HIDING = {"\\": r"\\[ \t\f\v]*[\r\n]", "asm": _ASM}
# -include, -imacros, -isystem, -Xclang, @file, -Wp,-include: none of these is an option of OpenCL
_READS_FILES = ("-i", "-X", "--", "@", "-Wp,", "-fmodule", "-fplugin")
# Compiled where they are used: most options have neither quotes nor definitions.
_ASKING = r"\b__(?:DATE__|TIME__|TIMESTAMP__|has_include|has_embed)|##|%:|\?\?="
# Drivers agree that a double quote groups and a single one does not. For some drivers a backslash escapes.
_OPTION = r'(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*")+'
_HIDDEN = r"\s[-/@]"


class BuildOptions(NamedTuple):
    """`text` as clBuildProgram takes it; `flags` in a normal order; include directories apart, as they are written.

    `beside` are the options that the driver adds.

    Made of a program text and the driver; ends in the slot and in the build.
    """

    text: str
    flags: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    beside: str = ""

    @property
    def part(self) -> str:
        """The value of a key's part: a blank inside a flag is told apart from a blank between two flags."""
        return " ".join(
            [repr(flag) if set(flag) & set(" \t\n\"'") else flag for flag in self.flags]
        )


class ProgramSlot(NamedTuple):
    """The place of one program on one device in the binary layer.

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
    for match in _KERNEL.finditer(source):
        if not source[: match.start()].removesuffix("__")[-1:].isidentifier():
            return match[1]
    return ""


# Asked twice on a warm start. To compile one pattern of all words takes a millisecond, and to search for it as long.
@functools.lru_cache(maxsize=4)
def may_read(source: str) -> bool:
    """Return True if the preprocessor might read anything but `source`."""
    if any(word in source for word in _READING):
        return True
    return any(
        mark in source and re.search(pattern, source) is not None
        for mark, pattern in _HIDING.items()
    )


def header_parts(source: str, options: BuildOptions) -> list[Part]:
    """Return the parts of headers; most programs have none, and import nothing for them."""
    if not may_read(source):
        return []
    from kcl.programs import headers

    return headers.header_parts(source, options.directories, (*options.flags, options.beside))


def changed_file(files: Mapping[str, str]) -> str:
    """Return the path of a file that is not as `header_files` found it; empty if all are."""
    if not files:
        return ""
    from kcl.programs import headers

    return headers.changed_file(files)


def headers_stand(source: str, options: BuildOptions, key: Key) -> bool:
    """Return True if the headers of a program are as its key has them."""
    before = [part for part in key.parts if part.name.startswith(_HEADER)]
    try:
        return not before or header_parts(source, options) == before
    except UnknownInput:
        return False


def passed(options: Sequence[str]) -> list[str]:
    """Return options as drivers take them: an include directory with a blank in its path is quoted."""
    return [_quoted(option) for option in options]


def build_options(context: cl.Context, options: Sequence[str], beside: str) -> BuildOptions:
    """Return options as pyopencl passes them on: its own, the platform's and the forced ones included.

    Raises UnknownInput for an option that reads a file which is not an `#include`.
    """
    import pyopencl as cl

    data, _path = cl.Program._process_build_options(context, passed(options))
    text = data.decode("utf-8", "surrogateescape")
    return parsed(text, beside)


# The programs of a process have few sets of options.
@functools.lru_cache(maxsize=64)
def parsed(text: str, beside: str) -> BuildOptions:
    """Read the text of build options; `beside` are the driver's own options, which count in the device's identity.

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
    """Split into words as they are written, with their quotes: the driver gives them their meaning."""
    if '"' not in text and "\\" not in text:
        return text.split()
    words = re.findall(_OPTION, text)
    if re.sub(_OPTION, "", text).strip() or any(re.search(_HIDDEN, word) for word in words):
        raise UnknownInput(
            f"drivers read the quotes in these build options in different ways: {text}"
        )
    return words


def _sorted(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Sort words into flags and include directories.

    Switches without a value are facts that are there or not. Of all other words a later one may win, so these keep
    their order.
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
            # Drivers that group by quotes see the word that these cut.
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
    """Return the marks that stand for the include directories in a stored log, the longest directory first."""
    pairs = [
        (f"<include {number}>", directory)
        for number, directory in enumerate(options.directories)
        if os.path.isabs(directory)
    ]
    return sorted(pairs, key=lambda pair: len(pair[1]), reverse=True)
