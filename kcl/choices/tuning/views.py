"""Lists of the tuning tables on disk, for the commands that show them: what was measured, and what was used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import port, settings
from kcl.base.text import tables as layout
from kcl.base.text.tables import Column
from kcl.cache import layers
from kcl.cache.entry import Entry, entry_at
from kcl.cache.key import Key
from kcl.cache.phrases import About, sentence
from kcl.cache.stores import make_safe
from kcl.choices.tuning.space import describe
from kcl.choices.tuning.table import FACT, MARK, TABLE, Row, digits, fact_name, read_rows
from kcl.errors import CacheFault, DamagedEntry

_FAULTS = (OSError, CacheFault, DamagedEntry, ValueError)
_HEAD = [*map(Column, ("sizes", "choice", "ratio", "time", "level", "tried", "day", "notes"))]
_OUTCOMES = [*map(Column, ("", "sizes", "choice", "outcome", "ratio", "time", "day", "detail"))]


class TableFile(NamedTuple):
    """The tuning table of a recipe for a device: `rows` are its decisions, `facts` the outcomes of candidates."""

    kernel: str
    names: list[str]
    device: str
    key: Key
    rows: list[Row]
    facts: list[Row]


def tables(kernel: str | None = None) -> list[TableFile]:
    """Return the tables on disk, all or those of one kernel, sorted by kernel and device. Raises nothing."""
    by_key: dict[str, TableFile] = {}
    for place, entry in _stored():
        about, kind = entry.metadata, place.partition("-")[0]
        # A table that another version of kcl wrote may lack one of these fields; it is left out.
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            device = ", ".join(str(about["device"][of]) for of in ("name", "driver"))
            name, names = str(about["kernel"]), [*map(str, about["names"])]
            empty = TableFile(name, names, device, entry.key, [], [])
            table = by_key.setdefault(entry.key.digest, empty)
            {TABLE: table.rows, FACT: table.facts}[kind].extend(read_rows(entry, kind))
    kept = [table for table in by_key.values() if kernel in (None, table.kernel)]
    return sorted(kept, key=lambda table: (table.kernel, table.device))


def _stored() -> Iterator[tuple[str, Entry]]:
    """Yield the address and the entry of everything in the tuning layer that can be read."""
    row = layers.TABLE[settings.TUNING]
    for store in row.on_disk(row.folder(), []):
        addresses = list[str]()
        with suppress(*_FAULTS):
            addresses += store.scan()
        for place in addresses:
            with suppress(*_FAULTS):
                if blob := store.get(place):
                    yield place, entry_at(place, blob)


def lines(table: TableFile, with_facts: bool = False) -> list[str]:
    """Write a table as text: a line for each decision, then, if asked for, one for each outcome."""
    rows = [
        (
            *_start(table.names, row),
            ratio(row),
            speed(row),
            str(row.level),
            f"{row.tried} of {row.of}",
            row.day,
            _notes(row),
        )
        for row in table.rows
    ]
    written = [f"{table.kernel} on {table.device}", *layout.lines(_HEAD, rows)]
    if with_facts and table.facts:
        written += ["", *outcomes(table.names, table.facts, table.rows)]
    return written


def outcomes(names: list[str], facts: Iterable[Row], rows: Iterable[Row]) -> list[str]:
    """Write the outcomes of candidates as text, the fastest first; the winners, which are in `rows`, have a star."""
    winners = {fact_name(row) for row in rows}
    cells = [
        (
            "*" if fact_name(row) in winners else "",
            *_start(names, row),
            row.outcome,
            ratio(row),
            speed(row),
            row.day,
            row.detail,
        )
        for row in sorted(facts, key=_place)
    ]
    return layout.lines(_OUTCOMES, cells)


def candidates(table: TableFile) -> list[tuple[str, str, Row]]:
    """Return the candidates, the fastest first, each as (sizes and choice, outcome, row).

    The outcome is "now" for a candidate that calls use now.
    """
    running = {fact_name(row) for row in table.rows if row.outcome == "ok"}
    rows = {fact_name(row): row for row in (*table.rows, *table.facts)}.values()
    return [
        (
            ": ".join(filter(None, _start(table.names, row))),
            "now" if fact_name(row) in running else row.outcome,
            row,
        )
        for row in sorted(rows, key=_place)
    ]


def _place(row: Row) -> tuple[Any, ...]:
    """Return a sort key for rows: by size, for each size the fastest first, and last those without a time."""
    return row.sizes, row.ratio is None, row.ratio


def ratio(row: Row) -> str:
    """Write the ratio of a row, with its noise if that is so large that the default may be the faster one."""
    if row.ratio is None:
        return ""
    is_doubtful = abs(1 - row.ratio) < row.noise * row.ratio
    return f"{digits(row.ratio)}{f' +-{row.noise:.0%}' if is_doubtful else ''}"


def speed(row: Row) -> str:
    """Write the time of a launch in microseconds, and the bytes of its argument arrays per second of it."""
    if not row.seconds:
        return ""
    return f"{digits(row.seconds * 1e6)} us, {digits(row.gigabytes)} GB/s"


def described(table: TableFile) -> dict[str, Any]:
    """Return a table as a dictionary for JSON."""
    rows, facts = ([row._asdict() for row in some] for some in (table.rows, table.facts))
    return {**table._asdict(), "key": table.key.digest, "rows": rows, "facts": facts}


def decisions(kernel: str | None = None) -> list[str]:
    """Return the remarks of the last run on its choices: which row, or the defaults, it used for a size, and why."""
    start = f"{MARK}{kernel}: " if kernel is not None else MARK
    run = port("journal").last_run()
    return list(
        dict.fromkeys(
            remark for record in run for remark in record["remarks"] if remark.startswith(start)
        )
    )


def elsewhere(kernel: str, key: Key) -> str:
    """Say how the most similar other table of a kernel differs from `key`; empty if there is no other one."""
    others = [table.key.diff(key) for table in tables(kernel) if table.rows and table.key != key]
    if not others:
        return ""
    words = [
        sentence(part, About(binary=True)) or f"{part.name} differs"
        for part in min(others, key=len)[:3]
    ]
    return f"; a table was measured for another case: {'; '.join(words)}"


def folders(
    directory: str, kernel: str | None = None
) -> Iterator[tuple[str, dict[str, bytes], dict[int, str]]]:
    """Yield for each table what `kcl unpack` writes: (folder, name -> content, number -> digest of the program)."""
    for table in tables(kernel):
        cells, programs = [_start(table.names, row) for row in table.rows], dict[str, str]()
        for row in table.rows:
            programs.setdefault(describe(row.choice), row.program)
        order = [*programs]
        files = {
            "dispatch_table.txt": [
                f"{sizes or '()'} -> {order.index(choice)}  {choice}" for sizes, choice in cells
            ]
        }
        for level in {fact.level for fact in table.facts}:
            files[f"summary-{level}.txt"] = outcomes(
                table.names, (fact for fact in table.facts if fact.level == level), table.rows
            )
        place = os.path.join(
            directory, "recipes", make_safe(table.kernel, 80) or "_", table.key.digest
        )
        texts = {
            name: "".join(f"{line}\n" for line in text).encode() for name, text in files.items()
        }
        yield place, texts, dict(enumerate(programs.values()))


def _start(names: list[str], row: Row) -> tuple[str, str]:
    """Return the first two cells of a line: the sizes and the choice."""
    return row.at(names), describe(row.choice)


def _notes(row: Row) -> str:
    """Return the remarks on a row: why it did not win, or how far it can be trusted."""
    notes = {
        f"{row.outcome}: {row.detail}": row.outcome != "ok",
        "not tried ragged": not row.ragged,
        "not finished": row.unfinished,
        f"measured with {row.versions}": row.versions,
    }
    return "; ".join(note for note, holds in notes.items() if holds)
