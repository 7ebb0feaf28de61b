"""Warnings of loopy: collected while a record is carried out, and repeated by later runs in which it waits."""

from __future__ import annotations

import builtins
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kcl.base import process
from kcl.base.settings import PACKAGE
from kcl.frontends.loopy.proofs import WarningFact
from kcl.frontends.loopy.record import CallSite
from kcl.generate import GENERATORS, distributions

_OWN = PACKAGE + os.sep
# Matches the modules whose warnings are collected.
_WARNING = re.compile(rf"({'|'.join(('loopy', *distributions.GRAPHS))})(\.|$)").match
_PYTHON, _OF_PYTHON = os.path.dirname(os.path.abspath(os.__file__)) + os.sep, "<python>/"


class _Category(type):
    """The metaclass of categories for a process without loopy; filters treat them like loopy's class of the same name."""

    def __subclasscheck__(cls, other: type) -> bool:
        theirs = getattr(sys.modules.get("loopy.diagnostic"), cls.__name__, None)
        return super().__subclasscheck__(other) or (
            isinstance(theirs, type) and issubclass(other, theirs)
        )

    def __instancecheck__(cls, value: Any) -> bool:
        return issubclass(type(value), cls)


# Name of a category -> name of its base class.
_BASES = {
    "LoopyWarningBase": "UserWarning",
    "LoopyWarning": "LoopyWarningBase",
    "LoopyAdvisory": "LoopyWarningBase",
    "ParameterFinderWarning": "LoopyWarning",
    "WriteRaceConditionWarning": "LoopyWarning",
    "DirectCallUncachedWarning": "LoopyWarning",
}
WARNINGS: dict[str, type[Warning]] = {"UserWarning": UserWarning}
for _name, _base in _BASES.items():
    _made: Any = _Category(_name, (WARNINGS[_base],), {"__module__": "loopy.diagnostic"})
    WARNINGS[_name] = _made
del WARNINGS["UserWarning"]


class WarningRegistries:
    """Module of loopy -> the registry of warnings that kcl has repeated for it."""

    def __init__(self) -> None:
        self.registries: dict[str, dict[Any, Any]] = {}


_state = process.shared(WarningRegistries)


class _Hearing(threading.local):
    """The warnings that this thread is collecting; None if it is not. As a filter's module pattern it matches meanwhile."""

    heard: list[warnings.WarningMessage] | None = None

    def match(self, _module: str) -> bool:
        return self.heard is not None


_hearing = _Hearing()
# In place of `warnings.catch_warnings`, which would affect all threads, and reset which warnings were shown once.
_FILTER: Any = ("always", None, Warning, _hearing, 0)


@contextmanager
def hearing() -> Iterator[list[warnings.WarningMessage]]:
    """Collect all warnings of this thread in the block, whatever the filters are. Other threads warn as usual.

    One thread at a time is in such a block, since one at a time calls loopy.
    """
    heard: list[warnings.WarningMessage] = []
    filters: Any = warnings.filters
    outer, before, taken = _hearing.heard, warnings.showwarning, _registries_of_loopy()

    def show(*arguments: Any) -> None:
        # A warning of another thread is shown as before.
        if _hearing.heard is None:
            before(*arguments)
        else:
            _hearing.heard.append(warnings.WarningMessage(*arguments))

    _hearing.heard = heard
    filters.insert(0, _FILTER)
    warnings.showwarning = show  # type: ignore[assignment]
    try:
        yield heard
    finally:
        # Code in the block may have replaced the filters or the function: its replacements stay.
        if _FILTER in filters:
            filters.remove(_FILTER)
        if warnings.showwarning is show:
            warnings.showwarning = before
        for names, registry in taken:
            names["__warningregistry__"] = registry
        _hearing.heard = outer


def _registries_of_loopy() -> list[tuple[dict[str, Any], Any]]:
    """Remove the registries of shown warnings from the modules, so that all warnings come; return them."""
    # Copied, since another thread may import a module meanwhile.
    modules = filter(None, map(sys.modules.get, filter(_WARNING, list(sys.modules))))
    holders = [names for names in map(vars, modules) if "__warningregistry__" in names]
    return [(names, names.pop("__warningregistry__", {})) for names in holders]


def give(heard: list[warnings.WarningMessage], place: CallSite) -> None:
    """Give collected warnings; the user's filters apply."""
    for message in heard:
        _give(_described(message), place, message.category, message.filename)


def again(warned: tuple[WarningFact, ...], place: CallSite) -> None:
    """Repeat the warnings of an earlier run; the user's filters apply."""
    for fact in warned:
        category = _category(fact)
        if category is not None:
            _give(fact, place, category, _path(fact.file))


def kept(heard: list[warnings.WarningMessage]) -> tuple[WarningFact, ...] | None:
    """Describe warnings for later runs; return None if one cannot be repeated without its code."""
    described = tuple([_described(message) for message in heard])
    # Such a warning comes from code of the user, or its category is not known without its module.
    if any(not _is_lasting(fact) or os.path.isabs(fact.file) for fact in described):
        return None
    return described


def _is_lasting(fact: WarningFact) -> bool:
    """Return True if the category is known in a process without loopy too."""
    is_known = (
        fact.category in WARNINGS
        if fact.module == "loopy.diagnostic"
        else fact.module == "builtins"
    )
    return is_known and _category(fact) is not None


def _described(message: warnings.WarningMessage) -> WarningFact:
    """Describe a warning; files of generators and of Python by their path in the package, those of kcl by none."""
    file = os.path.abspath(os.path.join(distributions.ARCHIVE, message.filename))
    inside = "" if file.startswith(_OWN) else file
    if file.startswith(_PYTHON):
        inside = _OF_PYTHON + file.removeprefix(_PYTHON)
    # Checked after Python, since packages may be installed below its folder.
    for name in (*GENERATORS, *distributions.GRAPHS):
        if file.startswith(f"{_folder(name)}{name}{os.sep}"):
            inside = file.removeprefix(_folder(name))
    return WarningFact(
        message.category.__module__,
        message.category.__qualname__,
        str(message.message),
        inside,
        message.lineno,
    )


def _path(inside: str) -> str:
    """Return the path on this machine of a file that a stored warning names relative to its package."""
    if inside.startswith(_OF_PYTHON):
        return _PYTHON + inside.removeprefix(_OF_PYTHON)
    return _folder(inside.partition(os.sep)[0]) + inside


def _folder(package: str) -> str:
    """Return the folder that contains a package, with a separator at its end; empty if it is not installed."""
    place = distributions.locate(package)
    return "" if place is None else place.directory + os.sep


def _give(fact: WarningFact, place: CallSite, category: type[Warning], file: str) -> None:
    if fact.file:
        inside = (
            fact.file.removeprefix(_OF_PYTHON).removesuffix(".py").removesuffix(f"{os.sep}__init__")
        )
        line, module = fact.line, inside.replace(os.sep, ".")
        registry = _state().registries.setdefault(module, {})
    else:
        file, line, module = place.file, place.line, str(place.names.get("__name__", "__main__"))
        registry = place.names.setdefault("__warningregistry__", {})
    twin = (fact.text, WARNINGS.get(fact.category), line)
    # If kcl's category was shown before loopy was imported, loopy's counts as shown too.
    if twin in registry:
        registry[fact.text, category, line] = registry[twin]
    warnings.warn_explicit(fact.text, category, file, line, module, registry)


def _category(fact: WarningFact) -> type[Warning] | None:
    """Return the category of a warning, without importing its module; None if it is not known."""
    module = builtins if fact.module == "builtins" else sys.modules.get(fact.module)
    category = getattr(module, fact.category, None)
    if category is None and fact.module == "loopy.diagnostic":
        category = WARNINGS.get(fact.category)
    return category if isinstance(category, type) and issubclass(category, Warning) else None
