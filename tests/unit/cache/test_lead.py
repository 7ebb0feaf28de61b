"""kcl.cache.lead: who makes something for a launch, and when others may go on."""

from __future__ import annotations

import threading

from kcl.cache import layers
from kcl.cache.lead import Lead

DIGEST = "a" * 64


def test_ends_with_the_block():
    """A lead is over when its block ends, and another one is taken at once."""
    for _ in range(2):
        with Lead("add") as lead:
            lead.take(layers.binary(), DIGEST)
        assert lead.take(layers.binary(), "b" * 64) is not None
        lead.land()


def test_landing_twice():
    """To land twice is no error."""
    with Lead("add") as lead:
        lead.take(layers.binary(), DIGEST)
        lead.land()
        lead.land()


def test_another_thread_waits():
    """A thread that wants the same waits until the first one lands."""
    order, layer, wants = [], layers.binary(), threading.Event()

    def second():
        wants.set()
        with Lead("add") as lead:
            lead.take(layer, DIGEST)
            order.append("second")

    with Lead("add") as lead:
        lead.take(layer, DIGEST)
        thread = threading.Thread(target=second)
        thread.start()
        wants.wait()
        thread.join(0.2)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]
