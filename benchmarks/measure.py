"""Whole processes on a cache directory of their own: how long they take, what they print, what they leave on disk."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent

# Variables that move, switch or limit a cache, or keep byte code from being cached; no child inherits them.
REMOVED = {
    "CG_NO_CACHE",
    "LOOPY_NO_CACHE",
    "POCL_CACHE_DIR",
    "POCL_KERNEL_CACHE",
    "PYOPENCL_NO_CACHE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
}

# Whose a file below the cache directory is: the first pattern that matches its first two path components.
OWNERS = (
    ("kcl generator", "pytools/*kcl*"),
    ("kcl binary", "pyopencl/kcl-*"),
    ("kcl other", "kcl/*"),
    ("pocl", "pocl/*"),
    ("loopy and pyopencl", "*/*"),
)

SETTLE_SECONDS = 180.0


class Child(NamedTuple):
    """One finished process: wall-clock and processor seconds from start to exit, and what it printed."""

    wall: float
    cpu: float
    output: str


class Background(NamedTuple):
    """Processes that outlived the children of a cache directory: seconds waited for, processor seconds seen."""

    waited: float
    cpu: float


def run(script: str, *arguments: str, cache: pathlib.Path, options: Sequence[str] = ()) -> Child:
    """Run one of the scripts beside this file to its end, or ``script`` itself where ``options`` ends in ``-c``.

    Raises SystemExit with the child's own words if it fails.
    """
    target = script if options and options[-1] == "-c" else str(HERE / script)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *options, target, *arguments], stdout=out, stderr=err, env=environment(cache)
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        printed, errors = (_text(stream) for stream in (out, err))
    if child.returncode != 0:
        raise SystemExit(f"{errors}\nbench: {script} {' '.join(arguments)} ended with status {child.returncode}")
    return Child(wall, usage.ru_utime + usage.ru_stime, errors if "importtime" in options else printed)


def environment(cache: pathlib.Path) -> dict[str, str]:
    """Return this process's environment with every cache below ``cache`` and no switch set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in REMOVED and not name.startswith(("KCL_", "CUDA_CACHE_"))
    }
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), str(HERE.parent))))
    return kept | {"HOME": str(cache.parent), "XDG_CACHE_HOME": str(cache), "PYTHONPATH": path}


def settle(cache: pathlib.Path) -> Background:
    """Wait until no process works for a cache directory any more, so that nothing disturbs the next measurement.

    Found by their environment, which /proc shows; elsewhere nothing is waited for.
    """
    begin = time.perf_counter()
    seen: dict[int, float] = {}
    while found := _working_for(cache):
        seen |= found
        if time.perf_counter() - begin > SETTLE_SECONDS:
            print(f"bench: processes {sorted(found)} still work in {cache} after {SETTLE_SECONDS:.0f} s", flush=True)
            break
        time.sleep(0.05)
    return Background(time.perf_counter() - begin if seen else 0.0, sum(seen.values()))


def disk_usage(cache: pathlib.Path) -> dict[str, int]:
    """Return the bytes below a cache directory by owner."""
    usage = {owner: 0 for owner, _ in OWNERS}
    for path in cache.rglob("*"):
        if path.is_file():
            usage[_owner(path.relative_to(cache))] += path.stat().st_size
    return usage


def import_seconds(module: str, cache: pathlib.Path) -> float:
    """Return what Python's own import clock says about importing ``module`` in a new process."""
    child = run(f"import {module}", cache=cache, options=("-X", "importtime", "-c"))
    for line in reversed(child.output.splitlines()):
        _, _, columns = line.partition("import time:")
        fields = [field.strip() for field in columns.split("|")]
        if len(fields) == 3 and fields[2] == module:
            return int(fields[1]) / 1e6
    raise SystemExit(f"bench: python -X importtime says nothing about {module}")


def spread(values: Sequence[float]) -> str:
    """Return the median with the smallest and the largest value."""
    return f"{statistics.median(values):.3f} ({min(values):.3f}..{max(values):.3f})"


def _owner(path: pathlib.Path) -> str:
    head = pathlib.PurePath(*path.parts[:2])
    return next((owner for owner, pattern in OWNERS if head.match(pattern)), OWNERS[-1][0])


def _working_for(cache: pathlib.Path) -> dict[int, float]:
    # processor seconds of every live process, other than this one, that has the directory in its environment
    wanted = f"XDG_CACHE_HOME={cache}\0".encode()
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return found


def _text(stream: tempfile._TemporaryFileWrapper[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")
