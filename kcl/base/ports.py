"""Ports: the modules above that a module below calls, by names of two tables, which stand in `kcl/__init__.py`."""

from __future__ import annotations

import importlib
from typing import Any

import kcl


class _NoTool:
    """A tool that is not installed: it does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments, **_keywords: None


def at(name: str) -> Any:
    """Return the module at a port, imported now; a tool that is not installed does nothing."""
    tool = kcl.TOOLS.get(name, "")
    try:
        return importlib.import_module(tool or kcl.PORTS[name])
    except ModuleNotFoundError as error:
        if error.name and f"{tool}.".startswith(f"{error.name}."):
            return _NoTool()
        raise
