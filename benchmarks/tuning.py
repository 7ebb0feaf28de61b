"""What tuning gains, and what it costs, in pieces that can be measured one at a time; each takes some minutes.

python benchmarks/tuning.py [--quick] [--only PIECE ...]
python benchmarks/run.py tuning:PIECE ... --add --json FILE     keeps the pieces that are in FILE

Kernel Tuner (`pip install kernel-tuner`) and CLBlast (`apt install libclblast1`) are extras, left out where they are
absent.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import calls
import measure
from choices import RECIPES
from cold import interval
from measure import Effort

SECONDS = 60.0  # of one tuning
REPEATED, TIMES = "transposed copy", 5
KERNELS, COLD = 20, 10  # tuned kernels of a warm start; kernels of a cold one
DRAWN = 256  # choices of the random race in a large space
COLUMNS = {
    "tuned / default": ("level 2", "default"),
    "level 1 / best": ("level 1", "best"),
    "level 2 / best": ("level 2", "best"),
    "numpy / tuned": ("numpy", "level 2"),
    "CLBlast / tuned": ("CLBlast", "level 2"),
}
NEAR = {"again": 1.05, "again, a core busy": 1.10}  # the best time: a winner that is nearer counts
Figures = dict[str, Any]


def measured(effort: Effort, only: Sequence[str] = ()) -> Figures:
    """Return the figures by piece."""
    return {name: PIECES[name](effort) for name in only or pieces(effort)}


def pieces(effort: Effort) -> tuple[str, ...]:
    """Return the names of the pieces that are measured unless some are named."""
    return QUICK if effort.calls <= 3 else tuple(PIECES)


def recipe(name: str) -> Callable[[Effort], Figures]:
    """Return what measures a recipe: what both searches find, raced against the best of the whole space."""

    def figures(effort: Effort) -> Figures:
        is_quick = effort.calls <= 3
        found = {
            f"level {level}": _tuned(name, level, 10.0 if is_quick else SECONDS) for level in (1, 2)
        }
        named = {"default": {}, **{level: one["choice"] for level, one in found.items()}}
        return {**found, **_raced(name, 8 if is_quick else 1024, named)}

    return figures


def large(_effort: Effort) -> Figures:
    """Return the times of what a long search finds in a space of 3,000 choices, and of the best of a random race."""
    found = _tuned("of 3,000", 2, 2 * SECONDS)
    return {
        "level 2": found,
        **_raced("of 3,000", DRAWN, {"default": {}, "level 2": found["choice"]}),
    }


def single(_effort: Effort) -> Figures:
    """Return which of two choices of equal processor time won, by the default; one of them has one work-group."""
    found = {
        name: [_tuned(name, 2, 30.0) for _time in range(3)]
        for name in ("1 by default", "16 by default")
    }
    return {name: [one["choice"]["groups"] for one in some] for name, some in found.items()}


def kernel_tuner(_effort: Effort) -> Figures:
    """Return the seconds of a long search and of Kernel Tuner, which tries the same 120 choices."""
    if not importlib.util.find_spec("kernel_tuner"):
        return {}
    found: dict[str, list[float]] = {"level 2": [], "Kernel Tuner": []}
    for _pair in range(2):
        found["level 2"].append(_tuned("of 120", 2, SECONDS)["seconds"])
        found["Kernel Tuner"].append(
            _driven("drive_tuning.py", "of 120", "kernel_tuner")["seconds"]
        )
    return found


def again(is_busy: bool) -> Callable[[Effort], Figures]:
    """Return what measures the winners of five tunings from nothing, in one race; another process may use a core."""

    def figures(_effort: Effort) -> Figures:
        with _busy() if is_busy else contextlib.nullcontext():
            found = [_tuned(REPEATED, 1, SECONDS)["choice"] for _time in range(TIMES)]
        return {
            **_raced(REPEATED, 0, {str(number): one for number, one in enumerate(found)}),
            "choices": found,
        }

    return figures


def of_calls(effort: Effort) -> Figures:
    """Return the microseconds of calls."""
    found: Figures = _driven("drive_tuned.py", "calls", str(6 * effort.calls), "100")
    return found


def warm(effort: Effort) -> Figures:
    """Return the seconds of warm starts of tuned kernels, and of their winners without a space."""
    count = str(KERNELS if effort.calls > 3 else 2)
    with _cache() as cache:
        blocks = json.loads(measure.run("drive_tuned.py", "tune", count, cache=cache).output)
        sides = {"tuned": ("spaces", count), "by hand": ("plain", count, *map(str, blocks))}
        for side in (*sides.values(), *sides.values()):
            measure.run("drive_tuned.py", *side, cache=cache)
            measure.settle(cache)
        return _in_turns(sides, effort.calls, lambda _side: contextlib.nullcontext(cache))


def declared(effort: Effort) -> Figures:
    """Return the seconds of starts with spaces of which nothing is tuned, and without spaces: cold, then warm."""
    count = str(COLD if effort.calls > 3 else 2)
    sides = {"spaces": ("spaces", count), "none": ("plain", count)}
    with contextlib.ExitStack() as stack:
        kept = {side: stack.enter_context(_cache()) for side in sides}
        cold = _in_turns(sides, max(2, effort.pairs // 2), lambda _side: _cache())
        _in_turns(sides, 2, lambda side: contextlib.nullcontext(kept[side]))
        return {
            "cold": cold,
            "warm": _in_turns(sides, effort.calls, lambda side: contextlib.nullcontext(kept[side])),
        }


PIECES: dict[str, Callable[[Effort], Figures]] = {
    **{name: recipe(name) for name in RECIPES},
    "3,000 choices": large,
    "one work-group": single,
    "Kernel Tuner": kernel_tuner,
    "again": again(False),
    "again, a core busy": again(True),
    "calls": of_calls,
    "warm": warm,
    "declared": declared,
}
QUICK = ("axpy", "calls", "warm", "declared")


def _in_turns(
    sides: dict[str, tuple[str, ...]], pairs: int, cache_of: Callable[[str], Any]
) -> Figures:
    """Run sides of drive_tuned.py in turns; return seconds, what they said, and the files in their table."""
    found: Figures = {
        what: {side: [] for side in sides} for what in ("wall", "cpu", "said", "files")
    }
    for pair in range(pairs):
        for side in list(sides)[:: 1 if pair % 2 else -1]:
            with cache_of(side) as cache:
                child = measure.run("drive_tuned.py", *sides[side], cache=cache)
                measure.settle(cache)
                files = sum(path.is_file() for path in (cache / "kcl" / "tuning").rglob("*"))
            for what, value in zip(
                found, (child.wall, child.cpu, json.loads(child.output), files), strict=True
            ):
                found[what][side].append(value)
    return found


@contextlib.contextmanager
def _cache() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="kcl-tuning-", ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder) / "cache"


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """Burn a core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _tuned(case: str, level: int, seconds: float) -> Figures:
    return dict(_driven("drive_tuning.py", case, "tune", str(level), str(seconds)))


def _raced(case: str, most: int, named: dict[str, Any]) -> Figures:
    # What a race builds need not be stored.
    found = _driven(
        "drive_tuning.py",
        case,
        "race",
        str(most),
        json.dumps(named),
        variables={"KCL_NO_CACHE": "1"},
    )
    return dict(found)


def _driven(script: str, *words: str, variables: dict[str, str] | None = None) -> Any:
    """Run a driver on empty caches."""
    with _cache() as cache:
        child = measure.run(script, *words, cache=cache, variables=variables)
        measure.settle(cache)
    return json.loads(child.output.splitlines()[-1])


def ratio(one: Figures, side: str, other: str) -> tuple[float, float, float]:
    """Return the median of the ratios of two sides by round, and its interval of at least 95 % for 15 rounds."""
    mine, others = one["times"][side], one["times"][other]
    ratios = sorted(a / b for a, b in zip(mine, others, strict=True))
    return statistics.median(ratios), ratios[3], ratios[-4]


def cases(figures: Figures) -> dict[str, Figures]:
    """Return the figures of the recipes."""
    return {name: one for name, one in figures.items() if name in RECIPES}


def ordered(figures: Figures, side: str, other: str) -> list[tuple[float, float, float]]:
    """Return the ratios of two sides for all recipes, the smallest first."""
    return sorted(ratio(one, side, other) for one in cases(figures).values())


def share(one: Figures) -> float:
    """Return the share of a space that the short search tried."""
    return float(one["level 1"]["tried"] / one["level 1"]["of"])


def near(figures: Figures, piece: str) -> int:
    """Return how many of the winners are near the best of them."""
    times = [min(times) for name, times in figures[piece]["times"].items() if name != "best"]
    return sum(one <= NEAR[piece] * min(times) for one in times)


def call(one: Figures, side: str, other: str) -> float:
    """Return the ratio of the median microseconds of two kinds of calls."""
    return statistics.median(one["microseconds"][side]) / statistics.median(
        one["microseconds"][other]
    )


def surplus(one: Figures, side: str) -> int:
    """Return how many look-ups missed, processes were started and tuners imported in the last run of a side."""
    return sum(map(int, one["said"][side][-1].values()))


def more(one: Figures) -> int:
    """Return how many processes and files more there are with spaces than without, in the last run."""
    return surplus(one, "spaces") - surplus(one, "none") + one["files"]["spaces"][-1]


def lines(figures: Figures) -> Iterator[str]:
    """Print ratios and shares."""
    yield "ratios of device times, medians of 15 rounds (95 % interval)"
    yield f"  {'':<18}{''.join(f'{title:<22}' for title in COLUMNS)}{'tried':<16}seconds"
    for name, one in cases(figures).items():
        cells = [f"{cell(one, *pair):<22}" for pair in COLUMNS.values()]
        tried = ", ".join(
            f"{one[level]['tried']}/{one[level]['of']}" for level in ("level 1", "level 2")
        )
        seconds = ", ".join(f"{one[level]['seconds']:.0f}" for level in ("level 1", "level 2"))
        yield f"  {name:<18}{''.join(cells)}{tried:<16}{seconds}"
    for piece, line in LINES.items():
        yield from [f"{piece}: {line(figures)}"] if piece in figures else []


def cell(one: Figures, side: str, other: str) -> str:
    """Write the ratio of two sides with its interval; "-" if a side has no such routine or is absent."""
    return (
        "{:.2f} ({:.2f}-{:.2f})".format(*ratio(one, side, other)) if side in one["times"] else "-"
    )


def _of_large(figures: Figures) -> str:
    one = figures["3,000 choices"]
    best, default = (cell(one, "level 2", other) for other in ("best", "default"))
    tried, seconds = one["level 2"]["tried"], one["level 2"]["seconds"]
    return f"level 2 / best of {DRAWN} others {best}, / default {default}; {tried} tried in {seconds:.0f} s"


def _of_kernel_tuner(figures: Figures) -> str:
    one = figures["Kernel Tuner"]
    return (
        str(interval(one["level 2"], one["Kernel Tuner"]))
        if one
        else "it is not installed: left out"
    )


def _of_calls(figures: Figures) -> str:
    one = figures["calls"]
    values = {side: calls.quartiles(some) for side, some in one["microseconds"].items()}
    shares = f"tuned / plain {call(one, 'tuned', 'plain'):.2f}, new size / typed {call(one, 'new size', 'typed'):.1f}"
    return f"{shares}; microseconds {values}; functions called without a space {one['counted']}"


def _of_warm(figures: Figures) -> str:
    one = figures["warm"]
    intervals = [interval(one[clock]["tuned"], one[clock]["by hand"]) for clock in ("wall", "cpu")]
    return (
        "tuned / by hand {}, processor {}".format(*intervals)
        + f"; missed or started {surplus(one, 'tuned')}"
    )


def _of_declared(figures: Figures) -> str:
    found = []
    for when, one in figures["declared"].items():
        intervals = [
            interval(one[clock]["spaces"], one[clock]["none"]) for clock in ("wall", "cpu")
        ]
        found.append(
            f"{when} "
            + "{}, processor {}".format(*intervals)
            + f"; files and processes more {more(one)}"
        )
    return "spaces / none " + "; ".join(found)


LINES: dict[str, Callable[[Figures], str]] = {
    "3,000 choices": _of_large,
    "one work-group": lambda figures: f"work-groups of the winners {figures['one work-group']}",
    "Kernel Tuner": _of_kernel_tuner,
    **{
        name: lambda figures, name=name: f"{near(figures, name)} of {TIMES} within {NEAR[name]:g}"
        for name in NEAR
    },
    "calls": _of_calls,
    "warm": _of_warm,
    "declared": _of_declared,
}


if __name__ == "__main__":
    measure.part(measured, lines, tuple(PIECES))
