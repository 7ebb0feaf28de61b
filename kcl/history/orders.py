"""Orders: which programs a driver asked for, one after the other, so that its next run can have them made ahead.

An order is an entry of its own, under the driver's name, the first program and the build options; the addresses of the
programs stand in its metadata. A process that has read it writes a new one, with its journal, if it asked for a program
that is not in it. Nothing here is needed for a right answer, so no fault passes this module.
"""

from __future__ import annotations

import os
import time

from kcl import events, option
from kcl.entry import Entry
from kcl.errors import CacheFault, DamagedEntry
from kcl.history import driver_name
from kcl.key import Key, Part
from kcl.stores.base import address, digest_of
from kcl.stores.directory import Directory

LONGEST = 2000  # programs
KEPT = 64  # orders: in memory those of the last first programs, on disk those that were used last
_DAY = 86400.0
_FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError, AttributeError)


class Order:
    """What is asked for after one first program: what the last run says, and what this one asked for. Thread-safe."""

    def __init__(self, key: Key, store: Directory) -> None:
        self._key = key
        self._store = store
        self._place = address(key.digest, label="order")
        self._listed: list[str] | None = None  # None before it was read: then it is not written either
        self._asked: dict[str, None] = {}

    def note(self, program: str) -> None:
        """Note that the program at an address is asked for."""
        if len(self._asked) < LONGEST:
            self._asked[program] = None

    def read(self) -> list[str]:
        """Return the addresses that the last run asked for; none where there is no order, or none of use."""
        if self._listed is None:
            self._listed = self._read()
        return self._listed

    def _read(self) -> list[str]:
        try:
            blob = self._store.get(self._place)
            if blob is None:
                return []
            listed = Entry.unpack(blob, self._key).metadata["programs"]
            if type(listed) is not list or len(listed) > LONGEST:
                raise DamagedEntry(f"an order is a list of at most {LONGEST} programs")
            for one in listed:
                digest_of(one)
            path = os.path.join(self._store.location, self._place)
            if time.time() - os.stat(path).st_mtime > _DAY:
                os.utime(path)  # it is in use
            return listed
        except _FAULTS as error:
            events.logger().info("the order of the last run cannot be read: %r", error)
            return []

    def write(self) -> bool:
        """Write what was asked for, where the order that was read lacks some of it; tell whether it was written."""
        asked = list(self._asked)
        if self._listed is None or len(asked) < 2 or set(asked).issubset(self._listed):
            return False
        self._store.put(self._place, Entry(self._key, {"programs": asked}, {}).pack())
        self._listed = asked
        return True


_orders: dict[str, Order] = {}


def of(first: str, options: str) -> Order:
    """Return the order that begins with the program at an address, built with these options."""
    key = Key([Part("driver", driver_name()), Part("first program", first), Part("build options", options)])
    # No lock: a launch may come in between, from a signal handler or a finaliser in the same thread.
    order = _orders.setdefault(key.digest, Order(key, _store()))
    for oldest in list(_orders)[:-KEPT]:
        _orders.pop(oldest, None)
    return order


def write() -> None:
    """Write the orders of this process, and remove those that were not used for long. Raises nothing."""
    try:
        written = [order.write() for order in list(_orders.values())]
        if any(written):
            _forget_oldest(_store())
    except _FAULTS as error:
        events.logger().info("the orders of this run are lost: %r", error)


def reset() -> None:
    """Forget what was asked for."""
    _orders.clear()


def _store() -> Directory:
    return Directory(os.path.join(option.folder("kcl"), "orders"))


def _forget_oldest(store: Directory) -> None:
    written = []
    for place, item in store.items():
        try:
            written.append((item.stat(follow_symlinks=False).st_mtime, place))
        except FileNotFoundError:
            continue  # another process was faster
    for _moment, place in sorted(written, reverse=True)[KEPT:]:
        store.delete(place)


option.on_change(reset)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset)  # what the parent asked for is the parent's
