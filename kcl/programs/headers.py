"""The headers of a program: the files that its preprocessor may read, and their content.

Nothing is preprocessed. Every `#include` counts, even in a branch that the preprocessor would skip. Each becomes a part
of the key, in the order of the text: the header's digest, or "absent" if no include directory has it. Some drivers also
look in the system's directories, so an absent header that is there has a part too. A text that may read files in another
way raises UnknownInput.
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
# Comments; also string and character literals, closed or not, since `//` inside them begins no comment.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.S)
_BLANK = r"[ \t\f\v]"
_INCLUDE = re.compile(
    rf"^{_BLANK}*#{_BLANK}*(include|include_next|import|embed)\b{_BLANK}*([^\n]*)", re.M
)
_CONTINUED = re.compile(rf"\\{_BLANK}*\n")
# A comment over several lines, which stands as a NUL, in a directive that the compiler does not read word by word.
_IN_DIRECTIVE = re.compile(
    rf"^{_BLANK}*#(?!{_BLANK}*(?:define|undef|if|ifdef|ifndef|elif|else|endif|include|import"
    rf"|pragma{_BLANK}+(?:OPENCL|unroll|once))\b)[^\n]*\0",
    re.M,
)
# The name and the text of a macro, in a text or in a build option.
_DEFINE = re.compile(rf'(?:#{_BLANK}*define|[-/]D)[ \t\f\v"]*(\w+)(.*)')
_NUMBER = re.compile(r"(?<![\w'])\d[\w.]*'\w")
_NAME = re.compile(r"\"[^\"'\\\n]+\"|<[^>\"'\\\n]+>")
_QUOTES = re.compile(r"[\"\\]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASSEMBLING = re.compile(r"\.(?:incbin|include)\b", re.IGNORECASE)
_ASM = r"asm(?:__)?\b"
# An escape of a control character, a backslash or an apostrophe: no directive is made of these.
_PLAIN_ESCAPE = re.compile(
    r"\\(?:[nrtabfv'\\]|0?[0-3]?[0-7](?![0-7])|x0*[01]?[\da-fA-F](?![\da-fA-F]))"
)
# A word of the assembler that may be a directive, or the begin of one. None are: numbers, the words of PTX for types, and
# a dot behind what ends an operand, or before a blank or a sign that no directive begins with.
_DIRECTIVE = re.compile(r"(?<![\w\])])\.(?![\d\s.*,;:!?)]|reg|pred|[busf]\d)")
# Names of macros that `_WORD` does not read.
_OTHER_NAMES = r"[^\x00-\x7f]|\$|\\[uU]"
# Each pattern begins with a fixed text: such a pattern is found quickly in a text of 100 kB.
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
    (
        re.compile(r'R"[^\s()\\"]*\('),
        "holds a raw string, which may hide a comment; write it without",
    ),
)
_OWN_PATHS = frozenset({"__FILE__", "__builtin_FILE", "__builtin_source_location"})
_OWN_PATH = "__FILE__|__builtin_(?:FILE|source_location)"
_ASMS = ("asm", "__asm", "__asm__")
# The names that `##` must not make of the words of a program.
_BUILT_IN = (
    "__has_include",
    "__has_include_next",
    "__has_embed",
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
    *_OWN_PATHS,
    *_ASMS,
)
_ALL_BUILT_IN = " ".join(_BUILT_IN)
# Further directories in which a driver may look.
_SYSTEM = ("/usr/local/include", "/usr/include")


def header_parts(source: str, directories: Sequence[str], flags: Sequence[str] = ()) -> list[Part]:
    """Return a key part for each header that the preprocessor may read, named as the `#include` writes it.

    `directories` are the include directories, `flags` the other build options. Paths are in no part. Raises
    UnknownInput where the file to be read cannot be known.
    """
    return _Scan(source, directories, flags).parts


def newest(source: str, directories: Sequence[str]) -> float:
    """Return the time of the last change of any header's inode (ctime), in seconds since the epoch; 0 without headers.

    Raises UnknownInput as `header_parts` does, and OSError.
    """
    return max([os.stat(path).st_ctime for path in _Scan(source, directories).seen], default=0.0)


def header_files(source: str, directories: Sequence[str]) -> dict[str, str]:
    """Return path -> digest for each file that the preprocessor may read; an empty digest means that no file is there."""
    return _Scan(source, directories).files


def changed_file(files: Mapping[str, str]) -> str:
    """Return the path of a file that has changed since `header_files`; empty if none has."""
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
    """A scan of a source and its headers: the key parts, and the digests of the files."""

    def __init__(self, source: str, directories: Sequence[str], flags: Sequence[str] = ()) -> None:
        self.parts: list[Part] = []
        self.files: dict[str, str] = {}
        self._directories = directories
        # The number of the part of each path, and of each file, which may have several paths.
        self.seen: dict[str, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        # One option a line. An apostrophe opens no text here.
        options = "\n".join(flags).replace(" -D", "\n-D").replace("'", " ")
        # The options, the source, then the headers: (name, code, whether it is a header of the system).
        self._texts = [("a build option", options, False)]
        self._scan("the source", "", source)
        self._close()

    def _scan(self, name: str, place: str, text: str) -> None:
        """Follow the `#include` directives of a text.

        `place` is the directory of a header, in which `#include "..."` looks first; empty for the source.
        """
        code = _code(name, text)
        is_system = f"{place}{os.sep}".startswith(tuple(f"{folder}{os.sep}" for folder in _SYSTEM))
        self._texts.append((name, code, is_system))
        for include in _INCLUDE.finditer(code):
            directive, rest = include.groups()
            written = _NAME.match(rest)
            if directive not in ("include", "import"):
                raise UnknownInput(
                    f"{name} has `#{directive} {rest.strip()}`: not resolved; write an #include"
                )
            if written is None:
                raise UnknownInput(
                    f"{name} names a header by `{rest.strip()}`; write the name, without quotes or backslashes in it"
                )
            self._follow(written[0], name, place)

    def _close(self) -> None:
        """Judge all texts together: one may paste the words of another, or use its macros."""
        own = [(name, code) for name, code, is_system in self._texts if not is_system]
        pasting = next((name for name, code, _is_system in self._texts if _has("##", code)), "")
        made = _pasted(frozenset().union(*[_pieces(code) for _name, code in own if pasting]))
        if not made.issubset(_ASMS):
            raise UnknownInput(
                f"{pasting} may put __has_include, __FILE__ or the time together with ##; write it whole"
            )
        # The assembler may read a file by a directive. Macros put its text together across files, so each piece counts.
        has_asm = any(_has(_ASM, code) for _name, code, _is_system in self._texts)
        maker = "" if has_asm else f", if {pasting} puts asm together with ##"
        for name, code in own if has_asm or made else ():
            if written := _directive(code):
                raise UnknownInput(f"{name} may let the assembler read a file, by {written}{maker}")
        if self.seen and self._has_own_path(pasting != ""):
            paths = "\0".join(map(os.path.abspath, self._directories))
            self.parts.append(Part("header paths", hashlib.sha256(os.fsencode(paths)).hexdigest()))

    def _has_own_path(self, is_pasting: bool) -> bool:
        """Return True if a header may use its own path, by a macro of the options or the source too."""
        codes = [code for _name, code, _is_system in self._texts]
        in_options, in_source, *in_headers = (_has(_OWN_PATH, code) for code in codes)
        if not (in_options or in_source):
            return any(in_headers)
        if any(_has(_OTHER_NAMES, code) for code in codes):
            return True
        names, known = _OWN_PATHS, frozenset[str]()
        macros = _DEFINE.findall("\n".join(codes[:2]))
        while names != known:
            known = names
            names |= {name for name, text in macros if not known.isdisjoint(_WORD.findall(text))}
        # A header may put the name of a macro together.
        return (is_pasting and names != _OWN_PATHS) or not names.isdisjoint(
            _WORD.findall("\n".join(codes[2:]))
        )

    def _follow(self, written: str, name: str, place: str) -> None:
        """Resolve one header, read it, and scan it in turn."""
        header = written[1:-1]
        path = self._resolve(written, name, place)
        if path is None:
            self.parts.append(Part(f"header {header}", ABSENT))
        paths = (
            [path] if path else [os.path.join(folder, header) for folder in _system_directories()]
        )
        for existing in filter(self._is_there, paths):
            self._read(existing, header, name)

    def _read(self, path: str, header: str, where: str) -> None:
        if path in self.seen:
            # Read once. The part says which earlier part it repeats, since one name may stand for two files.
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
        value = self.files[path] + ("" if first == number else f", as number {first}")
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


# Cached, since programs made from templates share the headers of their library. So are the functions below.
@functools.lru_cache(maxsize=64)
def _code(name: str, text: str) -> str:
    """Return a text without comments and continued lines; raise UnknownInput if it may read more than headers."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\0" in lines or "\n\r" in lines:
        raise UnknownInput(f"{name} has a NUL or mixed line ends, which may hide a directive")
    code = _COMMENT.sub(
        lambda match: _blanked(match, name), _CONTINUED.sub("", lines.replace("\r", "\n"))
    )
    if _IN_DIRECTIVE.search(code):
        raise UnknownInput(
            f"{name} begins a comment of several lines in a directive; put it before"
        )
    if "'" in code and _NUMBER.search(code):
        raise UnknownInput(f"{name} has a quote in a number, which may hide a comment")
    code = code.replace("\0", " ")
    for pattern, words in _UNREADABLE:
        if pattern.search(code):
            raise UnknownInput(f"{name} {words}")
    if _ASSEMBLING.search(code):
        raise UnknownInput(f"{name} may let the assembler read a file")
    return code


def _blanked(match: re.Match[str], name: str) -> str:
    """Replace a comment by blanks; a string literal stays."""
    written = match[0]
    if written[0] == "/":
        return ("\0" if "\n" in written else " ") * len(written)
    if "/*" in written and (len(written) == 1 or written[-1] != written[0]):
        raise UnknownInput(f"{name} opens a text that it does not close before a comment")
    return written


@functools.lru_cache(maxsize=256)
def _has(pattern: str, code: str) -> bool:
    return re.search(pattern, code) is not None


@functools.lru_cache(maxsize=64)
def _pieces(code: str) -> frozenset[str]:
    """Return the words of a code that are a piece of a name in `_BUILT_IN`."""
    words = {*_WORD.findall(code)}.difference(_BUILT_IN)
    return frozenset(word for word in words if word in _ALL_BUILT_IN)


@functools.lru_cache(maxsize=64)
def _pasted(pieces: frozenset[str]) -> set[str]:
    """Return the names in `_BUILT_IN` that pieces, put together, make."""
    return {*filter(re.compile(f"(?:{'|'.join(pieces)})+").fullmatch, _BUILT_IN)}


@functools.lru_cache(maxsize=64)
def _directive(code: str) -> str:
    """Return the first literal in which a directive may begin, or that is escaped; empty if there is none."""
    for written in _COMMENT.findall(_INCLUDE.sub("", code)):
        # Another literal may follow an escaped quote, in a build option.
        text = _PLAIN_ESCAPE.sub(" ", written).replace('\\"', '"')
        if written[0] != "'" and ("\\" in text or _DIRECTIVE.search(text)):
            return str(written)
    return ""


def _system_directories() -> list[str]:
    """Return the system's include directories, in which some drivers look, with those for an architecture."""
    folders = []
    for directory in filter(os.path.isdir, _SYSTEM):
        folders += [directory, *_of_architectures(directory, os.stat(directory).st_mtime_ns)]
    return folders


# Cached, since the directory has hundreds of names; `_changed`, its time, makes a changed directory a new argument.
@functools.lru_cache(maxsize=8)
def _of_architectures(directory: str, _changed: int) -> list[str]:
    names = sorted(name for name in os.listdir(directory) if name.endswith(("-gnu", "-musl")))
    return [os.path.join(directory, name) for name in names]
