"""The tables of choices on disk, for those who look at them: what was measured, and what ran untuned."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import events, settings
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.base.text.tables import lines as laid_out
from kcl.cache import places, run_memo
from kcl.cache.key import Key
from kcl.cache.phrases import About, sentence
from kcl.cache.stores.base import safe
from kcl.tuning.space import said
from kcl.tuning.table import FACT, MARK, TABLE, Fact, Row, listed

_HEAD = [*map(Column, ("sizes", "choice", "ratio", "level", "tried", "day", "notes"))]
_OUTCOMES = [*map(Column, ("sizes", "choice", "outcome", "ratio", "day", "detail"))]
_SUMMARY = [*map(Column, ("sizes", "candidate", "outcome", "ratio", "detail"))]


class TableFile(NamedTuple):
    """The table of a recipe on a device: its rows, and the outcomes of the candidates."""

    kernel: str
    names: list[str]
    device: str
    key: Key
    rows: list[Row]
    facts: list[Fact]


def tables(kernel: str | None = None) -> list[TableFile]:
    """Return the tables on disk, or those of a kernel, by kernel and device. Raises nothing."""
    found: dict[str, TableFile] = {}
    for place, entry in run_memo.used(places.TUNING, every=True):
        about, device = entry.metadata, entry.metadata.get("device")
        with suppress(TypeError, ValueError, AttributeError):
            name, names = str(about["kernel"]) if "kernel" in about else "", list(map(str, about.get("names", ())))
            words = ", ".join(str(device[of]) for of in ("name", "driver")) if device else ""
            one = found.get(entry.key.digest, TableFile(name, names, words, entry.key, [], []))
            kind = place.partition("-")[0]
            one = one._replace(rows=listed(about, Row)) if kind == TABLE else one
            found[entry.key.digest] = one._replace(facts=listed(about, Fact)) if kind == FACT else one
    return sorted([one for one in found.values() if kernel in (None, one.kernel)], key=lambda one: (one[0], one[2]))


def facts() -> dict[str, Any]:
    """Describe the tables: how many, of which kernels, where, and whether they are in use."""
    found = tables()
    kernels, sizes = sorted({one.kernel for one in found if one.rows}), sum(len(one.rows) for one in found)
    reason = "KCL_NO_CACHE" if settings.TUNING in settings.read().no_cache else ""
    words = f"tuned: {counted(sizes, 'size', 'sizes')} of {', '.join(kernels)}, in {places.own(places.TUNING)}"
    off = f"tuning is off: {reason}" if reason else ""
    return {"sizes": sizes, "kernels": kernels, "on": not reason, "words": off or (words if sizes else "")}


def lines(table: TableFile, with_facts: bool = False) -> list[str]:
    """Write a table: a row for each decision, then the outcomes of the candidates."""
    rows = [
        (
            _sizes(table, row.sizes),
            said(row.choice),
            _ratio(row.ratio),
            str(row.level),
            f"{row.tried} of {row.of}",
            row.day,
            "; ".join(_notes(row)),
        )
        for row in table.rows
    ]
    facts = [
        (_sizes(table, one.sizes), said(one.choice), one.outcome, _ratio(one.ratio), one.day, one.detail)
        for one in table.facts
    ]
    found = [f"{table.kernel} on {table.device}", *laid_out(_HEAD, rows)]
    return [*found, *(["", *laid_out(_OUTCOMES, facts)] if with_facts and facts else [])]


def described(table: TableFile) -> dict[str, Any]:
    """Write a table as JSON."""
    rows, facts = ([one._asdict() for one in some] for some in (table.rows, table.facts))
    return {**table._asdict(), "key": table.key.digest, "rows": rows, "facts": facts}


def decisions(kernel: str | None = None) -> list[str]:
    """Return what the last run decided, in words: the row that served each size and why, or the defaults."""
    start = f"{MARK}{kernel}: " if kernel is not None else MARK
    run = events.tool("history.journal").last_run()
    return list(dict.fromkeys(remark for one in run for remark in one.remarks if remark.startswith(start)))


def elsewhere(kernel: str, key: Key) -> str:
    """Return how the key of the nearest other table of a kernel differs from this one; empty if there is none."""
    others = [one.key.diff(key) for one in tables(kernel) if one.rows and one.key != key]
    if not others:
        return ""
    differences = min(others, key=len)
    words = [sentence(one, About(binary=True)) or f"{one.name} differs" for one in differences[:3]]
    return f"; a table was measured for another case: {'; '.join(words)}"


def folders(directory: str, kernel: str | None = None) -> Iterator[tuple[str, dict[str, bytes], dict[int, str]]]:
    """Yield what `kcl unpack` writes of each table: its folder, its files, and the digest of each numbered program."""
    for table in tables(kernel):
        numbers: dict[str, str] = {}
        for row in table.rows:
            numbers.setdefault(said(row.choice), row.program)
        order = list(numbers)
        texts = [
            f"{_sizes(table, row.sizes) or '()'} -> {order.index(said(row.choice))}  {said(row.choice)}"
            for row in table.rows
        ]
        files = {"dispatch_table.txt": "".join(f"{line}\n" for line in texts)}
        for level in sorted({one.level for one in table.facts}):
            some = table._replace(facts=[one for one in table.facts if one.level == level], rows=[])
            rows = [
                (_sizes(some, one.sizes), said(one.choice), one.outcome, _ratio(one.ratio), one.detail)
                for one in some.facts
            ]
            files[f"summary-{level}.txt"] = "\n".join(laid_out(_SUMMARY, rows)) + "\n"
        place = os.path.join(directory, "recipes", safe(table.kernel, 80) or "_", table.key.digest)
        yield place, {name: text.encode() for name, text in files.items()}, dict(enumerate(numbers.values()))


def _sizes(table: TableFile, sizes: tuple[int, ...]) -> str:
    return ", ".join(f"{name}={size}" for name, size in zip(table.names, sizes, strict=False))


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _notes(row: Row) -> Iterator[str]:
    """Yield what else a reader of a row should know."""
    if row.refused:
        yield f"no longer runs: {row.refused}"
    if not row.ragged:
        yield "not tried ragged"
    if row.versions:
        yield "measured with " + ", ".join(f"{name} {version}" for name, version in row.versions.items())
