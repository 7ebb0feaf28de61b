"""Launch new kernels from 16 threads at once, and from one thread: what do threads that want the same things cost?

    python benchmarks/threads.py [--quick]

Each thread launches all kernels, with the same Kernel objects as the others or with its own. Seconds begin with the
threads. Every start has a fresh cache directory, and the ratio of a round is that of neighbours in time. Programs that
are built again are counted.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from cold import interval
from measure import Effort, spread

THREADS = 16
KINDS = {"one": ("1", "own"), "shared": (str(THREADS), "shared"), "own": (str(THREADS), "own")}


def measured(effort: Effort) -> dict[str, Any]:
    """Return the seconds of each kind, and how many programs were built too often, a value for each round."""
    figures: dict[str, Any] = {"count": effort.cold}
    figures |= {kind: {"wall": [], "cpu": [], "built again": []} for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="kcl-threads-", ignore_cleanup_errors=True) as name:
        for turn in range(max(1, effort.pairs // 2)):
            for kind in list(KINDS)[:: 1 if turn % 2 else -1]:
                cache = pathlib.Path(name, str(turn), kind, "cache")
                child = measure.run("drive_threads.py", str(effort.cold), *KINDS[kind], cache=cache)
                seconds, _generated, built = child.output.split()
                figures[kind]["wall"].append(float(seconds))
                figures[kind]["cpu"].append(child.cpu)
                figures[kind]["built again"].append(int(built) - effort.cold)
                measure.settle(cache)
    return figures


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, and the ratios with their intervals."""
    rounds = len(figures["one"]["wall"])
    yield f"{figures['count']} new kernels, {rounds} rounds, seconds: median (smallest..largest)"
    for kind in KINDS:
        wall, cpu = (spread(figures[kind][what]) for what in ("wall", "cpu"))
        yield f"  {kind:<8}{wall:<30}cpu {cpu:<30}built again {max(figures[kind]['built again'])}"
    for kind in ("shared", "own"):
        yield f"  {THREADS} threads, {kind} / one thread: {interval(figures[kind]['wall'], figures['one']['wall'])}"


if __name__ == "__main__":
    measure.part(measured, lines)
