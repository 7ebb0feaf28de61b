"""The code of a kernel, from OpenCL C to assembly, and the lines that differ."""

from __future__ import annotations

from collections.abc import Sequence

from kcl.base.text.markup import Content, Html, element, join, text
from kcl.cli.assembly import NoAssembly, assembly
from kcl.inspect.kernels import KernelEntry, KernelRow

_LINES = 1000  # of one text
_ASSEMBLED = 50  # programs of a page: each takes a run of objdump
_QUALIFIERS = frozenset(f"{dash}{word}" for dash in ("", "__") for word in ("kernel", "global", "local", "constant"))
_MARKS = {"-": "del", "+": "ins"}


class PageTexts:
    """The texts of the kernels of a page; a program that several kernels share is shown once."""

    def __init__(self) -> None:
        self._assembled: set[str] = set()

    def source(self, row: KernelRow) -> Html:
        """Return the OpenCL C of a kernel; empty where it is not in the cache."""
        held = next((one for one in row.stored if "source.cl" in one.entry.parts), None)
        if held is None:
            return element("p", "Its code is not in the cache.", class_="quiet")
        source = held.entry.parts["source.cl"].decode("utf-8", "replace")
        return _folded("OpenCL C", coloured(_cut(source, held)))

    def assembly(self, row: KernelRow) -> Html:
        """Return the assembly of a kernel's programs; empty where there is none."""
        return join([self._assembly(one) for one in row.stored if one.entry.parts.get("binary")])

    def _assembly(self, held: KernelEntry) -> Html:
        key = held.entry.key.digest
        if key in self._assembled:
            return element("p", "Its assembly is shown above.", class_="quiet")
        if len(self._assembled) >= _ASSEMBLED:
            return element("p", "Its assembly: ", element("code", f"kcl show {key[:12]} --asm"), class_="quiet")
        self._assembled.add(key)
        try:
            said = assembly(held.entry.parts["binary"])
        except NoAssembly as error:
            return element("p", f"No assembly: {error}.", class_="quiet")
        title = f"Assembly for {held.summary.device}" if held.summary.device else "Assembly"
        return _folded(title, _cut(said, held))


def _folded(title: str, content: Content) -> Html:
    """Return a folded text: only its title shows until the reader opens it."""
    return element("details", element("summary", title), element("pre", element("code", content), tabindex="0"))


def _cut(long: str, held: KernelEntry) -> str:
    lines = long.splitlines()
    if len(lines) <= _LINES:
        return long
    left = f"... {len(lines) - _LINES} more lines: kcl show {held.entry.key.digest[:12]}"
    return "\n".join([*lines[:_LINES], left])


def coloured(source: str) -> Html:
    """Mark up OpenCL C with the classes of pygments, which comes with rich; plain where pygments is missing."""
    try:
        from pygments.lexers.c_cpp import CLexer
        from pygments.token import STANDARD_TYPES
    except ImportError:
        return text(source)
    marked: list[Content] = []
    for token, piece in CLexer(stripnl=False).get_tokens(source):
        kind = "k" if piece in _QUALIFIERS else STANDARD_TYPES.get(token, "")
        marked.append(element("span", piece, class_=kind) if kind and piece.strip() else text(piece))
    return join(marked)


def diff(lines: Sequence[str]) -> Html:
    """Mark up lines as `diff -u` writes them; empty where there are none."""
    if not lines:
        return Html()
    marked = [element(_MARKS.get(line[:1], "span"), line) for line in lines]
    return element("pre", [[line, "\n"] for line in marked], tabindex="0")
