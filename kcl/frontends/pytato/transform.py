"""The content of a function that transforms a unit, for keys.

Its code counts by the files of its packages, and what it refers to by content. A method of an array context counts by
the context's class and all its attributes. Code of the program has no text, so it is not recorded.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import MethodType
from typing import Any

from kcl.frontends.loopy.callables import classes
from kcl.frontends.loopy.callables.content import Content, content
from kcl.frontends.pytato.graph import is_counted
from kcl.generate import distributions

# Attributes of array contexts that do not decide a unit: memos of programs, a number for messages, measured times.
_LEFT = {
    *("_freeze_prg_cache", "_dag_transform_cache", "mpi_base_tag"),
    *("_profile_events", "_profile_results"),
}
_DEVICE = (
    *("name", "vendor", "version", "driver_version", "type", "max_parameter_size"),
    *("max_compute_units", "max_work_group_size", "max_work_item_sizes", "local_mem_size"),
    "address_bits",
)
# Attributes of a communicator that can be read without sending a message.
_HARMLESS = {
    *("Get_rank", "Get_size", "rank", "size", "__class__"),
}
_MPI = "mpi4py.MPI"
_ALLOCATORS = {
    *("DeferredAllocator", "ImmediateAllocator", "MemoryPool"),
    *("SVMAllocator", "SVMPool"),
}


def of_function(function: Any) -> Content:
    """Return the content of a transforming function; raise UnknownInput, with the reason, if no key can describe it."""
    if not is_of_context(function):
        return content(function)
    owner = function.__self__
    attributes = [
        (name, _plain(value, name))
        for name, value in classes.attributes(owner, theirs=True)
        if name not in _LEFT
    ]
    return content((function.__func__, type(owner), attributes), called=True)


def is_of_context(function: Any) -> bool:
    """Return True if a function is a method of an array context."""
    context = getattr(sys.modules.get("arraycontext"), "ArrayContext", ())
    return isinstance(function, MethodType) and isinstance(function.__self__, context)


@contextmanager
def noting_messages(function: Any) -> Iterator[list[str]]:
    """In the block note which attributes of the array context's MPI communicators are read, except rank and size."""
    messages = list[str]()
    owner = vars(function.__self__) if is_of_context(function) else {}
    kind = getattr(sys.modules.get(_MPI), "Comm", ())
    own = {name: value for name, value in owner.items() if isinstance(value, kind)}
    noting = {name: _noting(value, messages) for name, value in own.items()}
    owner.update(noting)
    try:
        yield messages
    finally:
        owner.update({name: own[name] for name in own if owner.get(name) is noting[name]})


def _noting(communicator: Any, messages: list[str]) -> Any:
    class Noting(type(communicator)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name not in _HARMLESS:
                messages.append(name)
            return super().__getattribute__(name)

    return Noting(communicator)


def as_of_now(function: Any) -> Any:
    """Return a method bound to a copy of its owner, so that later changes do not reach it; else the function itself."""
    with suppress(Exception):  # of an owner that cannot be copied, and of a function without one
        owner = copy.copy(function.__self__)
        for name, value in vars(owner).items():
            if type(value) in (dict, list, set) and name not in _LEFT:
                vars(owner)[name] = copy.copy(value)
        return MethodType(function.__func__, owner)
    return function


def of_call(value: Any) -> Content:
    """Return the content of a call's arguments, and of the packages that make units from graphs."""
    packages = [sys.modules[name] for name in distributions.GRAPHS if name in sys.modules]
    return content((packages, _plain(value)))


@functools.cache
def _facts(device: Any) -> list[str]:
    facts = [str(getattr(device, name)) for name in _DEVICE]
    return [*facts, device.platform.name, device.platform.version]


def _plain(value: Any, name: str = "") -> Any:
    """Return a substitute for an object of OpenCL or MPI, or a cache, which have no text; any other value unchanged."""
    if type(value) in (list, tuple):
        return [type(value), *map(_plain, value)]
    opencl: Any = sys.modules["pyopencl"]
    kind = type(value)
    if isinstance(value, opencl.Device):
        return [kind, *_facts(value)]
    if isinstance(value, (opencl.Context, opencl.CommandQueue)):
        devices = value.devices if isinstance(value, opencl.Context) else [value.device]
        return [kind, *map(_plain, devices)]
    if kind.__module__ == _MPI:
        return [kind, value.Get_rank(), value.Get_size()]
    is_left = (
        (str(kind.__module__).startswith("pyopencl.") and kind.__name__ in _ALLOCATORS)
        or kind.__module__ == "pytools.persistent_dict"
        or (name == "np" and is_counted(kind))  # the namespace of a context
    )
    return kind if is_left else value
