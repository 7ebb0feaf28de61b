"""Sizes: a recipe asks what is true of the sizes of a call, and a chooser finds the variant for which it holds.

    sizes = {name: text}     expressions over the arguments of the call, in the grammar of a Source's shapes

A size that the call names, as `n=64`, is that number, and its text is not asked. A variant is a line whose recipe saw
one set of sizes. It holds for a call if all answers that its recipe was given are those for the sizes of the call. An
answer reaches loopy, or changes nothing: so it is in the record and in the key. It depends on the call only, but for
`fixed="auto"`: see `Values`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcl.errors import RecipeError, meant
from kcl.frontends.source import expressions, round_up

# The sizes of a call, in the order of their declaration, and by name.
SizeValues = tuple[int, ...]
NamedSizes = Mapping[str, int]
FIXED = 16  # the largest value that is fixed, if the declaration says nothing
# A text has these functions, and none of Python's own.
FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "round_up": round_up}


class Sizes(NamedTuple):
    """The sizes of a recipe: an expression by the name of each parameter.

    Values up to `fixed` are fixed, or with "auto" the `most` values that are seen first. `arguments` are the names in
    the expressions.
    """

    texts: Mapping[str, str]
    fixed: Any = FIXED
    most: int = 1
    arguments: tuple[str, ...] = ()

    def of_recipe(self, function: Any) -> Sizes:
        """Return the sizes that are parameters of a recipe; the others serve a space only."""
        parameters = inspect.signature(function).parameters
        return self._replace(
            texts={name: text for name, text in self.texts.items() if name in parameters}
        )

    def taken(
        self, function: Any, names: list[str], arguments: dict[str, Any], is_new: bool
    ) -> dict[str, Any]:
        """Return the arguments of a call without the sizes that the code has as constants.

        `names` are the arguments of the code. If the code is new, raises RecipeError for an expression with a name that
        is neither one of these nor a size.
        """
        unknown = [name for name in self.arguments if name not in (*names, *self.texts)]
        if is_new and unknown:
            from kcl.launch.refusals import place

            raise RecipeError(
                f"sizes={dict(self.texts)} names {unknown[0]!r}, which is no argument of kernel "
                f"{function.__name__!r}{place(function)}{meant(unknown[0], names)}: it takes {', '.join(names)}"
            )
        return {
            name: value
            for name, value in arguments.items()
            if name in names or name not in self.texts
        }


def sizes(*, fixed: int | str = FIXED, most: int = 1, **texts: str) -> Sizes:
    """Declare the sizes of a recipe, as `@kcl.kernel(sizes=kcl.sizes(k="a.shape[2]", fixed=64))`.

    Each text is an expression over the arguments of a call. `fixed` of a size is its value, if that is at most `fixed`;
    with 0 it never is. With `fixed="auto"` it is the value as long as the recipe has seen at most `most` values of it,
    in this run and in earlier ones. Raises TypeError for a text that is no such expression.

    >>> @kcl.kernel(sizes=kcl.sizes(n="x.shape[0]", fixed=64))
    ... def negated(n):
    ...     import loopy as lp
    ...     return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = -x[i]", lang_version=(2018, 2))
    >>> event, (y,) = negated()(queue, x=np.ones(2))
    >>> y.tolist()
    [-1.0, -1.0]
    """
    for number in most, 0 if fixed == "auto" else fixed:
        if not isinstance(number, int) or number < 0:
            raise TypeError(
                f'kcl.sizes(fixed=...) takes a whole number or "auto", most= a whole number, not {number!r}'
            )
    if most != 1 and fixed != "auto":
        raise TypeError(
            f'kcl.sizes(most={most}) belongs to fixed="auto": write fixed=64 for a largest value'
        )
    return _check(Sizes(texts, fixed, most))


def declared(given: Any, parameters: tuple[str, ...], others: bool = False) -> Sizes:
    """Return the sizes that a decorator declares; raises TypeError for sizes that the recipe cannot have.

    With `others` a size need not be a parameter: a space asks it.
    """
    declaration = Sizes(dict(given)) if isinstance(given, Mapping) else given
    if not isinstance(declaration, Sizes) or not declaration.texts:
        raise TypeError(
            f'@kcl.kernel(sizes=...) takes a dictionary such as {{"n": "x.shape[0]"}}, not {given!r}'
        )
    for name in declaration.texts:
        if name not in parameters and not others:
            raise TypeError(
                f"@kcl.kernel(sizes=...) names {name!r}, which is no parameter of the recipe"
            )
    return _check(declaration)


def _check(declaration: Sizes) -> Sizes:
    arguments: set[str] = set()
    for name, text in declaration.texts.items():
        if not isinstance(text, str):
            raise TypeError(
                f"the size {name!r} is {text!r}; write an expression such as 'x.shape[0]'"
            )
        try:
            tree = expressions.parsed(name, "the size", text)
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            used -= FUNCTIONS.keys()
            kinds = dict.fromkeys(sorted(used), expressions.VALUE)
            expressions.check(name, "the size", text, kinds)
        except RecipeError as error:
            # The check is that of a Source's shapes, and so are its words.
            raise TypeError(str(error).replace("kcl.Source", "size")) from None
        if not used:
            raise TypeError(
                f"the size {name!r} is {text!r}, which names no argument; write the number into the recipe"
            )
        arguments |= used
    return declaration._replace(arguments=tuple(sorted(arguments)))
