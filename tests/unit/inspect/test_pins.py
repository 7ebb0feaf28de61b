"""kcl.inspect.pins: the kernels that the bounds on space do not touch."""

import os

import pytest

from kcl.cache import places
from kcl.inspect import pins


def test_none():
    """Nobody has pinned anything, and asking makes no file."""
    assert pins.read() == []
    assert not os.path.exists(places.own())


def test_written():
    """Pins are kept once each."""
    pins.write(["b", "a", "b"])
    assert pins.read() == ["a", "b"]
    pins.write([])
    assert pins.read() == []


@pytest.mark.parametrize("content", [b"{", b"{}", b"\xff", b"[1, null]"])
def test_damaged(content):
    """A file that holds no pins pins nothing."""
    pins.write(["a"])
    (place,) = (os.path.join(places.own(places.PINS), name) for name in os.listdir(places.own(places.PINS)))
    with open(place, "wb") as stream:
        stream.write(content)
    assert pins.read() == []


def test_hold():
    """A name, a pattern, or a digest, of which twelve digits are enough."""
    assert pins.hold(["axpy"], "axpy", "0" * 64)
    assert pins.hold(["ax*"], "axpy", "0" * 64)
    assert pins.hold(["0" * 64], "axpy", "0" * 64)
    assert pins.hold(["0" * 12], "axpy", "0" * 64)
    assert not pins.hold(["0" * 11, "1" * 12, "AXPY"], "axpy", "0" * 64)
