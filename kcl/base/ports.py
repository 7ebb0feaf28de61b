"""Ports: the modules above that a module below calls, by names of one table, which stands in `kcl/__init__.py`."""

from __future__ import annotations

import importlib
from typing import Any

import kcl


def at(name: str) -> Any:
    """Return the module at a port, imported now."""
    return importlib.import_module(kcl.PORTS[name])
