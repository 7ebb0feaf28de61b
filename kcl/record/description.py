"""The texts of a record that an entry holds, to explain a later miss; no key depends on them."""

from __future__ import annotations

import inspect
import json
import os
import sys
from typing import Any

from kcl.declarations import Task
from kcl.key import Key
from kcl.record.record import Record

_SOURCE = ("code", "entry", "arguments", "global_size", "local_size", "build_options", "include_dirs")


def parts(record: Record | None, value: Any, task: Task | None, key: Key | None) -> dict[str, bytes]:
    """Return the parts: the record, and the text of the recipe with its parameters and its place."""
    described = record.described(_parameters) if record is not None else _of_value(value)
    told = [list(part) for part in key.parts if part.name not in ("record", "unit", "source")] if key else []
    found: dict[str, Any] = {"record.json": {**described, "beside": told}}
    if task is not None:
        name = f"code {task.function.__qualname__}"
        found["reached.json"] = {name: _text(task.function), **_shown(task.arguments)}
        found["origins.json"] = {name: (task.function.__module__, task.function.__code__.co_firstlineno)}
        found["recipe.json"] = {"file": os.path.basename(task.function.__code__.co_filename)}
    return {name: json.dumps(one).encode("utf-8", "surrogatepass") for name, one in found.items()}


def _of_value(value: Any) -> dict[str, Any]:
    """Describe a kcl.Source, or say that a unit was made outside of what was recorded."""
    if type(value).__module__ == "kcl.frontends.opencl":
        arguments = [[name, _plain(getattr(value, name))] for name in _SOURCE]
        return {"calls": [{"function": "kcl.Source", "place": "", "arguments": arguments}], "result": 1}
    return {"calls": [{"function": "a unit of loopy's own", "place": "", "arguments": []}], "result": 1}


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(tuple(item if isinstance(item, str) else str(item) for item in value))
    return repr(value)


def _parameters(function: str, count: int) -> list[str]:
    """Name the first parameters of a function of loopy, where that is imported."""
    found: Any = sys.modules.get("loopy")
    for name in function.split("."):
        found = getattr(found, name, None)
    try:
        return [*inspect.signature(found).parameters][:count] if found is not None else []
    except (TypeError, ValueError):
        return []


def _text(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _shown(arguments: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in arguments.items():
        try:
            found[f"parameter {name}"] = repr(value)[:1000]
        except Exception:  # the repr is the user's
            found[f"parameter {name}"] = f"<{type(value).__qualname__}>"
    return found
