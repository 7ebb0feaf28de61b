"""Ports, by which a lower module calls a higher one; and the marks of functions that kcl puts in place of others.

A port is a row of `PORTS` or `TOOLS` in `kcl/__init__.py`. A launch needs the modules of `PORTS`. An installation may
leave out the modules of `TOOLS`; a launch works without them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, TypeVar

import kcl

T = TypeVar("T")


class computed_once(Generic[T]):
    """A property that is computed at its first use and kept. Without a lock: threads may compute it at the same time."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, holder: Any, _kind: Any) -> T:
        if holder is None:
            return self  # type: ignore[return-value]
        # The attribute of the object is read in place of this one from now on.
        name = self._compute.__name__
        return vars(holder).setdefault(name, self._compute(holder))  # type: ignore[no-any-return]


class _NoTool:
    """A tool that is not installed: each of its functions does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments, **_keywords: None


def port(name: str) -> Any:
    """Import and return the module of a port. For a tool that is not installed, return a stand-in that does nothing.

    Raises ImportError if a module of `PORTS`, or a module that a tool imports, is missing.
    """
    tool = kcl.TOOLS.get(name, "")
    try:
        return importlib.import_module(tool or kcl.PORTS[name])
    except ModuleNotFoundError as error:
        # Only a missing tool is excused, not a missing module that the tool imports.
        if error.name and f"{tool}.".startswith(f"{error.name}."):
            return _NoTool()
        raise


def unwrap(value: Any) -> Any:
    """Return the original function if the value is a function that kcl put in its place; else return the value."""
    while is_of_kcl(value) and "__wrapped__" in value.__dict__:
        value = value.__dict__["__wrapped__"]
    return value


def is_of_kcl(value: Any) -> bool:
    """Return True if the value is a function that kcl defines."""
    # An attribute could not mark them: `functools.wraps` would copy it to functions of the user.
    return isinstance(value, FunctionType) and str(value.__globals__.get("__name__")).startswith(
        "kcl."
    )


def is_being_imported(module: Any) -> bool:
    """Return True while the import of a module is under way, so that names may still be missing in it."""
    # Python itself waits by this mark when two threads import one module.
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def hide_from_warnings(function: Any) -> None:
    """Hide a function's frame from `warnings`, so that a warning below it names the caller's line."""
    # Python skips the frames of its own import; this makes the function's frame one of them.
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
