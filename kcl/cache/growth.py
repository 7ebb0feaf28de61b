"""Growth: the bytes that the layers took on since the last measurement, so that few runs have to measure.

The file has a number of bytes a line: the first one is the result of the measurement, and each other one was published
by one process, which appends it as it ends. The sum is an estimate: it only decides the time of the next measurement.
No fault passes this module.
"""

from __future__ import annotations

import os
from contextlib import suppress

from kcl.base import process
from kcl.base.settings import trust
from kcl.cache import places
from kcl.errors import CacheFault

_LONGEST = 1 << 16  # bytes of the file: above it the next process measures
_FAULTS = (OSError, ValueError, CacheFault)


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


def write(folder: str = "") -> None:
    """Write down the bytes that this process published, in kcl's own folder or in that of another process."""
    state, folder = _state(), folder or places.own()
    size, state.size = state.size, 0
    if size:
        with suppress(*_FAULTS):
            flags = os.O_WRONLY | os.O_APPEND | trust.AT_ONCE  # without a measurement there is nothing to add to
            with open(trust.opened(os.path.join(folder, places.SPACE), flags), "ab", 0) as stream:
                stream.write(f"{size}\n".encode())


def estimate() -> int | None:
    """Return the estimated bytes; None without a measurement, or for a file that is long or not understood."""
    with suppress(*_FAULTS):
        if trust.check(places.own()):
            with open(os.open(places.own(places.SPACE), trust.READ), "rb", 0) as stream:
                if trust.file_fault(os.fstat(stream.fileno())) is None:
                    text = stream.read(_LONGEST + 1)
                    return sum(map(int, text.split())) if 0 < len(text) <= _LONGEST else None
    return None


def measured(size: int) -> None:
    """Write down the result of a measurement."""
    from kcl.cache.stores.directory import publish

    with suppress(*_FAULTS):
        trust.make_trusted(places.own())
        publish(places.own(places.SPACE), f"{size}\n".encode())
