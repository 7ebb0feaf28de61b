"""Who is out after a round, and who wins: on given samples."""

import pytest

from kcl.choices.tuning import race
from kcl.choices.tuning.race import Sample, Standing


def rounds(*racers):
    """Return rounds of these lists of seconds; a racer whose list ends is out."""
    return [
        {racer: times[at] for racer, times in enumerate(racers) if at < len(times)}
        for at in range(len(racers[0]))
    ]


@pytest.mark.parametrize(
    ("default", "racer", "ratio"),
    [([2.0, 2.2, 9.0], [1.5, 1.0, 1.1], 0.5), ([2.0, 2.0, 1.0], [2.0, 2.0], 1.0)],
)
def test_ratio(default, racer, ratio):
    """The ratio is that of the smallest times, since noise only adds, in the rounds that the racer ran."""
    assert race.find_standing(rounds(default, racer), 1).ratio == ratio
    assert Standing(0.5, 0.4, 0.6).noise == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("times", "interval"),
    [([0.8, 0.9, 1.2], (0.8, 1.2)), ([0.5, 0.6, 0.7, *[0.9] * 9, 1.5, 2.0, 3.0], (0.5, 0.9))],
)
def test_interval(times, interval):
    """Few rounds: all ratios; of 15 rounds three are left out at each end. It has the ratio itself."""
    standing = race.find_standing(rounds([1.0] * len(times), times), 1)
    assert (standing.low, standing.high) == interval


def losers(samples, running):
    """Return who is out if all of the time is processor time."""
    processor = {racer: min(times[racer] for times in samples) for racer in running}
    return race.find_losers(samples, running, processor)


def test_losers():
    """Out is who takes four times the leader's time, later who is 30 % behind it, then who is beyond its interval."""
    all_, nobody = {0, 1, 2, 3}, set()
    assert losers(rounds([9.0], [1.0], [3.9], [4.1]), all_) == {3}
    found = rounds([2.0] * 3, [1.0] * 3, [1.29] * 3, [1.31] * 3)
    assert (losers(found[:2], all_), losers(found, all_)) == (nobody, {3})
    leader, near, far = [1.0, 1.05, 1.0, 1.1, 1.0], [1.08, 1.12, 1.09, 1.1, 1.2], [1.15] * 5
    found = rounds([2.0] * 5, leader, near, far)
    assert (losers(found[:4], all_), losers(found, all_)) == (nobody, {3})


def test_slowed_by_others():
    """Who is behind by the clock and takes less processor time than the leader stays: others may have slowed it."""
    found = rounds([9.0] * 3, [1.0] * 3, [5.0] * 3, [5.0] * 3)
    assert race.find_losers(found, {0, 1, 2, 3}, {0: 18.0, 1: 2.0, 2: 1.9, 3: 2.1}) == {3}


@pytest.mark.parametrize(
    ("racers", "before", "after"),
    [
        ([[1.0] * 15, [0.9] * 15, [0.9] * 15], False, True),
        ([[1.0] * 10, [1.0] * 10, [0.99] * 10], False, True),
        ([[1.0] * 10, [0.5] * 10], False, True),
        ([[1.0] * 10, [0.96, 0.98] * 5], False, False),
    ],
    ids=["equals for 15 rounds", "nobody can win", "one wins", "one may win"],
)
def test_end(racers, before, after):
    found, running = rounds(*racers), {*range(len(racers))}
    assert (race.is_over(found[:-1], running), race.is_over(found, running)) == (before, after)


FASTER, LIKE, NOISY = Standing(0.5, 0.5, 0.6), Standing(0.509, 0.5, 0.6), Standing(0.9, 0.8, 1.1)


@pytest.mark.parametrize(
    ("standings", "order", "winner"),
    [
        ({"a": Standing(0.98, 0.97, 0.99), "b": NOISY}, "ab", None),
        ({"a": Standing(0.9, 0.9, 0.9), "b": FASTER}, "ab", "b"),
        ({"a": LIKE, "b": FASTER, "c": Standing(0.52, 0.5, 0.6)}, "cab", "a"),
    ],
    ids=["the default stays", "the fastest wins", "the first of equals wins"],
)
def test_winner(standings, order, winner):
    """The smallest ratio wins, within 2 % the first in order. 2 % of the default, or less than the noise, win nothing."""
    assert race.find_winner(standings, order) == winner


BEST = Sample(1.0, 4.0)


@pytest.mark.parametrize(
    ("sample", "earlier", "is_disturbed"),
    [
        (Sample(1.5, 4.1), [Sample(1.2, 4.0), BEST], True),
        (Sample(1.5, 6.0), [BEST], False),
        (Sample(9.0, 1.0), [], False),
    ],
    ids=["others had the processors", "the kernel took longer", "the first"],
)
def test_disturbed(sample, earlier, is_disturbed):
    """Elapsed time grew and processor time did not: somebody else had the processors."""
    assert race.is_disturbed(sample, earlier) == is_disturbed


def test_end_without_candidates():
    assert race.is_over([], {0})
    assert not race.is_over([], {0, 1})
