"""Spaces: the choices that a recipe declares for its parameters, and the rules that a choice obeys.

lists      = {parameter: values}     values are scalars of JSON; one of each list is a choice
predicates = functions of parameters and sizes; a choice is valid where all of them hold
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

Choice = dict[str, Any]  # a scalar of JSON by the name of each parameter


class Skip(Exception):
    """A recipe raises it to refuse a choice: `kcl.Skip("why")` is the outcome of that choice, and tuning goes on.

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
    """The choices of a recipe, as `kcl.space` declares them. Immutable; thread-safe.

    `lists` has the values by the name of the parameter, in the order of the declaration. `compare`, `tolerance` and
    `cases` say how the results of choices are compared with those of the default.
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
        """Return the space of the choices for which a predicate holds, too.

        Its parameters are parameters of the recipe's space, or sizes of a call. Raises TypeError for what has no such
        parameters. A predicate that raises ends the call, or the tuning, with a RecipeError.

        >>> space = kcl.space(block=[16, 64], unroll=[1, 4]).where(lambda block, unroll: block * unroll <= 64)
        >>> list(space.choices({}, {}))
        [{'block': 16, 'unroll': 1}, {'block': 16, 'unroll': 4}, {'block': 64, 'unroll': 1}]
        """
        narrowed = copy.copy(self)
        narrowed.predicates = [*self.predicates, (predicate, _names(predicate))]
        return narrowed

    def declared(self, function: Callable[..., Any], sizes: Collection[str]) -> Space:
        """Return the space of a recipe; raises TypeError for parameters and predicates that the recipe cannot have."""
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
        self, given: Choice, sizes: Mapping[str, int], most: int | None = None
    ) -> Iterator[Choice]:
        """Yield the valid choices of the parameters that are not given, for these sizes, in order of declaration.

        With `most` it looks at so many choices, valid or not.
        """
        free = {name: values for name, values in self.lists.items() if name not in given}
        for values in itertools.islice(itertools.product(*free.values()), most):
            choice = dict(zip(free, values, strict=True))
            if not self.refusal({**given, **choice}, sizes):
                yield choice

    def refusal(self, choice: Choice, sizes: Mapping[str, int]) -> str:
        """Return why a choice, given parameters included, is not valid at these sizes; empty if it is.

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
        """Return a text of how results are compared: outcomes stand as long as it is equal.

        Empty if `compare` has no source text.
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

    def has(self, choice: Choice) -> bool:
        """Return True if each value of a choice is in its list, of the same type."""
        return all(
            # True, 1 and 1.0 are equal, and three texts.
            repr(value) in map(repr, self.lists.get(name, ()))
            for name, value in choice.items()
        )

    def __repr__(self) -> str:
        lists = ", ".join(f"{name}={list(values)}" for name, values in self.lists.items())
        return f"<kcl.space {lists}; {len(self.predicates)} where>"


def space(*, compare: Any = None, tolerance: Any = None, cases: Any = (), **lists: Any) -> Space:
    """Declare the choices of a recipe's parameters, as `@kcl.kernel(space=kcl.space(block=[16, 64]))`.

    Each list has the values of one parameter that the recipe takes, with a default: scalars of JSON. Raises TypeError
    for an empty list and for other values.

    The results of a choice are compared with those of the default. `tolerance` is a number, relative to the default's
    value; or a number or a pair by the name of an output, `{"y": (1e-5, 1e-8)}`: relative and absolute, as `numpy.isclose`
    has them.
    `compare` takes the outputs as a mapping of numpy arrays, and returns the numbers that are compared in place of the
    outputs that it reads. `cases` has further arguments to compare on, `[{"places": array}]`. No parameter of the space
    has the name of one of these three.

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
    """Write a choice, or sizes: two texts are equal for the same values of the same types only."""
    return ", ".join([f"{name}={value!r}" for name, value in values.items()])


def is_scalar(value: Any) -> bool:
    """Return True if a value is a scalar of JSON: a number, a text, True, False or None."""
    return (
        value is None
        or type(value) in (bool, int, str)
        or (type(value) is float and math.isfinite(value))
    )


def _values(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of a parameter, each once."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"kcl.space({name}=...) takes a list, not {values!r}")
    # A listing of tables needs this module, and no numpy.
    import numpy as np

    distinct = dict[str, Any]()
    for value in [int(item) if isinstance(item, np.integer) else item for item in values]:
        if not is_scalar(value):
            raise TypeError(
                f"kcl.space({name}=...) has {value!r}: write numbers, texts, True, False or None"
            )
        # True, 1 and 1.0 are equal, and three texts.
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
