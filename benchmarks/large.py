"""One kernel of many statements, from look-up to launch: kcl, the floor, and loopy with all its caches warm.

    python benchmarks/large.py [--quick]

A process launches a small kernel first: what is done once a process (imports, the first program of a driver) is in the
seconds of that one, which are listed beside, and in whole processes, which processes.py measures.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

from kcl.cache.entry import Entry

SIDES = ("floor", "kcl", "loopy")
BINARIES = pathlib.Path("pyopencl", "kcl-binary-v1")
WARM_UP = 2  # byte code, and PoCL's own cache
LOOPY_EVERY = 3  # rounds; it takes a while


def measured(effort: Effort) -> dict[str, Any]:
    """Return seconds by side for each number of statements, in turns."""
    return {"statements": [_compared(count, 2 * effort.later + 1) for count in effort.statements]}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds and ratios."""
    yield "one kernel, seconds from look-up to launch; of a small one, first in its process: median (smallest..largest)"
    for one in figures["statements"]:
        floor = statistics.median(one["seconds"]["floor"])
        yield f"  {one['count']} statements, a binary of {one['bytes']} bytes"
        for side in SIDES:
            seconds = one["seconds"][side]
            ratio = statistics.median(seconds) / floor
            yield f"    {side:<8}{spread(seconds, 4):<30}{spread(one['first'][side], 4):<30}{ratio:.2f} x the floor"


def _compared(count: int, rounds: int) -> dict[str, Any]:
    print(f"{count} statements ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="kcl-large-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        _prepare(root, count)
        figures: dict[str, Any] = {
            "count": count,
            "bytes": (root / f"large_{count}.bin").stat().st_size,
        }
        figures |= {what: {side: [] for side in SIDES} for what in ("seconds", "first")}
        checksums = set()
        for number in range(rounds):
            for side in (
                *SIDES[:2][:: 1 if number % 2 else -1],
                *SIDES[2:][: number % LOOPY_EVERY == 0],
            ):
                found = _drive(side, count, root)
                checksums.add(found["checksum"])
                if side == "kcl" and found["hits"] != {"generator": 2, "binary": 2}:
                    raise SystemExit(f"bench: not warm: {found['hits']}")
                figures["seconds"][side].append(found["seconds"])
                figures["first"][side].append(found["first"])
    if len(checksums) > 1:
        raise SystemExit(f"bench: not all processes compute the same numbers: {checksums}")
    return figures


def _prepare(root: pathlib.Path, count: int) -> None:
    """Run kcl cold, save its binaries for the floor, and run all sides until they are warm."""
    _drive("kcl", count, root)
    measure.settle(root / "kcl" / "cache")
    for path in (root / "kcl" / "cache" / BINARIES).rglob("*"):
        if path.is_file():
            entry = Entry.unpack(path.read_bytes())
            (root / f"{entry.metadata['kernels'][0]}.bin").write_bytes(entry.parts["binary"])
    for side in SIDES:
        for _ in range(WARM_UP):
            _drive(side, count, root)
        measure.settle(root / side / "cache")


def _drive(side: str, count: int, root: pathlib.Path) -> dict[str, Any]:
    child = measure.run("drive_large.py", side, str(count), str(root), cache=root / side / "cache")
    return dict(json.loads(child.output.splitlines()[-1]))


if __name__ == "__main__":
    measure.part(measured, lines)
