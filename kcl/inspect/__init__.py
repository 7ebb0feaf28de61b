"""Inspection: show the contents of the caches, explain misses, find damaged entries, and remove entries.

This module is the part that every process imports: what is done at the end of a process. It writes the record of the
process to the journal, and prints the reports that `KCL_REPORT` asks for. `kcl.inspect.summary` has their texts.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from kcl.base import events, process, settings, spans
from kcl.cache import layers

# The process that imported this module: a forked child has another number.
_IMPORTER = os.getpid()
# The seconds until a record is written: in a worker, which a signal may end at any time, and in another process.
_MOMENT, _SOON = 0.05, 1.0


class ProcessEnd:
    """Does the work at the end of this process: explains misses, writes the record, and prints the report.

    The value of `KCL_REPORT` is read once. `written` is the time of the last record of a worker, on a monotonic clock.
    `timer` waits to write the next record. While it writes, it is the `writer`, and an event may start another `timer`.
    """

    def __init__(self) -> None:
        chosen = settings.read()
        self.report, self.file = chosen.report, chosen.report_file
        self.is_registered = False
        self.written = 0.0
        self.timer: threading.Timer | None = None
        self.writer: threading.Timer | None = None

    def at_exit(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if events.has_looked_up():
            self._explain()
            _write_journal()
        self.add_to_file()
        if self.report & {"table", "kernels"}:
            from kcl.inspect import summary

            _print(summary.write_process("kernels" in self.report))

    def before_fork(self) -> None:
        """Wait for the writer: a module that it imports at the fork would stay locked in the child for ever."""
        for timer in (self.timer, self.writer):
            if timer is not None and timer.is_alive():
                timer.cancel()
                # The wait is bounded: the writer may wait for a lock of the thread that forks.
                timer.join(_SOON)
        # The next event starts another one.
        self.timer = None

    def before_change(self) -> None:
        """Write what was counted before the places of the files change."""
        from kcl.inspect.history import records

        if events.collected().noted:
            self._explain()
        _write_journal()
        records.begin()

    def add_to_file(self) -> None:
        """Add a line of JSON to the file that `KCL_REPORT` names, once in a process; report a failure to write."""
        # The path is gone after the first call, so no second call adds a line.
        path, self.file = self.file, None
        if path is not None:
            from kcl.inspect import summary

            try:
                summary.append_run(path)
            except OSError as error:
                _print(f"kcl: no report is written to {path}: {error.strerror}")

    def _explain(self) -> None:
        if "explain" in self.report:
            from kcl.inspect import summary

            _print(summary.write_misses())


# The first call reads the variable, and registers the end.
ending = process.own(ProcessEnd)


def keep_journal() -> None:
    """Register the writers, so that the collected statistics are written when this process ends."""
    own = ending()
    if own.is_registered:
        return
    own.is_registered = True
    if "multiprocessing.util" in sys.modules:
        # Forked children of multiprocessing end without atexit, and have forgotten the registrations of their parent.
        sys.modules["multiprocessing.util"].Finalize(None, _end_of_worker, exitpriority=0)
    events.add_hook(_write_soon)


def _end_of_worker() -> None:
    _write_journal()
    ending().add_to_file()


def _is_worker() -> bool:
    """Return True if this process was forked or belongs to multiprocessing: a pool ends its workers by a signal."""
    # Without the module this process cannot be one of its workers, so it is not imported to ask it.
    from_multiprocessing = getattr(
        sys.modules.get("multiprocessing.process"), "parent_process", lambda: None
    )
    return os.getpid() != _IMPORTER or from_multiprocessing() is not None


def _write_soon(_event: object) -> None:
    """Write the collected statistics soon: a signal may end the process.

    A worker writes them at once, unless it did so a moment ago.
    """
    own, now, is_worker = ending(), time.monotonic(), _is_worker()
    if is_worker and now - own.written > _MOMENT:
        own.written = now
        _write_record()
    elif own.timer is None:
        own.timer = timer = threading.Timer(_MOMENT if is_worker else _SOON, _write_timed)
        timer.name, timer.daemon = "kcl-journal", True
        # If no thread can be started, the record is written only at the end of the process.
        with suppress(RuntimeError):
            timer.start()


def _write_timed() -> None:
    own = ending()
    own.writer, own.timer = own.timer, None
    _write_record()


def flush(seconds: float = 600.0, progress: Callable[[int, int], object] | None = None) -> bool:
    """Write the statistics, and complete the entries of all programs that this process launched; wait for it.

    Returns True when nothing is left: the helper has ended, and a cache directory of your own may be removed. `seconds`
    bounds the waiting. `progress` is called with the number of programs that are done, and with that of all. Without it
    a line on stderr says these numbers, if that is a terminal. With `KCL_PROMOTE=off` call this function in one process
    after the launches; call it before `os._exit`, too. Any fault of the cache is said once, as elsewhere. Thread-safe.

    >>> event, outputs = doubled()(queue, x=x)
    >>> kcl.flush()
    True
    >>> [(entry.layer, entry.kernel) for entry in kcl.entries("binary")]
    [('binary', 'doubled')]
    """
    _write_journal()
    from kcl import drivers

    return drivers.flush(seconds, progress)


def _write_journal() -> None:
    spans.write()
    if _write_record():
        from kcl.inspect.history import journal

        journal.trim()
    if _is_on() and any(events.total()[layer]["misses"] for layer in settings.LAYERS):
        from kcl.inspect import space

        space.keep_bound()


def _write_record() -> bool:
    """Write the record of this process to the journal; return True if old ones should go."""
    from kcl.inspect.history import records

    if _is_worker():
        process.in_worker()
    if layers.opened() and not _is_on():
        return False
    remarks = [*records.explain_loopy(), *events.remarks()]
    return records.write(remarks, records.find_late_switches() if _is_on() else ())


def _is_on() -> bool:
    """Return True if a layer that was used is on."""
    return any(not layer.state.startswith("off: ") for layer in layers.opened().values())


def _print(text: str) -> None:
    # A closed stream at exit is no fault.
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
