"""Locks: threads take them in one order, and wait for nobody's work while they hold one."""

from graphlib import CycleError, TopologicalSorter

import lock_order
import pytest
from harness import PLATFORMS


def cycle(order):
    """Return the places of a cycle in pairs of places; nothing where there is none."""
    graph = {}
    for first, second in order:
        graph.setdefault(first, set()).add(second)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.one_platform
@pytest.mark.parametrize(
    ("threads", "kernels"),
    [(4, 9), pytest.param(16, 40, marks=pytest.mark.slow)],
    ids=["sample", "16 x 40"],
)
def test_order(child, platform_name, threads, kernels):
    """Threads with shared and with own Kernels find every lock in one order, and hold none while they wait.

    Foreign code runs under two of them: one thread at a time works at a Kernel, and one thread calls loopy for kcl. Of
    the user's code a recipe runs under the first one, where nobody waits for ever, and what makes a key; no hook does.
    """
    words = (lock_order.__file__, PLATFORMS[platform_name], threads, kernels)
    said = child.script(*words, timeout=600)
    assert said["wrong"] == []
    assert said["order"]  # locks were watched
    assert cycle(said["order"]) == []
    assert said["waits"] == []
    places = {"Generate", "LoopySwitch"}
    assert [pair for pair in said["foreign"] if pair[0] not in places] == []
    assert {place for place, _what in said["foreign"]} == places
    assert {place for place, _name in said["users"]} == {"Generate"}
    names = {name for _place, name in said["users"]}
    assert {"added", "shifted"} <= names <= {"added", "shifted", "__kcl_key__", "__repr__"}


def test_cycle_is_found():
    """The checker finds a cycle, also of one place whose locks are taken in either order."""
    assert cycle([("a", "b"), ("b", "c")]) == []
    assert set(cycle([("a", "b"), ("b", "c"), ("c", "a")])) == {"a", "b", "c"}
    assert set(cycle([("a", "a")])) == {"a"}
