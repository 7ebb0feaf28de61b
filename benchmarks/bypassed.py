"""Run programs that kcl helps little or not at all, with it and without it: what its presence costs them.

    python benchmarks/bypassed.py [--quick]

A unit that the program asks is loopy's, and a program that no key can hold is carried out. Each round has a whole
process of each side. A warm side has a cache directory of its own, filled by two runs.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import measure
from cold import interval
from measure import Effort, spread

PLAIN = ("-W", "ignore")
RUN = (*PLAIN, "-m", "kcl", "run")
OFF = "without the generator layer"
# The options of Python, and the variables of a side.
SIDES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "plain": (PLAIN, {}),
    "kcl": (RUN, {}),
    OFF: (RUN, {"KCL_NO_CACHE": "generator"}),
    "without any layer": (RUN, {"KCL_NO_CACHE": "1"}),
}


class Program(NamedTuple):
    """A script with its arguments, the sides that run it, and whether each run begins with an empty cache."""

    command: tuple[str, ...]
    sides: tuple[str, ...] = ("plain", "kcl")
    cold: bool = False


ONE_UNIT = "one printed unit"
ASKED = ("printed", "C target", "dictionary keys", "pickles", "arguments", "operations")
REASONS = ("preamble generator", "callable", "patch")
PROGRAMS = {
    ONE_UNIT: Program(("drive_asked.py", "1", "printed"), tuple(SIDES)),
    **{f"asked: {kind}": Program(("drive_asked.py", "6", kind)) for kind in ASKED},
    **{
        f"bypassed, {'cold' if cold else 'warm'}: {reason}": Program(
            ("drive_bypassed.py", "5", reason), ("plain", "kcl", OFF), cold
        )
        for reason in REASONS
        for cold in (True, False)
    },
}


def pieces(_effort: Effort) -> list[str]:
    """List the programs: each can be measured alone."""
    return [*PROGRAMS]


def measured(effort: Effort, only: Sequence[str] = ()) -> dict[str, Any]:
    """Return the wall-clock and processor seconds of each program by side, a value for each round."""
    figures: dict[str, Any] = {}
    for name in only or PROGRAMS:
        print(f"{name} ...", flush=True)
        with tempfile.TemporaryDirectory(
            prefix="kcl-bypassed-", ignore_cleanup_errors=True
        ) as folder:
            figures[name] = _rounds(PROGRAMS[name], pathlib.Path(folder), effort.pairs)
    return figures


def _rounds(program: Program, root: pathlib.Path, rounds: int) -> dict[str, Any]:
    """Run the sides in turns; all must print the same."""
    figures: dict[str, Any] = {
        what: {side: [] for side in program.sides} for what in ("wall", "cpu")
    }
    for side in program.sides:
        # These runs of a cold program compile the byte code alone.
        for _ in range(2):
            _run(program, side, root / side / "cache")
    for number in range(rounds):
        said = set()
        for side in program.sides[:: 1 if number % 2 else -1]:
            cache = root / (f"{side} {number}" if program.cold else side) / "cache"
            child = _run(program, side, cache)
            said.add(child.output)
            figures["wall"][side].append(child.wall)
            figures["cpu"][side].append(child.cpu)
        if len(said) > 1:
            raise SystemExit(f"bench: {program.command}: not all processes say the same: {said}")
    return figures


def _run(program: Program, side: str, cache: pathlib.Path) -> measure.Child:
    options, variables = SIDES[side]
    script, *arguments = program.command
    child = measure.run(script, *arguments, cache=cache, options=options, variables=variables)
    measure.settle(cache)
    return child


def cost(
    figures: dict[str, Any], side: str = "kcl", other: str = "plain"
) -> tuple[float, float, float]:
    """Return how many times the processor seconds of another side one takes, with the ends of the interval."""
    return interval(figures["cpu"][side], figures["cpu"][other])


def more(figures: dict[str, Any], side: str = "kcl") -> float:
    """Return the processor milliseconds that a side takes more than plain."""
    pairs = zip(figures["cpu"][side], figures["cpu"]["plain"], strict=True)
    return 1e3 * statistics.median(ours - plain for ours, plain in pairs)


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, ratios and milliseconds."""
    yield "processor seconds: median (smallest..largest); ratio to plain with its interval at 95 %, milliseconds more"
    for name, one in figures.items():
        yield f"  {name:<36}{'plain':<30}{spread(one['cpu']['plain'])}"
        for side in list(one["cpu"])[1:]:
            ratio, low, high = cost(one, side)
            yield (
                f"  {'':<36}{side:<30}{spread(one['cpu'][side]):<24}{ratio:.3f} ({low:.3f} to {high:.3f})"
                f"{more(one, side):+8.1f} ms"
            )


if __name__ == "__main__":
    measure.part(measured, lines, tuple(PROGRAMS))
