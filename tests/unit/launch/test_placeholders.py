"""kcl.launch.placeholders: stand-ins for values that are not known while a call is recorded."""

import pytest

from kcl.launch.placeholders import Mark, NotPlayable


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
