"""Notes: small facts that outlive a process, such as the time of the last question to a remote, by name.

    notes/<begin of the name>-<digest of the name>      [name, value] in JSON

A note is replaced as a whole, and has an age. A missing or damaged note costs time or a message, never a wrong result,
so faults are ignored. The oldest notes above `KEPT` are removed. With both layers off no note is read or written.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from typing import Any

from kcl.cache import layers, places
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault, DamagedEntry

# The most notes, and the most bytes of one.
KEPT, LARGEST = 1024, 1 << 16
_FAULTS = (OSError, CacheFault, DamagedEntry, ValueError, TypeError, RecursionError)


def read(name: str) -> Any:
    """Return the value of a note; None if there is no readable one."""
    with suppress(*_FAULTS):
        blob = _store().get(_place(name))
        stored_name, value = json.loads(blob) if blob is not None else (None, None)
        return value if stored_name == name else None
    return None


def age(name: str) -> float | None:
    """Return the seconds since a note was written; None without one."""
    with suppress(*_FAULTS):
        head = _store().head(_place(name), 0)
        # The clock may have been set back.
        return abs(time.time() - (head[0].used or 0.0)) if head else None
    return None


def write(name: str, value: Any) -> None:
    """Write a note with a JSON value in place of an earlier one; a value above `LARGEST` bytes is dropped."""
    with suppress(*_FAULTS):
        blob, notes = json.dumps([name, value]).encode(), _store()
        if len(blob) <= LARGEST:
            notes.put(_place(name), blob)
            notes.keep_newest(KEPT)


def remove(name: str) -> None:
    """Remove a note, if there is one."""
    with suppress(*_FAULTS):
        _store().delete(_place(name))


def _store() -> Directory:
    if layers.generator().off() and layers.binary().off():
        raise CacheFault("both layers are off")
    return Directory(places.own(places.NOTES))


def _place(name: str) -> str:
    return address(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest(), label=name)
