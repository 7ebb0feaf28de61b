"""Run programs that were not written for kcl, without it and with it, whole processes in turns.

    python benchmarks/unchanged.py [--quick]

Each side has a cache directory of its own, filled by two runs, the second one with its entries complete.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import measure
from cold import interval
from measure import Effort, spread

RUN = ("-W", "ignore", "-m", "kcl", "run")
PLAIN = ("-W", "ignore")
POCL, INTEL = "Portable Computing Language", "Intel(R) OpenCL"


class Case(NamedTuple):
    """A program with kcl, and the one without that it is compared with: options of Python, script and arguments."""

    name: str
    ours: tuple[tuple[str, ...], tuple[str, ...]]
    plain: tuple[tuple[str, ...], tuple[str, ...]]


def cases(count: int) -> list[Case]:
    """Return the programs that are run."""
    loopy = (PLAIN, ("drive_loopy.py", str(count)))
    look = ("drive_loopy.py", str(count), "look")
    found = [
        Case("kcl run", (RUN, loopy[1]), loopy),
        Case("recipes", (PLAIN, ("drive_kcl.py", str(count))), loopy),
        Case("looked into", (RUN, look), (PLAIN, look)),
    ]
    for platform in _platforms():
        driver = ("drive_pyopencl.py", platform)
        found.append(Case(f"pyopencl, {platform}", (RUN, driver), (PLAIN, driver)))
        refused = ("drive_failing.py", "10", platform)
        found.append(Case(f"failing builds, {platform}", (RUN, refused), (PLAIN, refused)))
    return found


def measured(effort: Effort) -> dict[str, Any]:
    """Return the seconds of each case by side, cold pairs, and what nothing costs."""
    with tempfile.TemporaryDirectory(prefix="kcl-unchanged-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        figures: dict[str, Any] = {"count": effort.cold, "cases": {}}
        for case in cases(effort.cold):
            print(f"{case.name} ...", flush=True)
            figures["cases"][case.name] = _pairs(case, root, effort.pairs)
        figures["cold"] = _cold(cases(effort.cold)[0], root, max(2, effort.pairs // 2))
        nothing = Case("nothing", (RUN, ("drive_nothing.py",)), (PLAIN, ("drive_nothing.py",)))
        figures["nothing"] = _pairs(nothing, root, 3 * effort.pairs)
    return figures


def _pairs(case: Case, root: pathlib.Path, pairs: int) -> dict[str, Any]:
    """Fill both caches, then run the sides in turns; both must print the same."""
    caches = {side: root / case.name / side / "cache" for side in ("ours", "plain")}
    for side, cache in caches.items():
        for _ in range(2):
            _run(getattr(case, side), cache)
            measure.settle(cache)
    figures: dict[str, Any] = {what: {"ours": [], "plain": []} for what in ("wall", "cpu")}
    for pair in range(pairs):
        said = set()
        for side in ("ours", "plain")[:: 1 if pair % 2 else -1]:
            child = _run(getattr(case, side), caches[side])
            said.add(child.output.split(" {")[0].strip())
            figures["wall"][side].append(child.wall)
            figures["cpu"][side].append(child.cpu)
        if len(said) > 1:
            raise SystemExit(f"bench: {case.name}: not all processes compute the same: {said}")
    return figures


def _cold(case: Case, root: pathlib.Path, pairs: int) -> dict[str, Any]:
    figures: dict[str, Any] = {what: {"ours": [], "plain": []} for what in ("wall", "cpu")}
    for pair in range(pairs):
        for side in ("ours", "plain")[:: 1 if pair % 2 else -1]:
            cache = root / f"cold-{pair}" / side / "cache"
            child = _run(getattr(case, side), cache)
            figures["wall"][side].append(child.wall)
            figures["cpu"][side].append(child.cpu)
            measure.settle(cache)
    return figures


def _run(command: tuple[tuple[str, ...], tuple[str, ...]], cache: pathlib.Path) -> measure.Child:
    options, (script, *arguments) = command
    return measure.run(script, *arguments, cache=cache, options=options)


def _platforms() -> list[str]:
    import pyopencl as cl

    there = {platform.name for platform in cl.get_platforms()}
    return [name for name in (POCL, INTEL) if name in there]


def gain(figures: dict[str, Any], what: str = "cpu") -> tuple[float, float, float]:
    """Return how many times longer the program takes without kcl, with the ends of the interval."""
    return tuple(interval(figures[what]["plain"], figures[what]["ours"]))  # type: ignore[return-value]


def nothing(figures: dict[str, Any]) -> float:
    """Return the processor milliseconds that a program pays that uses neither package."""
    pairs = zip(figures["nothing"]["cpu"]["ours"], figures["nothing"]["cpu"]["plain"], strict=True)
    return 1e3 * statistics.median(ours - plain for ours, plain in pairs)


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds and ratios."""
    yield f"warm, {figures['count']} loopy kernels or a driver of pyopencl, seconds: median (smallest..largest)"
    for name, one in [*figures["cases"].items(), ("cold", figures["cold"])]:
        ratio, low, high = gain(one, "wall")
        sides = f"with {spread(one['wall']['ours']):<24}without {spread(one['wall']['plain']):<24}"
        yield f"  {name:<38}{sides}without / with {ratio:.2f} ({low:.2f} to {high:.2f}), cpu {gain(one)[0]:.2f}"
    yield f"  a program that uses neither: {nothing(figures):.1f} ms more"


if __name__ == "__main__":
    measure.part(measured, lines)
