"""Orders: the programs that a driver asked for, one after the other, so that its next run can have them made ahead.

An order is remembered under the driver's name, the first program and the build options, as the addresses of the
programs. A process writes a new order, with its journal, if it asked for a program that is not in the order it read.
"""

from __future__ import annotations

from typing import Any

from kcl.base import process
from kcl.cache import places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import KEPT, RunMemo, driver_name
from kcl.cache.stores.base import digest_of

LONGEST = 2000  # programs


class Order:
    """The programs asked for after one first program, in the last run and in this process. Thread-safe."""

    def __init__(self, remembered: RunMemo) -> None:
        self._remembered = remembered
        self._listed: list[str] | None = None  # None until it is read: until then it is not written either
        self._asked: dict[str, None] = {}

    def note(self, program: str) -> None:
        """Note that the program at an address is asked for."""
        if len(self._asked) < LONGEST:
            self._asked[program] = None

    def read(self) -> list[str]:
        """Return the addresses that the last run asked for; none where the order is missing or of no use."""
        if self._listed is None:
            self._listed = _addresses(self._remembered.read().get("programs"))
        return self._listed

    def write(self) -> None:
        """Write the order of this process, where the order that was read lacks a part of it."""
        asked = list(self._asked)
        if self._listed is not None and len(asked) > 1 and not set(asked).issubset(self._listed):
            self._remembered.write({"programs": asked})
            self._listed = asked


def _addresses(listed: Any) -> list[str]:
    """Return the addresses in a stored order; none for content of another form."""
    if type(listed) is not list or len(listed) > LONGEST:
        return []
    try:
        for one in listed:
            digest_of(one)
    except (ValueError, AttributeError):
        return []
    return listed


class State:
    """The orders of the last first programs."""

    def __init__(self) -> None:
        self.orders: dict[str, Order] = {}

    def after_fork(self) -> None:
        """Leave the orders of the parent to the parent."""
        self.orders.clear()

    on_change = after_fork  # orders lie elsewhere now


_state = process.own(State)


def of(first: str, options: str) -> Order:
    """Return the order that begins with the program at an address, built with these options."""
    key = Key([Part("driver", driver_name()), Part("first program", first), Part("build options", options)])
    # No lock: a signal handler or a finaliser in the same thread may launch in between.
    orders = _state().orders
    order = orders.setdefault(key.digest, Order(RunMemo(places.ORDERS, key)))
    for oldest in list(orders)[:-KEPT]:
        orders.pop(oldest, None)
    return order


def write() -> None:
    """Write the orders of this process. Raises nothing."""
    for order in list(_state().orders.values()):
        order.write()
