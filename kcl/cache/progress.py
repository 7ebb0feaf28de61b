"""Progress: one line on stderr that counts the kernels being made, or names other work.

On a terminal the line is redrawn every second, but only while no other thread of the program could be writing there. It
is erased at the end of the work, since the program may print then. `KCL_PROGRESS=0` switches it off. `KCL_PROGRESS=1`
writes whole lines if stderr is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from kcl.base import events, port, process, settings

# Shorter work shows no line.
AFTER = 0.25
EVERY = 1.0  # second the line is written over
# A longer line would be wrapped by the terminal, and could not be erased.
_WIDTH = 79
# The beginning of the names of kcl's own threads, and the end of the names of loopy's: neither prints.
_OURS, _QUIET = "kcl-", "(_log_start_if_long)"


class RunProgress(process.LockedState):
    """The kernels that this process had to make: when that began, the seconds it took, and the line that shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.line: ProgressLine | None = None
        self.began = time.monotonic()
        self.seconds = 0.0
        # The number of kernels in the last run of this program, once it has been read.
        self.of: int | None = None

    # A forked child starts without a line, since the present one belongs to the parent.
    after_fork = __init__

    def __str__(self) -> str:
        """Return the text of the line: the kernels of this run so far, of those in the last run of the program."""
        number = _programs(events.total()[settings.BINARY]) + 1
        if self.of is None:
            journal = port("journal")
            counts = [
                sum(
                    _programs(row)
                    for (layer, _), row in journal.tallies(record).items()
                    if layer == settings.BINARY
                )
                for record in journal.last_run(settings.program_path())
            ]
            self.of = max(counts, default=0)
        kernels = f"{number} of {self.of}" if self.of >= number else f"{number}"
        return f"{kernels} kernel{'s' * (max(number, self.of) > 1)}, {time.monotonic() - self.began:.0f} s"


def _programs(row: Mapping[str, float]) -> int:
    return int(sum(row[outcome] for outcome in ("hits", "misses", "bypassed", "errors")))


_state = process.own(RunProgress)


class ProgressLine:
    """The progress line of one piece of work, as a `with` block. `spent` are the seconds of earlier such work.

    A line within the block of another line shows nothing.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self._due = time.monotonic() + max(0.0, AFTER - spent)
        self._text: object = ""
        self._drawn = 0
        self._over = threading.Event()
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
        self._over.set()

    def say(self, text: object) -> None:
        """Show `str(text)` from now on, once the work has taken a moment. It is evaluated anew each time it is drawn."""
        if not self._is_first or not settings.read().progress:
            return
        with _state().lock:
            is_new, self._text = not self._text, text
        wait = self._due - time.monotonic()
        if wait <= 0.0:
            self._draw()
        if is_new:
            threading.Thread(None, self._tick, f"{_OURS}progress", (wait,), daemon=True).start()

    def _tick(self, wait: float) -> None:
        """Draw the line when it is due; on a terminal draw it again every second."""
        if wait > 0.0 and not self._over.wait(wait):
            self._draw()
        while settings.is_terminal() and not self._over.wait(EVERY):
            self._draw()

    def _draw(self) -> None:
        is_terminal = settings.is_terminal()
        if is_terminal and not _is_alone():
            return
        # Outside of the lock, since this may import the journal.
        text = f"kcl: {self._text}"
        with _state().lock:
            # The work may have ended meanwhile, and another thread may draw.
            if not self._text:
                return
            if not is_terminal:
                _write(f"{text}\n")
            elif _is_alone():
                shown = text[:_WIDTH]
                # The cursor returns to the start, so that a warning overwrites the line.
                _write(f"\r{shown:<{self._drawn}}\r")
                self._drawn = len(shown)


@contextmanager
def making() -> Iterator[None]:
    """Show the progress line while a kernel is made in the block."""
    state, began = _state(), time.monotonic()
    try:
        with ProgressLine(state.seconds) as line:
            line.say(state)
            yield
    finally:
        state.seconds += time.monotonic() - began


def _is_alone() -> bool:
    """Return True if no other thread of the program can be writing now."""
    here = threading.current_thread()
    others = [
        thread.name
        for thread in threading.enumerate()
        if thread is not here and not thread.name.endswith(_QUIET)
    ]
    return sum(not name.startswith(_OURS) for name in others) <= here.name.startswith(_OURS)


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
