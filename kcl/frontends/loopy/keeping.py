"""Arguments that loopy keeps by reference: how kcl finds them, and the content that they had at the call.

If a program changes such an argument after the call, loopy's unit changes with it. So the call is carried out with the
program's own objects. If they have changed since the call was recorded, they get their former content back while it is
carried out. Numbers in arrays are compared only at the look-up, since no call reads them.
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
    """List the objects of an argument that a call may keep a reference to; for a view also the arrays that it views."""
    things = [*changeable(value)]
    # The list grows in the loop, since a view may be of a view.
    for thing in things:
        viewed = getattr(thing, "base", None)
        things += [viewed] if viewed is not None else []
    return things


class ReferenceCount:
    """Finds the objects in arguments to which more references lead after a block: `grown` has their ids.

    Objects in `made`, the results of other records, are left out. What the program drops in the block must not be garbage
    that only the collector frees.
    """

    def __init__(self, arguments: Any, made: Any = ()) -> None:
        self.grown: set[int] = set()
        others = {*map(id, keepable(made))}
        self._things = [thing for thing in keepable(arguments) if id(thing) not in others]

    def __enter__(self) -> None:
        # A collection in the block could drop a reference, and hide one that loopy keeps.
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
    """The content that a changeable container or array had at a call."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self._saved = self._content()

    def _content(self) -> Any:
        """Return a copy of a container or of an object's attributes; for an array its text."""
        own, row = self._own, texts.container(self._own)
        if type(own) is loaded("numpy", "ndarray"):
            return texts.exact_text(own)
        assert row is not None
        return own.copy() if hasattr(own, "clear") else dict(pairs(row.items(own)))

    def is_changed(self, in_place: bool = False) -> bool:
        """Return True if the content has changed; `in_place` leaves numbers in arrays out."""
        now, saved = self._content(), self._saved
        if type(saved) is str:
            return not in_place and bool(now != saved)
        listed, row = set if type(saved) is set else list, texts.container(saved)
        assert row is not None
        # Compared by identity, since `==` could run code of the program.
        return bool(listed(map(id, row.items(now))) != listed(map(id, row.items(saved))))

    def exchange(self) -> None:
        """Swap the present content of the object and the saved one."""
        items, own = self._saved, self._own
        self._saved = self._content()
        if hasattr(own, "clear"):
            own.clear()
            (own.extend if type(own) is list else own.update)(items)
        else:
            for name in set(self._saved).difference(items):
                # By `object`, since the class may be frozen.
                object.__delattr__(own, name)
            for name, item in items.items():
                object.__setattr__(own, name, item)


def hold(arguments: Any) -> list[CallContent]:
    """Save the content of all changeable containers and arrays in arguments."""
    return [CallContent(thing) for thing in changeable(arguments)]


@contextmanager
def as_of_call(contents: Iterable[CallContent]) -> Iterator[None]:
    """Within the block, give changed objects the content that they had when the call was recorded."""
    changed = [content for content in contents if content.is_changed(in_place=True)]
    for content in changed:
        content.exchange()
    try:
        yield
    finally:
        for content in changed:
            content.exchange()
