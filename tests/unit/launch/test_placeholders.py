"""kcl.launch.placeholders: stand-ins for values that are not known while a call is recorded."""

import pytest

from kcl.launch.placeholders import Allocation, Allocator, Mark, NotPlayable, QueueMark


def test_handed_on():
    """A mark is the expression of its value, and of the parts of a complex number."""
    assert (Mark("a").text, Mark("a").real.text, Mark("a").imag.text) == ("a", "a.real", "a.imag")
    assert QueueMark("queue").context.text == "_kcl_context"


@pytest.mark.parametrize("ask", [bool, lambda mark: mark == 1, lambda mark: mark != mark, lambda mark: mark in [2]])
def test_decision(ask):
    """An invoker that decides by a value cannot be recorded."""
    with pytest.raises(NotPlayable, match="decides"):
        ask(Mark("a"))


@pytest.mark.parametrize("compute", [hash, lambda mark: mark + 1, lambda mark: mark[0], len, iter])
def test_computation(compute):
    """So it is with one that computes with it."""
    with pytest.raises(TypeError):
        compute(Mark("a"))


def test_allocation():
    """What an allocator is asked for is allocated in each call."""
    assert Allocator("allocator")(64) == Allocation(64)
