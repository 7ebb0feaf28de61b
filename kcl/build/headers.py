"""The headers of a program: the files that its preprocessor may read, and their content.

Nothing is preprocessed. Every `#include` counts, whichever branch it stands in. An `#include` of a macro stands for
every header that any definition of the macro names. `__has_include` asks whether a file is there. Each question that
the preprocessor may ask the file system has its answer in a part, in the order of the texts, so equal parts mean equal
answers. A header that no include directory holds counts as absent, and so does its content in the system's directories,
where some drivers look: a program that needs it and lacks it does not build. A question that cannot be resolved in this
way raises UnknownInput.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.cache import places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo
from kcl.errors import RecipeError, UnknownInput

if TYPE_CHECKING:
    from kcl.build.options import BuildOptions

ABSENT = "absent"
_SHORT = 16_384  # characters: a shorter source is scanned as soon as a memo is read
# comments; texts and characters, closed or not, which hide the marks of comments
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.S)
_BLANK = r"[ \t\f\v]"
_INCLUDE = re.compile(rf"^{_BLANK}*#{_BLANK}*(include|include_next|import|embed)\b{_BLANK}*([^\n]*)", re.M)
_DEFINE = re.compile(rf"^{_BLANK}*#{_BLANK}*define{_BLANK}+(\w+)(\()?{_BLANK}*([^\n]*)", re.M)
_PROBE = re.compile(r"\b__has_(include|include_next|embed)\b")
_ASKED = re.compile(rf"{_BLANK}*\({_BLANK}*(\"[^\"\n]+\"|<[^>\n]+>|\w+){_BLANK}*\)")
_IF_DEFINED = re.compile(rf"(?:#{_BLANK}*(?:el)?ifn?def|\bdefined{_BLANK}*\(?){_BLANK}*$")
_CLOCK = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b")
# other ways to write # and \, and a text in which neither ends a line
_SPELLED = re.compile(rf"^{_BLANK}*(?:%:|\?\?=)|\?\?/{_BLANK}*$|\b(?:u8|[uUL])?R\"", re.M)
_ASSEMBLER = re.compile(r"\.(?:incbin|include)\b")
_CONTINUED = re.compile(rf"\\{_BLANK}*\n")
_NAME = re.compile(r"\"[^\"\n]+\"|<[^>\n]+>")
_WORD = re.compile(r"[A-Za-z_]\w*")
# pieces of which ## can make the names above
_BUILT_IN = ("__has_include", "__has_include_next", "__has_embed", "__DATE__", "__TIME__", "__TIMESTAMP__")
_PIECES = {name[:end] for name in _BUILT_IN for end in range(3, len(name))} - {*_BUILT_IN}
_PIECES |= {name[start:] for name in _BUILT_IN for start in (1, 2)}
# further directories in which a driver may look
_SYSTEM = ("/usr/local/include", "/usr/include")


class _Text(NamedTuple):
    """A source or header: `place` is the directory that its own `#include "..."` begin at, "" for the source."""

    name: str
    place: str
    raw: str


class _Named(NamedTuple):
    """An `#include` or `__has_include` that names a macro."""

    macro: str
    text: _Text
    where: str
    probe: bool


def header_parts(source: str, options: BuildOptions, remembers: bool = False) -> list[Part]:
    """Return a part for each file that the preprocessor may read or ask for; headers are named as they are written.

    Paths are in no part. If it `remembers`, a long source is scanned once: a memo has its questions, to be asked again.
    Raises UnknownInput, naming the line, where the file to be read cannot be known. Raises RecipeError for a
    header that cannot be passed to the driver.
    """
    memo = _memo(source, options) if remembers and len(source) > _SHORT else None
    left = memo.read() if memo is not None else {}
    if left and _stands(left, options):
        return [Part(name, value) for name, value in left["parts"]]
    scan = _Scan(options)
    scan.text(_Text("the source", "", _unified(source)))
    scan.settle()
    if memo is not None:
        memo.write({"asked": scan.asked, "parts": scan.parts})
    return scan.parts


def _memo(source: str, options: BuildOptions) -> RunMemo | None:
    """Return the memo of a source for this code of kcl; None if the code cannot be read."""
    try:
        code = _content(__file__)
    except OSError:
        return None
    texts = {
        "code": code,
        "source": source.encode("utf-8", "surrogatepass"),
        "options": repr(options).encode("utf-8", "replace"),
    }
    return RunMemo(places.HEADERS, Key([Part(name, hashlib.sha256(text).hexdigest()) for name, text in texts.items()]))


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _stands(left: Mapping[str, Any], options: BuildOptions) -> bool:
    """Return True if the questions of a memo have their answers still: then the texts that ask them are the same."""
    again = _Questions(options)
    try:
        for kind, written, place, _paths in left["asked"]:
            getattr(again, kind)(written, _Text("", place, ""), "")
        # A header of the same content in another place asks for other files.
        return again.asked == left["asked"] and sorted(map(list, again.parts)) == sorted(left["parts"])
    except (UnknownInput, RecipeError, KeyError, TypeError, ValueError, AttributeError):
        return False


class _Scan:
    """The findings in a source and its headers.

    A question that it `asked` is the name of a method, the header, the directory of the text that asks, and the paths.
    """

    def __init__(self, options: BuildOptions) -> None:
        self.options = options
        self.parts: list[Part] = []
        self.asked: list[list[str]] = []
        self._seen: dict[str, int] = {}  # path -> the number of its part
        self._named: list[_Named] = []
        self._macros: dict[str, list[str]] = {}  # macro -> the texts that it may stand for
        for definition in options.definitions:
            name, _, value = definition.partition("=")
            self._macros.setdefault(name, []).append(_of_option(value))

    def text(self, text: _Text) -> None:
        """Note the files that a text asks for."""
        code = _code(text)
        for name, of_arguments, body in _DEFINE.findall(code):
            self._macros.setdefault(name, []).append("(" if of_arguments else body.strip())
        for probe in _PROBE.finditer(code):
            self._probe(text, code, probe)
        for include in _INCLUDE.finditer(code):
            directive, rest = include.groups()
            written, where = _NAME.match(rest), _where(text, include.start(1))
            if directive not in ("include", "import"):
                raise UnknownInput(f"{where} `#{directive} {rest.strip()}` cannot be resolved; write an #include")
            if written is not None:
                self.follow(written.group(), text, where)
            else:
                self._named.append(_Named(rest.strip(), text, where, False))
        if text.place and "__FILE__" in code:
            self.paths()

    def paths(self, *_unused: object) -> None:
        """Note where the include directories lie."""
        self.asked.append(["paths", "", "", ""])
        paths = "\0".join(map(os.path.abspath, self.options.directories))
        self.parts.append(Part("header paths", hashlib.sha256(os.fsencode(paths)).hexdigest()))

    def settle(self) -> None:
        """Follow the headers that macros name: each header found may define more of them."""
        done: set[tuple[_Named, str]] = set()
        before = -1
        while len(done) != before:
            before = len(done)
            for named in [*self._named]:
                for one in dict.fromkeys(self._stands_for(named.macro, named.where, ())):
                    if (named, one) not in done:
                        done.add((named, one))
                        (self.ask if named.probe else self.follow)(one, named.text, named.where)

    def _stands_for(self, macro: str, where: str, inside: tuple[str, ...]) -> Iterator[str]:
        """Find the headers that a macro may name."""
        if macro in inside or not self._macros.get(macro):
            raise UnknownInput(f"{where} names a header by `{macro}`, which no #define gives a name; write the name")
        for body in self._macros[macro]:
            if _WORD.fullmatch(body):
                yield from self._stands_for(body, where, (*inside, macro))
            elif not _NAME.fullmatch(body) or (body[0] == "<" and not self._macros.keys().isdisjoint(_words(body))):
                raise UnknownInput(f"{where} names a header by `{macro}`, which is put together; write the name")
            else:
                yield body

    def _probe(self, text: _Text, code: str, probe: re.Match[str]) -> None:
        where = _where(text, probe.start())
        asked = _ASKED.match(code, probe.end())
        if probe.group(1) != "include":
            raise UnknownInput(f"{where} asks `{probe.group()}`, which cannot be resolved; use __has_include")
        if asked is not None and _NAME.fullmatch(asked.group(1)):
            self.ask(asked.group(1), text, where)
        elif asked is not None:
            self._named.append(_Named(asked.group(1), text, where, True))
        elif not _IF_DEFINED.search(code[code.rfind("\n", 0, probe.start()) + 1 : probe.start()]):
            raise UnknownInput(f"{where} uses __has_include without a header; write `__has_include(<name>)`")

    def ask(self, written: str, text: _Text, where: str) -> None:
        """Note whether a header is there."""
        path, beyond = self._found("ask", written, text, where)
        self.parts.append(Part(f"header {written[1:-1]}", "there" if path else " ".join([ABSENT, *beyond])))

    def follow(self, written: str, text: _Text, where: str) -> None:
        """Note a header's content, and the files that it asks for."""
        header = written[1:-1]
        path, beyond = self._found("follow", written, text, where)
        if path is None:
            self._refuse_untaken(header, where)
            self.parts.append(Part(f"header {header}", ABSENT))
        for one in [path] if path else beyond:
            self._read(one, header, where)

    def _found(self, kind: str, written: str, text: _Text, where: str) -> tuple[str | None, list[str]]:
        """Return the path of a header, and if it has none, those in the system's directories."""
        path = self._resolve(written, text, where)
        beyond = [] if path else _system_paths(written[1:-1])
        self.asked.append([kind, written, text.place, "\0".join([path] if path else beyond)])
        return path, beyond

    def _read(self, path: str, header: str, where: str) -> None:
        if path in self._seen:
            # The file is not read again. The parts must show that it is the same file: one name may stand for two.
            self.parts.append(Part(f"header {header}", f"as number {self._seen[path]}"))
            return
        try:
            data = _content(path)
        except OSError as error:
            raise UnknownInput(f"{where} includes {header!r}, which cannot be read: {error.strerror}") from error
        self._seen[path] = len(self.parts)
        self.parts.append(Part(f"header {header}", hashlib.sha256(data).hexdigest()))
        self.text(_Text(header, os.path.dirname(path), _unified(data.decode("utf-8", "replace"))))

    def _refuse_untaken(self, header: str, where: str) -> None:
        for directory in self.options.untaken:
            if os.path.isfile(os.path.join(directory, header)):
                raise RecipeError(
                    f"{where} includes {header!r}, which lies in {directory!r}: this driver takes no include directory "
                    "with a blank in its path; move it, or name it by a symbolic link without one"
                )

    def _resolve(self, written: str, text: _Text, where: str) -> str | None:
        header = written[1:-1]
        beside = os.path.join(text.place, header)
        if written[0] == '"' and text.place and os.path.isfile(beside):
            return beside
        candidates = (os.path.join(directory, header) for directory in self.options.directories)
        path = next(filter(os.path.isfile, candidates), None)
        if os.path.isfile(header) and not (path and os.path.samefile(header, path)):
            says = "only the working directory holds: drivers differ in looking there; add it as an include directory"
            if path:
                says = "the working directory holds too: drivers differ in which they take; rename one of the two"
            raise UnknownInput(f"{where} includes {header!r}, which {says}")
        return path


class _Questions(_Scan):
    """Questions that are asked without their texts."""

    def text(self, _text: _Text) -> None:
        """Ask nothing: the questions of the text come by themselves."""


@functools.lru_cache(maxsize=64)  # programs that are made of templates share the headers of their library
def _code(text: _Text) -> str:
    """Return a text without comments and continued lines; refuse a text that hides its includes."""
    code = _COMMENT.sub(lambda match: _blanked(match, text), _CONTINUED.sub("", text.raw))
    _refuse_unreadable(text, code)
    return code


def _unified(text: str) -> str:
    """Write every end of a line alike."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _blanked(match: re.Match[str], text: _Text) -> str:
    """Put blanks in the place of a comment; texts stay."""
    found = match.group()
    if found[0] == "/":
        return " " * len(found)
    if "/*" in found and (len(found) == 1 or found[-1] != found[0]):
        raise UnknownInput(f"{_where(text, match.start())} opens a text that it does not close before a comment")
    return found


def _refuse_unreadable(text: _Text, code: str) -> None:
    """Refuse a text that asks for more than files, or hides the files it asks for."""
    for pattern, words in (
        (_CLOCK, "asks the preprocessor for the time; pass it as a build option"),
        (_SPELLED, "holds a digraph, trigraph or raw string, which may hide a directive; write it without"),
        (_ASSEMBLER, "may let the assembler read a file"),
    ):
        found = pattern.search(code)
        if found is not None:
            raise UnknownInput(f"{_where(text, found.start())} {words}")
    # Headers of the C library paste names, and their own questions are written whole.
    if "##" in code and not text.place.startswith(_SYSTEM) and not _PIECES.isdisjoint(_words(code)):
        raise UnknownInput(f"{text.name} may put __has_include or the time together with ##; write it whole")


def _system_paths(header: str) -> list[str]:
    """Return the paths of a header in the system's directories, where some drivers look."""
    found = []
    for directory in _SYSTEM:
        try:
            beyond = _of_architectures(directory, os.stat(directory).st_mtime_ns)
        except OSError:
            continue
        found += [os.path.join(directory, name, header) for name in ("", *beyond)]
    return list(filter(os.path.isfile, found))


@functools.lru_cache(maxsize=8)  # the C library's headers are hundreds of names
def _of_architectures(directory: str, _changed: int) -> list[str]:
    """Return the folders of a system directory that hold an architecture's headers."""
    return sorted(name for name in os.listdir(directory) if name.endswith(("-gnu", "-musl")))


def _of_option(value: str) -> str:
    """Return the value of a macro in a build option: drivers differ in whether they take quotes off."""
    if _WORD.fullmatch(value) or value[:1] == "<":
        return value
    return '"' + value.replace('"', "").replace("\\", "") + '"'


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _where(text: _Text, offset: int) -> str:
    """Name the line that is `offset` characters into a text whose continued lines were joined."""
    for match in _CONTINUED.finditer(text.raw):
        if match.start() > offset:
            break
        offset += len(match.group())
    return f"{text.name}, line {text.raw.count(chr(10), 0, offset) + 1},"
