"""Draw the spans of a cold and of a warm run of a driver with loopy kernels, as `kcl run --trace` wrote them.

python benchmarks/trace_picture.py [COUNT] [--into FILE]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
from typing import Any

import matplotlib
import matplotlib.patches
import measure
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INTO = measure.HERE.parent / "doc" / "explanation" / "trace.svg"
COLOURS = {
    "import": "#8a8a8a",
    "make": "#d9822b",
    "generate": "#c23b22",
    "build": "#7b3294",
    "load": "#1f6fb2",
    "complete": "#008837",
    "first launch": "#d6e6f4",
}


def main() -> None:
    """Run the driver twice, and draw both runs."""
    parser = argparse.ArgumentParser(description="Draw a trace.")
    parser.add_argument("count", nargs="?", type=int, default=12, help="kernels")
    parser.add_argument(
        "--into", type=pathlib.Path, default=INTO, metavar="FILE", help="where the picture goes"
    )
    options = parser.parse_args()
    matplotlib.rcParams.update({"svg.hashsalt": "kcl", "svg.fonttype": "none", "font.size": 9})
    with tempfile.TemporaryDirectory(prefix="kcl-trace-", ignore_cleanup_errors=True) as name:
        cache = pathlib.Path(name, "cache")
        runs = [
            _traced(pathlib.Path(name, f"{moment}.json"), cache, options.count)
            for moment in ("cold", "warm")
        ]
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    for axes, spans, title in zip(figure.subplots(2, 1), runs, ("cold", "warm"), strict=True):
        _draw(axes, spans, title)
    handles = [
        matplotlib.patches.Patch(color=colour, label=kind) for kind, colour in COLOURS.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    options.into.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.into, format="svg", metadata={"Date": None})
    print(options.into)


def _traced(path: pathlib.Path, cache: pathlib.Path, count: int) -> list[dict[str, Any]]:
    """Run the driver once, its helper to the end; return the spans."""
    kcl = ("-W", "ignore", "-m", "kcl", "run", "--trace", str(path))
    measure.run("drive_loopy.py", str(count), cache=cache, options=kcl)
    measure.settle(cache)
    events = json.loads(path.read_text(encoding="utf-8"))
    return [event for event in events if event["ph"] == "X"]


def _draw(axes: Axes, spans: list[dict[str, Any]], title: str) -> None:
    start = min(span["ts"] for span in spans)
    lanes: dict[tuple[int, int], float] = {}
    for span in sorted(spans, key=lambda one: (one["ts"], -one["dur"])):
        lane = lanes.setdefault((span["pid"], span["tid"]), -float(len(lanes)))
        kind = next((kind for kind in COLOURS if span["name"].startswith(kind)), "import")
        height = 0.8 if kind == "first launch" else 0.6
        axes.barh(
            lane,
            span["dur"] / 1000,
            left=(span["ts"] - start) / 1000,
            height=height,
            color=COLOURS[kind],
        )
    axes.set_yticks(
        list(lanes.values()), [f"process {number}" for number, _lane in enumerate(lanes, 1)]
    )
    axes.set_title(title, loc="left")
    axes.set_xlabel("milliseconds")
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
