"""Time single calls of warm kernels: kcl beside loopy's executor and beside pyopencl's typed kernel call.

    python benchmarks/calls.py [--quick]

All sides take turns in one process, on arrays that rotate over several sets; see drive_calls.py. Seconds are those of
the clock, so that what a device of the same cores takes away from its caller counts; the processor seconds of the
calling thread are listed beside.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import measure
from measure import Effort, spread

BATCH = 100  # calls of one side before the next has its turn
ROUNDS = 6  # of all sides, for each round of the effort
YARDSTICKS = ("typed", "loopy")


def measured(effort: Effort) -> dict[str, Any]:
    """Return microseconds a call, and those of the calling thread's processor, by case and side."""
    with tempfile.TemporaryDirectory(prefix="kcl-calls-", ignore_cleanup_errors=True) as name:
        cache = pathlib.Path(name) / "cache"
        # No compiler and no helper works beside what is measured.
        measure.run("drive_calls.py", "1", "1", cache=cache)
        measure.settle(cache)
        child = measure.run("drive_calls.py", str(ROUNDS * effort.calls), str(BATCH), cache=cache)
        measure.settle(cache)
    return {"batch": BATCH, "cases": json.loads(child.output.splitlines()[-1])}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print microseconds and the ratios to both yardsticks."""
    yield "a call, microseconds: median (quartiles), processor of the caller; ratios of the rounds: median (quartiles)"
    for one in figures["cases"]:
        yield f"  {one['case']}"
        for side, values in one["microseconds"].items():
            processor = statistics.median(one["processor"][side])
            yield f"    {side:<26}{quartiles(values):<24}{processor:>6.2f}  {_ratios(one, side)}"


def quartiles(values: Sequence[float]) -> str:
    """Return the median with the quartiles; ends of a range say little about so many."""
    if len(values) < 4:
        return spread(values, 2)
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}..{high:.2f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of the rounds' ratios with its quartiles: both sides of a round meet the same machine."""
    rounds = [a / b for a, b in zip(above, below, strict=True)]
    low, middle, high = statistics.quantiles(rounds, n=4) if len(rounds) > 1 else 3 * rounds
    return middle, low, high


def _ratios(one: dict[str, Any], side: str) -> str:
    found = []
    for other in YARDSTICKS:
        if other in one["microseconds"] and other != side:
            wall = "{:.2f} ({:.2f}..{:.2f})".format(
                *ratio(one["microseconds"][side], one["microseconds"][other])
            )
            cpu, _low, _high = ratio(one["processor"][side], one["processor"][other])
            found.append(f"{wall} x {other}, in processor time {cpu:.2f}")
    return "; ".join(found)


if __name__ == "__main__":
    measure.part(measured, lines)
