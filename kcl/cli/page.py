"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

It shows what the terminal shows, and the OpenCL C of each kernel. `page.html` is its template. A policy in its head
forbids the browser to load anything. All texts are escaped: names, sources and messages come from users.
"""

from __future__ import annotations

import html
import pkgutil
import re
import string
from collections.abc import Iterator, Mapping, Sequence

import kcl
from kcl.cli.output import date
from kcl.inspect import inventory, kernels
from kcl.inspect.kernels import KernelRow, Run

# Characters that HTML or a file of UTF-8 cannot hold: control characters but white space, and lone surrogates.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


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
    escaped = {name: _escaped(text) for name, text in found.items()}
    return string.Template(template.decode()).substitute(escaped, sources="\n".join(_sources(run.rows)))


def _escaped(text: str) -> str:
    return html.escape(_UNFIT.sub("\ufffd", text))


def _sources(rows: Sequence[KernelRow]) -> Iterator[str]:
    """Yield the OpenCL C of each kernel, of which only the name shows until the reader opens it."""
    for row, label in zip(rows, kernels.labels(rows), strict=True):
        entry = inventory.read(row.stored[0], []) if row.stored else None
        if entry is not None and "source.cl" in entry.parts:
            code = _escaped(entry.parts["source.cl"].decode("utf-8", "replace"))
            title = f"<summary><code>{_escaped(label)}</code></summary>"
            yield f'<details>{title}<pre tabindex="0"><code>{code}</code></pre></details>'
