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
            _give(_described(one), place, one.category, one.filename)


def again(warned: tuple[Warned, ...], place: Place) -> None:
    """Give the warnings of an earlier run again, under the user's filters."""
    for one in warned:
        category = _category(one)
        if category is not None:
            _give(one, place, category, one.file)


def _kept(found: list[warnings.WarningMessage]) -> tuple[Warned, ...] | None:
    described = tuple([_described(one) for one in found])
    if any(_category(one) is None or os.path.isabs(one.file) for one in described):
        return None  # code of the user gave it, or only its own module knows the category
    return described


def _described(one: warnings.WarningMessage) -> Warned:
    file = os.path.abspath(one.filename)
    inside = "" if file.startswith(_OWN) else _below_loopy(file)
    return Warned(one.category.__module__, one.category.__qualname__, str(one.message), inside, one.lineno)


def _below_loopy(file: str) -> str:
    """Return the path below the directory that loopy is installed in, which is no part of it; others as they are."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["loopy"].__file__ or "")))
    inside = file.removeprefix(root + os.sep)
    return inside.replace(os.sep, "/") if inside != file else file


def _give(one: Warned, place: Place, category: type[Warning], file: str) -> None:
    if one.file:
        module = one.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        registry = _registries.setdefault(module, {})
        warnings.warn_explicit(one.text, category, file, one.line, module, registry)
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
