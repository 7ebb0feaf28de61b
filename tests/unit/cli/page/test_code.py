"""kcl.cli.page.code: sources, assembly and differences as HTML."""

from __future__ import annotations

import html
import re

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores.base import Stat
from kcl.cli.page import code
from kcl.inspect.inventory import ListedEntry
from kcl.inspect.kernels import KernelEntry, KernelRow

PTX = b".version 8.0\n.target sm_90\nadd.f32 %f1, %f2, %f3; // <b>\n"


def row(**parts):
    """Return a kernel with an entry that has these parts."""
    entry = Entry(Key([("source", "1")]), {}, {name.replace("_", "."): part for name, part in parts.items()})
    summary = ListedEntry(
        "binary", f"x-{entry.key.digest}", Stat(1, 1.0), entry.key, {"device": {"name": "a device"}}, {}
    )
    return KernelRow("k", (), (KernelEntry(summary, entry, "", {}, {}),))


def plain(markup):
    """Return the text of markup."""
    return html.unescape(re.sub("<[^>]*>", "", markup))


def test_coloured():
    """Colours change no character, and nothing of a source is taken for markup."""
    source = '__kernel void f(__global float *x) { x[0] < 1 && (x[1] = 2.0f); } // </pre><script>\n#define A "&amp;"\n'
    marked = code.coloured(source)
    assert plain(marked) == source
    assert '<span class="k">__kernel</span>' in marked
    assert "<script" not in marked


def test_source():
    """The OpenCL C is shown; where it is not in the cache the page says so."""
    assert "x[0]" in plain(code.PageTexts().source(row(source_cl=b"x[0];")))
    assert "not in the cache" in code.PageTexts().source(row())


def test_assembly():
    """PTX is shown as it is, once a program; what cannot be taken apart says why."""
    shown = code.PageTexts()
    assert plain(shown.assembly(row(binary=PTX))) == f"Assembly for a device{PTX.decode()}"
    assert "shown above" in shown.assembly(row(binary=PTX))
    assert "No assembly" in code.PageTexts().assembly(row(binary=b"unknown"))
    assert code.PageTexts().assembly(row()) == ""


def test_long():
    """Of a very long text the beginning is shown, and the command for the rest."""
    shown = plain(code.PageTexts().source(row(source_cl=b"x;\n" * 2000)))
    assert "1000 more lines: kcl show" in shown


def test_diff():
    """Lines that came and went are marked."""
    marked = code.diff(["-a < b", "+c", " d"])
    assert "<del>-a &lt; b</del>\n<ins>+c</ins>\n<span> d</span>" in marked
    assert code.diff([]) == ""
