"""Ask of a bundle how small it is, what saving and loading it cost, and how the first run after loading is.

    python benchmarks/bundle.py [--quick]

Costs are processor seconds, beside those of `import pyopencl`, in turns. The first run after loading has an empty
cache; it is compared with a warm start of the same driver whose PoCL cache is empty, plus what loading cost.
"""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import statistics
import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

STORES = ("pytools", "pyopencl")


def measured(effort: Effort) -> dict[str, Any]:
    """Return bytes and seconds for each number of kernels."""
    with tempfile.TemporaryDirectory(prefix="kcl-bundle-", ignore_cleanup_errors=True) as name:
        return {
            "kernels": [
                _of(pathlib.Path(name) / str(count), count, effort) for count in effort.kernels
            ]
        }


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print the figures and the ratios."""
    for one in figures["kernels"]:
        count = one["count"]
        yield f"{count} kernels: a bundle of {one['bytes']} bytes, {one['bytes'] // count} a kernel"
        yield f"  a tar of the stores / the bundle: {one['tar'] / one['bytes']:.1f}"
        for what, seconds in one["cpu"].items():
            yield f"  {what:<8} processor milliseconds {spread([1e3 * second for second in seconds], 1)}"
        yield f"  save / import pyopencl: {ratio(one, 'save'):.2f}, load / import pyopencl: {ratio(one, 'load'):.2f}"
        for clock in ("wall", "first cpu"):
            yield f"  first run / (warm start with PoCL's cache empty + load), {clock}: {first(one, clock):.3f}"


def ratio(one: dict[str, Any], what: str) -> float:
    """Return the processor seconds of saving or loading over those of importing pyopencl."""
    return float(statistics.median(one["cpu"][what]) / statistics.median(one["cpu"]["import"]))


def first(one: dict[str, Any], clock: str) -> float:
    """Return the median over pairs of a first run over a warm start with PoCL's cache empty, plus the load."""
    pairs = zip(one[clock]["first"], one[clock]["warm"], one["cpu"]["load"], strict=True)
    return float(statistics.median([after / (warm + load) for after, warm, load in pairs]))


def _of(root: pathlib.Path, count: int, effort: Effort) -> dict[str, Any]:
    home, file = root / "builder" / "cache", root / "saved.kclb"
    found: dict[str, Any] = {"count": count, "cpu": {"import": [], "save": [], "load": []}}
    made = _drive("save", count, file, home)
    measure.settle(home)
    found |= {"bytes": file.stat().st_size, "tar": _tar(home)}
    if made["programs"] < count:
        raise SystemExit(f"bench: {count} kernels, but {made['programs']} programs in the bundle")
    found |= {clock: {"first": [], "warm": []} for clock in ("wall", "first cpu")}
    for number in range(max(2, effort.pairs)):
        found["cpu"]["import"].append(_drive("import", 0, file, home)["cpu"])
        found["cpu"]["save"].append(_drive("save", count, file, home)["cpu"])
        away = root / f"elsewhere-{number}" / "cache"
        shutil.rmtree(home / "pocl", ignore_errors=True)
        warm = measure.run("drive_kcl.py", str(count), cache=home)
        first_run = measure.run("drive_bundle.py", "load", str(count), str(file), cache=away)
        said = json.loads(first_run.output.splitlines()[-1])
        if said["checksum"] != warm.output.split()[0] or said["missed"] or said["loopy"]:
            raise SystemExit(
                f"bench: the first run gave {said}, not only hits and the checksum of {warm.output}"
            )
        found["cpu"]["load"].append(said["cpu"])
        for side, child in (("warm", warm), ("first", first_run)):
            found["wall"][side].append(child.wall)
            found["first cpu"][side].append(child.cpu)
        measure.settle(home)
        measure.settle(away)
    return found


def _drive(mode: str, count: int, file: pathlib.Path, cache: pathlib.Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(
        measure.run(
            "drive_bundle.py", mode, str(count), str(file), cache=cache
        ).output.splitlines()[-1]
    )
    return said


def _tar(cache: pathlib.Path) -> int:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for store in STORES:
            for path in sorted((cache / store).rglob("*kcl*")):
                if path.parent == cache / store:
                    archive.add(path, path.relative_to(cache))
    return len(packed.getvalue())


if __name__ == "__main__":
    measure.part(measured, lines)
