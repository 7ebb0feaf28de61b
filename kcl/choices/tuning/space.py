"""Spaces: the choices that a recipe declares for its parameters, and the rules that a choice must obey.

lists      = {parameter: values}     the values are scalars of JSON; a choice has one value of each list
predicates = functions of parameters and sizes; a choice is valid if all of them return True
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import itertools
import math
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from kcl.errors import RecipeError, meant

Choice = dict[str, Any]  # name of a parameter -> its value, a scalar of JSON


class Skip(Exception):
    """An exception by which a recipe refuses a choice, `raise kcl.Skip("why")`; tuning goes on with other choices.

    >>> @kcl.kernel(space=kcl.space(block=[16, 64]))
    ... def swapped(block=16):
    ...     import loopy as lp
    ...     if block > 32:
    ...         raise kcl.Skip("the tile does not fit")
    ...     knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = -x[i]", lang_version=(2018, 2))
    ...     return lp.split_iname(knl, "i", block, inner_tag="l.0")
    >>> event, (y,) = swapped()(queue, x=np.ones(2))
    >>> y.tolist()
    [-1.0, -1.0]
    """


class Space:
    """The choices of a recipe, declared by `kcl.space`. Immutable; thread-safe.

    `lists` maps each parameter to its values, in the order of the declaration. `compare`, `tolerance` and `cases` say how
    results of a choice are compared with those of the default: see `kcl.space`.
    """

    def __init__(
        self,
        lists: Mapping[str, Iterable[Any]],
        compare: Callable[[Mapping[str, Any]], Any] | None = None,
        tolerance: Any = None,
        cases: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        self.compare, self.tolerance, self.cases = compare, tolerance, cases
        self.lists = {name: _values(name, values) for name, values in lists.items()}
        if not self.lists:
            raise TypeError("kcl.space() has no parameter: write kcl.space(block=[16, 64])")
        self.predicates: list[tuple[Callable[..., Any], tuple[str, ...]]] = []

    def where(self, predicate: Callable[..., Any]) -> Space:
        """Return the space with a further condition: only choices for which the predicate returns True are valid.

        The parameters of the predicate are named like parameters of the space, or like sizes of a call. Raises TypeError if
        they have no names. An error in a predicate ends the call, or the tuning, with a RecipeError.

        >>> space = kcl.space(block=[16, 64], unroll=[1, 4]).where(lambda block, unroll: block * unroll <= 64)
        >>> list(space.choices({}, {}))
        [{'block': 16, 'unroll': 1}, {'block': 16, 'unroll': 4}, {'block': 64, 'unroll': 1}]
        """
        narrowed = copy.copy(self)
        narrowed.predicates = [*self.predicates, (predicate, _names(predicate))]
        return narrowed

    def declared(self, function: Callable[..., Any], sizes: Collection[str]) -> Space:
        """Check that the space fits a recipe, and return it; raises TypeError for wrong parameters or predicates."""
        parameters, name = inspect.signature(function).parameters, function.__name__
        for parameter in self.lists:
            if parameter not in parameters or parameter in sizes:
                what = "is a size, not a choice," if parameter in sizes else "is no parameter"
                takes = ", ".join(parameters) or "none"
                raise TypeError(
                    f"kcl.space({parameter}=...): {parameter!r} {what} of {name!r}; it has {takes}"
                )
            if not is_scalar(parameters[parameter].default):
                raise TypeError(
                    f"kcl.space({parameter}=...): give {parameter!r} of {name!r} a default, which untuned sizes take: "
                    "a number, a text, True, False or None"
                )
        usable = [*self.lists, *sizes]
        for number, (_predicate, names) in enumerate(self.predicates, 1):
            for used in names:
                if used not in usable:
                    raise TypeError(
                        f"where {number} of the space of {name!r} names {used!r}{meant(used, usable)}: it may name "
                        f"parameters of the space and sizes: {', '.join(usable)}"
                    )
        return self

    def choices(
        self, given: Mapping[str, Any], sizes: Mapping[str, int], most: int | None = None
    ) -> Iterator[Choice]:
        """Yield the valid choices for the parameters that are not given, at these sizes, in the order of the declaration.

        With `most` only the first so many choices are looked at, valid or not.
        """
        free = {name: values for name, values in self.lists.items() if name not in given}
        for values in itertools.islice(itertools.product(*free.values()), most):
            choice = dict(zip(free, values, strict=True))
            if not self.refusal({**given, **choice}, sizes):
                yield choice

    def refusal(self, choice: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
        """Return why a choice is not valid at these sizes; empty if it is. `choice` includes given parameters.

        Raises RecipeError, with the user's line, for an error in a predicate.
        """
        values = {**sizes, **choice}
        for number, (predicate, names) in enumerate(self.predicates, 1):
            try:
                if not predicate(**{name: values[name] for name in names}):
                    return f"where {number} does not hold"
            except Exception as error:
                # The frames of this method and of the predicate.
                frames = traceback.extract_tb(error.__traceback__)[:2]
                raise RecipeError(
                    f"where {number} of the space raises {type(error).__name__}: {error}, for {describe(values)} "
                    f"({frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line})"
                ) from error
        return ""

    def comparison(self, tolerance: Any = None) -> str:
        """Return a text that describes how results are compared; if it changes, stored outcomes do not count any more.

        Empty if the source of `compare` cannot be read.
        """
        cases = [
            (
                name,
                hashlib.sha256(value.tobytes()).hexdigest() if hasattr(value, "tobytes") else value,
            )
            for case in self.cases
            for name, value in case.items()
        ]
        try:
            source = inspect.getsource(self.compare) if self.compare is not None else ""
        except (OSError, TypeError):
            return ""
        return repr((self.tolerance if tolerance is None else tolerance, cases, source))

    def __len__(self) -> int:
        """Return the number of choices, valid or not.

        >>> len(kcl.space(block=[16, 64], unroll=[1, 2, 4]))
        6
        """
        return math.prod(map(len, self.lists.values()))

    def has(self, choice: Mapping[str, Any]) -> bool:
        """Return True if each value of a choice is in its parameter's list, with the same type."""
        return all(
            # By text, since True, 1 and 1.0 are equal.
            repr(value) in map(repr, self.lists.get(name, ()))
            for name, value in choice.items()
        )

    def __repr__(self) -> str:
        lists = ", ".join(f"{name}={list(values)}" for name, values in self.lists.items())
        return f"<kcl.space {lists}; {len(self.predicates)} where>"


def space(*, compare: Any = None, tolerance: Any = None, cases: Any = (), **lists: Any) -> Space:
    """Declare the choices of a recipe's parameters, as in `@kcl.kernel(space=kcl.space(block=[16, 64]))`.

    Each keyword names a parameter of the recipe, which must have a default, and lists its values: numbers, texts, True,
    False or None. Raises TypeError for an empty list and for other values.

    When a choice is measured, its results are compared with those of the default. `tolerance` is a relative tolerance, or
    maps names of outputs to a relative tolerance or a pair of relative and absolute ones, as in `{"y": (1e-5, 1e-8)}` (see
    `numpy.isclose`). `compare` is a function that gets the outputs as a mapping of numpy arrays and returns numbers; these
    are compared instead of the outputs that it reads. `cases` lists further arguments to compare on, as in
    `[{"places": array}]`. A parameter of the space cannot have one of these three names.

    >>> kcl.space(block=[16, 64], exact=[False, True])
    <kcl.space block=[16, 64], exact=[False, True]; 0 where>
    """
    if compare is not None and not callable(compare):
        raise TypeError(f"kcl.space(compare=...) takes a function of outputs, not {compare!r}")
    for entry in tolerance.values() if isinstance(tolerance, Mapping) else [tolerance]:
        pair = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, 0)
        if entry is not None and not all(
            isinstance(number, (int, float)) and number >= 0 for number in pair
        ):
            raise TypeError(
                f"kcl.space(tolerance=...) takes 1e-5, or {{'y': 1e-5}}, not {tolerance!r}"
            )
    cases = tuple(cases)
    if not all(isinstance(case, Mapping) for case in cases):
        raise TypeError(
            f"kcl.space(cases=...) takes arguments by name, as [{{'x': array}}], not {cases!r}"
        )
    return Space(lists, compare, tolerance, cases)


def describe(values: Mapping[str, Any]) -> str:
    """Return a text that identifies a choice, or sizes. `1` and `1.0` give different texts."""
    return ", ".join([f"{name}={value!r}" for name, value in values.items()])


def is_scalar(value: Any) -> bool:
    """Return True if a value is a scalar of JSON: a number, a text, True, False or None."""
    return (
        value is None
        or type(value) in (bool, int, str)
        or (type(value) is float and math.isfinite(value))
    )


def _values(name: str, values: Any) -> tuple[Any, ...]:
    """Check the values of a parameter, and return them without duplicates."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"kcl.space({name}=...) takes a list, not {values!r}")
    # Imported late, since a listing of tables imports this module and needs no numpy.
    import numpy as np

    distinct = dict[str, Any]()
    for value in [int(item) if isinstance(item, np.integer) else item for item in values]:
        if not is_scalar(value):
            raise TypeError(
                f"kcl.space({name}=...) has {value!r}: write numbers, texts, True, False or None"
            )
        # By text, since True, 1 and 1.0 are equal.
        distinct[repr(value)] = value
    if not distinct:
        raise TypeError(f"kcl.space({name}=...) has no value: write a list such as [16, 64]")
    return tuple(distinct.values())


def _names(predicate: Any) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(predicate).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(
            f"where takes a function of parameters and sizes, such as lambda block: block < 64, not {predicate!r}"
        ) from None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"where takes a function whose parameters have names, and {parameter} has none: {predicate!r}"
            )
    return tuple(parameter.name for parameter in parameters)
