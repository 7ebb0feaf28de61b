"""The outcome of each call of a program into loopy.

A call is recorded, or carried out at once with loopy's own objects. It is carried out at once where an argument has no
exact text, where loopy would run code of the user during the call, or where the call answers a question.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kcl.record import beside, recorder, table, texts, unmade
from kcl.record.record import CallSite, Record

_LAUNCHING = "kcl.integrations.units"  # the module that lets kcl launch loopy's own units; it lies above this room
_ITERATORS = frozenset({"builtins", "itertools"})  # modules


def call(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Answer a call of `loopy.<name>`; the call stands in the program two frames up."""
    place = CallSite(sys._getframe(2))
    if name in table.VERSIONED:
        keywords = with_version(keywords, place.names)
    if not recorder.is_on():
        return _launched_by_kcl(name, _at_once(name, arguments, keywords))
    record = _recorded(name, arguments, keywords, place)
    return _launched_by_kcl(name, _at_once(name, arguments, keywords)) if record is None else unmade.answer(record)


def _recorded(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite) -> Record | None:
    """Return the record of a call, None for a call that is carried out at once."""
    if name not in table.DEFERRED or not recorder.is_known(name):
        return None
    try:
        if not _is_about_units(name, arguments) or _calls_user(name, arguments, keywords):
            return None
        return Record(name, arguments, keywords, beside.now(), place)
    except Exception as error:
        recorder.unknown(name, error, place)
        return None


def _is_about_units(name: str, arguments: tuple[Any, ...]) -> bool:
    """Return True if a call begins from texts or from units that wait."""
    takes_unit = name in table.TRANSFORMATIONS
    return not takes_unit or bool(arguments and _waits(arguments[0]))


def _waits(value: Any) -> bool:
    """Return True if a unit counts by its record: a program that holds parts of a unit may change them at any time."""
    record = unmade.record_of(value)
    return record is not None and not record.is_spoiled()


def _calls_user(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Tell whether loopy may run code of the user during a call."""
    later = table.FOR_GENERATING.get(name, frozenset())
    given = [*enumerate(arguments), *keywords.items()]
    return any(texts.calls_user(value) for place, value in given if place not in later)


def _launched_by_kcl(name: str, made: Any) -> Any:
    """Return the result of a call that is not recorded: kcl launches loopy's own unit, by its content."""
    if name in table.DEFERRED and recorder.is_outside() and unmade.is_unit(made):
        importlib.import_module(_LAUNCHING).take(made)
    return made


def with_version(keywords: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Add the version of loopy's language that the caller's globals choose, as loopy looks for it there."""
    if keywords.get("lang_version") is not None or table.VERSION_SYMBOL not in names:
        return keywords
    return {**keywords, "lang_version": names[table.VERSION_SYMBOL]}


def _at_once(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call loopy's own function with loopy's own objects; a call that makes a unit does without loopy's disk caches."""

    def own(value: Any) -> Any:
        kind = type(value)
        if kind.__module__ in _ITERATORS and hasattr(kind, "__next__"):
            return map(own_in, value)
        if issubclass(kind, texts.StandIn):
            return value.real()
        return unmade.asked(value, name)

    def own_in(value: Any) -> Any:
        return texts.mapped(value, own)

    with suppress(RecursionError):  # values that hold themselves stay as they are
        arguments, keywords = own_in((arguments, keywords))
    recorder.loopy(name)
    function = recorder.own(name)
    if name not in table.DEFERRED or not recorder.is_on():
        return function(*arguments, **keywords)
    with recorder.alone():
        return function(*arguments, **keywords)


def _constructed(kind: Any, *arguments: Any, **keywords: Any) -> Any:
    """Record the call of one of the face's classes, or carry it out."""
    return call(kind.__name__, arguments, keywords)


unmade.Kind.__call__ = _constructed  # type: ignore[method-assign, assignment]
