"""Arguments that loopy keeps by reference: how kcl sees that it does, and what they held at a call.

What loopy keeps a program may change after the call, and loopy's unit changes with it. So such a call is carried out
with the program's own objects. If they changed since the call, they get the content of the call back while it is
carried out. The numbers of an array count at the look-up alone: no call reads them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kcl.frontends.loopy import texts
from kcl.frontends.loopy.plain import loaded, pairs


def changeable(value: Any) -> Iterator[Any]:
    """Yield the containers and arrays in an argument that may change in place."""
    row = texts.container(value)
    if row is None:
        return
    if type(value) not in (tuple, frozenset):
        yield value
    for item in row.items(value):
        yield from changeable(item)


def keepable(value: Any) -> list[Any]:
    """List what a call may keep of an argument; a view of a view refers to the array that has the memory."""
    things = [*changeable(value)]
    # The list grows as it is read: the memory of a view may be a view itself.
    for thing in things:
        viewed = getattr(thing, "base", None)
        things += [viewed] if viewed is not None else []
    return things


class ReferenceCount:
    """The objects in arguments to which more references lead after a block, by their ids.

    What `made` holds does not count: results of kcl's own records, which no program has.
    Nothing that only waits for Python's collector goes in the block: that could hide a reference.
    """

    def __init__(self, arguments: Any, made: Any = ()) -> None:
        self.grown: set[int] = set()
        others = {*map(id, keepable(made))}
        self._things = [thing for thing in keepable(arguments) if id(thing) not in others]

    def __enter__(self) -> None:
        # The collector could let go of a reference in the block, and hide one that loopy keeps.
        self._collects = gc.isenabled()
        gc.disable()
        self._before = [*map(sys.getrefcount, self._things)]

    def __exit__(self, *_error: object) -> None:
        after = [*map(sys.getrefcount, self._things)]
        if self._collects:
            gc.enable()
        counted = zip(self._things, self._before, after, strict=True)
        self.grown = {id(thing) for thing, before, now in counted if now > before}


class CallContent:
    """The content at a call of a container or array that a program may change."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self._saved = self._content()

    def _content(self) -> Any:
        """Return a copy of a container, or of the attributes of an object; the text of an array."""
        own, row = self._own, texts.container(self._own)
        if type(own) is loaded("numpy", "ndarray"):
            return texts.exact_text(own)
        assert row is not None
        return own.copy() if hasattr(own, "clear") else dict(pairs(row.items(own)))

    def is_changed(self, in_place: bool = False) -> bool:
        """Return True if the object has another content now; `in_place` leaves out what counts at the look-up alone."""
        now, saved = self._content(), self._saved
        if type(saved) is str:
            return not in_place and bool(now != saved)
        listed, row = set if type(saved) is set else list, texts.container(saved)
        assert row is not None
        # Items count by identity: a comparison by value could run code of the program.
        return bool(listed(map(id, row.items(now))) != listed(map(id, row.items(saved))))

    def exchange(self) -> None:
        """Give the object the content that was saved, and save the content that it has."""
        items, own = self._saved, self._own
        self._saved = self._content()
        if hasattr(own, "clear"):
            own.clear()
            (own.extend if type(own) is list else own.update)(items)
        else:
            for name in set(self._saved).difference(items):
                # Past the class, which may be frozen.
                object.__delattr__(own, name)
            for name, item in items.items():
                object.__setattr__(own, name, item)


def hold(arguments: Any) -> list[CallContent]:
    """Take the content of all containers and arrays in some arguments."""
    return [CallContent(thing) for thing in changeable(arguments)]


@contextmanager
def as_of_call(contents: Iterable[CallContent]) -> Iterator[None]:
    """Let objects have the content of the call in a block."""
    changed = [content for content in contents if content.is_changed(in_place=True)]
    for content in changed:
        content.exchange()
    try:
        yield
    finally:
        for content in changed:
            content.exchange()
