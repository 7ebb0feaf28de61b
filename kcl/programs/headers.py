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
_NAME = re.compile(r"\"[^\"\n]+\"|<[^>\n]+>")
_QUOTES = re.compile(r"[\"\\]")
_JOINT = re.compile(r"\"\s*\"")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASSEMBLING = re.compile(r"\.(?:incbin|include)\b", re.IGNORECASE)
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
# Names that a text must not use, and the pieces from which `##` can make them.
_BUILT_IN = (
    "__has_include",
    "__has_include_next",
    "__has_embed",
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
)
_PIECES = {name[:end] for name in _BUILT_IN for end in range(3, len(name))} - {*_BUILT_IN}
_PIECES |= {name[start:] for name in _BUILT_IN for start in (1, 2)}
# Further directories in which a driver may look.
_SYSTEM = ("/usr/local/include", "/usr/include")


def header_parts(source: str, directories: Sequence[str]) -> list[Part]:
    """Return a key part for each header that the preprocessor may read, named as the `#include` writes it.

    `directories` are the include directories; their paths are in no part. Raises UnknownInput if it cannot be known which
    file a driver would read.
    """
    return _Scan(source, directories).parts


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

    def __init__(self, source: str, directories: Sequence[str]) -> None:
        self.parts: list[Part] = []
        self.files: dict[str, str] = {}
        self._directories = directories
        # For each path that was read, the number of its part.
        self.seen: dict[str, int] = {}
        self._scan("the source", "", source)

    def _scan(self, name: str, place: str, text: str) -> None:
        """Follow the `#include` directives of a text.

        `place` is the directory of a header, in which `#include "..."` looks first; empty for the source.
        """
        code = _code(name, place, text)
        for include in _INCLUDE.finditer(code):
            directive, rest = include.groups()
            written = _NAME.match(rest)
            if directive not in ("include", "import"):
                raise UnknownInput(
                    f"{name} has `#{directive} {rest.strip()}`: not resolved; write an #include"
                )
            if written is None:
                raise UnknownInput(f"{name} names a header by `{rest.strip()}`; write the name")
            self._follow(written.group(), name, place)
        if place and "__FILE__" in code:
            paths = "\0".join(map(os.path.abspath, self._directories))
            self.parts.append(Part("header paths", hashlib.sha256(os.fsencode(paths)).hexdigest()))

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
                data = stream.read()
        except OSError as error:
            raise UnknownInput(
                f"{where} includes {header!r}, which cannot be read: {error.strerror}"
            ) from error
        self.seen[path] = len(self.parts)
        self.files[path] = hashlib.sha256(data).hexdigest()
        self.parts.append(Part(f"header {header}", self.files[path]))
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


# Cached, since programs made from templates share the headers of their library.
@functools.lru_cache(maxsize=64)
def _code(name: str, place: str, text: str) -> str:
    """Return a text without comments and continued lines; raise UnknownInput if it may read more than headers."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    code = _COMMENT.sub(lambda match: _blanked(match, name), _CONTINUED.sub("", lines))
    for pattern, words in _UNREADABLE:
        if pattern.search(code):
            raise UnknownInput(f"{name} {words}")
    # The compiler joins adjacent string literals, and the assembler reads the result.
    if _ASSEMBLING.search(_JOINT.sub("", code)):
        raise UnknownInput(f"{name} may let the assembler read a file")
    # Headers of the C library use `##`, but never for such names.
    if (
        "##" in code
        and not place.startswith(_SYSTEM)
        and not _PIECES.isdisjoint(_WORD.findall(code))
    ):
        raise UnknownInput(
            f"{name} may put __has_include or the time together with ##; write it whole"
        )
    return code


def _blanked(match: re.Match[str], name: str) -> str:
    """Replace a comment by blanks; a string literal stays."""
    written = match.group()
    if written[0] == "/":
        return " " * len(written)
    if "/*" in written and (len(written) == 1 or written[-1] != written[0]):
        raise UnknownInput(f"{name} opens a text that it does not close before a comment")
    return written


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
