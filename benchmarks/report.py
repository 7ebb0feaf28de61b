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
COLOURS = {"floor": "#7a7a7a", "kcl": "#1f6fb2", "loopy": "#c96f12"}
TITLES = {"floor": "pyopencl by hand", "kcl": "kcl", "loopy": "loopy, with its caches"}
MOMENTS = {
    "cold": "first run,\nnothing cached",
    "second": "second run",
    "later": "later runs",
    "empty": "later, PoCL's\ncache emptied",
    "off": "later, PoCL's\ncache off",
}
# of `calls.py`: what a reader compares, the dearest first
CALLS = {
    "loopy": ("loopy's executor", "#c96f12"),
    "kcl": ("kcl", "#1f6fb2"),
    "kcl, bound": ("kcl, bound", "#7fb3dd"),
    "typed": ("pyopencl's typed call", "#555555"),
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
            draw(document["parts"]).savefig(paths[-1], metadata={"Date": None, "Creator": None})
            _without_trailing_blanks(paths[-1])
    for name, text in page.written(document).items():
        paths.append(into / name)
        paths[-1].write_text(text, encoding="utf-8")
    measure.write(document, into / "figures.json")
    return [*paths, into / "figures.json"]


def starts(parts: dict[str, Any]) -> Figure:
    """Draw the processor seconds of whole processes of one program, by moment and side."""
    one = next(one for one in parts["processes"]["kernels"] if one["count"] == page.HEADLINE)
    seconds = {side: dict(moments) for side, moments in one["cpu"].items()}
    for side in seconds:  # many pairs of them are a part of their own
        seconds[side]["cold"] = parts.get("cold", {}).get("cpu", {}).get(side, [])
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    place, ticks = 0.0, []
    for moment in MOMENTS:
        sides = [side for side in ("loopy", "kcl", "floor") if seconds[side][moment]]
        ticks.append(place + (len(sides) - 1) / 2)
        for side in sides:
            middle = statistics.median(seconds[side][moment])
            label = TITLES[side] if moment == "later" else None
            axes.barh(place, middle, 0.86, color=COLOURS[side], label=label)
            axes.annotate(
                f"{middle:.2g} s",
                (middle, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                size=9,
            )
            place += 1
        place += 0.8
    axes.set_yticks(ticks, list(MOMENTS.values()))
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel(f"processor seconds of a process with {page.HEADLINE} loopy kernels")
    axes.legend(frameon=False, loc="lower right")
    return _bare(axes, figure)


def over_kernels(parts: dict[str, Any]) -> Figure:
    """Draw the processor time of a warm start over the number of kernels; each line has its name at its end."""
    axes, figure = _one()
    some = parts["processes"]["kernels"]
    counts = [one["count"] for one in some]
    for side in processes.SIDES:
        seconds = [statistics.median(one["cpu"][side]["later"]) for one in some]
        axes.plot(counts, seconds, "o-", color=COLOURS[side], linewidth=2, clip_on=False)
        axes.annotate(
            f"{TITLES[side]}\n{seconds[-1]:.2g} s",
            (counts[-1], seconds[-1]),
            (8, -9 if side == "floor" else 7 if side == "kcl" else 0),
            textcoords="offset points",
            va="center",
            color=COLOURS[side],
            annotation_clip=False,
        )
    axes.set_yscale("log")  # else the floor would lie below kcl
    axes.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
    axes.minorticks_off()
    axes.set_xticks(counts)
    axes.set_xlim(0, counts[-1])
    axes.grid(axis="y", color="#dddddd")
    axes.set_xlabel("kernels")
    axes.set_ylabel("processor seconds, warm start")
    return _bare(axes, figure)


def over_entries(parts: dict[str, Any]) -> Figure:
    """Draw the time of a look-up over the number of entries."""
    figures = parts["lookup"]
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
    return _bare(axes, figure)


def calls(parts: dict[str, Any]) -> Figure:
    """Draw what a call costs: a row for each case, a dot for the median of each side, a line for its quartiles."""
    cases = parts["calls"]["cases"]
    figure = Figure(figsize=(7.2, 0.5 * len(cases) + 1.4), layout="constrained")
    axes = figure.subplots()
    for number, (side, (title, colour)) in enumerate(CALLS.items()):
        for place, one in enumerate(cases):
            values = one["microseconds"].get(side)
            if not values:
                continue
            low, middle, high = statistics.quantiles(values, n=4)
            at = place + 0.17 * (number - 1.5)
            label = title if place == 0 else None
            axes.plot([low, high], [at, at], color=colour, linewidth=2, alpha=0.6)
            axes.plot(middle, at, "o", color=colour, label=label)
    axes.set_yticks(range(len(cases)), [one["case"] for one in cases])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    for place in range(1, len(cases)):
        axes.axhline(place - 0.5, color="#e4e4e4", linewidth=0.8)
    axes.grid(axis="x", color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.set_xlim(left=0)
    axes.set_xlabel("microseconds of a call: median and quartiles")
    figure.legend(frameon=False, ncols=2, loc="outside upper center")
    return _bare(axes, figure)


# By the name of the picture: the parts that it needs, and what draws it.
PICTURES = {
    "starts": ("processes", starts),
    "kernels": ("processes", over_kernels),
    "entries": ("lookup", over_entries),
    "calls": ("calls", calls),
}


def _bare(axes: Axes, figure: Figure) -> Figure:
    """Take the frame away that only adds ink."""
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _medians(values: Sequence[Sequence[float]]) -> tuple[list[float], list[list[float]]]:
    """Return medians, and how far the smallest and the largest values lie from them."""
    middle = [statistics.median(some) for some in values]
    below = [m - min(some) for m, some in zip(middle, values, strict=True)]
    above = [max(some) - m for m, some in zip(middle, values, strict=True)]
    return middle, [below, above]


def _one() -> tuple[Axes, Figure]:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    return figure.subplots(), figure


def _without_trailing_blanks(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()), encoding="utf-8")


if __name__ == "__main__":
    main()
