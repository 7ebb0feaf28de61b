"""Whole processes on a cache directory of their own: how long they take, what they print, what they leave on disk."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"

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


class Effort(NamedTuple):
    """How much is measured; the defaults are those of ``make bench``."""

    kernels: tuple[int, ...] = (5, 42, 200)
    series: int = 2  # each from cold; of many kernels one
    later: int = 10  # later runs in a series
    imports: int = 11
    pairs: int = 6  # of cold runs
    cold: int = 42  # kernels in them
    entries: tuple[int, ...] = (100, 10_000, 1_000_000)
    look_ups: int = 1000  # a round
    processes: int = 8
    storm: int = 20  # kernels
    storms: int = 3  # of each kind
    statements: tuple[int, ...] = (300, 1000)
    calls: int = 15  # rounds of calls
    recorded: int = 20  # pairs of warm runs, with statistics and without
    listed: int = 10_000  # entries
    listings: int = 9  # runs of each command


QUICK = Effort((5,), 1, 2, 3, 2, 5, (100, 1000), 200, 3, 4, 1, (30,), 3, 2, 400, 2)


class Child(NamedTuple):
    """One finished process: wall-clock and processor seconds from start to exit, and what it printed."""

    wall: float
    cpu: float
    output: str


class Background(NamedTuple):
    """Processes that outlived the children of a cache directory: seconds waited for, processor seconds seen."""

    waited: float
    cpu: float


def run(
    script: str,
    *arguments: str,
    cache: pathlib.Path,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Child:
    """Run one of the scripts beside this file to its end, or ``script`` itself where ``options`` ends in ``-c``.

    Raises SystemExit with the child's own words if it fails, or says that Python ignored an exception in it.
    """
    target = script if options and options[-1] == "-c" else str(HERE / script)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        surroundings = environment(cache) | dict(variables or {})
        command = [sys.executable, *options, target, *arguments]
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=err, env=surroundings)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        printed, errors = (_text(stream) for stream in (out, err))
    complaint = complaint_of(child.returncode, errors)
    if complaint:
        raise SystemExit(f"{errors}\nbench: {script} {' '.join(arguments)} {complaint}")
    return Child(
        wall, usage.ru_utime + usage.ru_stime, errors if "importtime" in options else printed
    )


def complaint_of(status: int, errors: str) -> str:
    """Say what is wrong with a child by its exit status and what it wrote to stderr; empty where nothing is."""
    if status:
        return f"ended with status {status}"
    return (
        "has ended with an exception that Python ignored" if "Exception ignored" in errors else ""
    )


def environment(cache: pathlib.Path) -> dict[str, str]:
    """Return this process's environment with every cache below ``cache``, no switch and no settings file."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in REMOVED and not name.startswith(("KCL_", "CUDA_CACHE_"))
    }
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), str(HERE.parent))))
    home = {"HOME": str(cache.parent), "XDG_CONFIG_HOME": str(cache.parent / ".config")}
    return kept | home | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": path}


def settle(cache: pathlib.Path) -> Background:
    """Wait until no process works for a cache directory any more, so that nothing disturbs the next measurement.

    Found by their environment, which /proc shows; elsewhere nothing is waited for.
    """
    begin = time.perf_counter()
    seen: dict[int, float] = {}
    while found := _working_for(cache):
        seen |= found
        if time.perf_counter() - begin > SETTLE_SECONDS:
            print(
                f"bench: processes {sorted(found)} still work in {cache} after {SETTLE_SECONDS:.0f} s",
                flush=True,
            )
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


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return the median with the smallest and the largest value."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def write(document: dict[str, Any], path: pathlib.Path) -> None:
    """Write figures as JSON; seven digits are more than any of them deserves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


def part(
    measured: Callable[..., dict[str, Any]],
    lines: Callable[[dict[str, Any]], Iterable[str]],
    pieces: tuple[str, ...] = (),
) -> None:
    """Measure one part alone, or some of its pieces, as the command line of its file asks for, and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="as little as shows that it works")
    parser.add_argument(
        "--only", nargs="+", choices=pieces, default=[], metavar="PIECE", help=", ".join(pieces)
    )
    options = parser.parse_args()
    only = [options.only] if options.only else []
    print("\n".join(lines(measured(QUICK if options.quick else Effort(), *only))))


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
                found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf(
                    "SC_CLK_TCK"
                )
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return found


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")
