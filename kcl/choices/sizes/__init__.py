"""Sizes: a recipe asks questions about the sizes of a call, such as their divisors, and gets a variant for the answers.

    sizes = {name: text}     expressions over the arguments of the call, in the grammar of a Source's shapes

If a call gives a size by name, as in `n=64`, its expression is not evaluated. A *variant* is a Line whose recipe ran
with one set of sizes. It serves a call if all answers that its recipe got are also right for the sizes of the call. An
answer that matters is passed to loopy, so it is in the record and in the key. Answers depend on the call alone, except
with `fixed="auto"`: see `Values`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcl.errors import RecipeError, meant
from kcl.frontends.source import expressions, round_up

FIXED = 16  # the largest value that is fixed by default
# The functions that expressions can use; Python's builtins are switched off.
FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "round_up": round_up}


class Sizes(NamedTuple):
    """The declared sizes of a recipe: name -> expression.

    Values up to `fixed` are fixed; with "auto" up to `most` different values are. `arguments` are the names in the
    expressions.
    """

    texts: Mapping[str, str]
    fixed: Any = FIXED
    most: int = 1
    arguments: tuple[str, ...] = ()

    def of_recipe(self, function: Any) -> Sizes:
        """Return the sizes that are parameters of the recipe; the others are for its space only."""
        parameters = inspect.signature(function).parameters
        return self._replace(
            texts={name: text for name, text in self.texts.items() if name in parameters}
        )

    def taken(
        self, function: Any, names: list[str], arguments: dict[str, Any], is_new: bool
    ) -> dict[str, Any]:
        """Return the arguments of a call without sizes that are no arguments of the code.

        `names` are the arguments of the code. With `is_new` raises RecipeError if an expression has a name that is neither
        one of these nor a size.
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
    """Declare the sizes of a recipe, as in `@kcl.kernel(sizes=kcl.sizes(k="a.shape[2]", fixed=64))`.

    Each keyword names a size, and its text is an expression over the arguments of a call. The recipe gets a kcl.Size for
    each. Its attribute `fixed` is the value of the size if that is at most `fixed`, else None. With `fixed="auto"` it is
    the value as long as the recipe has seen at most `most` different values, in this run and earlier ones. Raises TypeError
    for a text that is no such expression.

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


def declared(sizes: Any, parameters: tuple[str, ...], others: bool = False) -> Sizes:
    """Check the argument `sizes` of `kcl.kernel` and return it as Sizes; raises TypeError if it is wrong.

    With `others` a size need not be a parameter of the recipe, since its space may use it.
    """
    declaration = Sizes(dict(sizes)) if isinstance(sizes, Mapping) else sizes
    if not isinstance(declaration, Sizes) or not declaration.texts:
        raise TypeError(
            f'@kcl.kernel(sizes=...) takes a dictionary such as {{"n": "x.shape[0]"}}, not {sizes!r}'
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
            # The check is the one for a Source's shapes, so its message speaks of a Source.
            raise TypeError(str(error).replace("kcl.Source", "size")) from None
        if not used:
            raise TypeError(
                f"the size {name!r} is {text!r}, which names no argument; write the number into the recipe"
            )
        arguments |= used
    return declaration._replace(arguments=tuple(sorted(arguments)))
