"""Ports, by which a module calls one above it; and the functions of kcl that stand in place of others.

A port is a row of `PORTS` or `TOOLS` in `kcl/__init__.py`. A launch needs the modules of `PORTS`. It goes on without
those of `TOOLS`, which an installation may leave out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, TypeVar

import kcl

T = TypeVar("T")


class computed_once(Generic[T]):
    """A property that is computed at its first use, by each of the threads that are there at once; without a lock."""

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
    """Return the module at a port, imported now; raises ImportError, but not for a tool that is not installed."""
    tool = kcl.TOOLS.get(name, "")
    try:
        return importlib.import_module(tool or kcl.PORTS[name])
    except ModuleNotFoundError as error:
        # Another module may be missing, which the tool imports.
        if error.name and f"{tool}.".startswith(f"{error.name}."):
            return _NoTool()
        raise


def unwrap(value: Any) -> Any:
    """Return the function that kcl has replaced, if the value is one of kcl's own functions; else the value."""
    while is_of_kcl(value) and "__wrapped__" in value.__dict__:
        value = value.__dict__["__wrapped__"]
    return value


def is_of_kcl(value: Any) -> bool:
    """Return True for a function of kcl's own."""
    # No attribute tells, since `functools.wraps` would copy it.
    return isinstance(value, FunctionType) and str(value.__globals__.get("__name__")).startswith(
        "kcl."
    )


def is_being_imported(module: Any) -> bool:
    """Return True if the import of a module has begun and not ended: the module lacks names that it will have."""
    # Python's own mark, by which an import of another thread waits.
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def hide_from_warnings(function: Any) -> None:
    """Hide a function's frame from `warnings`, so that a warning below it names the caller's line."""
    # Python skips the frames of its own import; this makes the function's frame one of them.
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
