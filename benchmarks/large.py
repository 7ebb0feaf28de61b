"""One kernel of many statements, from look-up to launch: kcl, the floor, and loopy with all its caches warm.

    python benchmarks/large.py [--quick]

Each figure is of a process of its own in which this is the first kernel, so what kcl does once a process is in it.
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

from kcl.entry import Entry

SIDES = ("floor", "kcl", "loopy")
BINARIES = pathlib.Path("pyopencl", "kcl-binary-v1")
WARM_UP = 3  # PoCL needs them, and byte code


def measured(effort: Effort) -> dict[str, Any]:
    """Return seconds by side for each number of statements, in turns."""
    return {"statements": [_compared(count, 2 * effort.later + 1) for count in effort.statements]}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds and ratios."""
    yield "one kernel, seconds from look-up to launch, and to its end: median (smallest..largest)"
    for one in figures["statements"]:
        floor = statistics.median(one["seconds"]["floor"])
        yield f"  {one['count']} statements, a binary of {one['bytes']} bytes"
        for side in SIDES:
            seconds = one["seconds"][side]
            ratio = statistics.median(seconds) / floor
            yield f"    {side:<8}{spread(seconds, 4):<30}{spread(one['done'][side], 4):<30}{ratio:.2f} x the floor"


def _compared(count: int, rounds: int) -> dict[str, Any]:
    print(f"{count} statements ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="kcl-large-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        binary = _prepare(root, count)
        figures: dict[str, Any] = {"count": count, "bytes": binary.stat().st_size}
        figures |= {what: {side: [] for side in SIDES} for what in ("seconds", "done")}
        checksums = set()
        for number in range(rounds):
            for place in range(len(SIDES)):
                side = SIDES[(place + number) % len(SIDES)]
                found = _drive(side, count, root, binary)
                checksums.add(found["checksum"])
                if side == "kcl" and found["hits"] != {"generator": 1, "binary": 1}:
                    raise SystemExit(f"bench: not warm: {found['hits']}")
                figures["seconds"][side].append(found["launched"])
                figures["done"][side].append(found["done"])
    if len(checksums) > 1:
        raise SystemExit(f"bench: not all processes compute the same numbers: {checksums}")
    return figures


def _prepare(root: pathlib.Path, count: int) -> pathlib.Path:
    """Run kcl cold, save its binary for the floor, and run all sides until they are warm."""
    _drive("kcl", count, root, root)
    measure.settle(root / "kcl" / "cache")
    (path,) = (path for path in (root / "kcl" / "cache" / BINARIES).rglob("*") if path.is_file())
    binary = root / "large.bin"
    binary.write_bytes(Entry.unpack(path.read_bytes()).parts["binary"])
    for side in SIDES:
        for _ in range(WARM_UP):
            _drive(side, count, root, binary)
        measure.settle(root / side / "cache")
    return binary


def _drive(side: str, count: int, root: pathlib.Path, binary: pathlib.Path) -> dict[str, Any]:
    child = measure.run("drive_large.py", side, str(count), str(binary), cache=root / side / "cache")
    return dict(json.loads(child.output.splitlines()[-1]))


if __name__ == "__main__":
    measure.part(measured, lines)
