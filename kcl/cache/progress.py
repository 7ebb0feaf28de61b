"""Progress: one line of stderr that names the current work after two seconds, and is erased at the end of the work.

The line is drawn on a terminal, and only while no other thread could write there, so that it never mixes with the
output of the program. `KCL_PROGRESS=0` switches it off; `KCL_PROGRESS=1` writes whole lines where stderr is no
terminal.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kcl.base import process, settings

AFTER = 2.0  # seconds of work
_OURS = "kcl-"  # the beginning of the names of kcl's own threads


class State:
    """The work of this process that was not in the cache: its seconds, its kernels, the last of them, and the line."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.line: ProgressLine | None = None
        self.seconds = 0.0
        self.kernels = 0
        self.last = ""

    def after_fork(self) -> None:
        """Leave the line to the parent."""
        self.lock = threading.RLock()
        self.line = None


_state = process.own(State)


class ProgressLine:
    """The line of one piece of work, after `spent` seconds of earlier work; for one thread, as a `with` block.

    A line within the block of another line shows nothing.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self._due = time.monotonic() + max(0.0, AFTER - spent)
        self._text = ""
        self._drawn = 0
        self._timer: threading.Timer | None = None
        self._is_first = False

    def __enter__(self) -> ProgressLine:
        state = _state()
        with state.lock:
            self._is_first = state.line is None
            if self._is_first:
                state.line = self
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_first:
            return
        with _state().lock:
            _state().line = None
            self._text = ""
            self._erase()
        if self._timer is not None:
            self._timer.cancel()

    def say(self, text: str) -> None:
        """Show this text from now on, but not before two seconds have passed."""
        if not self._is_first or not settings.read().progress:
            return
        with _state().lock:
            self._text = text
            if time.monotonic() >= self._due:
                self._draw()
            elif self._timer is None:
                self._timer = threading.Timer(self._due - time.monotonic(), self._draw)
                self._timer.name, self._timer.daemon = f"{_OURS}progress", True
                self._timer.start()

    def _draw(self) -> None:
        with _state().lock:
            if not self._text:
                return
            if not settings.is_terminal():
                _write(f"kcl: {self._text}\n")
            elif _is_alone():
                shown = f"kcl: {self._text}"[: _columns() - 1]
                _write(f"\r{shown:<{self._drawn}}\r")  # a warning that comes now takes the place of the line
                self._drawn = len(shown)

    def _erase(self) -> None:
        if self._drawn:
            _write(f"\r{'':<{self._drawn}}\r")
            self._drawn = 0


@contextmanager
def making(kernel: str) -> Iterator[None]:
    """Show that a kernel is being made, within the block."""
    state, began = _state(), time.monotonic()
    if kernel != state.last:  # its code, then its program
        state.last, state.kernels = kernel, state.kernels + 1
    try:
        with ProgressLine(state.seconds) as line:
            line.say(f"building {kernel} (kernel {state.kernels} of this run)")
            yield
    finally:
        state.seconds += time.monotonic() - began


def _is_alone() -> bool:
    """Tell whether no other thread of the program can be writing now."""
    here = threading.current_thread()
    others = [one for one in threading.enumerate() if one is not here and not one.name.startswith(_OURS)]
    return len(others) <= here.name.startswith(_OURS)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
