"""Inputs: the data on which candidates are compared beside those of the call. Seeds are fixed.

NUMBERS     arrays and scalars of floating point are drawn uniformly from [0.5, 1.5): sums of 1e7 keep four digits
SIGNED      they are drawn from a normal distribution
INTEGERS    as NUMBERS, and integers of which all are equal, or all but one, are drawn, too
CASES       the user gives other arguments

Any other integers stay as given, since they may be indices. Integers that are drawn are valid indices of every array.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from kcl.code import Code

NUMBERS, SIGNED, INTEGERS = "drawn numbers", "signed numbers", "drawn integers"
_SMALLEST, _LARGEST = 2, 100  # drawn integer: 0 and 1 hide factors

Arrays = dict[str, np.ndarray[Any, Any]]


def place(form: str) -> str:
    """Return the words for the form of a call; empty for the call as it is."""
    return form and f", {'with' if form in (NUMBERS, SIGNED, INTEGERS) else 'at'} {form}"


def is_cut(form: str) -> bool:
    """Return True if a form is the call with a size less by one."""
    return " = " in form


def drawn_forms(
    code: Code, arrays: Arrays, values: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Return the forms that draw something, each with the names of what it draws, and their declared dtypes."""
    floats, integers = dict[str, str](), dict[str, str]()
    extents = {*sizes.values(), *(extent for one in arrays.values() for extent in one.shape)}
    for one in code.invoker.arguments:
        value = arrays.get(one.name) if one.required else values.get(one.name)
        text = one.dtype or code.invoker.inferred.get(one.name, "")
        kind = text[1] if text[:1] in tuple("<>=|") and value is not None else ""
        if kind in tuple("fc") and not isinstance(value, (str, tuple)):
            floats[one.name] = text
        elif kind in tuple("iu") and isinstance(value, np.ndarray):
            integers |= {one.name: text} if _differing(value) <= 1 else {}
        elif kind in tuple("iu") and type(value) is not bool and one.name not in sizes:
            integers |= {one.name: text} if value in {0, 1} - extents else {}
    found = {NUMBERS: floats, SIGNED: floats} if floats else {}
    return {**found, INTEGERS: {**floats, **integers}} if integers else found


def constant(code: Code, arrays: Arrays) -> list[str]:
    """Return the names of the inputs of integers whose elements are all equal."""
    required = {one.name for one in code.invoker.arguments if one.required}
    return [
        name
        for name, one in arrays.items()
        if name in required and one.dtype.kind in "iu" and one.size > 1 and not _differing(one)
    ]


def drawn(
    form: str, names: Mapping[str, str], arrays: Arrays, values: Mapping[str, Any], turn: int = 0
) -> tuple[Arrays, dict[str, Any]]:
    """Return arrays and values with drawn ones in place of those with these names."""
    extents = [extent for one in arrays.values() for extent in one.shape if extent > 1]
    most = max(_SMALLEST + 2, min([_LARGEST, *extents]))
    found, numbers = dict(arrays), dict(values)
    for name, text in names.items():
        like = found.get(name)
        dtype = np.dtype(text) if like is None else like.dtype
        new = _draw(form, dtype, () if like is None else like.shape, most, [turn, *name.encode()])
        if like is None:
            numbers[name] = dtype.type(new)
        else:
            found[name] = np.empty_like(like)
            found[name][...] = new
    return found, numbers


def made_up(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Return an array of drawn numbers in place of one that is too large for a file."""
    return np.asarray(_draw(NUMBERS, np.dtype(dtype), shape, 0, [*name.encode()]))


def magnitudes(
    arrays: Arrays, values: Mapping[str, Any], names: Collection[str]
) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays with these names, and values, without signs: they say how large the terms of a result are.

    Each element is up to a quarter smaller or larger, so that differences of equal elements do not cancel.
    """
    rng, found = np.random.default_rng(0), dict(arrays)
    for name, one in arrays.items():
        if name in names and one.dtype.kind in "fc":
            found[name] = np.empty_like(one)
            found[name][...] = abs(one) * (0.75 + rng.random(one.shape, np.float32) / 2)
    signed = (float, np.floating)
    return found, {
        name: abs(one) if isinstance(one, signed) else one for name, one in values.items()
    }


def _draw(form: str, dtype: Any, shape: tuple[int, ...], most: int, seed: list[int]) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return rng.integers(_SMALLEST, most, shape).astype(dtype)
    parts = 2 if dtype.kind == "c" else 1
    real = np.float32 if dtype.itemsize <= 4 * parts else np.float64
    drawn = rng.standard_normal if form == SIGNED else rng.random
    found = drawn((parts, *shape), real) + real(0 if form == SIGNED else 0.5)
    return (found[0] + 1j * found[1] if parts == 2 else found[0]).astype(dtype)


def _differing(array: np.ndarray[Any, Any]) -> int:
    """Return how many elements differ from the usual one."""
    flat = array.reshape(-1)
    return int(np.count_nonzero(flat != np.sort(flat[:3])[len(flat[:3]) // 2])) if flat.size else 0
