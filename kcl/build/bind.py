"""Binding: an invoker and the kernels of a program become their launcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcl.code import Code
from kcl.launch import Kernels, Launcher, Play

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.build.stage import BuiltProgram
    from kcl.code import LaunchableCode

Learn = Callable[[Launcher, Any, dict[str, Any]], Play | None]


def launcher_of(
    ready: LaunchableCode, found: BuiltProgram, own: dict[cl.Event, None] | None = None, learn: Learn | None = None
) -> Launcher:
    """Return the launcher of a program's kernels, with kernel objects of its own."""
    kernels = Kernels()
    for name, kernel in found.kernels(ready.code.text.kernels).items():
        setattr(kernels, name, kernel)
    return Launcher(ready.invoke, kernels, found, _required(ready.code), own, learn)


def learn(launcher: Launcher, queue: cl.CommandQueue, arguments: dict[str, Any]) -> Play | None:
    # Imported when a kernel turns out to be called often.
    from kcl.launch import replay

    return replay.learn(launcher, queue, arguments)


def _required(code: Code) -> frozenset[str]:
    names = (argument.name for argument in code.invoker.arguments if argument.required)
    return frozenset(name for name in names if name not in code.invoker.packed)
