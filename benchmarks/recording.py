"""Recording: ten calls recorded and carried out, imports, and recipes that are called anew for every launch.

    python benchmarks/recording.py [--quick]

Imports are whole processes in alternating pairs. Calls and launches are timed in one process, warm, rounds in turns.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

IMPORTS = ("kcl.loopy", "kcl")
LAUNCHES = {
    "kept": "a kept Kernel",
    "anew": "recipe(p)(queue, ...) anew",
    "pure": "the same, pure",
}


def measured(effort: Effort) -> dict[str, Any]:
    """Return seconds of the calls and launches, a round each, and of the processes by module."""
    seconds: dict[str, list[float]] = {module: [] for module in IMPORTS}
    with tempfile.TemporaryDirectory(prefix="kcl-recording-", ignore_cleanup_errors=True) as name:
        cache = pathlib.Path(name) / "cache"
        for script in ("calls", "launches"):  # the first run proves and stores
            measure.run("drive_recording.py", script, "2", cache=cache)
        measure.settle(cache)
        rounds = str(effort.calls)
        found = {
            script: json.loads(
                measure.run("drive_recording.py", script, rounds, cache=cache).output
            )
            for script in ("calls", "launches")
        }
        for pair in range(effort.recorded + 1):
            for module in IMPORTS:
                child = measure.run(f"import {module}", cache=cache, options=("-c",))
                if pair:  # the first one compiles byte code where there is none
                    seconds[module].append(child.wall)
    return {**found, "imports": seconds}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print microseconds, milliseconds and ratios."""
    calls = figures["calls"]
    yield "ten calls with plain arguments, microseconds: median (smallest..largest)"
    for side, words in (("recorded", "recorded and keyed"), ("carried", "carried out by loopy")):
        yield f"  {words:<28} {spread([1e6 * second for second in calls[side]], 0)}"
    yield f"  recorded / carried out: {100 * ratio(calls, 'recorded', 'carried'):.2f} %"
    yield "whole processes, milliseconds: median (smallest..largest)"
    for module, seconds in figures["imports"].items():
        yield f"  {'import ' + module:<28} {spread([1e3 * second for second in seconds], 1)}"
    yield f"  kcl.loopy / kcl: {ratio(figures['imports'], *IMPORTS):.2f}"
    yield "a launch, microseconds: median (smallest..largest)"
    for name, words in LAUNCHES.items():
        yield f"  {words:<28} {spread([1e6 * second for second in figures['launches'][name]], 0)}"


def ratio(columns: dict[str, list[float]], one: str, other: str) -> float:
    """Return the ratio of the medians of two columns."""
    return float(statistics.median(columns[one]) / statistics.median(columns[other]))


if __name__ == "__main__":
    measure.part(measured, lines)
