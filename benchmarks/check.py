"""Compare the ratios of a run with the goals, and say which fall short.

    python benchmarks/check.py [FILE]

FILE is what run.py wrote, by default the newest in benchmarks/results/. Ends with status 1 if a goal is not reached,
or nothing was measured.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import measure
from goals import GOALS, Figure, Goal

REACHED, SHORT, UNKNOWN = "reached", "FALLS SHORT", "not measured"


def main() -> int:
    """Print the table; return the status."""
    parser = argparse.ArgumentParser(description="Compare what was measured with the goals.")
    parser.add_argument(
        "file", nargs="?", type=pathlib.Path, help="JSON of run.py (default: the newest)"
    )
    path = parser.parse_args().file or newest()
    document = json.loads(path.read_text(encoding="utf-8"))
    found = verdicts(document["parts"])
    print(f"{document['time']}: {document['device']}")
    print("\n".join(table(found)))
    counts = {word: sum(one == word for _, _, one in found) for word in (REACHED, SHORT, UNKNOWN)}
    print(", ".join(f"{count} {word.lower()}" for word, count in counts.items()))
    return 1 if counts[SHORT] or not counts[REACHED] else 0


def verdicts(parts: dict[str, Any]) -> list[tuple[Goal, Figure | None, str]]:
    """Return every goal with what was measured and whether it is reached."""
    found = []
    for goal in GOALS:
        figure = goal.figure(parts)
        verdict = UNKNOWN if figure is None else REACHED if goal.reached(figure) else SHORT
        found.append((goal, figure, verdict))
    return found


def table(found: list[tuple[Goal, Figure | None, str]]) -> Iterator[str]:
    """Print a line for each goal."""
    width = max(len(goal.title) for goal, _, _ in found)
    for goal, figure, verdict in found:
        yield f"{goal.title:<{width}}  {goal.bound:<26}{shown(figure):<26}{verdict}"


def shown(figure: Figure | None) -> str:
    """Return a figure with its range."""
    if figure is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3g}"
    return f"{figure.value:.3g} ({figure.low:.3g} to {figure.high:.3g})"


def newest() -> pathlib.Path:
    """Return the file of the latest run."""
    found = sorted(measure.RESULTS.glob("bench-*.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit(f"bench: no figures in {measure.RESULTS}; run: make bench")
    return found[-1]


if __name__ == "__main__":
    sys.exit(main())
