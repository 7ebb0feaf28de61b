"""HTML with escaped texts: a plain text never becomes markup."""

from __future__ import annotations

import html
import re
import string
from collections.abc import Iterable, Mapping
from typing import Union

from kcl.base.text.layout import cut

_WIDTH = 100  # characters of a cell in a notebook
_LEFT = "text-align: left"
_EMPTY = frozenset({"meta", "br"})
# Characters that HTML or a file of UTF-8 cannot hold: control characters but white space, and lone surrogates.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

Content = Union[str, "Html", Iterable["Content"]]


class Html(str):
    """A text that is markup already."""

    __slots__ = ()


def text(plain: str) -> Html:
    """Escape a text for HTML, attributes included; characters that HTML cannot hold are replaced."""
    return plain if isinstance(plain, Html) else Html(html.escape(_UNFIT.sub("\ufffd", plain)))


def join(content: Content) -> Html:
    """Concatenate contents; plain texts are escaped."""
    return text(content) if isinstance(content, str) else Html("".join(map(join, content)))


def element(kind: str, /, *content: Content, **attributes: str) -> Html:
    """Return an element: `element("td", "a < b", class_="name")`. Attributes named as keywords of Python end in `_`."""
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    return Html(
        f"<{kind}{listed}>" if kind in _EMPTY else f"<{kind}{listed}>{join(content)}</{kind}>"
    )


def fill(template: str, holes: Mapping[str, Content]) -> Html:
    """Replace the placeholders of a template, such as `$title`, by contents."""
    return Html(
        string.Template(template).substitute(
            {name: join(content) for name, content in holes.items()}
        )
    )


def make_table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> Html:
    """Return a table for a notebook. A long cell is cut; a tooltip has its full text."""
    lines = [("th", head), *(("td", row) for row in rows)]
    listed = [element("tr", [_cell(kind, plain) for plain in cells]) for kind, cells in lines]
    return element("table", element("caption", title, style=_LEFT), listed)


def _cell(kind: str, plain: str) -> Html:
    whole = {"title": plain} if len(plain) > _WIDTH else {}
    return element(kind, cut(plain, _WIDTH + 3), style=_LEFT, **whole)
