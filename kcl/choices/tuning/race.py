"""Races: who is out after a round, and who wins. Pure functions of samples; a racer is a number, and 0 is the default.

    rounds = [{racer: seconds}, ...]    each round has the default and everyone who was still in

Noise only adds: the time of a racer is the smallest of its rounds. Its ratio to the default is between the smallest
times of the rounds that both ran. The interval of the ratio comes from the ratios by round: their median lies between
two of them in 95 % of all cases (the sign test).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

ROUNDS, FEWEST = 15, 3  # at most, and before somebody wins
# A racer this many times behind the leader is out: after one round, after two, and later.
_BEHIND_AFTER = {1: 4.0, 2: 2.0}
_BEHIND = 1.3
_DECIDED = 5  # rounds, from which intervals are compared
# A choice that takes more of the default's time is not worth a change.
_FASTER = 0.97
# Of choices within this factor of the leader's time the first one wins.
_LIKE = 1.02

Rounds = Sequence[dict[int, float]]
R = TypeVar("R")


class Sample(NamedTuple):
    """Seconds of a launch: elapsed on the device, and processor time of the process."""

    elapsed: float
    processor: float


class Standing(NamedTuple):
    """The ratio of a racer to the default, with its interval, and its own time in seconds."""

    ratio: float
    low: float
    high: float
    seconds: float = 0.0

    @property
    def noise(self) -> float:
        """Half of the interval, relative to the ratio."""
        return (self.high - self.low) / 2 / self.ratio if self.ratio else 0.0


def standing(rounds: Rounds, racer: int) -> Standing:
    """Return where a racer stands after the rounds that it ran, at least one."""
    shared = [(times[racer], times[0]) for times in rounds if racer in times]
    mine, default = map(min, zip(*shared, strict=True))
    ratios = sorted(time / of for time, of in shared)
    # The sign test allows for more extreme ratios outside of the interval as the rounds grow.
    dropped = max(0, (len(ratios) - 6) // 3)
    ratio = mine / default
    return Standing(ratio, min(ratio, ratios[dropped]), max(ratio, ratios[-1 - dropped]), mine)


def losers(rounds: Rounds, running: Iterable[int], processor: Mapping[int, float]) -> set[int]:
    """Return who of the running is out after these rounds; never the default.

    Who takes less processor time than the leader stays: others may have slowed it in all of these rounds.
    """
    standings = {racer: standing(rounds, racer) for racer in running}
    first = min(standings, key=standings.__getitem__)
    leader = standings[first]
    behind = leader.ratio * _BEHIND_AFTER.get(len(rounds), _BEHIND)
    beyond = leader.high if len(rounds) >= _DECIDED else float("inf")
    slow = {
        racer
        for racer, place in standings.items()
        if racer and (place.ratio > behind or place.low > beyond)
    }
    return {racer for racer in slow if processor[racer] > processor[first]}


def is_over(rounds: Rounds, running: Iterable[int], most: int = ROUNDS) -> bool:
    """Return True if no further round is needed: nobody is left, all of them lose, or the last one is decided."""
    left = [standing(rounds, racer) for racer in running if racer and rounds]
    if len(rounds) >= most or not any(running):
        return True
    if len(rounds) < 2 * _DECIDED:
        return False
    return all(place.low > _FASTER for place in left) or (len(left) == 1 and left[0].high < _FASTER)


def winner(standings: Mapping[R, Standing], order: Sequence[R]) -> R | None:
    """Return who wins; `order` lists the racers, and the first of equals wins. None: the default stays.

    The default stays unless a choice is 3 % faster, and beyond the noise.
    """
    fast = {
        racer: place.ratio
        for racer, place in standings.items()
        if place.ratio <= _FASTER and place.high < 1.0
    }
    best = min(fast.values(), default=0.0)
    return next((racer for racer in order if fast.get(racer, 2.0) <= best * _LIKE), None)


def is_disturbed(sample: Sample, earlier: Iterable[Sample]) -> bool:
    """Return True if another process slowed a sample on a CPU device: its elapsed time grew, its processor time not."""
    best = min(earlier, default=sample)
    return sample.elapsed > 1.1 * best.elapsed and sample.processor < 1.05 * best.processor
