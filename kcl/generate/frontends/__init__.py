"""Front ends: each turns a recipe's result into Code. Another front end is one more file and one more row."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.errors import RecipeError

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Argument, Code


class OpenArguments(NamedTuple):
    """The arguments that a recipe's result leaves open, with the open arguments that decide all the others.

    Made by a front end or of a row; ends in the choice of a row.

    `required` names the arrays that every call must give; `packed` is as in Code. Both are needed before the
    dtypes of a call can be looked at.
    """

    names: tuple[str, ...]
    needed: tuple[str, ...]
    required: tuple[str, ...]
    packed: dict[str, list[tuple[Any, str]]]


class Result:
    """A recipe's result, held by its front end. The defaults are those of a result that leaves nothing open."""

    front_end = ""
    options: tuple[str, ...] | None = (
        None  # the build options as of this run; None if only the code has them
    )

    @property
    def volatile(self) -> str:
        """The reason why the result must not be stored; empty if it may be."""
        return ""

    @property
    def packed(self) -> dict[str, list[tuple[Any, str]]]:
        """Arguments that are given as one object array, as in Code."""
        return {}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a call gives, with the dtypes that are known."""
        raise NotImplementedError

    def open(self, _dtypes: Mapping[str, np.dtype[Any]]) -> OpenArguments:
        """Return the open arguments, given the dtypes of the arguments of one call."""
        return OpenArguments((), (), (), {})

    def follows(self, _dtypes: Mapping[str, np.dtype[Any]], _needed: tuple[str, ...]) -> bool:
        """Return True if the dtypes add nothing to those that are inferred from their needed part."""
        return True

    def identity(self) -> str:
        """Return the SHA-256 over the inputs of the code beside the program key; raise UnknownInput with the reason."""
        raise NotImplementedError

    def state(self) -> str:
        """Return a digest of what the user's callables in the result read, as of now; empty if there are none."""
        return ""

    def generate(self, kernel: str, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Generate code for one choice of the open dtypes."""
        raise NotImplementedError


class FrontEndRow(NamedTuple):
    """A front end: its name, the module whose objects recipes return to it (a package ends with a full stop), its file.

    The file has a function `accept(result, recipe)`, which returns the result held by the front end, or None.
    `uses_loopy` says whether loopy has a part in the code, and so in its key.
    """

    name: str
    returned: str
    file: str
    uses_loopy: bool


TABLE = [
    FrontEndRow("loopy", "loopy.", "kcl.generate.frontends.loopy", True),
    FrontEndRow("opencl", "kcl.generate.frontends.source", "kcl.generate.frontends.opencl", False),
]


def row_of(result: object) -> FrontEndRow | None:
    """Return the row of the front end that knows the result of a recipe, None where none does."""
    module = type(result).__module__
    return next(
        (row for row in TABLE if module == row.returned or f"{module}.".startswith(row.returned)),
        None,
    )


def accept(result: object, recipe: str) -> Result:
    """Give `result` to the front end that knows it; raises RecipeError where none does."""
    row = row_of(result)
    accepted: Result | None = (
        importlib.import_module(row.file).accept(result, recipe) if row is not None else None
    )
    if result is None:
        end = "end it with `return` and a loopy TranslationUnit or a kcl.Source"
        raise RecipeError(f"recipe {recipe!r} returned nothing: {end}")
    if accepted is None:
        raise RecipeError(
            f"recipe {recipe!r} returned {type(result).__module__}.{type(result).__qualname__}; "
            f"return a loopy TranslationUnit for the PyOpenCL target, or a kcl.Source{leave_out(result)}"
        )
    return accepted


def leave_out(result: object) -> str:
    """Return advice against the executor of a unit, loopy's own or a recorded one; empty for any other result."""
    return "; leave `.executor(context)` out" if type(result).__name__.endswith("Executor") else ""
