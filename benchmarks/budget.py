"""Say where a warm start goes: milliseconds by stage, with those of the floor beside them.

    python benchmarks/budget.py [--quick]

Both sides run with a stopwatch at the boundaries of their stages (drive_budget.py), in turns; the parent's clock, which
is the same for all processes, adds what lies before the first line and after the last. The system calls of a run are
counted by strace where that is installed.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import drive_budget
import measure
import processes
from measure import Effort

SIDES = ("floor", "kcl")
ROUNDS = 15


def measured(effort: Effort) -> dict[str, Any]:
    """Return the milliseconds of every run by side and stage."""
    figures: dict[str, Any] = {"count": effort.cold, "stages": {side: {} for side in SIDES}, "system calls": {}}
    with tempfile.TemporaryDirectory(prefix="kcl-budget-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        plan = processes.record(effort.cold)
        caches = {side: root / side / "cache" for side in SIDES}
        for side in SIDES:
            for _ in range(2):
                processes.drive(side, effort.cold, plan, caches[side])
                measure.settle(caches[side])
            _run(side, effort.cold, plan, caches[side])
        for step in range(ROUNDS if effort.later > 2 else 2):
            for side in SIDES[:: 1 if step % 2 else -1]:
                for stage, seconds in _run(side, effort.cold, plan, caches[side]).items():
                    figures["stages"][side].setdefault(stage, []).append(1e3 * seconds)
        for side in SIDES:
            figures["system calls"][side] = _system_calls(side, effort.cold, plan, caches[side])
    return figures


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print the stages in the order of kcl's milliseconds."""
    yield f"a warm start of {figures['count']} kernels, milliseconds by stage: medians of {_runs(figures)} runs"
    yield "  {:<44}{:>8}{:>8}{:>8}".format("", "kcl", "share", "floor")
    for stage, kcl, share, floor in rows(figures):
        yield f"  {stage:<44}{kcl:>8.1f}{share:>7.0%} {floor:>8.1f}"
    calls = figures["system calls"]
    if all(calls.values()):
        yield f"  system calls: {calls['kcl']['all']}, the floor's {calls['floor']['all']}; of them on files: " + (
            f"{calls['kcl']['files']}, the floor's {calls['floor']['files']}"
        )


def rows(figures: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """Return (stage, kcl's milliseconds, their share, the floor's), the largest first, and the sum."""
    kcl, floor = ({s: statistics.median(v) for s, v in figures["stages"][side].items()} for side in ("kcl", "floor"))
    total = sum(kcl.values())
    names = sorted(kcl.keys() | floor.keys(), key=lambda stage: (-kcl.get(stage, 0.0), stage))
    table = [(name, kcl.get(name, 0.0), kcl.get(name, 0.0) / total, floor.get(name, 0.0)) for name in names]
    return [*table, ("sum", total, 1.0, sum(floor.values()))]


def _runs(figures: dict[str, Any]) -> int:
    return len(figures["stages"]["kcl"][drive_budget.START])


def _run(side: str, count: int, plan: pathlib.Path, cache: pathlib.Path) -> dict[str, float]:
    """Run a side to its end; return its seconds by stage."""
    arguments = [side, str(count), *([str(plan)] if side == "floor" else [])]
    child = measure.run("drive_budget.py", repr(time.monotonic()), *arguments, cache=cache)
    ended = time.monotonic()
    said = json.loads(child.output.splitlines()[-1])
    seconds: dict[str, float] = said["seconds"]
    seconds[drive_budget.EXIT] = ended - said["left"]
    return seconds


def _system_calls(side: str, count: int, plan: pathlib.Path, cache: pathlib.Path) -> dict[str, int]:
    """Count the system calls of a run, and those that name a file; empty where there is no strace."""
    strace = shutil.which("strace")
    if strace is None:
        return {}
    arguments = [str(count), *([str(plan)] if side == "floor" else [])]
    counts = {}
    for name, traced in (("all", []), ("files", ["-e", "trace=%file"])):
        listing = cache.parent / f"strace-{name}"
        command = [strace, "-f", "-qq", "-c", "-o", str(listing), *traced, sys.executable]
        command += [str(measure.HERE / f"drive_{side}.py"), *arguments]
        done = subprocess.run(command, env=measure.environment(cache), stdout=subprocess.DEVNULL)
        total = listing.read_text(encoding="utf-8").splitlines()[-1:] if listing.exists() else []
        if done.returncode or not total or not total[0].endswith("total"):
            return {}  # tracing is not allowed here
        counts[name] = int(total[0].split()[3])
    return counts


if __name__ == "__main__":
    measure.part(measured, lines)
