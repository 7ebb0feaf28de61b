"""The goals of speed, in one table: what is wanted, within which bound, and where it stands among the figures.

Each figure is a ratio, or a count, of one run of run.py. What was not measured is None. A ratio of whole processes is
one of processor seconds, which other programs of the machine disturb least. Where the waiting is what counts, or a
helper or another process does the work, it is one of elapsed seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import bookkeeping
import bundle
import bypassed
import calls
import cold
import entries
import imports
import listing
import lookup
import processes
import sizes
import storm
import tiers
import tuning
import unchanged

Parts = dict[str, Any]


class Figure(NamedTuple):
    """A measured value with the smallest and largest that the same run gave, or the ends of an interval."""

    value: float
    low: float | None = None
    high: float | None = None


class Goal(NamedTuple):
    """A bound on a figure: at most `most`, and at least `least`; `clock` is what was read, empty for a count."""

    title: str
    figure: Callable[[Parts], Figure | None]
    most: float | None = None
    least: float | None = None
    clock: str = ""

    def reached(self, figure: Figure) -> bool:
        """Tell whether the figure is within the bounds."""
        return (self.most is None or figure.value <= self.most) and (
            self.least is None or figure.value >= self.least
        )

    @property
    def bound(self) -> str:
        """Say the bounds in words."""
        words = [f"at least {self.least:g}"] if self.least is not None else []
        return " and ".join(
            [*words, *([f"at most {self.most:g}"] if self.most is not None else [])]
        )


def _processes(parts: Parts, count: int) -> Any:
    return next(
        (one for one in parts.get("processes", {}).get("kernels", ()) if one["count"] == count),
        None,
    )


CPU, WALL, DEVICE = "processor", "elapsed", "device"


def _ratio(count: int, name: str) -> Callable[[Parts], Figure | None]:
    def figure(parts: Parts) -> Figure | None:
        one = _processes(parts, count)
        (side, moment), (other, other_moment) = processes.RATIOS[name]
        if one is None or not (one["cpu"][side][moment] and one["cpu"][other][other_moment]):
            return None
        return Figure(*processes.ratios(one)[name])

    return figure


def _of_processes(
    title: str, count: int, name: str, most: float | None = None, least: float | None = None
) -> Goal:
    return Goal(title, _ratio(count, name), most, least, CPU)


def _missed(count: int) -> Callable[[Parts], Figure | None]:
    def figure(parts: Parts) -> Figure | None:
        one = _processes(parts, count)
        return None if one is None else Figure(one["missed"]["second"])

    return figure


def _generated(moment: str) -> Callable[[Parts], Figure | None]:
    """Count the libraries that PoCL made for kcl, over all numbers of kernels."""

    def figure(parts: Parts) -> Figure | None:
        found = [one["libraries"]["kcl"] for one in parts.get("processes", {}).get("kernels", ())]
        counts = [moments[moment]["generated"] for moments in found if moment in moments]
        return Figure(sum(counts)) if counts else None

    return figure


def _prepared(figures: Any) -> Figure:
    return Figure(*cold.interval(figures["wall"]["2"], figures["wall"]["1"]))


def _threads(kind: str) -> Callable[[Any], Figure]:
    return lambda figures: Figure(*cold.interval(figures[kind]["wall"], figures["one"]["wall"]))


def _built_again(figures: Any) -> Figure:
    return Figure(max(max(figures[kind]["built again"]) for kind in ("shared", "own")))


def _of(
    part: str, figure: Callable[[Any], Figure], **size: int
) -> Callable[[Parts], Figure | None]:
    """Take a figure of a part that was measured with the numbers that the goal speaks of."""

    def found(parts: Parts) -> Figure | None:
        figures = parts.get(part)
        if figures is None or any(figures[name] != wanted for name, wanted in size.items()):
            return None
        return figure(figures)

    return found


def _call(case: str, side: str, other: str) -> Callable[[Parts], Figure | None]:
    """Divide the microseconds of a call by one side by those of another."""

    def figure(parts: Parts) -> Figure | None:
        one = next(
            (one for one in parts.get("calls", {}).get("cases", ()) if one["case"] == case), None
        )
        if one is None or not {side, other} <= one["microseconds"].keys():
            return None
        return Figure(*calls.ratio(one["microseconds"][side], one["microseconds"][other]))

    return figure


def _bypassed(program: str, figure: Callable[[Any], Figure]) -> Callable[[Parts], Figure | None]:
    """Take a figure of a program that kcl helps little or not at all."""

    def found(parts: Parts) -> Figure | None:
        one = parts.get("bypassed", {}).get(program)
        return None if one is None else figure(one)

    return found


# The kernels of the part on sizes, and the bound on each.
SIZES = {
    "axpy with guards in its blocks": 0.5,
    "batched 4x4 product": 0.4,
    "element-wise D u": 1.03,
    "16x16x16 products": 1.03,
    "stencil": 1.03,
}


def _sizes(name: str) -> Callable[[Parts], Figure | None]:
    return _of("sizes", lambda figures: Figure(sizes.ratio(figures, name)))


def _tuned(side: str, other: str, place: int) -> Callable[[Parts], Figure | None]:
    """Return a ratio of device times: of all recipes in order the one at a place."""
    return _tuning(
        lambda figures: Figure(*tuning.ordered(figures, side, other)[place]), *tuning.RECIPES
    )


def _tuning(figure: Callable[[Any], Figure], *pieces: str) -> Callable[[Parts], Figure | None]:
    """Take a figure of pieces of the part on tuning, if all of them were measured."""

    def found(parts: Parts) -> Figure | None:
        figures = parts.get("tuning", {})
        return figure(figures) if all(figures.get(piece) for piece in pieces) else None

    return found


def _started(piece: str, side: str, other: str, when: str = "") -> Callable[[Parts], Figure | None]:
    """Return the ratio of whole processes with tuned kernels, or with spaces, to those without."""

    def figure(figures: Any) -> Figure:
        one = figures[piece][when] if when else figures[piece]
        return Figure(*cold.interval(one["cpu"][side], one["cpu"][other]))

    return _tuning(figure, piece)


def _large(count: int) -> Callable[[Parts], Figure | None]:
    def figure(parts: Parts) -> Figure | None:
        one = next(
            (one for one in parts.get("large", {}).get("statements", ()) if one["count"] == count),
            None,
        )
        return None if one is None else _medians(one["seconds"]["kcl"], one["seconds"]["floor"])

    return figure


def _medians(above: Sequence[float], below: Sequence[float]) -> Figure:
    pairs = [a / b for a, b in zip(above, below, strict=False)]
    return Figure(statistics.median(above) / statistics.median(below), min(pairs), max(pairs))


def _helper(figures: Any) -> Figure:
    seconds = figures["background"]["seconds"]
    return Figure(max(seconds), min(seconds), max(seconds))


def _compilations(figures: Any) -> Figure:
    counts = figures["storm"]["source builds"]
    return Figure(max(counts), min(counts), max(counts))


def _storm(figure: Callable[[Any], Figure]) -> Callable[[Parts], Figure | None]:
    return _of("storm", figure, processes=8, kernels=20)


def _cost(kind: str) -> Callable[[Parts], Figure | None]:
    return _storm(lambda figures: Figure(storm.cost(figures, kind)))


def _listing(command: str) -> Callable[[Parts], Figure | None]:
    return _of("listing", lambda figures: Figure(*listing.ratio(figures, command)), entries=10_000)


def _bundle(count: int, figure: Callable[[Any], float]) -> Callable[[Parts], Figure | None]:
    def found(parts: Parts) -> Figure | None:
        one = next(
            (one for one in parts.get("bundle", {}).get("kernels", ()) if one["count"] == count),
            None,
        )
        return None if one is None else Figure(figure(one))

    return found


def _remote(kind: str) -> Callable[[Parts], Figure | None]:
    def found(parts: Parts) -> Figure | None:
        figures = parts.get("tiers", {"remotes": ()})
        one = next((one for one in figures["remotes"] if one["kind"] == kind), None)
        return None if one is None else Figure(tiers.remote(figures, one))

    return found


def _writing(parts: Parts) -> Figure | None:
    shares = parts.get("tiers", {}).get("writing")
    return Figure(statistics.median(shares), min(shares), max(shares)) if shares else None


def _gain(case: str) -> Callable[[Parts], Figure | None]:
    """How many times longer an unchanged program takes without kcl."""

    def figure(parts: Parts) -> Figure | None:
        found = parts.get("unchanged", {}).get("cases", {}).get(case)
        return None if found is None else Figure(*unchanged.gain(found))

    return figure


def _unchanged(figure: Callable[[Any], Figure]) -> Callable[[Parts], Figure | None]:
    return _of("unchanged", figure, count=42)


EXECUTOR_CASES = (
    "3 arrays",
    "3 arrays, Python scalar",
    "3 arrays, numpy scalar",
    "10 arguments",
    "10 arguments, numpy scalars",
    "several queues",
    "4 threads",
)
ALLOCATING_CASES = ("outputs allocated", "outputs allocated, 10 arguments")

GOALS = (
    *(
        _of_processes(
            f"warm start, {count} kernels: kcl / floor", count, "kcl later / floor later", most=1.35
        )
        for count in (5, 42, 200)
    ),
    *(
        _of_processes(
            f"warm start, {count} kernels: loopy / kcl",
            count,
            "loopy later / kcl later",
            least=least,
        )
        for count, least in ((5, 3.0), (42, 7.0), (200, 15.0))
    ),
    _of_processes(
        "second run at once, 42 kernels: loopy's warm / kcl",
        42,
        "loopy later / kcl second",
        least=5.0,
    ),
    Goal("second run at once, 42 kernels: look-ups that did not hit", _missed(42), most=0),
    _of_processes(
        "PoCL's cache empty, 42 kernels: kcl / floor", 42, "kcl empty / floor empty", most=1.15
    ),
    _of_processes(
        "PoCL's cache off, 42 kernels: kcl / floor", 42, "kcl off / floor off", most=1.15
    ),
    Goal("PoCL's cache empty: libraries that PoCL generated", _generated("empty"), most=0),
    Goal("PoCL's cache off: libraries that PoCL generated", _generated("off"), most=0),
    Goal(
        "cold, 42 kernels, interleaved pairs: kcl / loopy",
        _of("cold", lambda figures: Figure(*cold.ratio(figures)), count=42),
        most=1.08,
        clock=CPU,
    ),
    Goal(
        "kcl.prepare of 42 kernels cold: two processes / one",
        _of("prepare", _prepared, count=42),
        most=0.65,
        clock=WALL,
    ),
    *(
        Goal(
            f"42 new kernels, 16 threads, {kind}: threads / one thread",
            _of("threads", _threads(name), count=42),
            most=1.2,
            clock=WALL,
        )
        for name, kind in (("shared", "the same Kernels"), ("own", "Kernels of their own"))
    ),
    Goal(
        "the same: programs that were built again", _of("threads", _built_again, count=42), most=0
    ),
    Goal(
        "the helper ends after the first process, seconds",
        _of("cold", _helper, count=42),
        most=60.0,
        clock=WALL,
    ),
    *(
        Goal(f"one kernel of {count} statements: kcl / floor", _large(count), most=1.5, clock=WALL)
        for count in (300, 1000)
    ),
    Goal(
        "call, 3 arrays: kcl / typed call", _call("3 arrays", "kcl", "typed"), most=1.75, clock=WALL
    ),
    Goal(
        "call, 3 arrays, events unmanaged: bound / typed call",
        _call("3 arrays", "kcl, bound", "typed"),
        most=1.25,
        clock=WALL,
    ),
    *(
        Goal(f"call, {case}: kcl / executor", _call(case, "kcl", "loopy"), most=1.0, clock=WALL)
        for case in EXECUTOR_CASES
    ),
    *(
        Goal(f"call, {case}: kcl / executor", _call(case, "kcl", "loopy"), most=0.75, clock=WALL)
        for case in ALLOCATING_CASES
    ),
    *(
        Goal(f"sizes, {name}: sizes / general", _sizes(name), most=most, clock=DEVICE)
        for name, most in SIZES.items()
    ),
    Goal(
        "tuning, the second best of six recipes: tuned / default",
        _tuned("level 2", "default", 1),
        most=0.8,
        clock=DEVICE,
    ),
    Goal(
        "tuning, the worst of six recipes: tuned / default",
        _tuned("level 2", "default", -1),
        most=1.02,
        clock=DEVICE,
    ),
    Goal(
        "tuning, the worst of six recipes: short search / best",
        _tuned("level 1", "best", -1),
        most=1.1,
        clock=DEVICE,
    ),
    Goal(
        "tuning, the worst of six recipes: long search / best",
        _tuned("level 2", "best", -1),
        most=1.03,
        clock=DEVICE,
    ),
    Goal(
        "tuning, share of a space that the short search builds, largest",
        _tuning(
            lambda figures: Figure(max(map(tuning.share, tuning.cases(figures).values()))),
            *tuning.RECIPES,
        ),
        most=0.25,
    ),
    Goal(
        "tuning, 3,000 choices: long search / best of a random race",
        _tuning(
            lambda figures: Figure(*tuning.ratio(figures["3,000 choices"], "level 2", "best")),
            "3,000 choices",
        ),
        most=1.03,
        clock=DEVICE,
    ),
    Goal(
        "tuning, equal processor time: winners with one work-group",
        _tuning(
            lambda figures: Figure(
                sum(some.count(1) for some in figures["one work-group"].values())
            ),
            "one work-group",
        ),
        most=0,
    ),
    Goal(
        "tuning, 120 choices: long search / Kernel Tuner's brute force",
        _tuning(
            lambda figures: Figure(
                *cold.interval(
                    *(figures["Kernel Tuner"][side] for side in ("level 2", "Kernel Tuner"))
                )
            ),
            "Kernel Tuner",
        ),
        most=0.7,
        clock=WALL,
    ),
    *(
        Goal(
            f"tuning, five times ({piece}): winners within {bound:g} of the best",
            _tuning(lambda figures, piece=piece: Figure(tuning.near(figures, piece)), piece),
            least=4,
            clock=DEVICE,
        )
        for piece, bound in tuning.NEAR.items()
    ),
    *(
        Goal(
            f"tuning, call: {side} / {other}",
            _tuning(
                lambda figures, pair=(side, other): Figure(tuning.call(figures["calls"], *pair)),
                "calls",
            ),
            most=most,
            clock=WALL,
        )
        for side, other, most in (("tuned", "plain", 1.15), ("new size", "typed", 30.0))
    ),
    Goal(
        "tuning, call without a space: functions called more after a tuning",
        _tuning(
            lambda figures: Figure(figures["calls"]["counted"][1] - figures["calls"]["counted"][0]),
            "calls",
        ),
        most=0,
    ),
    Goal(
        "tuning, warm start of 20 tuned kernels / of their winners by hand",
        _started("warm", "tuned", "by hand"),
        most=1.05,
        clock=CPU,
    ),
    Goal(
        "tuning, warm start of 20 tuned kernels: misses, processes, imports of the tuner",
        _tuning(lambda figures: Figure(tuning.surplus(figures["warm"], "tuned")), "warm"),
        most=0,
    ),
    *(
        Goal(
            f"tuning, spaces declared and nothing tuned, {when}: / no spaces",
            _started("declared", "spaces", "none", when),
            most=1.02,
            clock=CPU,
        )
        for when in ("cold", "warm")
    ),
    Goal(
        "tuning, spaces declared and nothing tuned: files and processes more",
        _tuning(
            lambda figures: Figure(sum(map(tuning.more, figures["declared"].values()))), "declared"
        ),
        most=0,
    ),
    Goal(
        "look-ups at 100 / 10,000 / 1,000,000 entries: largest / smallest median",
        _of("lookup", lambda figures: Figure(lookup.flatness(figures)), largest=1_000_000),
        most=1.5,
        clock=WALL,
    ),
    Goal(
        "the same: largest / smallest memory",
        _of("lookup", lambda figures: Figure(lookup.memory_flatness(figures)), largest=1_000_000),
        most=1.1,
    ),
    Goal(
        "8 processes cold at once, 20 kernels: programs from source",
        _storm(_compilations),
        most=22,
        least=20,
    ),
    Goal(
        "the same: all of them / one alone",
        _storm(lambda figures: Figure(storm.slowdown(figures))),
        most=1.2,
        clock=WALL,
    ),
    *(
        Goal(f"the same, leader {kind}: cost in compile times", _cost(kind), most=1.0, clock=WALL)
        for kind in storm.SIGNALS
    ),
    Goal(
        "bytes on disk per kernel: kcl's own / PoCL's",
        _of("entries", lambda figures: Figure(entries.share(figures)), count=42),
        most=1.0,
    ),
    *(
        Goal(
            f"bundle of {count} kernels: bytes a kernel",
            _bundle(count, lambda one: one["bytes"] / one["count"]),
            most=8000,
        )
        for count in (42, 200)
    ),
    Goal(
        "bundle of 42 kernels: a tar of the stores / the bundle",
        _bundle(42, lambda one: one["tar"] / one["bytes"]),
        least=8.0,
    ),
    *(
        Goal(
            f"bundle of 42 kernels: {what} / import pyopencl",
            _bundle(42, lambda one, what=what: bundle.ratio(one, what)),
            most=most,
            clock=CPU,
        )
        for what, most in (("save", 4.0), ("load", 2.0))
    ),
    Goal(
        "first run of 42 kernels after loading / (warm start with PoCL's cache empty + load)",
        _bundle(42, lambda one: bundle.first(one, "first cpu")),
        most=1.15,
        clock=CPU,
    ),
    Goal(
        "own cache empty, 42 kernels, a full site: / warm start with PoCL's cache empty",
        _of("tiers", lambda figures: Figure(tiers.site(figures)), count=42),
        most=1.10,
        clock=WALL,
    ),
    *(
        Goal(
            f"own cache empty, 42 kernels, remote, {kind}: / (that warm start + 1.3 pulls + 4 round trips)",
            _remote(kind),
            most=1.0,
            clock=WALL,
        )
        for kind in ("files", *(f"Redis, {trip} ms" for trip in tiers.TRIPS))
    ),
    Goal(
        "42 kernels cold, a driver that writes: the remote's share",
        _writing,
        most=0.02,
        clock=CPU,
    ),
    *(
        Goal(
            f"{command}, 10,000 entries: start / that of import rich",
            _listing(command),
            most=most,
            clock=CPU,
        )
        for command, most in (("kcl status", 3.0), ("kcl ls", 20.0), ("kcl explain", 20.0))
    ),
    Goal(
        "statistics, 42 kernels warm: their share",
        _of("bookkeeping", lambda figures: Figure(*bookkeeping.share(figures)), count=42),
        most=0.01,
        clock=CPU,
    ),
    *(
        Goal(
            f"unchanged, 42 loopy kernels warm, {title}: without / with",
            _gain(case),
            least=least,
            clock=CPU,
        )
        for title, case, least in (
            ("`kcl run`", "kcl run", 7.0),
            ("recipes", "recipes", 9.0),
            ("units looked into", "looked into", 1.8),
        )
    ),
    Goal(
        "unchanged, 42 loopy kernels cold: `kcl run` / without",
        _unchanged(lambda figures: Figure(1 / unchanged.gain(figures["cold"])[0])),
        most=1.05,
        clock=CPU,
    ),
    Goal(
        "unchanged, driver of pyopencl on PoCL: without / with",
        _gain(f"pyopencl, {unchanged.POCL}"),
        least=1.5,
        clock=CPU,
    ),
    Goal(
        "unchanged, driver of pyopencl on Intel: without / with",
        _gain(f"pyopencl, {unchanged.INTEL}"),
        least=3.0,
        clock=CPU,
    ),
    *(
        Goal(
            f"unchanged, ten failing builds on {name}: without / with",
            _gain(f"failing builds, {platform}"),
            least=0.98,
            clock=CPU,
        )
        for name, platform in (("PoCL", unchanged.POCL), ("Intel", unchanged.INTEL))
    ),
    *(
        Goal(
            f"{bypassed.ONE_UNIT}, `kcl run`, {side}: milliseconds more",
            _bypassed(
                bypassed.ONE_UNIT, lambda figures, side=side: Figure(bypassed.more(figures, side))
            ),
            most=30.0,
            clock=CPU,
        )
        for side in bypassed.SIDES
        if side != "plain"
    ),
    *(
        Goal(
            f"{program}: kcl / {other}",
            _bypassed(
                program, lambda figures, other=other: Figure(*bypassed.cost(figures, other=other))
            ),
            most=1.02 if other == bypassed.OFF else 1.05,
            clock=CPU,
        )
        for program, one in bypassed.PROGRAMS.items()
        if program != bypassed.ONE_UNIT
        for other in one.sides
        if other != "kcl"
    ),
    Goal(
        "`kcl run` of a program that uses neither package: milliseconds more",
        _unchanged(lambda figures: Figure(unchanged.nothing(figures))),
        most=20.0,
        clock=CPU,
    ),
    Goal(
        "import kcl / import pyopencl",
        _of("imports", lambda figures: Figure(imports.ratio(figures))),
        most=0.15,
        clock=WALL,
    ),
)
