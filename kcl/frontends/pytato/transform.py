"""What a transformation of a unit counts by: its code by the files of its packages, and what it holds by its content.

A method of an array context counts by the context's class and by every attribute of it. Code of the program has no
text.
"""

from __future__ import annotations

import sys
from types import MethodType
from typing import Any

from kcl.frontends.loopy.callables import classes
from kcl.frontends.loopy.callables.content import Content, content
from kcl.generate import distributions

# Attributes of array contexts that decide no unit: memos of programs, and a number for messages.
_LEFT = frozenset({"_freeze_prg_cache", "_dag_transform_cache", "mpi_base_tag"})
_DEVICE = ("name", "vendor", "version", "driver_version", "type", "max_parameter_size")


def packages() -> Content:
    """Return what the packages count by that make units of graphs: their files, and what was changed in them."""
    return content(
        tuple([sys.modules[name] for name in distributions.GRAPHS if name in sys.modules])
    )


def of_function(function: Any) -> Content:
    """Return what a transformation counts by; raise UnknownInput with the reason where no key can hold it."""
    if not isinstance(function, MethodType):
        return content(function)
    owner = function.__self__
    held = [
        (name, _plain(one, name))
        for name, one in classes.attributes(owner, theirs=True)
        if name not in _LEFT
    ]
    return content((function.__func__, type(owner), held))


def of_value(value: Any) -> Content:
    """Return what a value counts by that a call gets."""
    return content(_plain(value))


def _plain(value: Any, name: str = "") -> Any:
    """Return what stands for an object that has no text: of OpenCL, of MPI, and caches."""
    if type(value) in (list, tuple):
        return [type(value), *map(_plain, value)]
    opencl: Any = sys.modules["pyopencl"]
    kind = type(value)
    if isinstance(value, opencl.Device):
        facts = [str(getattr(value, name)) for name in _DEVICE]
        return [kind, *facts, value.platform.name, value.platform.version]
    if isinstance(value, (opencl.Context, opencl.CommandQueue)):
        devices = value.devices if isinstance(value, opencl.Context) else [value.device]
        return [kind, *map(_plain, devices)]
    module = f"{kind.__module__}."
    if module.startswith("mpi4py.MPI."):
        return [kind, value.Get_rank(), value.Get_size()]
    # allocators, foreign caches, the namespace of a context
    is_left = module.startswith(("pyopencl.", "pytools.persistent_dict.")) or name == "np"
    return kind if is_left else value
