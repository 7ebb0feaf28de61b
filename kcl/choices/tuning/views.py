"""The tables of choices on disk, for those who look at them: what was measured, and what ran untuned."""

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
    """The table of a recipe on a device: its rows, and the outcomes of the candidates."""

    kernel: str
    names: list[str]
    device: str
    key: Key
    rows: list[Row]
    facts: list[Row]


def tables(kernel: str | None = None) -> list[TableFile]:
    """Return the tables on disk, or those of a kernel, by kernel and device. Raises nothing."""
    by_key: dict[str, TableFile] = {}
    for place, entry in _stored():
        about, kind = entry.metadata, place.partition("-")[0]
        # A table of another kcl may lack what is read here, and is left out.
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            device = ", ".join(str(about["device"][of]) for of in ("name", "driver"))
            name, names = str(about["kernel"]), [*map(str, about["names"])]
            empty = TableFile(name, names, device, entry.key, [], [])
            table = by_key.setdefault(entry.key.digest, empty)
            {TABLE: table.rows, FACT: table.facts}[kind].extend(read_rows(entry, kind))
    kept = [table for table in by_key.values() if kernel in (None, table.kernel)]
    return sorted(kept, key=lambda table: (table.kernel, table.device))


def _stored() -> Iterator[tuple[str, Entry]]:
    """Yield the readable entries of the tuning layer, with their addresses."""
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
    """Write a table: a row for each decision, then the outcomes of the candidates."""
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
    """Write the outcomes of candidates, the fastest first, with a mark at the winners of `rows`."""
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
    """Return the candidates, the fastest first: sizes and choice, the outcome or "now" for one that runs, and the row."""
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
    """Return the place of a row in a list: for each size the fastest first, then what has no time."""
    return row.sizes, row.ratio is None, row.ratio


def ratio(row: Row) -> str:
    """Write a ratio, with its noise if that makes it doubtful which of the two is faster."""
    if row.ratio is None:
        return ""
    is_doubtful = abs(1 - row.ratio) < row.noise * row.ratio
    return f"{digits(row.ratio)}{f' +-{row.noise:.0%}' if is_doubtful else ''}"


def speed(row: Row) -> str:
    """Write the time of a launch in microseconds, and how many bytes of the given arrays it takes in a second."""
    if not row.seconds:
        return ""
    return f"{digits(row.seconds * 1e6)} us, {digits(row.gigabytes)} GB/s"


def described(table: TableFile) -> dict[str, Any]:
    """Write a table as JSON."""
    rows, facts = ([row._asdict() for row in some] for some in (table.rows, table.facts))
    return {**table._asdict(), "key": table.key.digest, "rows": rows, "facts": facts}


def decisions(kernel: str | None = None) -> list[str]:
    """Return what the last run decided, in words: the row that served each size and why, or the defaults."""
    start = f"{MARK}{kernel}: " if kernel is not None else MARK
    run = port("journal").last_run()
    return list(
        dict.fromkeys(
            remark for record in run for remark in record["remarks"] if remark.startswith(start)
        )
    )


def elsewhere(kernel: str, key: Key) -> str:
    """Return how the key of the nearest other table of a kernel differs from this one; empty if there is none."""
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
    """Yield what `kcl unpack` writes of each table: its folder, its files, and the digest of each numbered program."""
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
    """Return the first cells of a row: its sizes and its choice."""
    return row.at(names), describe(row.choice)


def _notes(row: Row) -> str:
    """Return what else a reader of a row should know."""
    notes = {
        f"{row.outcome}: {row.detail}": row.outcome != "ok",
        "not tried ragged": not row.ragged,
        "not finished": row.unfinished,
        f"measured with {row.versions}": row.versions,
    }
    return "; ".join(note for note, holds in notes.items() if holds)
