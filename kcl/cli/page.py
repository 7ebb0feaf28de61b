"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

`page.html` is its template. A policy in its head forbids the browser to load anything. All texts go through
`kcl.base.text.markup`, which escapes them: names, sources and messages come from users.
"""

from __future__ import annotations

import pkgutil
import string
import time
from collections.abc import Iterable, Sequence

import kcl
from kcl.base import settings
from kcl.base.text.markup import Content, Html, element, join, table, text
from kcl.cli.output import date, seconds, size
from kcl.cli.show import NoAssembly, assembly
from kcl.inspect import kernels
from kcl.inspect.explain.misses import Miss
from kcl.inspect.history.records import COUNTERS, OUTCOMES
from kcl.inspect.kernels import KernelEntry, KernelRow, LookSummary, Run

_LINES = 1000  # of one text
_ASSEMBLED = 50  # programs of a page: each takes a run of objdump
_QUALIFIERS = frozenset(f"{dash}{word}" for dash in ("", "__") for word in ("kernel", "global", "local", "constant"))
_MARKS = {"-": "del", "+": "ins"}


def page(run: Run) -> str:
    """Return the page of a run as HTML."""
    template = pkgutil.get_data("kcl.cli", "page.html")
    assert template is not None
    many = f"{len(run.processes)} processes" if len(run.processes) > 1 else f"process {run.processes[0]}"
    spanned = seconds(run.ended - run.began)
    plain = {
        "driver": run.driver or "python",
        "when": f"{date(run.began)}, {many}, {spanned} from the first look-up to the last",
        "hits": f"{int(run.total('hits'))} of {int(sum(run.total(name) for name in OUTCOMES))}",
        "count": str(len(run.rows)),
        "spent": seconds(run.total("seconds")),
        "saved": seconds(run.total("saved")),
        "version": kcl.__version__,
        "date": date(time.time()),
    }
    parts = {
        "remarks": join(element("p", remark) for remark in run.remarks),
        "layers": _layers(run),
        "kernels": _kernels(run),
        "misses": _misses(run),
        "cache": _cache(run),
    }
    return string.Template(template.decode()).substitute({name: text(value) for name, value in plain.items()}, **parts)


def _layers(run: Run) -> Html:
    head = [("layer", False), *((name, True) for name in COUNTERS)]
    rows = [
        [
            str(row["layer"]),
            *(str(int(row[name])) for name in OUTCOMES),
            *(seconds(row["seconds"]), seconds(max(0.0, row["saved"])), size(row["bytes"])),
        ]
        for row in run.layers
    ]
    return table(head, rows)


def _kernels(run: Run) -> Html:
    labelled = list(enumerate(zip(run.rows, kernels.labels(run.rows), strict=True), 1))
    head = [("kernel", False), *((layer, False) for layer in settings.LAYERS), ("seconds", True), ("saved", True)]
    rows = [
        [
            element("a", element("code", label), href=f"#kernel-{number}"),
            *(_outcomes(row.of(layer)) for layer in settings.LAYERS),
            *(seconds(row.seconds), seconds(row.saved)),
        ]
        for number, (row, label) in labelled
    ]
    assembled: set[str] = set()
    return join([table(head, rows), [_kernel(number, *one, assembled) for number, one in labelled]])


def _kernel(number: int, row: KernelRow, label: str, assembled: set[str]) -> Html:
    devices = dict.fromkeys(one.summary.device for one in row.stored if one.summary.device)
    facts: list[tuple[str, Content]] = [
        ("parameters", _listed(element("code", f"{name} = {value}") for name, value in row.parameters.items())),
        ("arguments", _listed(element("code", f"{name}: {value}") for name, value in row.dtypes.items())),
        ("device", ", ".join(devices)),
        *((f"{look.layer} layer", _looked(look)) for look in row.looks),
        *((f"{one.summary.layer} entry", _entry(one)) for one in row.stored),
    ]
    return element(
        "article",
        element("h3", element("code", label)),
        element("dl", [[element("dt", name), element("dd", value)] for name, value in facts if value], class_="facts"),
        source_of(row),
        [assembly_of(one, assembled) for one in row.stored if one.entry.parts.get("binary")],
        id=f"kernel-{number}",
    )


def _listed(found: Iterable[Html]) -> Html:
    return join([", ", one] if number else one for number, one in enumerate(found))


def _looked(look: LookSummary) -> Html:
    saved = f", saved {seconds(look.saved)}" if look.saved else ""
    reason = f": {look.reason}" if look.reason and look.outcome != "hit" else ""
    return join([_outcomes([look]), f" in {seconds(look.seconds)}{saved}{reason}"])


def _entry(one: KernelEntry) -> Html:
    words = f", {size(one.summary.size)}, made {date(one.summary.built)} in {seconds(one.summary.seconds)}"
    return join([element("code", one.entry.key.digest[:12]), words])


def _outcomes(looks: Sequence[LookSummary]) -> Html:
    """Write how look-ups ended, in words with colours beside them."""
    if not looks:
        return element("span", "none", class_="quiet")
    listed = {look.outcome: kernels.outcome([one for one in looks if one.outcome == look.outcome]) for look in looks}
    return _listed(element("span", words, class_=f"outcome {name}") for name, words in listed.items())


def _misses(run: Run) -> Html:
    if not run.told:
        return element("p", "Every look-up was a hit.")
    more = f"{run.untold} earlier ones are left out: kcl explain --limit 0"
    return join([[_missed(one) for one in run.told], element("p", more) if run.untold else ""])


def _missed(one: Miss) -> Html:
    often = f", {one.times} times" if one.times > 1 else ""
    outcome = element("span", one.outcome, class_=f"outcome {one.outcome}")
    title = element("h3", element("code", one.label), f", {one.layer} layer: ", outcome, often)
    if one.outcome != "miss" or one.key is None:
        return element("article", title, element("p", one.reason))
    if not one.changes:
        return element("article", title, element("p", "First time seen: no earlier entry is like it."))
    before: Content = ""
    if one.nearest is not None:
        before = element("p", "Differs from the nearest earlier entry, ", element("code", one.nearest[:12]), ":")
    changes = [element("li", change.sentence, diff(change.diff)) for change in one.changes]
    return element("article", title, before, element("ul", changes, class_="changes"))


def _cache(run: Run) -> Html:
    titles = ("layer", "entries", "kernels", "size", "oldest", "newest", "files")
    head = [(title, title in ("entries", "kernels", "size")) for title in titles]
    rows = [
        [
            *(one.layer, str(one.entries), str(one.kernels), size(one.size), date(one.oldest), date(one.newest)),
            [element("code", place) for place in one.places] or "none",
        ]
        for one in run.held
    ]
    return table(head, rows)


def source_of(row: KernelRow) -> Html:
    """Return the OpenCL C of a kernel, or a sentence if it is not in the cache."""
    held = next((one for one in row.stored if "source.cl" in one.entry.parts), None)
    if held is None:
        return element("p", "Its code is not in the cache.", class_="quiet")
    return _folded("OpenCL C", coloured(_cut(held.entry.parts["source.cl"].decode("utf-8", "replace"), held)))


def assembly_of(held: KernelEntry, assembled: set[str]) -> Html:
    """Return the assembly of a program; that of the programs in `assembled` is on the page already."""
    key = held.entry.key.digest
    if key in assembled:
        return element("p", "Its assembly is shown above.", class_="quiet")
    if len(assembled) >= _ASSEMBLED:
        return element("p", "Its assembly: ", element("code", f"kcl show {key[:12]} --asm"), class_="quiet")
    assembled.add(key)
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
    return element("pre", [[element(_MARKS.get(line[:1], "span"), line), "\n"] for line in lines], tabindex="0")
