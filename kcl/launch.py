"""The hot path: from a bound kernel to the enqueue. Nothing of kcl is imported here but its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcl.errors import KclError


class Kernels:
    """The device kernels of one program for one thread, as attributes: the invoker takes them by name."""


class Launcher:
    """A kernel bound to one program for one thread: setting arguments and enqueueing are two calls in OpenCL."""

    __slots__ = ("invoke", "kernels", "program", "required")

    def __init__(
        self,
        invoke: Callable[..., Any],
        kernels: Kernels,
        program: Any,
        required: frozenset[str],
    ) -> None:
        self.invoke = invoke
        self.kernels = kernels
        self.program = program
        self.required = required

    def __call__(
        self, queue: Any, allocator: Any, wait_for: Any, out_host: bool | None, arguments: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Enqueue; returns (event, outputs) as loopy's executor does."""
        if not self.required <= arguments.keys():
            raise MissingArguments(sorted(self.required - arguments.keys()))
        return self.invoke(self.kernels, queue, allocator, wait_for, out_host, **arguments)  # type: ignore[no-any-return]


class MissingArguments(KclError):
    """Input arrays were not given; the caller raises the front end's own error for it."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def unpack(packed: dict[str, list[tuple[Any, str]]], arguments: dict[str, Any]) -> dict[str, Any]:
    """Take object arrays apart into the arguments that the kernel has for their elements."""
    arguments = arguments.copy()
    for name, parts in packed.items():
        if name in arguments:
            value = arguments.pop(name)
            for index, part in parts:
                arguments[part] = value[index]
    return arguments
