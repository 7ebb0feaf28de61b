"""Inspection: show the contents of the caches, explain misses, find damaged entries, and remove entries.

This module is the part that a warm start imports: the end of a process, with its record in the journal and the reports
that `KCL_REPORT` asks for. `kcl.inspect.summary` has the texts.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcl import foreign
from kcl.base import events, process, settings, spans
from kcl.cache import layers

if TYPE_CHECKING:
    from kcl.foreign.late_switches import LateSwitch

_PROCESS = os.getpid()
# Seconds until a record is written: in a worker, which a signal may end, and in another process.
_MOMENT, _SOON = 0.05, 1.0


class ProcessEnd:
    """The end of this process: its misses are explained, its record is written, and last its report is printed.

    The value of `KCL_REPORT` is read once. `written` is the time of the last record, on a clock of its own. `timer` writes
    the next one, and is the `writer` then.
    """

    def __init__(self) -> None:
        chosen = settings.read()
        self.report, self.file = chosen.report, chosen.report_file
        self.finalized = False
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
            _print(_summary().of_process("kernels" in self.report))

    def before_fork(self) -> None:
        """Let the writer end: a child would wait for ever for a module that it imports. The next event starts one."""
        for timer in (self.timer, self.writer):
            if timer is not None and timer.is_alive():
                timer.cancel()
                # The wait is bounded: the writer may wait for a lock of the thread that forks.
                timer.join(_SOON)
        self.timer = None

    def before_change(self) -> None:
        if events.collected().noted:
            self._explain()
        _write_journal()
        import_module("kcl.inspect.history.records").begin()

    def add_to_file(self) -> None:
        """Add a line of JSON to the file that `KCL_REPORT` names, once in a process; report a failure to write."""
        # The path is gone after the first call, so no second call adds a line.
        path, self.file = self.file, None
        if path is not None:
            try:
                _summary().add_to(path)
            except OSError as error:
                _print(f"kcl: no report is written to {path}: {error.strerror}")

    def _explain(self) -> None:
        if "explain" in self.report:
            _print(_summary().explained())


# The first call reads the variable, and registers the end.
ending = process.own(ProcessEnd)


def keep_journal() -> None:
    """Register the writers, so that the collected statistics are written when this process ends."""
    own = ending()
    if own.finalized:
        return
    own.finalized = True
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
    return os.getpid() != _PROCESS or from_multiprocessing() is not None


def _write_soon(_event: object) -> None:
    """Write the collected statistics soon: a signal may end the process. A worker does it now, after a moment."""
    own, now, is_worker = ending(), time.monotonic(), _is_worker()
    if is_worker and now - own.written > _MOMENT:
        own.written = now
        _write_record()
    elif own.timer is None:
        own.timer = timer = threading.Timer(_MOMENT if is_worker else _SOON, _write_timed)
        timer.name, timer.daemon = "kcl-journal", True
        # If no thread can be started, the end of the process writes.
        with suppress(RuntimeError):
            timer.start()


def _write_timed() -> None:
    own = ending()
    own.writer, own.timer = own.timer, None
    _write_record()


def flush(seconds: float = 600.0, progress: Callable[[int, int], object] | None = None) -> bool:
    """Write the statistics, and complete the entries of all programs that this process launched; wait for it.

    Returns True when nothing is left: the helper has ended, and a cache directory of your own may be removed. `seconds`
    bounds the waiting; `progress` is called with the numbers of programs that are done and of all, and where none is
    given and stderr is a terminal a line says them there. Call it in one process after the launches where
    `KCL_PROMOTE=off`, and before `os._exit`. Any fault of the cache is said once, as elsewhere. Thread-safe.

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
    return records.write([*remarks(), *events.remarks()], late() if _is_on() else ())


def _is_on() -> bool:
    """Return True if a layer that was used is on."""
    return any(not layer.state.startswith("off: ") for layer in layers.opened().values())


def _summary() -> Any:
    return import_module("kcl.inspect.summary")


def _print(text: str) -> None:
    # A closed stream at exit is no fault.
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def late() -> list[LateSwitch]:
    """Return the switches that came too late in this process."""
    if not foreign.has_changed():
        return []
    from kcl.foreign import late_switches

    return late_switches.find()


def remarks() -> list[str]:
    """Say why loopy was imported; a process without loopy imports nothing for that."""
    if "loopy" not in sys.modules and not events.total()["made"]:
        return []
    from kcl.inspect import about_loopy

    return about_loopy.remarks()
