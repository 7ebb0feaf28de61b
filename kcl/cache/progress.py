"""Progress: one line of stderr that counts the kernels of the run, or names other work, after two seconds of it.

The line is drawn on a terminal, and only while no other thread of the program could write there. It is erased at the
end of the work. `KCL_PROGRESS=0` switches it off; `KCL_PROGRESS=1` writes whole lines where stderr is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from kcl.base import events, process, settings
from kcl.cache.run_memo import program_path

AFTER = 2.0  # seconds of work
_WIDTH = 79  # what a terminal folds could not be erased
_OURS, _QUIET = (
    "kcl-",
    "(_log_start_if_long)",
)  # the begin of the names of kcl's own threads, the end of loopy's


class State:
    """The work of this process that was not in the cache: its begin, its seconds, and the line."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.line: ProgressLine | None = None
        self.began = time.monotonic()
        self.seconds = 0.0

    after_fork = __init__  # the line is the parent's

    def __str__(self) -> str:
        """Count the kernels of this run, of those that the last run of the program asked for."""
        number, of = _programs(events.total()[settings.BINARY]) + 1, 0
        for one in events.tool("history.journal").last_run(program_path()):
            of = max(
                of,
                sum(
                    _programs(row)
                    for (layer, _), row in one.tallies.items()
                    if layer == settings.BINARY
                ),
            )
        kernels = f"{number} of {of}" if of >= number else f"{number}"
        return (
            f"{kernels} kernel{'s' * (max(number, of) > 1)}, {time.monotonic() - self.began:.0f} s"
        )


def _programs(row: Mapping[str, float]) -> int:
    return int(sum(row[outcome] for outcome in ("hits", "misses", "bypassed", "errors")))


_state = process.own(State)


class ProgressLine:
    """The line of one piece of work, after `spent` seconds of earlier work; for one thread, as a `with` block.

    A line within the block of another line shows nothing.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self._due = time.monotonic() + max(0.0, AFTER - spent)
        self._text: object = ""
        self._drawn = 0
        self._timer: threading.Timer | None = None
        self._is_first = False

    def __enter__(self) -> ProgressLine:
        with _state().lock:
            self._is_first = _state().line is None
            if self._is_first:
                _state().line = self
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_first:
            return
        with _state().lock:
            _state().line = None
            self._text = ""
            if self._drawn:
                _write(f"\r{'':<{self._drawn}}\r")
        if self._timer is not None:
            self._timer.cancel()

    def say(self, text: object) -> None:
        """Show this text from now on, but not before two seconds have passed; it is written as it is shown."""
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
                shown = f"kcl: {self._text}"[:_WIDTH]
                _write(
                    f"\r{shown:<{self._drawn}}\r"
                )  # a warning that comes now takes the place of the line
                self._drawn = len(shown)


@contextmanager
def making() -> Iterator[None]:
    """Count the kernels of the run while one is being made, within the block."""
    state, began = _state(), time.monotonic()
    try:
        with ProgressLine(state.seconds) as line:
            line.say(state)
            yield
    finally:
        state.seconds += time.monotonic() - began


def _is_alone() -> bool:
    """Tell whether no other thread of the program can be writing now."""
    here = threading.current_thread()
    others = [
        one.name
        for one in threading.enumerate()
        if one is not here and not one.name.endswith(_QUIET)
    ]
    return sum(not name.startswith(_OURS) for name in others) <= here.name.startswith(_OURS)


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
