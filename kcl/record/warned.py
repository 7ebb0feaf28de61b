"""Warnings of loopy: collected while a record is carried out, and given again where it waits."""

from __future__ import annotations

import builtins
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kcl.record.proofs import Warned
from kcl.record.record import Place

_registries: dict[str, dict[Any, Any]] = {}
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@contextmanager
def collecting(place: Place) -> Iterator[Callable[[], tuple[Warned, ...] | None]]:
    """Collect the warnings of the block, and give them under the user's filters as it ends.

    The function that comes back lists them; None where one cannot be given again without the code that made it.
    """
    heard: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield lambda: _kept(heard)
    finally:
        for one in heard:
            _give(_described(one), place, one.category)


def again(warned: tuple[Warned, ...], place: Place) -> None:
    """Give the warnings of an earlier run again, under the user's filters."""
    for one in warned:
        category = _category(one)
        if category is not None:
            _give(one, place, category)


def _kept(found: list[warnings.WarningMessage]) -> tuple[Warned, ...] | None:
    described = tuple([_described(one) for one in found])
    return described if all(_category(one) is not None for one in described) else None


def _described(one: warnings.WarningMessage) -> Warned:
    file = os.path.abspath(one.filename)
    inside = "" if file.startswith(_OWN) else _below_loopy(file)
    return Warned(one.category.__module__, one.category.__qualname__, str(one.message), inside, one.lineno)


def _below_loopy(file: str) -> str:
    """Return a path that begins with a package's name, which no place of installation is part of."""
    _, marker, inside = file.rpartition(f"{os.sep}site-packages{os.sep}")
    if marker:
        return inside.replace(os.sep, "/")
    loopy = sys.modules.get("loopy")
    root = os.path.dirname(os.path.dirname(os.path.abspath(getattr(loopy, "__file__", None) or "/")))
    return os.path.relpath(file, root).replace(os.sep, "/")


def _give(one: Warned, place: Place, category: type[Warning]) -> None:
    if one.file:
        module = one.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        registry = _registries.setdefault(module, {})
        warnings.warn_explicit(one.text, category, one.file, one.line, module, registry)
    else:
        names = place.names
        registry = names.setdefault("__warningregistry__", {})
        module = str(names.get("__name__", "__main__"))
        warnings.warn_explicit(one.text, category, place.file, place.line, module, registry)


def _category(one: Warned) -> type[Warning] | None:
    """Return the class of a warning without importing anything; None for one that is not known."""
    module = builtins if one.module == "builtins" else sys.modules.get(one.module)
    found = getattr(module, one.category, None)
    if found is None and one.module == "loopy.diagnostic":
        from kcl.record import conditions

        found = conditions.WARNINGS.get(one.category)
    return found if isinstance(found, type) and issubclass(found, Warning) else None
