"""Comparing stored programs with programs built again, in child processes: `kcl verify --rebuild`.

The launches are the recorded first launches (`kcl.build.shapes`). The progress of a child names the program at which
it died; the next child goes on behind it. Each way has driver caches of its own, which are deleted afterwards: a
driver that finds compiled code in its cache would look neither at the source nor at the stored binary.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kcl.base import settings
from kcl.cache import places
from kcl.inspect import inventory
from kcl.inspect.inventory import ListedEntry

SOURCE, BINARY = "source", "binary"
FINE, DIFFERENT, UNCOMPARED = "fine", "different", "not comparable"
_NO_INVOKER = "the generator layer has no invoker for it"
_NO_RECIPE = "no recipe launched it, and kcl records no launch of pyopencl's own, as under kcl run"
_NO_LAUNCH = (
    "it was stored without a launch, by kcl run or kcl.prepare, or the arguments cannot be recorded; after "
    "`kcl purge binary --kernel {}` the next launch of the recipe is recorded"
)
_SECONDS, _SECONDS_EACH = 60.0, 30.0
_HOME = os.path.dirname(settings.PACKAGE)  # the directory that holds the package kcl


class RebuildOutcome(NamedTuple):
    """The outcome of a task in one way, or of a program in both."""

    verdict: str
    reason: str = ""


class RebuildTask(NamedTuple):
    """The input of a child: the addresses of a program and of the row with its invoker, and the folders of headers."""

    address: str
    row: str
    directory: str


def compare(programs: Sequence[ListedEntry], rows: Iterable[ListedEntry]) -> list[tuple[ListedEntry, RebuildOutcome]]:
    """Build and launch each program from its source and from its stored binary, and compare the results."""
    tasks, compared = _tasks(programs, rows)
    with tempfile.TemporaryDirectory(prefix=places.VERIFYING) as folder:
        with open(os.path.join(folder, "tasks.json"), "w", encoding="utf-8") as stream:
            json.dump([task for _program, task in tasks], stream)
        sources = _run(SOURCE, folder, len(tasks))
        binaries = _run(BINARY, folder, len(tasks))
    for number, (program, _task) in enumerate(tasks):
        compared.append((program, sources[number] if sources[number].verdict != FINE else binaries[number]))
    return compared


def _tasks(
    programs: Sequence[ListedEntry], rows: Iterable[ListedEntry]
) -> tuple[list[tuple[ListedEntry, RebuildTask]], list[tuple[ListedEntry, RebuildOutcome]]]:
    """Find the row of each program by its source; a program without a row or a launch is not comparable."""
    invokers = {inventory.launched(row): row for row in rows}
    tasks, compared = [], []
    for program in programs:
        row = invokers.get(inventory.launched(program))
        is_launched = isinstance(program.metadata.get("launch"), dict)
        if row is None:
            compared.append((program, RebuildOutcome(UNCOMPARED, _NO_INVOKER if is_launched else _NO_RECIPE)))
        elif not is_launched:
            compared.append((program, RebuildOutcome(UNCOMPARED, _NO_LAUNCH.format(program.kernel))))
        else:
            tasks.append((program, RebuildTask(program.address, row.address, os.getcwd())))
    return tasks, compared


def _run(way: str, folder: str, count: int) -> list[RebuildOutcome]:
    """Do all tasks in one way, in as many children as needed."""
    outcomes: list[RebuildOutcome] = []
    while len(outcomes) < count:
        ended = _child(way, folder, len(outcomes), count)
        outcomes = _read(way, folder)
        if len(outcomes) < count:
            verdict = UNCOMPARED if way == SOURCE else DIFFERENT
            what = "built from source it" if way == SOURCE else "the stored binary, but not its source,"
            outcomes.append(RebuildOutcome(verdict, f"{what} {ended}"))
            with open(_log(way, folder), "a", encoding="utf-8") as stream:
                stream.write(f"\n{json.dumps(outcomes[-1])}\n")
    return outcomes


def _child(way: str, folder: str, start: int, count: int) -> str:
    """Run a child; return how it ended."""
    code = f"import sys; sys.path.append({_HOME!a}); from kcl.inspect.verify.child import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", code, way, folder, str(start)]
    seconds = _SECONDS + _SECONDS_EACH * (count - start)
    try:
        done = subprocess.run(
            command, env=_environment(way, folder), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "takes too long"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() if done.returncode > 0 else []
    return f"ends the process with status {done.returncode}" + (f": {lines[-1]}" if lines else "")


def _environment(way: str, folder: str) -> Mapping[str, str]:
    """Give the child driver caches of its own, with nothing to report or to complete."""
    cache = os.path.join(folder, f"{way}-cache")
    os.makedirs(cache, mode=0o700, exist_ok=True)
    quiet = {"KCL_PROMOTE": "off", "KCL_REPORT": "", "KCL_STRICT": "", "KCL_VERIFY": ""}
    return {**settings.environment(), **quiet, "POCL_CACHE_DIR": cache, "CUDA_CACHE_DISABLE": "1"}


def _log(way: str, folder: str) -> str:
    return os.path.join(folder, f"{way}.log")


def _read(way: str, folder: str) -> list[RebuildOutcome]:
    """Return the outcomes in the log, in order."""
    found = []
    with suppress(FileNotFoundError):
        with open(_log(way, folder), encoding="utf-8") as stream:
            for line in stream:
                with suppress(ValueError):  # a child may have died in the middle of a line
                    found.append(RebuildOutcome(*json.loads(line)))
    return found
