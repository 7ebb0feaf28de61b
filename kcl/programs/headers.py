"""The headers of a program: the files that its preprocessor may read, and their content.

Nothing is preprocessed. Every `#include` of a name counts, whichever branch it stands in. Each has its answer in a
part, in the order of the texts, so equal parts mean equal answers. A header that no include directory holds counts as
absent, and so does its content in the system's directories, where some drivers look: a program that needs it and lacks
it does not build. A text that may ask for files in another way raises UnknownInput.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Mapping, Sequence

from kcl.cache.key import Part
from kcl.errors import UnknownInput

ABSENT = "absent"
# Comments, and texts and characters, closed or not, which hide the marks of comments.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.S)
_BLANK = r"[ \t\f\v]"
_INCLUDE = re.compile(
    rf"^{_BLANK}*#{_BLANK}*(include|include_next|import|embed)\b{_BLANK}*([^\n]*)", re.M
)
_CONTINUED = re.compile(rf"\\{_BLANK}*\n")
_OWN_PATH = re.compile(r"__(?:FILE__|builtin_FILE|builtin_source_location)")
_NAME = re.compile(r"\"[^\"\n]+\"|<[^>\n]+>")
_QUOTES = re.compile(r"[\"\\]")
_MARKS = re.compile(r"[\"'\\]")
_JOINT = re.compile(r"\"\s*\"")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASSEMBLING = re.compile(r"\.(?:incbin|include)\b", re.IGNORECASE)
# A pattern that begins with a word is found at once in a text of 100 kB.
_UNREADABLE = (
    (
        re.compile(r"__(?:DATE|TIME|TIMESTAMP)__"),
        "asks the preprocessor for the time; pass it as a build option",
    ),
    (
        re.compile(r"__has_(?:include|embed)"),
        "asks whether a header is there; say it by a build option",
    ),
    (
        re.compile(r"%:|\?\?[=/]"),
        "holds a digraph or trigraph, which may hide a directive; write it without",
    ),
    # A comment over several lines stands as a NUL here. In other directives the compiler reads no words, and no comments.
    (
        re.compile(
            rf"^{_BLANK}*#(?!{_BLANK}*(?:define|undef|if|ifdef|ifndef|elif|else|endif|include|import)\b)[^\n]*\0",
            re.M,
        ),
        "begins a comment of several lines in a directive; put it before",
    ),
    (
        re.compile(r"'(?<=[\da-f]')[\da-f]", re.IGNORECASE),
        "has a quote in a number, which may hide a comment; write it without",
    ),
    (
        re.compile(r'R"[^\s()\\"]*\('),
        "holds a raw string, which may hide a comment; write it without",
    ),
)
# The names that `##` must not make of the words of a program.
_BUILT_IN = (
    "__has_include",
    "__has_include_next",
    "__has_embed",
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
    "__FILE__",
)
# Further directories in which a driver may look.
_SYSTEM = ("/usr/local/include", "/usr/include")


def header_parts(source: str, directories: Sequence[str], flags: Sequence[str] = ()) -> list[Part]:
    """Return a part for each file that the preprocessor may read; headers are named as they are written.

    `directories` are the include directories, `flags` the other build options. Paths are in no part. Raises
    UnknownInput where the file to be read cannot be known.
    """
    return _Scan(source, directories, flags).parts


def newest(source: str, directories: Sequence[str]) -> float:
    """Return when the newest of the headers was written, renamed or given its times, in seconds since the epoch.

    Raises UnknownInput as `header_parts` does, and OSError.
    """
    return max([os.stat(path).st_ctime for path in _Scan(source, directories).seen], default=0.0)


def header_files(source: str, directories: Sequence[str]) -> dict[str, str]:
    """Return the digest of each file that the preprocessor may read, empty for a place where it looks in vain."""
    return _Scan(source, directories).files


def changed_file(files: Mapping[str, str]) -> str:
    """Return the path of a file that is not what `header_files` found; empty if all are."""
    for path, digest in files.items():
        try:
            with open(path, "rb") as stream:
                now = hashlib.sha256(stream.read()).hexdigest()
        except OSError:
            now = ""
        if now != digest:
            return path
    return ""


class _Scan:
    """The findings in a source and its headers."""

    def __init__(self, source: str, directories: Sequence[str], flags: Sequence[str] = ()) -> None:
        self.parts: list[Part] = []
        self.files: dict[str, str] = {}
        self._directories = directories
        # The number of the part of each path, and of each file, which may have several paths.
        self.seen: dict[str, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        # Each text with its name and its place.
        self._texts = [("a build option", "", " ".join(flags))]
        self._scan("the source", "", source)
        self._close()

    def _scan(self, name: str, place: str, text: str) -> None:
        """Note the files that a source or a header asks for.

        `place` is the directory that its own `#include "..."` begin at, empty for the source.
        """
        code = _code(name, text)
        self._texts.append((name, place, code))
        for include in _INCLUDE.finditer(code):
            directive, rest = include.groups()
            written = _NAME.match(rest)
            if directive not in ("include", "import"):
                raise UnknownInput(
                    f"{name} has `#{directive} {rest.strip()}`: not resolved; write an #include"
                )
            if written is None:
                raise UnknownInput(f"{name} names a header by `{rest.strip()}`; write the name")
            if _MARKS.search(written.group()[1:-1]):
                raise UnknownInput(
                    f"{name} names a header with a quote or a backslash: {rest.strip()}"
                )
            self._follow(written.group(), name, place)

    def _close(self) -> None:
        """Judge all texts together: one may paste the words of another, or use its macros."""
        pasting = [name for name, _place, code in self._texts if "##" in code]
        # Headers of the C library paste names, and their own questions are written whole.
        own = [code for _name, place, code in self._texts if not place.startswith(_SYSTEM)]
        if pasting and _can_paste(" ".join(own)):
            words = "may put __has_include, __FILE__ or the time together with ##; write it whole"
            raise UnknownInput(f"{pasting[-1]} {words}")
        if self.seen and any(_OWN_PATH.search(code) for _name, _place, code in self._texts):
            paths = "\0".join(map(os.path.abspath, self._directories))
            self.parts.append(Part("header paths", hashlib.sha256(os.fsencode(paths)).hexdigest()))

    def _follow(self, written: str, name: str, place: str) -> None:
        """Note a header's content, and the files that it asks for."""
        header = written[1:-1]
        path = self._resolve(written, name, place)
        if path is None:
            self.parts.append(Part(f"header {header}", ABSENT))
        paths = (
            [path] if path else [os.path.join(folder, header) for folder in _system_directories()]
        )
        for found in filter(self._is_there, paths):
            self._read(found, header, name)

    def _read(self, path: str, header: str, where: str) -> None:
        if path in self.seen:
            # The file is not read again. The parts must show that it is the same file: one name may stand for two.
            self.parts.append(Part(f"header {header}", f"as number {self.seen[path]}"))
            return
        try:
            with open(path, "rb") as stream:
                status, data = os.fstat(stream.fileno()), stream.read()
        except OSError as error:
            raise UnknownInput(
                f"{where} includes {header!r}, which cannot be read: {error.strerror}"
            ) from error
        number = self.seen[path] = len(self.parts)
        self.files[path] = hashlib.sha256(data).hexdigest()
        # `#pragma once` and `#import` know a file by its inode.
        first = self._numbers.setdefault((status.st_dev, status.st_ino), number)
        value = self.files[path] if first == number else f"as number {first}"
        self.parts.append(Part(f"header {header}", value))
        self._scan(header, os.path.dirname(path), data.decode("utf-8", "replace"))

    def _is_there(self, path: str) -> bool:
        if os.path.isfile(path):
            return True
        self.files[path] = ""
        return False

    def _resolve(self, written: str, where: str, place: str) -> str | None:
        header = written[1:-1]
        beside = os.path.join(place, header)
        if written[0] == '"' and place and self._is_there(beside):
            return beside
        pairs = (
            (folder, os.path.join(_QUOTES.sub("", folder), header)) for folder in self._directories
        )
        directory, path = next((pair for pair in pairs if self._is_there(pair[1])), ("", None))
        if _QUOTES.search(directory):
            says = (
                "drivers read quotes in different ways; name it by a symbolic link without a blank"
            )
            raise UnknownInput(f"{where} includes {header!r}, which lies in {directory}: {says}")
        if os.path.isfile(header) and not (path and os.path.samefile(header, path)):
            says = "only the working directory holds: drivers differ in looking there; add it as an include directory"
            if path:
                says = "the working directory holds too: drivers differ in which they take; rename one of the two"
            raise UnknownInput(f"{where} includes {header!r}, which {says}")
        return path


# Programs that are made of templates share the headers of their library.
@functools.lru_cache(maxsize=64)
def _code(name: str, text: str) -> str:
    """Return a text without comments and continued lines; refuse one that asks for more than files, or hides them."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\0" in lines or "\n\r" in lines:
        raise UnknownInput(f"{name} has a NUL or mixed line ends, which may hide a directive")
    lines = lines.replace("\r", "\n")
    code = _COMMENT.sub(lambda match: _blanked(match, name), _CONTINUED.sub("", lines))
    for pattern, words in _UNREADABLE:
        if pattern.search(code):
            raise UnknownInput(f"{name} {words}")
    # The compiler puts texts that follow each other together, and the assembler reads them as one.
    if _ASSEMBLING.search(_JOINT.sub("", code)):
        raise UnknownInput(f"{name} may let the assembler read a file")
    return code.replace("\0", " ")


def _blanked(match: re.Match[str], name: str) -> str:
    """Put blanks in the place of a comment; texts stay."""
    written = match.group()
    if written[0] == "/":
        return ("\0" if "\n" in written else " ") * len(written)
    if "/*" in written and (len(written) == 1 or written[-1] != written[0]):
        raise UnknownInput(f"{name} opens a text that it does not close before a comment")
    return written


def _can_paste(code: str) -> bool:
    """Return True if words of the code, put together, are one of the names."""
    words = {word for word in {*_WORD.findall(code)} if any(word in name for name in _BUILT_IN)}
    pieces = "|".join(words.difference(_BUILT_IN))
    return any(re.fullmatch(f"({pieces})+", name) for name in _BUILT_IN)


def _system_directories() -> list[str]:
    """Return the directories of the system, in which some drivers look, with those of its architectures."""
    folders = []
    for directory in filter(os.path.isdir, _SYSTEM):
        folders += [directory, *_of_architectures(directory, os.stat(directory).st_mtime_ns)]
    return folders


# The C library's headers are hundreds of names.
@functools.lru_cache(maxsize=8)
def _of_architectures(directory: str, _changed: int) -> list[str]:
    names = sorted(name for name in os.listdir(directory) if name.endswith(("-gnu", "-musl")))
    return [os.path.join(directory, name) for name in names]
