"""Start processes cold at once, all with the same kernels: how often is the same thing compiled, and who waits?

    python benchmarks/storm.py [--quick]

Compilations are counted by what pyopencl is asked to build from source; how often code is generated stands beside them.
The same is done with the process that leads killed, and stopped, in the middle of a compilation: what does that cost
the others?
The yardstick is the same start once more, when everything is there to be found.
"""

from __future__ import annotations

import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import measure
from measure import Effort, spread

KINDS = ("alone", "storm", "killed", "stopped")
AGAIN = ("alone", "storm")  # are started once more on the same cache directory
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


class Line(NamedTuple):
    """A line of the log: who, when, what."""

    process: int
    seconds: float
    what: str


class Storm(NamedTuple):
    """What came of one start of processes: seconds until the last one ended, their log, the last words of failures."""

    wall: float
    log: list[Line]
    failed: list[str]

    def count(self, what: str) -> int:
        """Return how often something was logged."""
        return sum(line.what == what for line in self.log)

    def longest_call(self) -> float:
        """Return the seconds of the longest first call of a kernel: recipe, compilation, launch."""
        begun: dict[tuple[int, str], float] = {}
        longest = 0.0
        for line in self.log:
            word, _, number = line.what.partition(" ")
            if word == "begin":
                begun[line.process, number] = line.seconds
            elif word == "end":
                longest = max(longest, line.seconds - begun[line.process, number])
        return longest


def measured(effort: Effort) -> dict[str, Any]:
    """Run all kinds of storms; return for each the seconds and what was counted, a value for every round."""
    figures: dict[str, Any] = {
        "kernels": effort.storm,
        "processes": effort.processes,
        "cores": os.cpu_count(),
    }
    for kind in KINDS:
        figures[kind] = {"wall": [], "source builds": [], "recipes": [], "failed": []}
    figures["one compile time"] = []
    figures["again"] = {kind: [] for kind in AGAIN}
    with tempfile.TemporaryDirectory(prefix="kcl-storm-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        _start(root / "byte-code", 1, 1, "alone")
        for turn in range(effort.storms):
            for kind in KINDS[:: 1 if turn % 2 == 0 else -1]:
                number = 1 if kind == "alone" else effort.processes
                storm = _start(root / f"{kind}-{turn}", effort.storm, number, kind)
                figures[kind]["wall"].append(storm.wall)
                figures[kind]["source builds"].append(storm.count("source"))
                figures[kind]["recipes"].append(storm.count("generated"))
                figures[kind]["failed"] += storm.failed
                if kind == "alone":
                    figures["one compile time"].append(storm.longest_call())
                if kind in AGAIN:
                    again = _start(root / f"{kind}-{turn}", effort.storm, number, kind)
                    if again.failed or again.count("source") or again.count("generated"):
                        raise SystemExit(f"bench: started again, not all was found: {again.failed}")
                    figures["again"][kind].append(again.wall)
    return figures


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds and counts by kind, and the ratios."""
    yield f"{figures['processes']} processes cold at once, {figures['kernels']} kernels, {figures['cores']} cores"
    yield "  {:<10}{:<30}{:<24}{}".format("", "seconds", "built from source", "code generated")
    for kind in KINDS:
        one = figures[kind]
        counts = [", ".join(map(str, one[name])) for name in ("source builds", "recipes")]
        yield f"  {kind:<10}{spread(one['wall']):<30}{counts[0]:<24}{counts[1]}"
    yield f"  wall time, storm / alone: {slowdown(figures):.2f}"
    yield f"  one compile time (the longest first call): {spread(figures['one compile time'])}"
    again = ", ".join(f"{kind} {spread(figures['again'][kind])}" for kind in AGAIN)
    yield f"  yardstick: started again, all found: {again}"
    yield f"    what the others need by themselves, in times of one process alone: {share(figures):.2f}"
    for kind in KINDS:
        for words in figures[kind]["failed"]:
            yield f"  A PROCESS FAILED: {kind}: {words}"
    for kind in SIGNALS:
        yield f"  a leader that is {kind} costs the others {cost(figures, kind):.2f} compile times"


def slowdown(figures: dict[str, Any]) -> float:
    """Return the ratio of the wall time of a storm to that of one process alone in the same round, the median."""
    pairs = zip(figures["storm"]["wall"], figures["alone"]["wall"], strict=True)
    return float(statistics.median([storm / alone for storm, alone in pairs]))


def share(figures: dict[str, Any]) -> float:
    """Return what the other processes need where all is there to be found, in wall times of a cold one alone."""
    pairs = zip(
        figures["again"]["storm"], figures["again"]["alone"], figures["alone"]["wall"], strict=True
    )
    return float(statistics.median([(together - one) / cold for together, one, cold in pairs]))


def cost(figures: dict[str, Any], kind: str) -> float:
    """Return how many compile times longer the others need than where nobody is killed or stopped, the median."""
    rounds = zip(
        figures[kind]["wall"], figures["storm"]["wall"], figures["one compile time"], strict=True
    )
    return float(
        statistics.median([(longer - whole) / compiling for longer, whole, compiling in rounds])
    )


def _start(root: pathlib.Path, kernels: int, number: int, kind: str) -> Storm:
    """Start processes on a cache directory, do to the leader what the kind says, and wait for the others."""
    cache = root / "cache"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = root / "log"
    log.write_text("")
    command = [sys.executable, str(measure.HERE / "drive_storm.py"), str(kernels), str(log)]
    begin = time.perf_counter()
    children = {}
    for _ in range(number):
        child = subprocess.Popen(
            command,
            env=measure.environment(cache),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        children[child.pid] = child
    victim = _disturb(log, children, kernels // 4, SIGNALS[kind]) if kind in SIGNALS else None
    computed, failed = set(), []
    for child in children.values():
        if child is not victim:
            printed, errors = child.communicate()
            complaint = measure.complaint_of(child.returncode, errors)
            if complaint:
                failed.append(f"{complaint}: {_last_words(errors)}")
            else:
                computed.add(printed)
    wall = time.perf_counter() - begin
    if victim is not None:
        victim.kill()
        victim.communicate()
    if len(computed) > 1:
        raise SystemExit(f"bench: not all processes compute the same numbers: {computed}")
    measure.settle(cache)
    return Storm(wall, [_line(text) for text in log.read_text().splitlines()], failed)


def _disturb(
    log: pathlib.Path, children: dict[int, subprocess.Popen[str]], number: int, what: signal.Signals
) -> subprocess.Popen[str] | None:
    """Send a signal to the first process that compiles kernel `number`, as it begins; None where nobody does."""
    while any(child.poll() is None for child in children.values()):
        at: dict[int, str] = {}
        for line in map(_line, log.read_text().rpartition("\n")[0].splitlines()):
            if line.what.startswith("begin"):
                at[line.process] = line.what
            elif line.what == "source" and at.get(line.process) == f"begin {number}":
                children[line.process].send_signal(what)
                return children[line.process]
        time.sleep(0.002)
    return None


def _last_words(errors: str) -> str:
    """Return the exception in which a process ended, without what follows: that may name places of this machine."""
    named = [line for line in errors.splitlines() if re.match(r"[A-Za-z_][\w.]*: ", line)]
    return named[-1][:100] if named else ""


def _line(text: str) -> Line:
    process, seconds, what = text.split(" ", 2)
    return Line(int(process), float(seconds), what)


if __name__ == "__main__":
    measure.part(measured, lines)
