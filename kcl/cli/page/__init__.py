"""The page of a run: one file of HTML that needs no network and no script, for `kcl report --html`.

A policy in its head forbids the browser to load anything. All texts go through `kcl.base.text.markup`, which
escapes them: names, sources and messages come from users.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import kcl
from kcl.base import settings
from kcl.base.text.markup import Content, Html, element, join, table
from kcl.cli.output import date, seconds, size
from kcl.cli.page import code, style, timeline
from kcl.inspect import kernels
from kcl.inspect.explain.misses import Miss
from kcl.inspect.history.records import COUNTERS, OUTCOMES
from kcl.inspect.kernels import KernelEntry, KernelRow, LookSummary
from kcl.inspect.last_run import Run

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SECTIONS = ("Layers", "Timeline", "Kernels", "Misses", "Cache")


def page(run: Run) -> str:
    """Return the page of a run as HTML."""
    title = f"{run.driver or 'python'}: report of kcl"
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style.CSS)),
    ]
    parts = (_layers(run), timeline.drawn(run), _kernels(run), _misses(run), _cache(run))
    sections = [
        element("section", element("h2", name, id=f"of-{name.lower()}"), part, aria_labelledby=f"of-{name.lower()}")
        for name, part in zip(_SECTIONS, parts, strict=True)
    ]
    body = [
        element("a", "Skip to the report", href="#main", class_="skip"),
        _header(run),
        element("main", sections, id="main", tabindex="-1"),
        element("footer", f"Written by kcl {kcl.__version__} on {date(time.time())}. This page loads nothing."),
    ]
    return f"<!doctype html>\n{element('html', element('head', head), element('body', body), lang='en')}\n"


def _header(run: Run) -> Html:
    asked = int(sum(run.total(name) for name in OUTCOMES))
    many = f"{len(run.processes)} processes" if len(run.processes) > 1 else f"process {run.processes[0]}"
    spanned = seconds(run.ended - run.began)
    figures = [
        ("hits", f"{int(run.total('hits'))} of {asked}"),
        ("kernels", str(len(run.rows))),
        ("spent in look-ups", seconds(run.total("seconds"))),
        ("saved by hits", seconds(run.total("saved"))),
    ]
    return element(
        "header",
        element("h1", element("code", run.driver or "python")),
        element("p", f"{date(run.began)}, {many}, {spanned} from the first look-up to the last", class_="quiet"),
        element(
            "dl",
            [element("div", element("dt", name), element("dd", value)) for name, value in figures],
            class_="figures",
        ),
        [element("p", remark) for remark in run.remarks],
        element(
            "nav",
            element("ul", [element("li", element("a", name, href=f"#of-{name.lower()}")) for name in _SECTIONS]),
            aria_label="Sections",
        ),
    )


def _layers(run: Run) -> Html:
    head = [("layer", False), *((name, True) for name in COUNTERS)]
    rows = [
        [
            str(row["layer"]),
            *(str(int(row[name])) for name in OUTCOMES),
            seconds(row["seconds"]),
            seconds(max(0.0, row["saved"])),
            size(row["bytes"]),
        ]
        for row in run.layers
    ]
    words = (
        "A hit loads what an earlier run made. Seconds are those of all look-ups, with the work of those that were no "
        "hits. Saved is what making the entries took, less what loading them took."
    )
    return join([table(head, rows), element("p", words, class_="quiet")])


def _kernels(run: Run) -> Html:
    labelled = list(zip(run.rows, kernels.labels(run.rows), strict=True))
    head = [("kernel", False), *((layer, False) for layer in settings.LAYERS), ("seconds", True), ("saved", True)]
    rows = [
        [
            element("a", element("code", label), href=f"#kernel-{number}"),
            *(_outcomes(row.of(layer)) for layer in settings.LAYERS),
            seconds(row.seconds),
            seconds(row.saved),
        ]
        for number, (row, label) in enumerate(labelled, 1)
    ]
    shown = code.PageTexts()
    return join([table(head, rows), [_kernel(number, *one, shown) for number, one in enumerate(labelled, 1)]])


def _kernel(number: int, row: KernelRow, label: str, shown: code.PageTexts) -> Html:
    devices = dict.fromkeys(one.summary.device for one in row.stored if one.summary.device)
    facts: list[tuple[str, Content]] = [
        ("parameters", _listed(row.parameters.items(), " = ")),
        ("arguments", _listed(row.dtypes.items(), ": ")),
        ("device", ", ".join(devices)),
        *((f"{look.layer} layer", _looked(look)) for look in row.looks),
        *((f"{one.summary.layer} entry", _entry(one)) for one in row.stored),
    ]
    return element(
        "article",
        element("h3", element("code", label)),
        element("dl", [[element("dt", name), element("dd", value)] for name, value in facts if value], class_="facts"),
        shown.source(row),
        shown.assembly(row),
        id=f"kernel-{number}",
    )


def _listed(pairs: Iterable[tuple[str, str]], between: str) -> Html:
    return _separated([element("code", f"{name}{between}{value}") for name, value in pairs])


def _separated(listed: Iterable[Html]) -> Html:
    return join([[", ", one] if number else one for number, one in enumerate(listed)])


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
    return _separated([element("span", words, class_=f"outcome {name}") for name, words in listed.items()])


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
    changes = [element("li", change.sentence, code.diff(change.diff)) for change in one.changes]
    return element("article", title, before, element("ul", changes, class_="changes"))


def _cache(run: Run) -> Html:
    titles = ("layer", "entries", "kernels", "size", "oldest", "newest", "files")
    head = [(title, title in ("entries", "kernels", "size")) for title in titles]
    rows = [
        [
            one.layer,
            str(one.entries),
            str(one.kernels),
            size(one.size),
            date(one.oldest),
            date(one.newest),
            [element("code", place) for place in one.places] or "none",
        ]
        for one in run.held
    ]
    return join([table(head, rows), element("p", "What lies in the layers now, of all programs.", class_="quiet")])
