"""Draw the figures of a run as pictures for the documentation, and write its tables.

    python benchmarks/report.py [FILE] [--into DIRECTORY]

FILE is what run.py wrote, by default the newest in benchmarks/results/. The pictures are SVG, the same bytes for the
same figures and the same matplotlib; tables and figures are laid beside them, and the README gets its table. A picture
whose part was not measured is not drawn.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import check
import matplotlib
import measure
import page
import processes
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INTO = measure.HERE.parent / "doc" / "explanation" / "measured"
README = measure.HERE.parent / "README.md"
COLOURS = {"floor": "#8a8a8a", "kcl": "#1f6fb2", "loopy": "#d9822b"}
MOMENTS = {
    "cold": "cold",
    "second": "second run",
    "later": "later",
    "empty": "PoCL's cache\nempty",
    "off": "PoCL's cache\noff",
}


def main() -> None:
    """Draw what was measured."""
    parser = argparse.ArgumentParser(description="Draw the figures of a run.")
    parser.add_argument(
        "file", nargs="?", type=pathlib.Path, help="JSON of run.py (default: the newest)"
    )
    parser.add_argument(
        "--into", type=pathlib.Path, default=INTO, metavar="DIRECTORY", help="where the pictures go"
    )
    options = parser.parse_args()
    document = json.loads((options.file or check.newest()).read_text(encoding="utf-8"))
    for path in written(document, options.into):
        print(path)
    if options.into == INTO:
        README.write_text(
            page.readme(document, README.read_text(encoding="utf-8")), encoding="utf-8"
        )
        print(README)


def written(document: dict[str, Any], into: pathlib.Path) -> list[pathlib.Path]:
    """Write the pictures and the figures into a directory; return what was written."""
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "kcl",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 10,
        }
    )
    into.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (part, draw) in PICTURES.items():
        if part in document["parts"]:
            paths.append(into / f"{name}.svg")
            draw(document["parts"][part]).savefig(
                paths[-1], metadata={"Date": None, "Creator": None}
            )
            _without_trailing_blanks(paths[-1])
    for name, text in page.written(document).items():
        paths.append(into / name)
        paths[-1].write_text(text, encoding="utf-8")
    measure.write(document, into / "figures.json")
    return [*paths, into / "figures.json"]


def starts(figures: dict[str, Any]) -> Figure:
    """Draw bars of whole processes, one plot for each number of kernels."""
    some = figures["kernels"]
    figure = Figure(figsize=(9, 2.9 * len(some)), layout="constrained")
    for axes, one in zip(_plots(figure, len(some)), some, strict=True):
        for number, side in enumerate(processes.SIDES):
            seconds = [one["wall"][side][moment] for moment in MOMENTS]
            places = [place + 0.27 * (number - 1) for place, values in enumerate(seconds) if values]
            _bars(axes, places, [values for values in seconds if values], side)
        axes.set_xticks(range(len(MOMENTS)), list(MOMENTS.values()))
        axes.set_yscale("log")
        axes.margins(y=0.18)
        axes.set_ylabel("seconds, whole process")
        axes.set_title(f"{one['count']} kernels")
        axes.legend(frameon=False, ncols=3)
    return figure


def over_kernels(figures: dict[str, Any]) -> Figure:
    """Draw the time of a warm start over the number of kernels."""
    axes, figure = _one()
    counts = [one["count"] for one in figures["kernels"]]
    for side in processes.SIDES:
        seconds = [statistics.median(one["wall"][side]["later"]) for one in figures["kernels"]]
        axes.plot(counts, seconds, "o-", color=COLOURS[side], label=side)
    axes.set_xlabel("kernels")
    axes.set_ylabel("seconds, warm start")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def over_entries(figures: dict[str, Any]) -> Figure:
    """Draw the time of a look-up over the number of entries."""
    axes, figure = _one()
    counts = [one["count"] for one in figures["entries"]]
    for name, colour in (("both", "#1f6fb2"), ("generator", "#5aa469"), ("binary", "#d9822b")):
        values = [one[name] for one in figures["entries"]]
        axes.errorbar(counts, *_medians(values), fmt="o-", color=colour, capsize=3, label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("entries in each layer")
    axes.set_ylabel("microseconds, look-up")
    axes.legend(frameon=False)
    return figure


def calls(figures: dict[str, Any]) -> Figure:
    """Draw what a call costs, by case and side."""
    cases = figures["cases"]
    sides = list(dict.fromkeys(side for one in cases for side in one["microseconds"]))
    colours = ("#d9822b", "#1f6fb2", "#f0c08a", "#7fb3dd", "#123f66", "#555555", "#aaaaaa")
    figure = Figure(figsize=(9, 1.2 * len(cases) + 0.8), layout="constrained")
    axes = figure.subplots()
    for number, side in enumerate(sides):
        there = [
            (place, one["microseconds"][side])
            for place, one in enumerate(cases)
            if side in one["microseconds"]
        ]
        places = [place + 0.12 * (number - (len(sides) - 1) / 2) for place, _ in there]
        middle, reach = _medians([values for _, values in there])
        axes.barh(
            places,
            middle,
            0.11,
            xerr=reach,
            color=colours[number % len(colours)],
            label=side,
            ecolor="#333333",
        )
    axes.set_yticks(range(len(cases)), [one["case"] for one in cases])
    axes.invert_yaxis()
    axes.set_xlabel("microseconds, call")
    axes.legend(frameon=False, fontsize=8)
    return figure


PICTURES = {
    "starts": ("processes", starts),
    "kernels": ("processes", over_kernels),
    "entries": ("lookup", over_entries),
    "calls": ("calls", calls),
}


def _bars(
    axes: Axes, places: Sequence[float], values: Sequence[Sequence[float]], side: str
) -> None:
    middle, reach = _medians(values)
    axes.bar(
        places,
        middle,
        0.25,
        yerr=reach,
        color=COLOURS[side],
        label=side,
        capsize=2,
        ecolor="#333333",
    )
    for place, height, above in zip(places, middle, reach[1], strict=True):
        axes.annotate(
            f"{height:.2g}",
            (place, height + above),
            (0, 2),
            textcoords="offset points",
            ha="center",
            size=8,
        )


def _medians(values: Sequence[Sequence[float]]) -> tuple[list[float], list[list[float]]]:
    """Return medians, and how far the smallest and the largest values lie from them."""
    middle = [statistics.median(some) for some in values]
    below = [m - min(some) for m, some in zip(middle, values, strict=True)]
    above = [max(some) - m for m, some in zip(middle, values, strict=True)]
    return middle, [below, above]


def _plots(figure: Figure, count: int) -> list[Axes]:
    return list(figure.subplots(count, squeeze=False)[:, 0])


def _one() -> tuple[Axes, Figure]:
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    return figure.subplots(), figure


def _without_trailing_blanks(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()), encoding="utf-8")


if __name__ == "__main__":
    main()
