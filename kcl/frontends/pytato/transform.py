"""What a transformation of a unit counts by: its code by the files of its packages, and what it holds by its content.

A method of an array context counts by the context's class and by every attribute of it. Code of the program has no
text.
"""

from __future__ import annotations

import sys
from types import MethodType
from typing import Any

from kcl.frontends.loopy.callables import classes
from kcl.frontends.loopy.callables.content import content, exact
from kcl.generate import distributions

# Attributes of array contexts that decide no unit: memos of programs, and a number for messages.
_LEFT = frozenset({"_freeze_prg_cache", "_dag_transform_cache", "mpi_base_tag"})
_DEVICE = ("name", "vendor", "version", "driver_version", "type", "max_parameter_size")


def packages() -> str:
    """Return a digest of the packages that make units of graphs: their files, and what was changed in them."""
    loaded = [sys.modules[name] for name in distributions.GRAPHS if name in sys.modules]
    return content(tuple(loaded)).digest


def text(function: Any) -> str:
    """Return the text of a transformation; raise UnknownInput with the reason where it has none."""
    if not isinstance(function, MethodType):
        return exact(function)
    owner = function.__self__
    held = [
        f"{name}={value_text(one, name)}"
        for name, one in classes.attributes(owner, theirs=True)
        if name not in _LEFT
    ]
    return f"{exact(function.__func__)} of {exact(type(owner))} {held}"


def value_text(value: Any, name: str = "") -> str:
    """Return the text of what a call or a context has."""
    if type(value) in (list, tuple):
        return f"{type(value).__name__} {[value_text(one) for one in value]}"
    opencl: Any = sys.modules["pyopencl"]
    if isinstance(value, opencl.Device):
        facts = [str(getattr(value, name)) for name in _DEVICE]
        return f"device {facts} {value.platform.name} {value.platform.version}"
    if isinstance(value, (opencl.Context, opencl.CommandQueue)):
        devices = value.devices if isinstance(value, opencl.Context) else [value.device]
        return f"{type(value).__name__} of {[*map(value_text, devices)]}"
    kind = type(value)
    names = f"{kind.__module__}.{kind.__qualname__}"
    if names.startswith(("pyopencl.", "pytools.persistent_dict.")):  # allocators and foreign caches
        return names
    if names.startswith("mpi4py.MPI."):
        return f"{names} {value.Get_rank()} of {value.Get_size()}"
    if name == "np":  # the namespace of a context
        return exact(kind)
    return exact(value)
