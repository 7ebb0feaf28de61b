"""Leases: the programs in use, as launchers, and the number of unused programs that are kept.

Launchers and programs live as long as their queue, so that a program that makes the same Kernel again, in a loop, loads
nothing again. A Kernel holds a lease on each code that it launches. When the last Kernel of a code is gone, the code is
*dropped*. Above a bound on the bytes of dropped programs kcl releases the launchers that were dropped first, and their
programs with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet, WeakValueDictionary

from kcl.base import process
from kcl.launch import Kernels, Launcher, Play

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.build.stage import BuiltProgram
    from kcl.code import LaunchableCode

Learn = Callable[[Launcher, Any, dict[str, Any]], Play | None]
KEPT_BYTES = 16 << 20


class LauncherHolder(Protocol):
    """An object that keeps launchers, by the digest of their code and by thread."""

    launchers: dict[tuple[str, int], Launcher]


class Lease:
    """The right to use a code; Kernels hold it, and the code is dropped with the last of them."""

    __slots__ = ("__weakref__", "_digest", "_dropped")

    def __init__(self, digest: str, dropped: dict[str, None]) -> None:
        self._digest = digest
        self._dropped = dropped

    def __del__(self) -> None:
        self._dropped[self._digest] = None  # one step: it comes at any point of any thread


class State:
    """The leases by the digest of their code, the digests of dropped codes, oldest first, and the launcher holders."""

    def __init__(self) -> None:
        self.leases: WeakValueDictionary[str, Lease] = WeakValueDictionary()
        self.dropped: dict[str, None] = {}
        self.bytes: dict[str, int] = {}
        self.holders: WeakSet[LauncherHolder] = WeakSet()


_state = process.own(State)


def lease(digest: str) -> Lease:
    """Return the lease on a code; the code is not dropped while an object holds the lease."""
    state = _state()
    found = state.leases.get(digest)
    if found is None:
        found = state.leases.setdefault(digest, Lease(digest, state.dropped))
    state.dropped.pop(digest, None)
    return found


def bound(holder: LauncherHolder, digest: str, size: int) -> None:
    """Note that a holder has a launcher of a code, whose program takes `size` bytes or about that."""
    state = _state()
    state.holders.add(holder)
    state.bytes[digest] = size
    kept = 0
    for dropped in reversed(list(state.dropped)):
        kept += state.bytes.get(dropped, 0)
        if kept > KEPT_BYTES:
            _let_go(state, dropped)


def _let_go(state: State, digest: str) -> None:
    """Release the launchers of a code, unless a Kernel uses it again."""
    state.dropped.pop(digest, None)
    if digest in state.leases:
        return
    state.bytes.pop(digest, None)
    for holder in list(state.holders):
        for place in [place for place in list(holder.launchers) if place[0] == digest]:
            holder.launchers.pop(place, None)


def launcher_of(
    ready: LaunchableCode, found: BuiltProgram, own: dict[cl.Event, None] | None = None, learn: Learn | None = None
) -> Launcher:
    """Return the launcher of a program's kernels, with kernel objects of its own."""
    kernels = Kernels()
    for name, kernel in found.kernels(ready.code.text.kernels).items():
        setattr(kernels, name, kernel)
    invoker = ready.code.invoker
    required = [one.name for one in invoker.arguments if one.required and one.name not in invoker.packed]
    return Launcher(ready.invoke, kernels, found, frozenset(required), own, learn, frozenset(invoker.inferred))


def learn(launcher: Launcher, queue: cl.CommandQueue, arguments: dict[str, Any]) -> Play | None:
    # Imported when a kernel turns out to be called often.
    from kcl.launch import replay

    return replay.learn(launcher, queue, arguments)
