"""Orders: which programs a driver asked for, one after the other, so that its next run can have them made ahead.

An order is an entry of its own, under the driver's name, the first program and the build options; the addresses of the
programs stand in its metadata. A process writes it when it ends, if it asked for a program that is not in it. Nothing
here is needed for a right answer, so no fault passes this module.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

from kcl import events, option
from kcl.entry import Entry
from kcl.errors import CacheFault, DamagedEntry
from kcl.key import Key, Part
from kcl.stores.base import address, digest_of
from kcl.stores.directory import Directory

LONGEST = 2000  # programs
KEPT = 64  # orders, the newest
_FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError)


class Order:
    """What is asked for after one first program: what the last run says, and what this one asked for. Thread-safe."""

    def __init__(self, key: Key, store: Directory) -> None:
        self._key = key
        self._store = store
        self._place = address(key.digest, label="order")
        self._listed: list[str] | None = None  # None before it was read: then it is not written either
        self.asked: dict[str, None] = {}

    def read(self) -> list[str]:
        """Return the addresses that the last run asked for; none where there is no order, or none of use."""
        if self._listed is None:
            self._listed = self._read()
        return self._listed

    def _read(self) -> list[str]:
        try:
            blob = self._store.get(self._place)
            listed = [] if blob is None else Entry.unpack(blob, self._key).metadata["programs"]
            if type(listed) is not list:
                raise DamagedEntry(f"an order is a list, not {type(listed).__name__}")
            for one in listed:
                digest_of(one)
            return listed[:LONGEST]
        except (*_FAULTS, AttributeError) as error:
            events.logger().info("the order of the last run cannot be read: %r", error)
            return []

    def write(self) -> None:
        """Write what was asked for, where the order that was read lacks some of it. Raises nothing."""
        asked = list(self.asked)[:LONGEST]
        if self._listed is None or len(asked) < 2 or set(asked).issubset(self._listed):
            return
        try:
            self._store.put(self._place, Entry(self._key, {"programs": asked}, {}).pack())
            for place in _oldest(self._store):
                self._store.delete(place)
        except _FAULTS as error:
            # Whatever hinders this hinders the layers too, which have said so.
            events.logger().info("the order of this run is lost: %r", error)


_lock = threading.Lock()
_orders: dict[tuple[str, str], Order] = {}
_registered = False


def of(first: str, options: str) -> Order:
    """Return the order that begins with the program at an address, built with these options."""
    global _registered
    folder = os.path.join(option.folder("kcl"), "orders")
    driver = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    key = Key([Part("driver", driver), Part("first program", first), Part("build options", options)])
    with _lock:
        if not _registered:
            _registered = True
            atexit.register(write)
        return _orders.setdefault((folder, key.digest), Order(key, Directory(folder)))


def write() -> None:
    """Write the orders of this process. Raises nothing."""
    for order in list(_orders.values()):
        order.write()


def reset() -> None:
    """Forget what was asked for."""
    with _lock:
        _orders.clear()


def _oldest(store: Directory) -> list[str]:
    """Return the orders beyond those that are kept."""
    written = []
    for place, item in store.items():
        try:
            written.append((item.stat(follow_symlinks=False).st_mtime, place))
        except FileNotFoundError:
            continue  # another process was faster
    return [place for _moment, place in sorted(written, reverse=True)[KEPT:]]


def _after_fork() -> None:
    """Leave to the parent what the parent asked for; a thread that is not here may hold the lock."""
    global _lock
    _lock = threading.Lock()
    _orders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
