"""Say what the statistics of kcl cost a warm run: processor time in interleaved pairs, with them and without.

    python benchmarks/bookkeeping.py [--quick]

A pair is two warm runs of the same driver, one after the other, on one cache: drive_kcl.py, and drive_unrecorded.py,
which differs from it only in that nothing is collected or written. Folding many records into one is part of it. The
interval is that of cold.py. Beside it stands what a process itself can tell: the processor time that it spends in the
functions that keep statistics, which is free of the noise between processes.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import cold
import measure
from measure import Effort, spread

SIDES = {"recorded": "drive_kcl.py", "unrecorded": "drive_unrecorded.py"}


def measured(effort: Effort) -> dict[str, Any]:
    """Return processor seconds by side, a value for each pair, and the share that processes count themselves."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    own: list[float] = []
    with tempfile.TemporaryDirectory(prefix="kcl-bookkeeping-", ignore_cleanup_errors=True) as name:
        cache = pathlib.Path(name) / "cache"
        for script in (*SIDES.values(), "drive_kcl.py"):
            measure.run(script, str(effort.cold), cache=cache)
            measure.settle(cache)
        for pair in range(effort.recorded):
            for side in list(SIDES)[:: 1 if pair % 2 else -1]:
                seconds[side].append(measure.run(SIDES[side], str(effort.cold), cache=cache).cpu)
            said = measure.run("drive_recorded.py", str(effort.cold), cache=cache).output
            own.append(json.loads(said.splitlines()[-1])["share"])
    return {"count": effort.cold, "cpu": seconds, "own": own}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, the ratio with its interval, and the share."""
    cpu = figures["cpu"]
    yield f"statistics, {figures['count']} kernels warm, {len(figures['own'])} pairs, processor seconds"
    for side, seconds in cpu.items():
        yield f"  {side:<12}{spread(seconds)}"
    found = cold.interval(cpu["recorded"], cpu["unrecorded"])
    yield f"  recorded / unrecorded: {found.ratio:.4f} ({found.low:.4f} to {found.high:.4f} at 95 %)"
    yield f"  share of its processor time that a process spends on them: {spread(figures['own'], 4)}"


def share(figures: dict[str, Any]) -> tuple[float, float, float]:
    """Return the median of the shares, the smallest and the largest."""
    own = figures["own"]
    return statistics.median(own), min(own), max(own)


if __name__ == "__main__":
    measure.part(measured, lines)
