"""Run driver.py as five processes on one fresh cache directory and compare them.

    python examples/demo.py [--keep]

Cold; again; a third time; once with LOOPY_NO_CACHE=1; once with every cache off. Runs two and three are under
KCL_STRICT=hit, where anything but a hit ends the driver; the recipes run in all five. The exit status is 1 if a number
differs, a strict run missed or a strict run imported loopy, and 2 without an OpenCL platform. Needs the standard
library only; the driver needs kcl, pyopencl and loopy.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent

# Variables that move, switch or limit a cache: a demonstration on a fresh directory starts without any of them.
CACHE_VARIABLES = (
    "CG_NO_CACHE",
    "LOOPY_NO_CACHE",
    "POCL_CACHE_DIR",
    "POCL_KERNEL_CACHE",
    "PYOPENCL_NO_CACHE",
    "PYTHONDONTWRITEBYTECODE",
)

EVERYTHING_OFF = {
    "KCL_NO_CACHE": "1",
    "LOOPY_NO_CACHE": "1",
    "PYOPENCL_NO_CACHE": "1",
    "POCL_KERNEL_CACHE": "0",
}

NO_PLATFORM = 2


class Run(NamedTuple):
    """One process to start: its title and the variables it gets."""

    title: str
    variables: dict[str, str]

    @property
    def strict(self) -> bool:
        return "KCL_STRICT" in self.variables


class Outcome(NamedTuple):
    """What one process did: exit status, seconds from start to exit, the driver's own JSON."""

    run: Run
    status: int
    seconds: float
    record: dict[str, Any]


RUNS = (
    Run("cold", {}),
    Run("again", {"KCL_STRICT": "hit"}),
    Run("a third time", {"KCL_STRICT": "hit"}),
    Run("LOOPY_NO_CACHE=1", {"LOOPY_NO_CACHE": "1"}),
    Run("everything off", EVERYTHING_OFF),
)


def main() -> int:
    """Run the five processes, print the comparison, return the exit status."""
    parser = argparse.ArgumentParser(
        description="Run the example driver five times on one fresh cache directory."
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the cache directory and print where it is"
    )
    options = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix="kcl-demo-"))
    try:
        return demonstrate(root)
    finally:
        if options.keep:
            print(f"kept: {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)


def demonstrate(root: pathlib.Path) -> int:
    """Run all five on the cache directory below ``root``."""
    outcomes: list[Outcome] = []
    for number, run in enumerate(RUNS, 1):
        settings = "".join(f" {name}={value}" for name, value in run.variables.items())
        print(
            f"\n=== run {number} of {len(RUNS)}: {run.title}{' --' if settings else ''}{settings}\n",
            flush=True,
        )
        outcome = start(run, root, root / f"run{number}.json")
        if outcome.status == NO_PLATFORM:
            return NO_PLATFORM  # the driver has named the package to install
        outcomes.append(outcome)
    print("\n=== the five runs\n")
    print(comparison(outcomes))
    faults = list(complaints(outcomes))
    for fault in faults:
        print(f"demo: {fault}", file=sys.stderr)
    if not faults:
        print(
            "\nThe same numbers in all five; the second and third imported no loopy and compiled nothing."
        )
    return 1 if faults else 0


def start(run: Run, root: pathlib.Path, record: pathlib.Path) -> Outcome:
    """Run the driver as a process of its own, from before its start to after its exit."""
    command = [sys.executable, str(HERE / "driver.py"), "--json", str(record)]
    begin = time.perf_counter()
    status = subprocess.run(command, env=environment(root) | run.variables, check=False).returncode
    seconds = time.perf_counter() - begin
    found = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    return Outcome(run, status, seconds, found)


def environment(root: pathlib.Path) -> dict[str, str]:
    """Return this process's environment with every cache below ``root`` and no switch set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in CACHE_VARIABLES and not name.startswith(("KCL_", "CUDA_CACHE_"))
    }
    kept |= {"HOME": str(root), "XDG_CACHE_HOME": str(root / "cache")}
    if (HERE.parent / "kcl" / "__init__.py").exists():  # a checkout runs without being installed
        kept["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH", "")))
        )
    return kept


def comparison(outcomes: list[Outcome]) -> str:
    """Return the table that puts the runs side by side."""
    rows = [
        ("run", "seconds", "generator", "binary", "numbers"),
        ("", "", *["hits missed bypassed"] * 2, ""),
    ]
    for outcome in outcomes:
        same = "the same" if same_numbers(outcome, outcomes[0]) else "DIFFER"
        row = (
            outcome.run.title,
            f"{outcome.seconds:.2f}",
            counts(outcome, "generator"),
            counts(outcome, "binary"),
        )
        rows.append((*row, same if outcome.record else f"none, status {outcome.status}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def counts(outcome: Outcome, layer: str) -> str:
    """Return a layer's hits, misses and bypassed look-ups under their headings."""
    counted = outcome.record.get("stats", {}).get(layer)
    if counted is None:
        return "   -      -        -"
    return f"{int(counted['hits']):>4} {int(counted['misses']):>6} {int(counted['bypassed']):>8}"


def same_numbers(outcome: Outcome, first: Outcome) -> bool:
    """Return whether a run computed what the first did, to the last bit."""
    return bool(outcome.record) and outcome.record["results"] == first.record.get("results")


def complaints(outcomes: list[Outcome]) -> list[str]:
    """Return a sentence for everything that is not as it should be."""
    said = []
    for outcome in outcomes:
        title = f'run "{outcome.run.title}"'
        if outcome.status != 0:
            missed = (
                "; under KCL_STRICT=hit a miss ends it, and its message is above"
                if outcome.run.strict
                else ""
            )
            said.append(f"{title} ended with status {outcome.status}{missed}.")
        elif not same_numbers(outcome, outcomes[0]):
            names = ", ".join(differing(outcome, outcomes[0]))
            said.append(f"{title} computed other numbers than the first run: {names}.")
        elif outcome.run.strict and (missed := not_hits(outcome)):
            said.append(f"{title} should hit everywhere, but counted {missed}.")
        elif outcome.run.strict and outcome.record["loopy"]:
            said.append(f"{title} imported loopy{asked(outcome)}.")
    return said


def differing(outcome: Outcome, first: Outcome) -> list[str]:
    """Return the names of the kernels whose numbers differ from the first run's."""
    before, after = first.record.get("results", {}), outcome.record["results"]
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def not_hits(outcome: Outcome) -> str:
    """Return in words every look-up that was not a hit; an empty layer counts too."""
    words = []
    for layer in ("generator", "binary"):
        counted = outcome.record["stats"][layer]
        words += [
            f"{int(counted[kind])} {kind} ({layer})"
            for kind in ("misses", "bypassed", "errors")
            if counted[kind]
        ]
        if not counted["hits"]:
            words.append(f"no hit ({layer})")
    return ", ".join(words)


def asked(outcome: Outcome) -> str:
    """Return the questions that only loopy could answer, each with the line that asked."""
    questions = outcome.record["stats"]["made"]
    return f", which was asked: {', '.join(sorted(questions))}" if questions else ""


if __name__ == "__main__":
    sys.exit(main())
