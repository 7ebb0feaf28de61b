"""The report: what each layer did in this process, and where its files lie."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from kcl import caches, events, process, settings, spans
from kcl.cache import layers

_PROCESS = os.getpid()
_MOMENT = 0.05  # seconds
_MOST = 5  # questions in a report
_HEAD = ("layer", "hits", "misses", "bypassed", "errors", "seconds", "bytes", "files")


def report() -> str:
    """Return the table of this process: a row per layer, then what the reader should know beside it."""
    opened = layers.opened()
    rows = []
    stats = events.stats()
    for name in settings.LAYERS:
        row, layer = stats[name], opened.get(name)
        place = "not used" if layer is None else layer.state
        counts = [str(int(row[column])) for column in _HEAD[1:5]]
        rows.append((name, *counts, f"{row['seconds']:.3f}", str(int(row["bytes"])), place))
    notes = [f"{name}: {note}" for name, layer in opened.items() for note in layer.notes]
    return "\n".join([*table(_HEAD, rows), *notes, *_remarks()])


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lay out rows of text under a head: numbers to the right, words to the left."""
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    numeric = [_is_numeric([row[column] for row in rows if row[column]]) for column in range(len(head))]
    lines = []
    for line in [head, *rows]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _is_numeric(cells: list[str]) -> bool:
    return bool(cells) and all(cell.replace(".", "", 1).isdigit() for cell in cells)


class Asked:
    """What `KCL_REPORT` asks for: it is read once."""

    def __init__(self) -> None:
        self.report = settings.read().report


class Table:
    """The table is printed at exit."""

    def at_exit(self) -> None:
        _print(report)


class Journal:
    """The journal is written at exit, and soon after each look-up where nobody knows how the process ends."""

    def __init__(self) -> None:
        self.finalized = False
        self.written = 0.0

    def at_exit(self) -> None:
        _write_journal()


class Explanation:
    """The misses are explained at exit."""

    def at_exit(self) -> None:
        _print(_explained)


_asked = process.own(Asked)
_table = process.own(Table)
_journal = process.own(Journal)
_explanation = process.own(Explanation)


def at_exit() -> None:
    """Keep a journal, and print on stderr at exit what `KCL_REPORT` asks for.

    The variable is read at the first call.
    """
    events.on_first(_keep_journal)
    _print_table()
    spans.begin()


def _print_table() -> None:
    if "table" in _asked().report:
        _table()


def _keep_journal() -> None:
    """See that what this process collects is written when it ends.

    States with `at_exit` end in the opposite order: the misses are explained before the journal is written, which takes
    them away, and the table is printed last.
    """
    _print_table()  # in a forked child, too
    journal = _journal()
    if "explain" in _asked().report:
        _explanation()
    if not journal.finalized and "multiprocessing.util" in sys.modules:
        # Its forked children end without atexit, and have forgotten what their parent registered.
        sys.modules["multiprocessing.util"].Finalize(None, _write_journal, exitpriority=0)
    journal.finalized = True
    if _is_worker():
        events.on_each(_write_soon)


def _is_worker() -> bool:
    """Tell whether this process was forked, or is one of multiprocessing: a pool ends its workers by a signal."""
    from_multiprocessing = getattr(sys.modules.get("multiprocessing.process"), "parent_process", lambda: None)
    return os.getpid() != _PROCESS or from_multiprocessing() is not None


def _write_soon() -> None:
    """Write what was collected, unless that was done a moment ago."""
    journal, now = _journal(), time.monotonic()
    if now - journal.written > _MOMENT:
        journal.written = now
        from kcl.inspect.history import records

        records.write()


def flush(seconds: float = 600.0, progress: Callable[[int, int], object] | None = None) -> bool:
    """Write the statistics, and complete the entries of all programs that this process launched; wait for it.

    Returns True when nothing is left. `seconds` bounds the waiting; `progress` is called with the numbers of programs
    that are done and of all, and where none is given and stderr is a terminal a bar is drawn there. Call it in one
    process after the launches where `KCL_PROMOTE=off`, which is the default under MPI launchers and batch schedulers,
    and before `os._exit`. Any fault of the cache is said once, as elsewhere. Thread-safe.
    """
    _write_journal()
    from kcl.drivers.pocl import completing

    return completing.flush(seconds, progress)


def _write_journal() -> None:
    spans.write()
    from kcl.inspect.history import records

    if records.write():
        from kcl.inspect.history import journal

        journal.fold()
    for name in ("kcl.drivers.pocl.orders", "kcl.record.kept"):
        remembered = sys.modules.get(name)
        if remembered is not None:  # else there is nothing to be written
            remembered.write()
    if layers.opened() and any(not layer.state.startswith("off: ") for layer in layers.opened().values()):
        _keep_notes()
        if any(events.stats()[layer]["misses"] for layer in settings.LAYERS):
            from kcl.inspect import space

            space.keep_bound()


def _keep_notes() -> None:
    """Leave a note of switches that came too late, for those who look later."""
    if caches.changed():
        from kcl.caches import late_switches
        from kcl.inspect.history import notes

        notes.keep(late_switches.find())


def _explained() -> str:
    """Say what missed in this process, and why."""
    from kcl.inspect.explain import misses
    from kcl.inspect.history import journal

    found = misses.told(journal.of_this_run(), journal.last_misses())
    return "\n".join(line for one in found for line in misses.lines(one)) or "nothing missed"


def _print(write: Callable[[], str]) -> None:
    try:
        sys.stderr.write(write() + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # a closed stream at exit is nobody's fault


def _remarks() -> list[str]:
    remarks = []
    stats = events.stats()[settings.GENERATOR]
    verified = any(layer.verify for layer in layers.opened().values())
    generated = stats["misses"] + stats["errors"] + stats["bypassed"]
    made = events.stats()["made"]
    if made:
        frequent = sorted(made.items(), key=lambda one: -one[1])[:_MOST]
        shown = [f"{question}: {count:.0f}" for question, count in frequent]
        more = [f"and {len(made) - _MOST} more"] if len(made) > _MOST else []
        remarks.append(f"loopy was asked what only it can answer: {'; '.join([*shown, *more])}")
    elif "loopy" in sys.modules and stats["hits"] and not generated and not verified:
        remarks.append("loopy was imported though nothing was generated: import it inside recipes, or use kcl.lazy")
    pocl = caches.state("pocl")
    if not pocl.on:
        remarks.append(f"PoCL's own cache is off: {pocl.reason}")
    if caches.changed():
        from kcl.caches import late_switches

        remarks += [found.words for found in late_switches.find()]
    if _no_platform():
        remarks.append("no OpenCL platform was found: pip install pocl-binary-distribution (Linux x86-64)")
    return remarks


def _no_platform() -> bool:
    """Tell whether pyopencl was asked for platforms in vain; never asks for the first time."""
    opencl = sys.modules.get("pyopencl")
    if opencl is None or layers.opened():
        return False
    try:
        return not opencl.get_platforms()
    except Exception:
        return True
