"""Progress: one line of stderr that counts the kernels of the run, or names other work, after two seconds of it.

The line is drawn on a terminal as work begins, and only while no other thread of the program could write
there. It is erased at the end of the work. `KCL_PROGRESS=0` switches it off; `KCL_PROGRESS=1` writes whole lines where
stderr is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kcl.base import events, process, settings

AFTER = 2.0  # seconds of work
_WIDTH = 79  # what a terminal folds could not be erased


class State:
    """The work of this process that was not in the cache: its seconds, and the line."""

    line: ProgressLine | None = None
    seconds = 0.0


_state = process.own(State)


class ProgressLine:
    """The line of one piece of work, after `spent` seconds of earlier work; for one thread, as a `with` block.

    A line within the block of another line shows nothing.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self._due = time.monotonic() + AFTER - spent
        self._drawn = 0

    def __enter__(self) -> ProgressLine:
        state = _state()
        state.line = state.line or self
        return self

    def __exit__(self, *_: object) -> None:
        state = _state()
        if state.line is self:
            state.line = None
            if self._drawn:
                _write(f"\r{'':<{self._drawn}}\r")

    def say(self, text: str) -> None:
        """Show this text from now on, if two seconds have passed."""
        if time.monotonic() < self._due or _state().line is not self or not settings.read().progress:
            return
        if not settings.is_terminal():
            _write(f"kcl: {text}\n")
        elif all(one is threading.current_thread() or one.name.startswith("kcl-") for one in threading.enumerate()):
            shown = f"kcl: {text}"[:_WIDTH]
            _write(f"\r{shown:<{self._drawn}}\r")  # a warning that comes now takes the place of the line
            self._drawn = len(shown)


@contextmanager
def making() -> Iterator[None]:
    """Count the kernels of the run while one is being made, within the block."""
    state, began = _state(), time.monotonic()
    row = events.total()[settings.BINARY]
    number = int(sum(row[outcome] for outcome in ("hits", "misses", "bypassed", "errors"))) + 1
    try:
        with ProgressLine(state.seconds) as line:
            line.say(f"{number} kernel{'s' * (number > 1)}, {(time.time_ns() - process.STARTED) / 1e9:.0f} s")
            yield
    finally:
        state.seconds += time.monotonic() - began


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
