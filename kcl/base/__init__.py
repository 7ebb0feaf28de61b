"""The base of all rooms: the state of the process, settings, events and spans, display of values.

Here are the ports: the modules above that a module below calls, by names of two tables, which stand in
`kcl/__init__.py`; and the marks of kcl's own functions in the places of others.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

import kcl


class _NoTool:
    """A tool that is not installed: it does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments, **_keywords: None


def port(name: str) -> Any:
    """Return the module at a port, imported now; a tool that is not installed does nothing."""
    tool = kcl.TOOLS.get(name, "")
    try:
        return importlib.import_module(tool or kcl.PORTS[name])
    except ModuleNotFoundError as error:
        if error.name and f"{tool}.".startswith(f"{error.name}."):
            return _NoTool()
        raise


def below_kcl(value: Any) -> Any:
    """Return what stands below kcl's own functions, which call it."""
    while is_of_kcl(value):
        below = value.__dict__.get("__wrapped__")
        if below is None:
            break
        value = below
    return value


def is_of_kcl(value: Any) -> bool:
    """Return True for a function of kcl's own. No attribute tells: `functools.wraps` would copy it."""
    return isinstance(value, FunctionType) and str(value.__globals__.get("__name__")).startswith(
        "kcl."
    )


def is_being_imported(module: Any) -> bool:
    """Return True if the import of a module has begun and not ended: the module lacks names that it will have."""
    # Python's own mark, by which an import of another thread waits.
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def uncounted(function: Any) -> None:
    """Have warnings that code gives below a function name the line of its caller, as if the function were not there.

    Python does not count the frames of its import; this makes the function's frame one of them.
    """
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
