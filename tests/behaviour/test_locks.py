"""Locks: threads take them in one order, and wait for nobody's work while they hold one."""

import json
import sys
from graphlib import CycleError, TopologicalSorter

import lock_order
import pytest
from harness import PLATFORMS, run_command


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

    Foreign code runs under two of them: one thread at a time works at a Kernel, and one thread calls loopy for kcl.
    """
    command = [
        sys.executable,
        lock_order.__file__,
        PLATFORMS[platform_name],
        str(threads),
        str(kernels),
    ]
    done = run_command(command, env=child.environment(), timeout=600)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert said["order"]  # locks were watched
    assert cycle(said["order"]) == []
    assert said["waits"] == []
    places = {"Generate", "LoopySwitch"}
    assert [pair for pair in said["foreign"] if pair[0] not in places] == []
    assert {place for place, _what in said["foreign"]} == places


def test_cycle_is_found():
    """The checker finds a cycle, also of one place whose locks are taken in either order."""
    assert cycle([("a", "b"), ("b", "c")]) == []
    assert set(cycle([("a", "b"), ("b", "c"), ("c", "a")])) == {"a", "b", "c"}
    assert set(cycle([("a", "a")])) == {"a"}
