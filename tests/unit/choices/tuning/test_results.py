"""kcl.choices.tuning.results: what a candidate computes is compared with what the default computes."""

import numpy as np
import pytest

from kcl.choices.tuning import results

NEXT = np.nextafter(np.float32(2), np.float32(3))


def difference(one, other):
    return results.difference(
        {"x": one}, {"x": other}, lambda _name, dtype: (4 * float(np.finfo(dtype).eps), 0.0)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.float32(2), NEXT),
        (np.float64("nan"), np.float64("nan")),
        (np.float64("inf"), np.float64("inf")),
        (np.complex64(1 + 2j), np.complex64(1 + NEXT * 1j)),
        (np.int64(2**62), np.int64(2**62)),
        (np.float32(0.0), np.float32(-0.0)),
    ],
)
def test_equal(one, other):
    assert not difference(np.array([one]), np.array([other]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.float32(1), np.float32(1.00001)),
        (np.float64("nan"), np.float64(1)),
        (np.float64("inf"), np.float64(1e308)),
        (np.complex64(1 + 2j), np.complex64(1 - 2j)),
        (np.int64(2**62), np.int64(2**62 + 1)),
    ],
)
def test_different(one, other):
    """Anything more is a difference that names argument, place, numbers and how many."""
    said = difference(np.array([[one, one]]), np.array([[one, other]]))
    assert said.startswith("x[0, 1] is ")
    assert said.endswith("1 of 2 elements")


def test_structures():
    """Fields are compared each by its kind, gaps are not."""
    dtype = np.dtype([("a", np.int8), ("b", np.float64)], align=True)
    one, other = (np.frombuffer(bytes([1, *[gap] * 7, *[0] * 8]), dtype) for gap in (0, 9))
    assert not difference(one, other)
    other = other.copy()
    other["b"] = 1
    assert difference(one, other).startswith("x.b[0] is 0.0, by the default 1.0")
