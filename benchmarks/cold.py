"""Run cold in interleaved pairs: kcl beside loopy + pyopencl, each on a fresh cache directory.

    python benchmarks/cold.py [--quick]

The ratio of a pair is that of two neighbours in time, so that a machine that becomes slower meanwhile does not decide.
The interval is Student's for the mean of the logarithms, at 95 %. What kcl's helper does in the background is waited
for between the runs, and its processor seconds are listed beside.
"""

from __future__ import annotations

import math
import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import measure
from measure import Effort, spread

SIDES = ("kcl", "loopy")
# the 97.5 % quantile of Student's distribution, for 1, 2, ... degrees of freedom; from 30 on the normal one
_STUDENT = (
    *(
        12.706,
        4.303,
        3.182,
        2.776,
        2.571,
        2.447,
        2.365,
        2.306,
        2.262,
        2.228,
        2.201,
        2.179,
        2.160,
        2.145,
        2.131,
    ),
    *(
        2.120,
        2.110,
        2.101,
        2.093,
        2.086,
        2.080,
        2.074,
        2.069,
        2.064,
        2.060,
        2.056,
        2.052,
        2.048,
        2.045,
    ),
)


class Interval(NamedTuple):
    """A ratio with the ends of its 95 % interval."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{self.ratio:.3f} (one pair, no interval)"
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f} at 95 %)"


def measured(effort: Effort) -> dict[str, Any]:
    """Return wall-clock and processor seconds by side, a value for each pair, and what the helper needed."""
    figures: dict[str, Any] = {"count": effort.cold, "background": {"cpu": [], "seconds": []}}
    figures |= {what: {side: [] for side in SIDES} for what in ("wall", "cpu")}
    with tempfile.TemporaryDirectory(prefix="kcl-cold-", ignore_cleanup_errors=True) as name:
        for side in SIDES:
            measure.run(
                f"drive_{side}.py", "1", cache=pathlib.Path(name, "byte-code", side, "cache")
            )
        for pair in range(effort.pairs):
            for side in SIDES[:: 1 if pair % 2 else -1]:
                cache = pathlib.Path(name, str(pair), side, "cache")
                child = measure.run(f"drive_{side}.py", str(effort.cold), cache=cache)
                figures["wall"][side].append(child.wall)
                figures["cpu"][side].append(child.cpu)
                background = measure.settle(cache)
                if side == "kcl":
                    figures["background"]["cpu"].append(background.cpu)
                    figures["background"]["seconds"].append(background.waited)
    return figures


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, the ratio with its interval, and the helper's work."""
    pairs = len(figures["wall"]["kcl"])
    yield f"{figures['count']} kernels cold, {pairs} interleaved pairs, seconds: median (smallest..largest)"
    for side in SIDES:
        yield f"  {side:<8}{spread(figures['wall'][side]):<30}cpu {spread(figures['cpu'][side])}"
    for what, title in (("wall", "kcl / loopy"), ("cpu", "the same in processor seconds")):
        yield f"  {title}: {interval(figures[what]['kcl'], figures[what]['loopy'])}"
    cpu, seconds = (spread(figures["background"][what]) for what in ("cpu", "seconds"))
    yield f"  kcl's helper besides: cpu {cpu}, ended {seconds} after the process"


def ratio(figures: dict[str, Any]) -> Interval:
    """Return how many times the processor seconds of loopy's cold start kcl's takes."""
    return interval(figures["cpu"]["kcl"], figures["cpu"]["loopy"])


def interval(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Return the geometric mean of the pairs' ratios with its interval; one pair alone has none."""
    logs = [math.log(a / b) for a, b in zip(above, below, strict=True)]
    mean = statistics.fmean(logs)
    half = math.inf
    if len(logs) > 1:
        quantile = _STUDENT[len(logs) - 2] if len(logs) - 2 < len(_STUDENT) else 1.96
        half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(
        math.exp(mean),
        math.exp(mean - half),
        math.exp(mean + half) if half < math.inf else math.inf,
    )


if __name__ == "__main__":
    measure.part(measured, lines)
