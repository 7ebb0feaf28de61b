"""The tables of doc/explanation/performance.md, made of the figures of a run; `report.py` writes them.

The page includes them, so that no figure is typed: `make bench` and `make bench-report` bring all of it up to date.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import calls
import check
import cold
import entries
import processes
import storm
import tuning
from goals import ALLOCATING_CASES

# why a goal may fall short, by the beginning of its title: the first that fits
WHY = {
    "warm start": (
        "beside the work of pyopencl and PoCL kcl has its own for each kernel: kcl reads, verifies and "
        "parses two entries, makes two keys, and unmarshals an invoker. It grows with the kernels, as the floor does"
    ),
    "second run": "a process that starts at once shares the cores with the helper of the first one",
    "PoCL's cache": "as for the warm start; PoCL unpacks the libraries in each process",
    "cold": "each recorded call compares what is inside loopy with what its import gave, and keys and entries are made",
    "kcl.prepare": "each worker imports loopy and an OpenCL driver",
    "42 kernels cold": "a child of its own imports a client, and joins, seals and sends the pack",
    "42 new kernels": "each thread runs recipes and makes keys, one thread at a time",
    "the helper": "the helper runs at a low priority, so other processes of the machine slow it down",
    "one kernel": "hashing and parsing grow with the text, and the imports of the process's first kernel are in it",
    "call, outputs allocated": (
        "kcl compares names and layouts of the arguments, makes an array of the buffer and leaves events, beside the "
        "work of the typed call"
    ),
    "call": "the table that `make bench` prints has all sides of each case",
    "sizes": "the kernel has the statements of one with fixed sizes; the memory bounds both, and the guards beside it",
    "tuning, 120": "children start, and every candidate is verified; both tuners build the same programs",
    "tuning, call": "the sizes and dtypes of a call are compared first, and a new size is decided",
    "tuning, five": "where the device is busy the noise is larger than many gains, and then the default stays",
    "tuning, spaces": "the modules of tables are imported, and a file is looked for",
    "tuning, warm": "a table is read and a choice is decided for each kernel",
    "tuning": "what tuning gains depends on the guesses in the recipes, and a short search sees a part of the space",
    "look-ups": "each layer finds an entry in a tree, whose pages and inodes leave the system's cache if many",
    "8 processes": "a process that has waited long enough for a slow helper builds for itself",
    "the same": "eight processes share the cores of the machine, also for the work that each of them does by itself",
    "bytes on disk": (
        "an entry holds the driver's binary, which has the contents of PoCL's directory; source, invoker and key come "
        "on top. The last table of this page has the saving of compression and the cost of a verified read"
    ),
    "bundle": "the binaries are most of it, and a decompressor of the standard library unpacks them",
    "first run": "each entry is written before it is read",
    "own cache empty": "PoCL unpacks the libraries; a child starts, imports a client, and stores what it fetched",
    "kcl ": "every header of a large cache is read and verified",
    "statistics": "each process reads and writes its part of the journal",
    "one printed unit": "modules of kcl are imported, and what loopy's modules hold is noted as their imports end",
    "asked": "as for one printed unit, and each made unit is digested as it is launched",
    "bypassed, cold": "as for one printed unit, and the binary layer makes and publishes entries",
    "bypassed, warm": "as for one printed unit, for the binaries of kcl are loaded as fast as those of pyopencl",
    "unchanged, driver of pyopencl on Intel": (
        "pyopencl's own cache answers there without kcl, so both sides load the same binaries; imports, templates and "
        "launches take most of the rest"
    ),
    "unchanged": "imports of pyopencl and numpy, the program's own Python and its launches are in both",
    "`kcl run`": "a few modules of kcl are imported",
    "import kcl": "importing kcl imports no pyopencl",
}


HEADLINE = 42  # kernels of the program that the first sentence is about
BEGIN, END = "<!-- {}: written by make bench-report -->\n", "<!-- end of {} -->\n"
SUMMARY = {
    "loopy later / kcl later": "later runs: loopy / kcl",
    "kcl later / floor later": "later runs: kcl / floor",
}


def written(document: dict[str, Any]) -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    tables: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
        "headline.inc": headline,
        "summary.inc": summary,
        "run.inc": run,
        "goals.inc": goals,
        "short.inc": short,
        "disk.inc": disk,
        "tuning.inc": tuned,
    }
    return {name: "\n".join(table(document)) + "\n" for name, table in tables.items()}


def readme(document: dict[str, Any], text: str) -> str:
    """Return the text of the README with its first figure and its table made of these figures."""
    for name, lines in (
        ("gain", [*headline(document), ""]),
        ("measured", [*summary(document), ""]),
    ):
        before, begin, rest = text.partition(BEGIN.format(name))
        _old, end, after = rest.partition(END.format(name))
        text = "".join((before, begin, "\n", *(f"{line}\n" for line in lines), end, after))
    return text


def summary(document: dict[str, Any]) -> Iterator[str]:
    """Write the few ratios that say what kcl gives and takes, for the README and the page; in processor seconds."""
    some = document["parts"].get("processes", {}).get("kernels", [])
    if not some:
        yield "Not measured."
        return
    yield "| processor time | " + " | ".join(f"{one['count']} kernels" for one in some) + " |"
    yield "|---|" + "---|" * len(some)
    for name, title in SUMMARY.items():
        yield _row(title, [processes.ratios(one)[name] for one in some])
    if "cold" in document["parts"]:  # the only source of this ratio: other parts have too few pairs
        figures = document["parts"]["cold"]
        found = [cold.ratio(figures) if one["count"] == figures["count"] else None for one in some]
        yield _row("first run, nothing cached: kcl / loopy", found)


def _row(title: str, found: Sequence[tuple[float, float, float] | None]) -> str:
    cells = ["{:.2f} ({:.2f} to {:.2f})".format(*one) if one else "" for one in found]
    return f"| {title} | {' | '.join(cells)} |"


def headline(document: dict[str, Any]) -> Iterator[str]:
    """Say in one sentence how much a warm start saves."""
    some = document["parts"].get("processes", {}).get("kernels", [])
    for figures in (one for one in some if one["count"] == HEADLINE):
        times, least, most = processes.ratios(figures)["loopy later / kcl later"]
        yield (
            f"**{times:.1f} times less processor time**: the warm start of a program with {HEADLINE} loopy kernels, "
            f"with kcl against loopy, pyopencl and PoCL with all of their own caches warm (smallest and largest pair "
            f"{least:.1f} and {most:.1f})."
        )
        return
    yield "Not measured."


def run(document: dict[str, Any]) -> Iterator[str]:
    """Say in one table where and when each part was measured, and how busy the machine was as it began."""
    first = f"{document['device']}; {document['cores']} cores; {document['time']}"
    places: dict[str, list[tuple[str, str]]] = {}
    for part, load in document["load"].items():
        where, _, when = document.get("added", {}).get(part, first).rpartition("; ")
        places.setdefault(where, []).append((when, f"{part} {load:g}"))
    yield f"Python {document['python']}."
    yield ""
    yield "| where | when | parts, each with the load of the machine as it began |"
    yield "|---|---|---|"
    for where, found in places.items():
        times = sorted(when[:10] for when, _part in found)
        when = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
        yield f"| {where} | {when} | {', '.join(part for _when, part in found)} |"


def goals(document: dict[str, Any]) -> Iterator[str]:
    """Compare what was measured with the goals; a goal without a figure is left out."""
    yield "| | goal | measured | clock | |"
    yield "|---|---|---|---|---|"
    for goal, figure, verdict in check.verdicts(document["parts"]):
        if figure is not None:
            word = f"**{verdict.lower()}**" if verdict == check.SHORT else verdict
            yield f"| {goal.title} | {goal.bound} | {check.shown(figure)} | {goal.clock} | {word} |"


def short(document: dict[str, Any]) -> Iterator[str]:
    """List what falls short, and why."""
    found = [
        (goal, figure)
        for goal, figure, verdict in check.verdicts(document["parts"])
        if verdict == check.SHORT
    ]
    if not found:
        yield "Nothing that was measured falls short of its goal."
    for beginning, reason in WHY.items():
        some = [
            f"{goal.title} ({check.shown(figure)})"
            for goal, figure in found
            if _cause(goal.title) == beginning
        ]
        if some:
            yield f"- {'; '.join(some)}: {reason}."
    if found:
        yield ""
        yield from _yardsticks(document["parts"])


def _cause(title: str) -> str:
    return next(beginning for beginning in WHY if title.startswith(beginning))


def _yardsticks(parts: dict[str, Any]) -> Iterator[str]:
    """Say what the yardsticks themselves reached on this machine."""
    if "processes" in parts:
        floors = [
            f"{figures['count']} kernels {processes.ratios(figures)['loopy later / floor later'][0]:.3g}"
            for figures in parts["processes"]["kernels"]
        ]
        yield f"How many times less processor time than loopy's warm start the floor itself takes: {', '.join(floors)}."
    allocating = [
        one for one in parts.get("calls", {}).get("cases", ()) if one["case"] in ALLOCATING_CASES
    ]
    if allocating and all("typed" in one["microseconds"] for one in allocating):
        shares = [
            f"{one['case']} {calls.ratio(one['microseconds']['typed'], one['microseconds']['loopy'])[0]:.2f}"
            for one in allocating
        ]
        yield (
            "The typed call's share of the executor's time, with a buffer allocated by hand and no array: "
            f"{', '.join(shares)}."
        )
    if "storm" in parts:
        yield (
            "The time of the other processes of a storm when they find everything, in times of one process alone: "
            f"{storm.share(parts['storm']):.2f}."
        )


def disk(document: dict[str, Any]) -> Iterator[str]:
    """Compare codecs by bytes and by the time of a verified read."""
    figures = document["parts"].get("entries")
    if figures is None or not figures["codecs"]:
        yield "Not measured."
        return
    count = figures["count"]
    yield f"kcl's bytes over PoCL's, {count} kernels: {entries.share(figures):.2f}."
    yield ""
    yield "| entries of | compressed with | bytes a kernel | microseconds of a verified read |"
    yield "|---|---|---|---|"
    for layer, codecs in figures["codecs"].items():
        for codec in codecs:
            read = statistics.median(one / count for one in codec["read"])
            yield f"| {layer} | {codec['name']} | {codec['bytes'] // count} | {read:.0f} |"


def tuned(document: dict[str, Any]) -> Iterator[str]:
    """Compare by recipe what both searches found with the default, with the best, and with numpy and CLBlast."""
    found = tuning.cases(document["parts"].get("tuning", {}))
    if not found:
        yield "Not measured."
        return
    yield f"| | choices | tried by level 1 | {' | '.join(tuning.COLUMNS)} |"
    yield "|---|" + "---|" * (2 + len(tuning.COLUMNS))
    for name, one in found.items():
        cells = [tuning.cell(one, *pair) for pair in tuning.COLUMNS.values()]
        yield f"| {name} | {one['level 1']['of']} | {tuning.share(one):.0%} | {' | '.join(cells)} |"
