"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

`page.html` is its template. A policy in its head forbids the browser to load anything. All texts go through
`kcl.base.text.markup`, which escapes them: names, sources and messages come from users.
"""

from __future__ import annotations

import pkgutil
import string
import time
from collections.abc import Iterator, Sequence

import kcl
from kcl.base import settings
from kcl.base.text.markup import Content, Html, element, join, table, text
from kcl.cli.output import date, seconds, size
from kcl.cli.show import NoAssembly, assembly
from kcl.inspect import kernels
from kcl.inspect.explain import misses
from kcl.inspect.history.records import COUNTERS, OUTCOMES
from kcl.inspect.kernels import KernelEntry, KernelRow, LookSummary, Run

_LINES = 1000  # of one text
_ASSEMBLED = 50  # programs of a page: each takes a run of objdump


def page(run: Run, held: str) -> str:
    """Return the page of a run as HTML; `held` says what lies in the layers."""
    template = pkgutil.get_data("kcl.cli", "page.html")
    assert template is not None
    many = f"{len(run.processes)} processes" if len(run.processes) > 1 else f"process {run.processes[0]}"
    spanned = seconds(run.ended - run.began)
    lines = misses.lines(run.told) or ["Every look-up was a hit."]
    lines += [f"{run.untold} earlier ones are left out: kcl explain --limit 0"] if run.untold else []
    found = {
        "driver": run.driver or "python",
        "when": f"{date(run.began)}, {many}, {spanned} from the first look-up to the last",
        "hits": f"{int(run.total('hits'))} of {int(sum(run.total(name) for name in OUTCOMES))}",
        "count": str(len(run.rows)),
        "spent": seconds(run.total("seconds")),
        "saved": seconds(run.total("saved")),
        "version": kcl.__version__,
        "date": date(time.time()),
        "remarks": join(element("p", remark) for remark in run.remarks),
        "layers": _layers(run),
        "kernels": _kernels(run),
        "misses": element("pre", "\n".join(lines), tabindex="0"),
        "cache": element("p", held),
    }
    return string.Template(template.decode()).substitute({name: text(value) for name, value in found.items()})


def _layers(run: Run) -> Html:
    rows = [
        [
            str(row["layer"]),
            *(str(int(row[name])) for name in OUTCOMES),
            *(seconds(row["seconds"]), seconds(max(0.0, row["saved"])), size(row["bytes"])),
        ]
        for row in run.layers
    ]
    return table([("layer", False), *((name, True) for name in COUNTERS)], rows)


def _kernels(run: Run) -> Html:
    labelled = list(enumerate(zip(run.rows, kernels.labels(run.rows), strict=True), 1))
    head = [("kernel", False), *((layer, False) for layer in settings.LAYERS), ("seconds", True), ("saved", True)]
    rows = [
        [
            element("a", element("code", label), href=f"#kernel-{number}"),
            *(_outcomes(row.of(layer)) for layer in settings.LAYERS),
            *map(seconds, row.spent),
        ]
        for number, (row, label) in labelled
    ]
    assembled: set[str] = set()
    return join([table(head, rows), [_kernel(number, *one, assembled) for number, one in labelled]])


def _kernel(number: int, row: KernelRow, label: str, assembled: set[str]) -> Html:
    facts: list[tuple[str, Content]] = [
        ("parameters", ", ".join(f"{name} = {value}" for name, value in row.parameters.items())),
        ("arguments", ", ".join(f"{name}: {value}" for name, value in row.dtypes.items())),
        *((f"{look.layer} layer", _looked(look)) for look in row.looks),
        *((f"{one.summary.layer} entry", _entry(one)) for one in row.stored),
    ]
    return element(
        "article",
        element("h3", element("code", label)),
        element("dl", [[element("dt", name), element("dd", value)] for name, value in facts if value], class_="facts"),
        list(_texts(row.stored, assembled)),
        id=f"kernel-{number}",
    )


def _looked(look: LookSummary) -> Html:
    saved = f", saved {seconds(look.saved)}" if look.saved else ""
    reason = f": {look.reason}" if look.reason and look.outcome != "hit" else ""
    return join([_outcomes([look]), f" in {seconds(look.seconds)}{saved}{reason}"])


def _entry(one: KernelEntry) -> Html:
    device = f" for {one.summary.device}" if one.summary.device else ""
    words = f"{device}, {size(one.summary.size)}, made {date(one.summary.built)} in {seconds(one.summary.seconds)}"
    return join([element("code", one.entry.key.digest[:12]), words])


def _outcomes(looks: Sequence[LookSummary]) -> Html:
    """Write how look-ups ended, in words with colours beside them."""
    found = {look.outcome: kernels.outcome([one for one in looks if one.outcome == look.outcome]) for look in looks}
    return join([[element("span", words, class_=f"outcome {name}"), " "] for name, words in found.items()])


def _texts(stored: Sequence[KernelEntry], assembled: set[str]) -> Iterator[Html]:
    """Yield the OpenCL C of a kernel and its assembly, folded; `assembled` are the programs that were on the page."""
    held = next((one for one in stored if "source.cl" in one.entry.parts), None)
    if held is not None:
        yield _folded("OpenCL C", held.entry.parts["source.cl"].decode("utf-8", "replace"), held)
    for one in stored:
        key = one.entry.key.digest
        if "binary" not in one.entry.parts or key in assembled or len(assembled) >= _ASSEMBLED:
            continue
        assembled.add(key)
        try:
            yield _folded(f"Assembly for {one.summary.device}", assembly(one.entry.parts["binary"]), one)
        except NoAssembly as error:
            yield element("p", f"No assembly: {error}.", class_="quiet")


def _folded(title: str, long: str, held: KernelEntry) -> Html:
    """Return a folded text, of which only the title shows until the reader opens it."""
    lines = long.splitlines()
    if len(lines) > _LINES:
        lines[_LINES:] = [f"... {len(lines) - _LINES} more lines: kcl show {held.entry.key.digest[:12]}"]
    code = element("pre", element("code", "\n".join(lines)), tabindex="0")
    return element("details", element("summary", title), code)
