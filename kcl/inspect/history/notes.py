"""Notes: what a program did that a later `kcl status` and `kcl doctor` should still say, such as a late switch.

One small file each, named after what it says, so that a program that does the same every day leaves one. A note is
forgotten after a week. Nothing here is needed for a right answer, so no fault passes this module.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from kcl.base import events
from kcl.cache import places
from kcl.cache.run_memo import driver_name
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.caches.late_switches import Late
from kcl.errors import CacheFault, DamagedEntry

AGE = 7 * 86400.0
_MANY = 64
_FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError)


class Note(NamedTuple):
    """What was found, where it happened (the file of the program), and when last, in seconds since the epoch."""

    time: float
    driver: str
    late: Late


def keep(found: Sequence[Late]) -> None:
    """Write a note of each late switch of this process. Raises nothing."""
    try:
        store = _store()
        for late in found:
            says = json.dumps([driver_name(), *late]).encode()
            store.put(address(hashlib.sha256(says).hexdigest(), label="late"), says)
    except _FAULTS as error:
        events.logger().info("the notes of this process are lost: %r", error)


def read() -> list[Note]:
    """Return the notes of the last week, newest first; removes older ones, and those beyond a bound. Raises nothing."""
    found = []
    with suppress(*_FAULTS):
        store = _store()
        for place in store.scan():
            with suppress(*_FAULTS, DamagedEntry):
                moment = os.stat(os.path.join(store.location, place)).st_mtime
                driver, *late = json.loads(store.get(place) or b"")
                found.append((Note(moment, driver, Late(*late)), place))
        found.sort(reverse=True)
        for number, (note, place) in enumerate(found):
            if number >= _MANY or note.time < time.time() - AGE:
                store.delete(place)
    return [note for note, _ in found[:_MANY] if note.time >= time.time() - AGE]


def _store() -> Directory:
    return Directory(places.own(places.NOTES))
