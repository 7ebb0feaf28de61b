"""Compares the results of a candidate with those of the default."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

BY = "by the default"
_BLOCK = 1 << 20  # elements
_SAMPLED = 4096  # elements by which the magnitude of an array is estimated
_ROUNDINGS = 64  # rounding errors of numbers of that magnitude that are allowed

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Values = Mapping[str, Any]  # of the other arguments
Limits = Callable[[str, Any], tuple[float, float]]  # relative and absolute, of a name and dtype


def difference(
    computed: Arrays,
    expected: Arrays,
    tolerance: Limits,
    scales: Mapping[str, Array] = {},
) -> str:
    """Describe the first difference between two sets of arrays; empty if they agree.

    A floating-point element may differ by the relative tolerance times its magnitude plus the absolute tolerance. If both
    are 0 the bits must be equal. `scales` has, for each element, how large the terms were from which it was computed: the
    magnitude is the larger one of the element and its scale. With scales some rounding errors of numbers of the array's
    typical magnitude are allowed too, since terms may cancel to nearly nothing.
    """
    for name, array in computed.items():
        limits = functools.partial(tolerance, name)
        if words := _difference(array, expected[name], scales.get(name), limits):
            return f"{name}{words}"
    return ""


def _difference(computed: Array, expected: Array, scale: Array | None, limits: Any) -> str:
    for field in computed.dtype.names or ():
        size = None if scale is None else scale[field]
        if words := _difference(computed[field], expected[field], size, limits):
            return f".{field}{words}"
    if computed.dtype.names:
        return ""
    near, places, count = _near(expected, scale, limits), list[int](), 0
    arrays = computed, expected, expected if scale is None else scale
    mine, right, sizes = (np.ascontiguousarray(array).reshape(-1) for array in arrays)
    # In blocks, so that temporary arrays stay small.
    for start in range(0, mine.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        # Bytes first, since that takes a tenth of the time.
        if mine[part].tobytes() != right[part].tobytes():
            wrong = np.flatnonzero(~near(mine[part], right[part], sizes[part]))
            places += [start + int(wrong[0])] if wrong.size else []
            count += wrong.size
    if not places:
        return ""
    first = places[0]
    index = [int(i) for i in np.unravel_index(first, computed.shape)]
    return (
        f"{index or ''} is {mine[first]!s}, {BY} {right[first]!s}, {count} of {mine.size} elements"
    )


def _near(
    expected: Array, scale: Array | None, limits: Any
) -> Callable[[Array, Array, Array], Array]:
    """Return a function that compares elements with the expected ones, given their scales."""
    if expected.dtype.kind not in "fc":
        return lambda mine, right, _size: np.asarray(mine == right, dtype=bool)
    relative, least = limits(expected.dtype)
    is_exact = not relative and not least
    if scale is not None and relative:
        # The typical magnitude is estimated by some thousand elements.
        some = np.nan_to_num(np.abs(scale.reshape(-1)[:: scale.size // _SAMPLED + 1]), posinf=0)
        least += _ROUNDINGS * float(np.finfo(expected.dtype).eps * np.median(some))

    def near(mine: Array, right: Array, size: Array) -> Array:
        if is_exact:
            same = (mine.view(np.uint8) == right.view(np.uint8)).reshape(len(mine), -1).all(1)
        else:
            with np.errstate(all="ignore"):
                size = np.fmax(np.abs(right), np.nan_to_num(np.abs(size), posinf=0))
                distance = np.abs(mine - right)
                same = (distance <= relative * size + least) & np.isfinite(distance)
                # Equal infinities have no finite difference.
                same |= mine == right
        return np.asarray(same | (np.isnan(mine) & np.isnan(right)))

    return near
