"""Growth: the bytes that the layers took on since the last measurement, so that few runs have to measure.

    file = head line*
    head = seconds since the epoch, blank, bytes, newline    the time and the result of the measurement
    line = bytes, newline                                    published by one process

A process appends its line as it ends. The number is an estimate: it only decides the time of the next measurement. No
fault passes this module.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from kcl.base import process
from kcl.base.settings import trust
from kcl.cache import places
from kcl.errors import CacheFault

STEP = 4 << 20  # bytes that a process publishes before it reads the estimate while it runs
_LONGEST = 1 << 16  # bytes of the file: above it the next process measures
_FAULTS = (OSError, ValueError, CacheFault)


class Estimate(NamedTuple):
    """The estimated size of the entries: the time of the measurement, in seconds since the epoch, and the bytes."""

    measured: float
    size: int


class State:
    """The bytes that this process has published and not yet written down."""

    def __init__(self) -> None:
        self.size = 0

    def at_exit(self) -> None:
        write()

    before_change = at_exit


_state = process.own(State)


def add(size: int) -> None:
    """Count published bytes."""
    _state().size += size


def unwritten() -> int:
    """Return the bytes that this process has published and not yet written down."""
    return _state().size


def write(folder: str = "") -> None:
    """Write down the bytes that this process published, in kcl's own folder or in that of another process."""
    state, folder = _state(), folder or places.own()
    size, state.size = state.size, 0
    if size:
        with suppress(*_FAULTS):
            trust.make_trusted(folder)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | trust.AT_ONCE
            with open(trust.opened(os.path.join(folder, places.SPACE), flags), "ab", 0) as stream:
                stream.write(f"{size}\n".encode())


def estimate() -> Estimate | None:
    """Return the estimate; None without a measurement, or after one that is too old."""
    with suppress(*_FAULTS):
        if not trust.check(places.own()):
            return None
        with open(os.open(places.own(places.SPACE), trust.READ), "rb", 0) as stream:
            if trust.file_fault(os.fstat(stream.fileno())) is None:
                return _understood(stream.read(_LONGEST + 1))
    return None


def measured(now: float, size: int) -> None:
    """Write down a measurement."""
    from kcl.cache.stores.directory import publish

    with suppress(*_FAULTS):
        trust.make_trusted(places.own())
        publish(places.own(places.SPACE), f"{now} {size}\n".encode())


def _understood(text: bytes) -> Estimate | None:
    head, *lines = text.split(b"\n")
    if len(text) > _LONGEST or b" " not in head:
        return None
    when, size = head.split()
    return Estimate(float(when), int(size) + sum(int(line) for line in lines if line))
