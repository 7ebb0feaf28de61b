"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

It shows what the terminal shows, and the OpenCL C of each kernel. `page.html` is its template. A policy in its head
forbids the browser to load anything. All texts go through `kcl.base.text.markup`, which escapes them: names, sources
and messages come from users.
"""

from __future__ import annotations

import pkgutil
import string
import time
from collections.abc import Iterator, Mapping, Sequence

import kcl
from kcl.base.text.markup import Html, element, join, text
from kcl.cli.output import date, seconds
from kcl.inspect import inventory, kernels
from kcl.inspect.history.records import COUNTERS, OUTCOMES
from kcl.inspect.kernels import KernelRow, Run

_LINES = 1000  # of one text


def page(run: Run, facts: Mapping[str, str]) -> str:
    """Return the page of a run as HTML; `facts` are texts of the terminal: see `kcl.cli.report.facts`."""
    template = pkgutil.get_data("kcl.cli", "page.html")
    assert template is not None
    total = {name: sum(row[name] for row in run.layers) for name in COUNTERS}
    spanned = f"{seconds(run.ended - run.began)} from the first look-up to the end"
    shown = {**facts, "misses": facts["misses"] or "Every look-up was a hit."}
    found = {
        "driver": run.driver or "python",
        "when": f"{date(run.began)}, {facts['processes']}, {spanned}",
        "hits": f"{int(total['hits'])} of {int(sum(total[name] for name in OUTCOMES))}",
        "count": str(len(run.rows)),
        "spent": seconds(total["seconds"]),
        "saved": seconds(total["saved"]),
        "version": kcl.__version__,
        "date": date(time.time()),
        "remarks": join(element("p", remark) for remark in run.remarks),
        "cache": element("p", facts["cache"]),
        "sources": join(_sources(run.rows)),
        **{name: element("pre", shown[name], tabindex="0") for name in ("layers", "kernels", "misses")},
    }
    return string.Template(template.decode()).substitute({name: text(value) for name, value in found.items()})


def _sources(rows: Sequence[KernelRow]) -> Iterator[Html]:
    """Yield the OpenCL C of each kernel, of which only the name shows until the reader opens it."""
    for row, label in zip(rows, kernels.labels(rows), strict=True):
        entry = inventory.read(row.stored[0], []) if row.stored else None
        if entry is not None and "source.cl" in entry.parts:
            lines = entry.parts["source.cl"].decode("utf-8", "replace").splitlines()
            if len(lines) > _LINES:
                lines[_LINES:] = [f"... {len(lines) - _LINES} more lines: kcl show {entry.key.digest[:12]} --source"]
            code = element("pre", element("code", "\n".join(lines)), tabindex="0")
            yield element("details", element("summary", element("code", label)), code)
