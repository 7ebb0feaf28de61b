"""The texts of a record that an entry holds, to explain a later miss; no key depends on them."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from kcl.cache.key import Key
from kcl.record import unmade
from kcl.record.declarations import Evidence, RecipeCall, site_of
from kcl.record.record import Record
from kcl.record.table import CONSTRUCTORS

_SOURCE = ("code", "entry", "arguments", "global_size", "local_size", "build_options")  # no path is in a key
_CONTENT = frozenset({"record", "unit", "source"})


def place(record: Record | None, value: Any, task: RecipeCall | None, key: Key | None) -> Evidence:
    """Describe a record, or a recipe's result beside it, with the text of the recipe and its parameters."""
    described = record.described(_parameters) if record is not None else _of_value(value)
    beside = [list(part) for part in key.parts if part.name not in _CONTENT] if key is not None else []
    if task is None:
        site = next((call["place"] for call in described["calls"]), "")
        return Evidence({}, record={**described, "beside": beside}, site=site)
    function = task.written
    name = f"code {function.__qualname__}"
    beside += [[f"parameter {parameter}", text] for parameter, text in _shown(task.arguments).items()]
    origins = {name: (function.__module__, function.__code__.co_firstlineno)}
    texts = {name: _text(function)}
    return Evidence(texts, origins, record={**described, "beside": beside}, site=site_of(function))


def _of_value(value: Any) -> dict[str, Any]:
    """Describe a kcl.Source, or say that a unit was made where kcl records nothing."""
    name, arguments = "a unit that loopy made", []
    if type(value).__module__ == "kcl.generate.frontends.source":
        name, arguments = "kcl.Source", [[name, _plain(getattr(value, name))] for name in _SOURCE]
    return {"calls": [{"function": name, "place": "", "arguments": arguments}], "result": 1}


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(tuple(item if isinstance(item, str) else str(item) for item in value))
    return repr(value)


def _parameters(function: str, count: int) -> list[str]:
    """Return the names of the first parameters of a function of loopy, where loopy is imported."""
    found: Any = sys.modules.get("loopy")
    for name in CONSTRUCTORS.get(function, function).split("."):
        found = getattr(found, name, None)
    try:
        return _positional(found)[:count] if found is not None else []
    except (TypeError, ValueError):
        return []


def _positional(function: Any) -> list[str]:
    """Return the names of a call's positional parameters; a class that takes `*args` hands them to a base class."""
    bases = function.__mro__[1:] if isinstance(function, type) else ()
    makers = [function, *(vars(base)["__init__"] for base in bases if "__init__" in vars(base))]
    listed = [[*inspect.signature(maker).parameters.values()] for maker in makers]
    named = next((one for one in listed if all(each.kind != each.VAR_POSITIONAL for each in one)), listed[0])
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in named if one.kind in by_position and one.name != "self"]


def _text(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _shown(arguments: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in arguments.items():
        try:
            found[name] = unmade.shown(value)[:1000]
        except Exception:  # the repr is the user's
            found[name] = f"<{type(value).__qualname__}>"
    return found
