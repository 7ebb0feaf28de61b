"""kcl.record.callables.plain: texts of values that hold nothing else."""

from __future__ import annotations

import struct

import pytest

from kcl.record.callables.plain import LONG, SIMPLE, in_bytes, label_of, name_of


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), (range(3), range(0, 3, 2)), (None, ...)])
def test_different_values(one, other):
    """Values that are not the same have different texts."""
    assert SIMPLE[type(one)](one) != SIMPLE[type(other)](other)


def test_payload_of_nan():
    """Two kinds of nan differ by their bits."""
    kinds = [struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 + bits))[0] for bits in (0, 1)]
    assert SIMPLE[float](kinds[0]) != SIMPLE[float](kinds[1])


def test_long_bytes():
    """Long bytes count by their digest, short ones as they are."""
    assert in_bytes(b"ab") == "b'ab'"
    assert len(in_bytes(bytes(LONG))) < 100
    assert in_bytes(bytes(LONG)) != in_bytes(bytes(LONG + 1))


def test_long_integer():
    """An integer of more digits than Python writes has a text too."""
    assert SIMPLE[int](10**5000) != SIMPLE[int](10**5000 + 1)


def test_names():
    """What is no identifier is quoted, so that it ends where it ends; labels may have dots and brackets."""
    assert (name_of("width"), name_of("a b"), name_of(3)) == ("width", "'a b'", "3")
    assert (label_of("outer.<locals>.inner"), label_of("a b")) == ("outer.<locals>.inner", "'a b'")
