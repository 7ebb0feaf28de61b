"""Stand-ins for the values of a call that are not known while it is recorded."""

from __future__ import annotations

from typing import NamedTuple


class NotPlayable(Exception):
    """The invoker takes a step that cannot be played again."""


class Mark:
    """A value that is unknown while recording, as the Python expression for it in a call.

    A Mark can be handed on, and that of a complex number be taken apart; comparing it or computing with it fails.
    """

    __slots__ = ("text",)

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def real(self) -> Mark:
        return Mark(f"{self.text}.real")

    @property
    def imag(self) -> Mark:
        return Mark(f"{self.text}.imag")

    def __eq__(self, _other: object) -> bool:
        raise NotPlayable("a value decides")

    def __ne__(self, _other: object) -> bool:
        raise NotPlayable("a value decides")

    def __bool__(self) -> bool:
        raise NotPlayable("a value decides")


class QueueMark(Mark):
    """The stand-in of the queue."""

    __slots__ = ()

    @property
    def context(self) -> Mark:
        return Mark("_kcl_context")


class Allocator(Mark):
    """The stand-in of the allocator."""

    __slots__ = ()

    def __call__(self, size: int) -> Allocation:
        return Allocation(size)


class Allocation(NamedTuple):
    """A buffer of a number of bytes, to be allocated in each call."""

    size: int
