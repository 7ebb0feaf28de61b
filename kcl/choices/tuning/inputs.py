"""Inputs: random data on which candidates are compared, in addition to the call's own. Seeds are fixed.

NUMBERS     arrays and scalars of floating point are drawn uniformly from [0.5, 1.5): sums of 1e7 keep four digits
SIGNED      they are drawn from a normal distribution
INTEGERS    as NUMBERS, and also integer arrays whose elements are all equal, or all but one

Further forms of the call have a size less by one, or the arguments in `cases` of `kcl.space`.

Other integers stay as they are, since they may be indices. Drawn integers are valid indices of every array.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from kcl.choices.tuning.results import Array, Arrays, Values
from kcl.code import Code

NUMBERS, SIGNED, INTEGERS = "drawn numbers", "signed numbers", "drawn integers"
# The range of drawn integers. 0 and 1 as factors would hide mistakes.
_SMALLEST, _LARGEST = 2, 100


def place(form: str) -> str:
    """Return a phrase that names a form of the call, for messages; empty for the call itself."""
    return form and f", {'with' if form in (NUMBERS, SIGNED, INTEGERS) else 'at'} {form}"


def is_cut(form: str) -> bool:
    """Return True if a form is the call with one size reduced by 1."""
    return " = " in form


def find_drawn(
    code: Code, arrays: Arrays, values: Values, sizes: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Return, for each form with random data, the names of arguments that are drawn, with their declared dtypes."""
    floats, integers = dict[str, str](), dict[str, str]()
    extents = {*sizes.values(), *(extent for array in arrays.values() for extent in array.shape)}
    for argument in code.invoker.arguments:
        value = arrays.get(argument.name) if argument.required else values.get(argument.name)
        text = argument.dtype or code.invoker.inferred.get(argument.name, "")
        kind = text[1] if text[:1] in tuple("<>=|") and value is not None else ""
        if kind in tuple("fc") and not isinstance(value, (str, tuple)):
            floats[argument.name] = text
        elif kind in tuple("iu") and isinstance(value, np.ndarray):
            integers |= {argument.name: text} if _count_differing(value) <= 1 else {}
        elif kind in tuple("iu") and type(value) is not bool and argument.name not in sizes:
            # Only 0 and 1 are replaced: another number may be an index or a size.
            integers |= {argument.name: text} if value in {0, 1} - extents else {}
    forms = {NUMBERS: floats, SIGNED: floats} if floats else {}
    return {**forms, INTEGERS: {**floats, **integers}} if integers else forms


def find_constant(code: Code, arrays: Arrays) -> list[str]:
    """Return the names of integer inputs whose elements are all equal."""
    required = {argument.name for argument in code.invoker.arguments if argument.required}
    return [
        name
        for name, array in arrays.items()
        if name in required
        and array.dtype.kind in "iu"
        and array.size > 1
        and not _count_differing(array)
    ]


def draw(
    form: str, names: Mapping[str, str], arrays: Arrays, values: Values, turn: int = 0
) -> tuple[Arrays, Values]:
    """Return arrays and values, with random ones for these names."""
    extents = [extent for array in arrays.values() for extent in array.shape if extent > 1]
    most = max(_SMALLEST + 2, min([_LARGEST, *extents]))
    replaced, numbers = dict(arrays), dict(values)
    for name, text in names.items():
        like = replaced.get(name)
        dtype = np.dtype(text) if like is None else like.dtype
        new = _draw(form, dtype, () if like is None else like.shape, most, [turn, *name.encode()])
        if like is None:
            numbers[name] = dtype.type(new)
        else:
            replaced[name] = np.empty_like(like)
            replaced[name][...] = new
    return replaced, numbers


def make_up(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an array of random numbers, in place of one that is too large for a file."""
    return np.asarray(_draw(NUMBERS, np.dtype(dtype), shape, 0, [*name.encode()]))


def strip_signs(arrays: Arrays, values: Values, names: Collection[str]) -> tuple[Arrays, Values]:
    """Return arrays (of these names) and values as absolute values, on which no terms of a sum cancel.

    Each element is scaled by 0.75 to 1.25, so that differences of equal elements do not cancel either.
    """
    rng, unsigned = np.random.default_rng(0), dict(arrays)
    for name, array in arrays.items():
        if name in names and array.dtype.kind in "fc":
            unsigned[name] = np.empty_like(array)
            unsigned[name][...] = abs(array) * (0.75 + rng.random(array.shape, np.float32) / 2)
    signed = (float, np.floating)
    return unsigned, {
        name: abs(value) if isinstance(value, signed) else value for name, value in values.items()
    }


def _draw(form: str, dtype: Any, shape: tuple[int, ...], most: int, seed: list[int]) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return rng.integers(_SMALLEST, most, shape).astype(dtype)
    parts = 2 if dtype.kind == "c" else 1
    real = np.float32 if dtype.itemsize <= 4 * parts else np.float64
    drawn = rng.standard_normal if form == SIGNED else rng.random
    numbers = drawn((parts, *shape), real) + real(0 if form == SIGNED else 0.5)
    return (numbers[0] + 1j * numbers[1] if parts == 2 else numbers[0]).astype(dtype)


def _count_differing(array: Array) -> int:
    """Return how many elements differ from the most common one."""
    flat = array.reshape(-1)
    # If at most one differs, the median of the first three is the common one.
    return int(np.count_nonzero(flat != np.sort(flat[:3])[len(flat[:3]) // 2])) if flat.size else 0
