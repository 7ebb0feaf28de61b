"""The protocol of leads and publishing ends well in every order of steps, kills and stops; see support/lead_model.py.

`tests/unit/cache/test_lead.py` compares the model's steps with those of real launches.
"""

from __future__ import annotations

import pytest
from lead_model import Model, Rules, explore

CROSSED = (("a", "b"), ("b", "a"))


def explored(rules, processes, orders=()):
    """Return what an exploration found; it must have found no fault."""
    found = explore(Model(rules, processes, orders))
    assert found.faults == {}
    return found


class TestProtocol:
    def test_one_maker(self):
        """Where nothing is killed or stopped each of three processes ends, and one makes the code and the program."""
        found = explored(Rules(successors=0), (0, 1, 2))
        assert found.makers == {1}
        assert found.states > 5000

    @pytest.mark.parametrize(
        "rules",
        [Rules(kills=1, stops=1), Rules(kills=1, successors=0, helper=True)],
        ids=["kill and stop", "helper"],
    )
    def test_two(self, rules):
        """Of two processes one is killed and one is stopped, at any step; or one is killed, maybe PoCL's helper."""
        found = explored(rules, (0, 1))
        assert found.makers <= {1, 2}
        assert found.longest < 100

    def test_threads(self):
        """Two threads of a process, which launch the same kernels in opposite orders, do not wait in a circle."""
        rules = Rules(successors=0, kernels=("a", "b"), kills=1)
        assert explored(rules, (0, 0), CROSSED).makers <= {1, 2}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("rules", "processes", "orders"),
        [
            (Rules(kills=1, stops=1), (0, 1, 2), ()),
            (Rules(kills=1, stops=1, helper=True), (0, 1), ()),
            (Rules(kills=3, successors=0), (0, 1, 2), ()),
            (Rules(kills=1, helper=True, successors=0), (0, 1, 2), ()),
            (Rules(kills=1, stops=1, impatient=True), (0, 1), ()),
            (Rules(stops=1, kernels=("a", "b")), (0, 1), CROSSED),
            (Rules(kills=1, successors=0), (0, 0, 1), ()),
        ],
        ids=["kill and stop", "stopped helper", "kills", "helper", "left at any time", "crossed", "threads"],
    )
    def test_all(self, rules, processes, orders):
        """Three processes, or more threads and kernels, or waits that are given up at any time."""
        explored(rules, processes, orders)


class TestFaultsAreFound:
    """The checker finds what is wrong with other protocols."""

    @pytest.mark.parametrize(
        ("rules", "processes", "fault"),
        [
            (Rules(successors=0, keeps_lead=True, waits_for_itself=True), (0, 0), "a circle of waits"),
            (Rules(successors=0, keeps_lead=True, waits_for_itself=True), (0, 0), "a deadlock"),
            (Rules(writes_in_place=True, kills=1), (0, 1), "a torn entry"),
            (Rules(waits_for_ever=True, stops=1), (0, 1), "a deadlock"),
        ],
        ids=["circle", "deadlock", "torn", "for ever"],
    )
    def test_found(self, rules, processes, fault):
        """Leads that are kept in a wait, entries that are written in place, and waits without an end."""
        assert fault in explore(Model(rules, processes)).faults
