"""Prepare the family cold with two worker processes and with one process, in turns, each on a fresh cache directory.

    python benchmarks/prepare.py [--quick]

Seconds are those of `kcl.prepare` alone. The ratio of a pair is that of two neighbours in time. Two processes need two
idle processors: on a busy machine the ratio says how busy that is.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from cold import interval
from measure import Effort, spread

PROCESSES = ("2", "1")


def measured(effort: Effort) -> dict[str, Any]:
    """Return wall-clock seconds by the number of processes, and processor seconds of all, a value for each pair."""
    figures: dict[str, Any] = {"count": effort.cold}
    figures |= {what: {processes: [] for processes in PROCESSES} for what in ("wall", "cpu")}
    with tempfile.TemporaryDirectory(prefix="kcl-prepare-", ignore_cleanup_errors=True) as name:
        for pair in range(max(1, effort.pairs // 2)):
            for processes in PROCESSES[:: 1 if pair % 2 else -1]:
                cache = pathlib.Path(name, str(pair), processes, "cache")
                child = measure.run("drive_prepare.py", str(effort.cold), processes, cache=cache)
                figures["wall"][processes].append(float(child.output))
                figures["cpu"][processes].append(child.cpu)
                measure.settle(cache)
    return figures


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, and the ratio with its interval."""
    pairs = len(figures["wall"]["1"])
    yield f"{figures['count']} kernels prepared, {pairs} pairs in turns, seconds: median (smallest..largest)"
    for processes in PROCESSES:
        wall, cpu = (spread(figures[what][processes]) for what in ("wall", "cpu"))
        yield f"  {processes} processes  {wall:<30}cpu {cpu}"
    yield f"  two processes / one: {interval(figures['wall']['2'], figures['wall']['1'])}"


if __name__ == "__main__":
    measure.part(measured, lines)
