"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

`page.html` is its template. A policy in its head forbids the browser to load anything. All texts go through
`kcl.base.text.markup`, which escapes them: names, sources and messages come from users.
"""

from __future__ import annotations

import pkgutil
import string
import time
from collections.abc import Iterator, Mapping, Sequence

import kcl
from kcl.base.text.markup import Html, element, join, table, text
from kcl.cli.output import date, seconds, size
from kcl.cli.show import NoAssembly, assembly
from kcl.inspect import inventory, kernels, summary
from kcl.inspect.history.records import COUNTERS, OUTCOMES
from kcl.inspect.inventory import ListedEntry
from kcl.inspect.kernels import KernelRow, LookSummary, Run

_LINES = 1000  # of one text
_ASSEMBLED = 50  # programs of a page: each takes a run of objdump


def page(run: Run, facts: Mapping[str, str]) -> str:
    """Return the page of a run as HTML; `facts` are texts of the terminal: `processes`, `misses` and `cache`."""
    template = pkgutil.get_data("kcl.cli", "page.html")
    assert template is not None
    total = {name: sum(row[name] for row in run.layers) for name in COUNTERS}
    spanned = f"{seconds(run.ended - run.began)} from the first look-up to the last"
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
        "layers": table([(column.title, True) for column in summary.HEAD], summary.cells(run.layers)),
        "kernels": _kernels(run),
        "misses": element("pre", facts["misses"] or "Every look-up was a hit.", tabindex="0"),
        "cache": element("p", facts["cache"]),
    }
    return string.Template(template.decode()).substitute({name: text(value) for name, value in found.items()})


def _kernels(run: Run) -> Html:
    numbered = list(enumerate(kernels.cells(run.rows), 1))
    rows = [[element("a", element("code", label), href=f"#kernel-{at}"), *cells] for at, (label, *cells) in numbered]
    assembled: set[str] = set()
    articles = [
        _kernel(number, row, label, assembled)
        for row, (number, (label, *_cells)) in zip(run.rows, numbered, strict=True)
    ]
    return join([table([(column.title, at > 2) for at, column in enumerate(kernels.HEAD)], rows), articles])


def _kernel(number: int, row: KernelRow, label: str, assembled: set[str]) -> Html:
    facts = [
        ("parameters", ", ".join(f"{name} = {value}" for name, value in row.parameters.items())),
        ("arguments", ", ".join(f"{name}: {value}" for name, value in row.dtypes.items())),
        *((f"{look.layer} layer", _looked(look)) for look in row.looks),
        *((f"{one.layer} entry", _entry(one)) for one in row.stored),
    ]
    return element(
        "article",
        element("h3", element("code", label)),
        element("dl", [[element("dt", name), element("dd", value)] for name, value in facts if value], class_="facts"),
        list(_texts(row.stored, assembled)),
        id=f"kernel-{number}",
    )


def _looked(look: LookSummary) -> str:
    saved = f", saved {seconds(look.saved)}" if look.saved else ""
    reason = f": {look.reason}" if look.reason and look.outcome != "hit" else ""
    return f"{kernels.outcome([look])} in {seconds(look.seconds)}{saved}{reason}"


def _entry(one: ListedEntry) -> str:
    device = f" for {one.device}" if one.device else ""
    return f"{one.digest[:12]}{device}, {size(one.size)}, made {date(one.built)} in {seconds(one.seconds)}"


def _texts(stored: Sequence[ListedEntry], assembled: set[str]) -> Iterator[Html]:
    """Yield the OpenCL C of a kernel and its assembly, folded; `assembled` are the programs that were on the page."""
    for number, one in enumerate(stored):
        entry = inventory.read(one, [])
        parts = entry.parts if entry is not None else {}
        if "source.cl" in parts and not number:
            yield _folded("OpenCL C", parts["source.cl"].decode("utf-8", "replace"), one)
        if "binary" in parts and one.digest not in assembled and len(assembled) < _ASSEMBLED:
            assembled.add(one.digest)
            try:
                yield _folded(f"Assembly for {one.device}", assembly(parts["binary"]), one)
            except NoAssembly as error:
                yield element("p", f"No assembly: {error}.", class_="quiet")


def _folded(title: str, long: str, held: ListedEntry) -> Html:
    """Return a folded text, of which only the title shows until the reader opens it."""
    lines = long.splitlines()
    if len(lines) > _LINES:
        lines[_LINES:] = [f"... {len(lines) - _LINES} more lines: kcl show {held.digest[:12]}"]
    code = element("pre", element("code", "\n".join(lines)), tabindex="0")
    return element("details", element("summary", title), code)
