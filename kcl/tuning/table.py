"""Tables: the choices that were measured for a recipe on a device, and what became of every candidate.

    kcl/tuning/table-<digest>    rows: sizes -> choice, its ratio to the default, and how it was found; read at a launch
    kcl/tuning/facts-<digest>    the outcome of each candidate; read by `tune` and by views only

Both are entries under one key: see `key_of`. The texts of kcl and of the generators are not in it: another release of
loopy changes a time a little, and a row names the release. No right answer needs a table, so no fault passes here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import process, settings
from kcl.cache import layers, places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo
from kcl.drivers import devices
from kcl.errors import UnknownInput
from kcl.tuning.space import is_scalar, said

if TYPE_CHECKING:
    from kcl.build.stage import Build
    from kcl.code import Code

ROWS, FACTS = 64, 4096
ROWS_BYTES, FACTS_BYTES = 8_000, 800_000  # as JSON
TABLES = 4096  # entries on disk: tables and facts
TABLE, FACT = "table", "facts"
_LISTS = {TABLE: "rows", FACT: "facts"}  # the names of what they list
MARK = "tuning of "  # begins the remarks of a run on what was decided
_THREADS = "POCL_MAX_PTHREAD_COUNT"
_DIGITS = 32  # of a digest in a row
_GENERATING = ("kcl", "python", "optimize", "argument checks", "dtype names", "state")


class Row(NamedTuple):
    """What was measured of a choice at some sizes: the decision of a tuning, or what became of one candidate.

    `ratio` is the elapsed time of the choice by that of the default, 1.0 where the default stays, with a relative
    `noise`. `tried` of `of` valid choices were measured, at a `level`. `versions` has the distributions that generated.
    `ragged` is True if results were compared at cut sizes too. `program` is the digest of the program's key. `outcome`
    is "ok", or why the choice cannot win or no longer runs, in which `detail`.
    """

    sizes: tuple[int, ...]
    choice: dict[str, Any]
    ratio: float | None
    level: int
    tried: int
    of: int
    noise: float
    day: str
    versions: str = ""
    ragged: bool = True
    program: str = ""
    outcome: str = "ok"
    detail: str = ""


class State:
    """The tables that this process read, by the digest of their key."""

    def __init__(self) -> None:
        self.tables: dict[str, ChoiceTable] = {}

    def on_change(self) -> None:
        """Read the tables again, as the files lie in another place."""
        self.tables.clear()


_state = process.own(State)


class ChoiceTable:
    """The table of a recipe on a device, for some dtypes; read once a process. Thread-safe.

    `about` is for views: the kernel, the names of its sizes, the defaults and the device.
    """

    def __init__(self, key: Key, about: Mapping[str, Any]) -> None:
        self.key = key
        self.about = about
        self.rows: list[Row] = self._stored()

    def row(self, sizes: tuple[int, ...]) -> Row | None:
        """Return the row for exactly these sizes."""
        return next((row for row in self.rows if row.sizes == sizes), None)

    def near(self, sizes: tuple[int, ...]) -> list[Row]:
        """Return the rows in the same power of two on each axis, the nearest by ratio first."""
        powers = [*map(int.bit_length, sizes)]
        rows = [row for row in self.rows if [*map(int.bit_length, row.sizes)] == powers]
        return sorted(rows, key=partial(_distance, sizes)) if len(rows) > 1 else rows

    def nearest(self, sizes: tuple[int, ...]) -> Row | None:
        """Return the nearest row by ratio."""
        return min(self.rows, key=partial(_distance, sizes), default=None)

    def put(self, row: Row) -> None:
        """Store a row in the place of that for the same sizes; other processes may have stored rows since."""
        found = {repr(one.sizes): one for one in [*self.rows, *self._stored()]}
        self.rows = self._write(TABLE, found, {repr(row.sizes): row}, ROWS, ROWS_BYTES)

    def facts(self) -> dict[str, Row]:
        """Return the outcome of each candidate, by `fact_name`."""
        return {
            fact_name(one.sizes, one.choice): one for one in listed(self._memo(FACT).read(), FACT)
        }

    def put_facts(self, facts: Iterable[Row]) -> None:
        """Store outcomes, each in the place of that of the same candidate at the same sizes."""
        self._write(
            FACT,
            self.facts(),
            {fact_name(one.sizes, one.choice): one for one in facts},
            FACTS,
            FACTS_BYTES,
        )

    def _stored(self) -> list[Row]:
        return listed(self._memo(TABLE).read(), TABLE)

    def _write(
        self, label: str, old: dict[str, Row], new: dict[str, Row], most: int, size: int
    ) -> list[Row]:
        """Write the newest rows, as many as may be stored, and return them."""
        kept = list[Row]()
        for row in reversed(
            [*(row for name, row in old.items() if name not in new), *new.values()]
        ):
            size -= len(json.dumps(_written(row))) + 2
            if size < 0 or len(kept) == most:
                break
            kept.insert(0, row)
        self._memo(label).write({**self.about, _LISTS[label]: [*map(_written, kept)]})
        return kept

    def _memo(self, label: str) -> RunMemo:
        return RunMemo(places.TUNING, self.key, label, TABLES)


class Decision(NamedTuple):
    """The kernel for some sizes, with its choice, and the row that led to it: None for the defaults.

    `why` says why the nearest row in the same power of two does not serve.
    """

    kernel: Any
    choice: dict[str, Any]
    sizes: dict[str, int]
    row: Row | None
    table: ChoiceTable | None
    why: str = ""

    def __str__(self) -> str:
        head = "".join(f"{name} = {one or 'any'}, " for name, one in self.sizes.items())[:-2]
        if self.row is not None:
            words = f"{measured(self.row, self.sizes)}, takes {self.row.ratio or 1.0:.2f} of the time of the default"
        else:
            words = f"the default {said(self.choice)}: {self.why or self._why()}"
        return f"{head}: {words}" if head else words

    def _why(self) -> str:
        if self.table is None:
            return f"off: {off()}" if off() else "its key is unknown"
        row = self.table.nearest(tuple(self.sizes.values()))
        nearest = (
            f"no row is in its power of two; the nearest is {measured(row, self.sizes)}"
            if row
            else ""
        )
        return nearest or "nothing is measured"


def of(key: Key, about: Mapping[str, Any]) -> ChoiceTable:
    """Return the table with a key; this process reads it once."""
    known = _state().tables
    return known.get(key.digest) or known.setdefault(key.digest, ChoiceTable(key, about))


def off() -> str:
    """Return why no table is read or written; empty where tables are."""
    layer = layers.generator()
    if settings.TUNING in layer.chosen.no_cache:
        return "KCL_NO_CACHE=tuning"
    return layer.off() if layers.binary().off() else ""


def key_of(
    kernel: str, subject: Key, free: Iterable[Part], identity: Iterable[Part], units: int
) -> Key:
    """Return the key of a table: `subject` is the generator key of the default choice, `free` has what is left open."""
    recipe = [
        part
        for part in subject.parts
        if not part.name.startswith("distribution ") and part.name not in _GENERATING
    ]
    device = [*devices.parts(identity), Part(devices.UNITS, str(units))]
    return Key(
        [
            Part("recipe", kernel),
            *recipe,
            *free,
            *device,
            Part("threads", settings.variable(_THREADS) or ""),
        ]
    )


def code_digest(build: Build, code: Code, headers: str) -> str:
    """Return the digest of a program as it runs: OpenCL C, options, contents of its includes, and the launch code.

    `headers` is `build.headers_digest(code.text)`. Include directories count by what lies in them. Empty if the options
    cannot be read.
    """
    try:
        flags = build.options(code.text.options).part
    except UnknownInput:
        return ""
    invoker = code.invoker
    parts = [
        Part("source", code.text.source_digest),
        Part("options", flags),
        Part("headers", headers),
        Part("invoker", f"{invoker.function} {invoker.source}"),
        Part("structures", json.dumps(invoker.dtypes)),
    ]
    return Key(parts).digest[:_DIGITS]


def fact_name(sizes: tuple[int, ...], choice: Mapping[str, Any]) -> str:
    """Return the name of a candidate at some sizes."""
    return f"{list(sizes)} {said(choice)}"


def measured(row: Row, sizes: Mapping[str, int]) -> str:
    """Write the choice of a row, and where it was measured."""
    place = f" at {said(dict(zip(sizes, row.sizes, strict=False)))}" if sizes else ""
    return f"{said(row.choice)}, measured{place}"


def _distance(sizes: tuple[int, ...], row: Row) -> float:
    """Return how far a row lies from these sizes, by their ratios."""
    return sum(
        abs(math.log(max(one, 1) / max(other, 1)))
        for one, other in zip(sizes, row.sizes, strict=False)
    )


def listed(metadata: Mapping[str, Any], label: str) -> list[Row]:
    """Return the rows in the metadata of a table, or of facts; none where it is of another kcl."""
    try:
        found = [
            Row(**{**one, "choice": dict(one["choice"])}) for one in metadata.get(_LISTS[label], ())
        ]
        return [one._replace(sizes=tuple(one.sizes)) for one in found if _is_sound(one)]
    except (TypeError, ValueError, KeyError, AttributeError):
        return []


def _is_sound(one: Row) -> bool:
    """Return True if sizes, choice and ratio are what a decision needs; the rest is shown only."""
    sizes = all(type(size) is int and size >= 0 for size in one.sizes)
    return (
        sizes
        and isinstance(one.ratio, (float, int, type(None)))
        and all(map(is_scalar, one.choice.values()))
    )


def _written(row: Row) -> dict[str, Any]:
    """Return a row for JSON, without what is as usual; a choice keeps its order."""
    fields = {**row._asdict(), "choice": [*row.choice.items()]}
    return {
        name: value for name, value in fields.items() if value != Row._field_defaults.get(name, ...)
    }
