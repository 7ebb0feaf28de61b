"""The report of this process as text: what each layer did, and where its files are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcl.base import events, settings
from kcl.base.text.layout import WIDTH, folded, shortened
from kcl.base.text.tables import Column, Columns, lines_of
from kcl.cache import layers
from kcl.inspect import kernels
from kcl.inspect.explain import misses
from kcl.inspect.history import journal, records
from kcl.inspect.history.records import OUTCOMES

NOTHING = "kcl: no kernel was asked for"
_LAYER: Columns[Mapping[str, Any]] = ((Column("layer"), lambda row: row["layer"]),)
_SUMS: Columns[Mapping[str, Any]] = (
    (Column("seconds"), lambda row: f"{row['seconds']:.3f}"),
    (Column("saved"), lambda row: f"{max(0.0, row['saved']):.3f}"),
    (Column("bytes"), lambda row: str(int(row["bytes"]))),
)


class Report(str):
    """The text of a report, which Python and notebooks show as printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def report() -> Report:
    """Return the report of this process: a table with a row for each layer, the places of their files, and remarks.

    `seconds` is the time of the look-ups, including the generation and building after misses; `saved` is by how much the
    hits were faster than making the entries was. Lines have at most 80 columns, except for longer words. The result is a
    text, which a notebook and Python show as it is printed.

    >>> event, outputs = doubled()(queue, x=x)
    >>> kcl.report()
    layer hits misses ...
    generator 0 1 ...
    binary 0 1 ...
    """
    counters = _choose_layers(_count_layers())
    notes = [
        f"{row['layer']}: {_write_place(row['files'], len(row['layer']) + 2)}" for row in counters
    ]
    notes += [f"{name}: {note}" for name, layer in layers.opened().items() for note in layer.notes]
    return Report("\n".join([*write_table(counters), *fold_prose([*notes, *_collect_remarks()])]))


def fold_prose(texts: Iterable[str]) -> list[str]:
    """Write texts as lines of 80 columns."""
    return [line for text in texts for line in folded(text, WIDTH)]


def _count_layers() -> list[dict[str, Any]]:
    """Return the counters of each layer, and the place of its files."""
    opened, stats = layers.opened(), events.total()
    return [
        {
            "layer": name,
            **stats[name],
            "files": opened[name].state if name in opened else "not used",
        }
        for name in settings.LAYERS
    ]


def write_table(counters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the counters of layers as a table."""
    rows = _choose_layers(counters)
    return lines_of([*_LAYER, *journal.find_columns(rows), *_SUMS], rows)


def _choose_layers(counters: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the layers that a report shows: those that are always shown, and those that something asked."""
    return [
        row
        for row in counters
        if layers.TABLE[row["layer"]].always or any(row[name] for name in OUTCOMES)
    ]


def _write_place(state: str, column: int) -> str:
    """Write the place of files, from a column on; cut a long path in its middle."""
    home = os.path.join(settings.home(), "")
    path, space, rest = state.partition(" (")
    path = f"~/{path.removeprefix(home)}" if path.startswith(home) else path
    return (shortened(path, WIDTH - column) if os.path.isabs(state) else path) + space + rest


def write_process(by_kernel: bool) -> str:
    """Return the text to print at exit: the report, and the kernels if they are asked for."""
    if not layers.opened() and not events.has_looked_up():
        return "\n".join(fold_prose([NOTHING, *_collect_remarks()]))
    if not by_kernel:
        return report()
    run, missed = journal.of_this_run()
    return "\n".join([report(), "", *kernels.write_table(kernels.group_records([run], missed))])


def append_run(path: str) -> None:
    """Add the run of this process to a file, as one line of JSON; raises OSError."""
    run, missed = journal.of_this_run()
    content = kernels.Run(
        run["driver"],
        (run["pid"],),
        run["began"],
        run["ended"],
        _count_layers(),
        kernels.group_records([run], missed),
        _collect_remarks(),
    )
    with open(
        path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o644)
    ) as stream:
        # The line is written at once and unbuffered, since other processes may add lines to the file.
        stream.write(json.dumps(content.describe(), allow_nan=False).encode() + b"\n")


def write_misses() -> str:
    """Say which look-ups missed in this process, and why."""
    told = misses.explain_looks(journal.of_this_run()[1], journal.last_misses())
    return "\n".join(misses.write_lines(told)) or "nothing missed"


def _collect_remarks() -> list[str]:
    waiting = misses.find_pending()
    return [
        *records.explain_loopy(),
        *(switch["words"] for switch in records.find_late_switches()),
        *(() if waiting.helper else waiting.described()),
    ]
