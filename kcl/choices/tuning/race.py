"""The rules of races between candidates: pure functions of samples. A racer is a number; 0 is the default.

    rounds = [{racer: seconds}, ...]    each round has the default and all racers that are still in

Noise can only make a launch slower, so the time of a racer is its smallest. Its ratio to the default is that of the
smallest times in the rounds that both ran. The ratio's interval comes from the ratios of single rounds: their median lies
between two of them in 95 % of all cases (sign test).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

ROUNDS, FEWEST = 15, 3  # the most rounds, and the fewest before a racer can win
# A racer is out if it takes this many times the leader's time: after one round, after two, and later.
_BEHIND_AFTER = {1: 4.0, 2: 2.0}
_BEHIND = 1.3
_DECIDED = 5  # rounds, from which intervals are compared
# A choice with a larger ratio is not worth a change.
_FASTER = 0.97
# Among choices within this factor of the fastest, the first one wins.
_LIKE = 1.02

Rounds = Sequence[dict[int, float]]
R = TypeVar("R")


class Sample(NamedTuple):
    """The time of a launch in seconds: elapsed on the device, and processor time of the process."""

    elapsed: float
    processor: float


class Standing(NamedTuple):
    """The ratio of a racer's time to the default's, with an interval from `low` to `high`, and its time in seconds."""

    ratio: float
    low: float
    high: float
    seconds: float = 0.0

    @property
    def noise(self) -> float:
        """Half the width of the interval, relative to the ratio."""
        return (self.high - self.low) / 2 / self.ratio if self.ratio else 0.0


def find_standing(rounds: Rounds, racer: int) -> Standing:
    """Return the standing of a racer, which must have run at least one round."""
    shared = [(times[racer], times[0]) for times in rounds if racer in times]
    mine, default = map(min, zip(*shared, strict=True))
    ratios = sorted(time / of for time, of in shared)
    # With more rounds the sign test leaves more extreme ratios outside of the interval.
    dropped = max(0, (len(ratios) - 6) // 3)
    ratio = mine / default
    return Standing(ratio, min(ratio, ratios[dropped]), max(ratio, ratios[-1 - dropped]), mine)


def find_losers(rounds: Rounds, running: Iterable[int], processor: Mapping[int, float]) -> set[int]:
    """Return the racers that are out after these rounds; never the default.

    A racer with less processor time than the leader stays, since other processes may have slowed it in all rounds.
    """
    standings = {racer: find_standing(rounds, racer) for racer in running}
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
    """Return True if no further round is needed: no racer is left, none can win, or the only one left has won."""
    left = [find_standing(rounds, racer) for racer in running if racer and rounds]
    if len(rounds) >= most or not any(running):
        return True
    if len(rounds) < 2 * _DECIDED:
        return False
    return all(place.low > _FASTER for place in left) or (len(left) == 1 and left[0].high < _FASTER)


def find_winner(standings: Mapping[R, Standing], order: Sequence[R]) -> R | None:
    """Return the winner; None if the default stays. Among equally fast racers the first one in `order` wins.

    A choice wins only if it is 3 % faster than the default, and its interval lies below 1.
    """
    fast = {
        racer: place.ratio
        for racer, place in standings.items()
        if place.ratio <= _FASTER and place.high < 1.0
    }
    best = min(fast.values(), default=0.0)
    return next((racer for racer in order if fast.get(racer, 2.0) <= best * _LIKE), None)


def is_disturbed(sample: Sample, earlier: Iterable[Sample]) -> bool:
    """Return True if another process slowed a sample: more elapsed time than before, but not more processor time."""
    best = min(earlier, default=sample)
    return sample.elapsed > 1.1 * best.elapsed and sample.processor < 1.05 * best.processor
