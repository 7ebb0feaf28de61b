"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

It shows what the terminal shows, and the OpenCL C of each kernel. `page.html` is its template. A policy in its head
forbids the browser to load anything. All texts go through `kcl.base.text.markup`, which escapes them: names, sources
and messages come from users.
"""

from __future__ import annotations

import pkgutil
import string
from collections.abc import Iterator, Mapping, Sequence

import kcl
from kcl.base.text.markup import Html, element, join, text
from kcl.cli.output import date
from kcl.inspect import inventory, kernels
from kcl.inspect.kernels import KernelRow, Run


def page(run: Run, facts: Mapping[str, str]) -> str:
    """Return the page of a run as HTML; `facts` are texts of the terminal: see `kcl.cli.report.facts`."""
    template = pkgutil.get_data("kcl.cli", "page.html")
    assert template is not None
    found = {
        **facts,
        "driver": run.driver or "python",
        "when": f"{date(run.ended)}, {facts['processes']}",
        "version": kcl.__version__,
        "misses": "\n".join([facts["misses"] or "Every look-up was a hit.", *run.remarks]),
    }
    escaped = {name: text(value) for name, value in found.items()}
    return string.Template(template.decode()).substitute(escaped, sources=join(_sources(run.rows)))


def _sources(rows: Sequence[KernelRow]) -> Iterator[Html]:
    """Yield the OpenCL C of each kernel, of which only the name shows until the reader opens it."""
    for row, label in zip(rows, kernels.labels(rows), strict=True):
        entry = inventory.read(row.stored[0], []) if row.stored else None
        if entry is not None and "source.cl" in entry.parts:
            code = element("code", entry.parts["source.cl"].decode("utf-8", "replace"))
            title = element("summary", element("code", label))
            yield element("details", title, element("pre", code, tabindex="0"))
