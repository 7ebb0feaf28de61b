"""The key of a pure recipe: its version, its parameters, and the files of its code. Nothing of it runs."""

from __future__ import annotations

from types import CodeType
from typing import Any

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.record.callables.encoder import Encoder
from kcl.record.declarations import PARAMETER, RecipeCall, site_of


def key_parts(task: RecipeCall) -> list[Part]:
    """Return the parts of a pure recipe's key; raise UnknownInput if a parameter has no exact text."""
    encoder, declared = Encoder(), task.declared
    given = {f"{PARAMETER}{name}": value for name, value in task.arguments.items()}
    with encoder.having(promised=True):
        try:
            texts = {
                name: encoder.encode(value) for name, value in {**given, **declared.values}.items()
            }
            texts[f"code {task.written.__qualname__}"] = encoder.encode(task.function)
        except Exception as error:  # a parameter may run code of the program
            is_known = isinstance(error, UnknownInput)
            reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            where = f"{task.name} ({site_of(task.written)})"
            raise UnknownInput(f"a parameter or the code of {where}: {reason}") from None
    version = [] if declared.version is None else [Part("declared version", declared.version)]
    return [*version, *[Part(*pair) for pair in {**texts, **encoder.parts}.items()]]


def front_ends(task: RecipeCall) -> frozenset[str]:
    """Return the front ends that the code of a recipe names itself; empty if it names none."""
    scope: dict[str, Any] = getattr(task.written, "__globals__", {})
    names = {getattr(scope.get(one), "__name__", one) for one in _names(task.written.__code__)}
    named = {"loopy": names & {"loopy", "kcl.loopy"}, "opencl": names & {"Source"}}
    return frozenset([end for end, found in named.items() if found])


def _names(code: CodeType) -> set[str]:
    inner: list[Any] = [one for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
