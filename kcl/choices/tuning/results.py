"""The comparison of results: does a candidate compute what the default computes?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

BY = "by the default"
_BLOCK = 1 << 20  # elements
_SAMPLED = 4096  # elements that tell the magnitude of an array
_ROUNDINGS = 64  # of numbers of that magnitude

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Limits = Callable[[str, Any], tuple[float, float]]  # relative and absolute, of a name and dtype


def difference(
    computed: Arrays,
    expected: Arrays,
    tolerance: Limits,
    scales: Mapping[str, Array] | None = None,
) -> str:
    """Describe the first difference of two sets of arrays; empty where they agree.

    Each element of floating point may differ by the relative tolerance times its magnitude, and by the absolute one. A
    tolerance of 0 means equal bits. Where `scales` has an array, the magnitude is that of its element if this is larger,
    and what cancels to nearly nothing may have the rounding errors of numbers of the usual magnitude.
    """
    for name, array in computed.items():
        scale, limits = (scales or {}).get(name), functools.partial(tolerance, name)
        if words := _difference(array, expected[name], scale, limits):
            return f"{name}{words}"
    return ""


def _difference(one: Array, other: Array, scale: Array | None, limits: Any) -> str:
    for field in one.dtype.names or ():
        size = None if scale is None else scale[field]
        if words := _difference(one[field], other[field], size, limits):
            return f".{field}{words}"
    if one.dtype.names:
        return ""
    near, places, count = _near(other, scale, limits), list[int](), 0
    sizes = other if scale is None else scale
    mine, theirs, sizes = (np.ascontiguousarray(array).reshape(-1) for array in (one, other, sizes))
    # Temporary arrays stay small, block by block.
    for start in range(0, mine.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        # To compare bytes takes a tenth of the time.
        if mine[part].tobytes() != theirs[part].tobytes():
            wrong = np.flatnonzero(~near(mine[part], theirs[part], sizes[part]))
            places += [start + int(wrong[0])] if wrong.size else []
            count += wrong.size
    if not places:
        return ""
    index = [int(i) for i in np.unravel_index(places[0], one.shape)]
    computed, right = mine[places[0]], theirs[places[0]]
    return f"{index or ''} is {computed!s}, {BY} {right!s}, {count} of {one.size} elements"


def _near(
    expected: Array, scale: Array | None, limits: Any
) -> Callable[[Array, Array, Array], Array]:
    """Return the comparison of some elements with those that are expected, and with their scales."""
    if expected.dtype.kind not in "fc":
        return lambda one, other, _size: np.asarray(one == other, dtype=bool)
    relative, least = limits(expected.dtype)
    is_exact = not relative and not least
    if scale is not None and relative:
        # Some thousand elements tell the usual magnitude.
        some = np.nan_to_num(np.abs(scale.reshape(-1)[:: scale.size // _SAMPLED + 1]), posinf=0)
        least += _ROUNDINGS * float(np.finfo(expected.dtype).eps * np.median(some))

    def near(one: Array, other: Array, size: Array) -> Array:
        if is_exact:
            same = (one.view(np.uint8) == other.view(np.uint8)).reshape(len(one), -1).all(1)
        else:
            with np.errstate(all="ignore"):
                size = np.fmax(np.abs(other), np.nan_to_num(np.abs(size), posinf=0))
                same = (np.abs(one - other) <= relative * size + least) & np.isfinite(one - other)
                # Equal infinities have no finite difference.
                same |= one == other
        return np.asarray(same | (np.isnan(one) & np.isnan(other)))

    return near
