"""Leases: which programs are in use, and how many of those that are not are kept.

Launchers and programs live as long as their queue, so that a program that makes the same Kernel again, in a loop, loads
nothing again. A Kernel holds a lease on each code that it launches. When the last Kernel of a code is gone, the code is
*dropped*; above a bound on the bytes of dropped programs the launchers of those dropped first are let go of, and their
programs with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet, WeakValueDictionary

from kcl.base import process

if TYPE_CHECKING:
    from kcl.launch import Launcher

KEPT_BYTES = 16 << 20


class LauncherHolder(Protocol):
    """What keeps launchers, by the digest of their code and by thread."""

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
    """The leases by the digest of their code, the digests of dropped codes, oldest first, and what holds launchers."""

    def __init__(self) -> None:
        self.leases: WeakValueDictionary[str, Lease] = WeakValueDictionary()
        self.dropped: dict[str, None] = {}
        self.bytes: dict[str, int] = {}
        self.holders: WeakSet[LauncherHolder] = WeakSet()


_state = process.own(State)


def lease(digest: str) -> Lease:
    """Return the lease on a code; it is not dropped as long as somebody holds that."""
    state = _state()
    found = state.leases.get(digest)
    if found is None:
        found = state.leases.setdefault(digest, Lease(digest, state.dropped))
    state.dropped.pop(digest, None)
    return found


def bound(holder: LauncherHolder, digest: str, size: int) -> None:
    """Note that a holder has a launcher of a code, whose program takes about so many bytes."""
    state = _state()
    state.holders.add(holder)
    state.bytes[digest] = size
    kept = 0
    for dropped in reversed(list(state.dropped)):
        kept += state.bytes.get(dropped, 0)
        if kept > KEPT_BYTES:
            _let_go(state, dropped)


def _let_go(state: State, digest: str) -> None:
    """Let go of the launchers of a code, unless a Kernel came to use it again."""
    state.dropped.pop(digest, None)
    if digest in state.leases:
        return
    state.bytes.pop(digest, None)
    for holder in list(state.holders):
        for place in [place for place in list(holder.launchers) if place[0] == digest]:
            holder.launchers.pop(place, None)
