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
from typing import Any, NamedTuple, TypeVar

from kcl.base import process, settings
from kcl.cache import layers, places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo
from kcl.drivers import devices
from kcl.tuning.space import is_scalar, text_of

T = TypeVar("T", "Row", "Fact")

ROWS, FACTS = 64, 4096
ROWS_BYTES, FACTS_BYTES = 8_000, 800_000  # as JSON
TABLES = 4096  # entries on disk: tables and facts
LABELS = TABLE, FACT = "table", "facts"
MARK = "tuning of "  # begins the remarks of a run on what was decided
_THREADS = "POCL_MAX_PTHREAD_COUNT"
_GENERATING = ("kcl", "python", "optimize", "other distributions", "argument checks", "dtype names", "state")


class Row(NamedTuple):
    """A decision: the choice for some sizes, and how it was found.

    `ratio` is the elapsed time of the choice by that of the default, 1.0 where the default stays. `tried` of `of` valid
    choices were measured, at a `level`, with a relative `noise`. `versions` has the distributions that generated.
    `ragged` is True if results were compared at cut sizes too. `program` is the digest of the program's key. `refused`
    says why the choice no longer runs.
    """

    sizes: tuple[int, ...]
    choice: dict[str, Any]
    ratio: float
    level: int
    tried: int
    of: int
    noise: float
    day: str
    versions: dict[str, str]
    ragged: bool = True
    program: str = ""
    refused: str = ""


class Fact(NamedTuple):
    """The outcome of one candidate at some sizes: "ok", or why it cannot win; `program` is the digest of its key."""

    sizes: tuple[int, ...]
    choice: dict[str, Any]
    outcome: str
    detail: str
    ratio: float | None
    level: int
    day: str
    program: str = ""


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
        powers = [size.bit_length() for size in sizes]
        rows = [row for row in self.rows if [*map(int.bit_length, row.sizes)] == powers]
        return sorted(rows, key=lambda row: distance(row.sizes, sizes))

    def nearest(self, sizes: tuple[int, ...]) -> Row | None:
        """Return the nearest row by ratio."""
        rows = [row for row in self.rows if len(row.sizes) == len(sizes)]
        return min(rows, key=lambda row: distance(row.sizes, sizes), default=None)

    def put(self, row: Row) -> None:
        """Store a row in the place of that for the same sizes; other processes may have stored rows since."""
        kept = {one.sizes: one for one in [*self.rows, *self._stored()] if one.sizes != row.sizes}
        self.rows = _bounded([*kept.values(), row], ROWS, ROWS_BYTES)
        self._memo(TABLE).write({**self.about, "rows": [one._asdict() for one in self.rows]})

    def facts(self) -> dict[str, Fact]:
        """Return the outcome of each candidate, by `fact_name`."""
        return {fact_name(one.sizes, one.choice): one for one in listed(self._memo(FACT).read(), Fact)}

    def put_facts(self, facts: Iterable[Fact]) -> None:
        """Store outcomes, each in the place of that of the same candidate at the same sizes."""
        found = {**self.facts(), **{fact_name(one.sizes, one.choice): one for one in facts}}
        kept = _bounded(list(found.values()), FACTS, FACTS_BYTES)
        self._memo(FACT).write({**self.about, "facts": [one._asdict() for one in kept]})

    def _stored(self) -> list[Row]:
        return listed(self._memo(TABLE).read(), Row)

    def _memo(self, label: str) -> RunMemo:
        return RunMemo(places.TUNING, self.key, label, TABLES)


def of(key: Key, about: Mapping[str, Any]) -> ChoiceTable:
    """Return the table with a key; this process reads it once."""
    known = _state().tables
    return known.get(key.digest) or known.setdefault(key.digest, ChoiceTable(key, about))


def off() -> str:
    """Return why no table is read or written; empty where tables are."""
    chosen = layers.generator().chosen
    if settings.TUNING in chosen.no_cache or (layers.generator().off() and layers.binary().off()):
        return layers.generator().off() if settings.TUNING not in chosen.no_cache else "KCL_NO_CACHE=tuning"
    return ""


def key_of(
    kernel: str,
    subject: Key,
    free: Iterable[str],
    sizes: Mapping[str, str],
    dtypes: Iterable[tuple[str, str]],
    identity: Iterable[Part],
    units: int,
) -> Key:
    """Return the key of a table; `subject` is the generator key of the default choice, `free` names its parameters."""
    return Key(
        [
            Part("recipe", kernel),
            *(
                part
                for part in subject.parts
                if not part.name.startswith("distribution ") and part.name not in _GENERATING
            ),
            *(Part("free", name) for name in sorted(free)),
            *(Part(f"size {name}", text) for name, text in sizes.items()),
            *(Part(f"dtype {name}", text) for name, text in dtypes),
            *devices.parts(identity),
            Part(devices.UNITS, str(units)),
            Part("threads", settings.variable(_THREADS) or ""),
        ]
    )


def fact_name(sizes: tuple[int, ...], choice: Mapping[str, Any]) -> str:
    """Return the name of a candidate at some sizes."""
    return f"{list(sizes)} {text_of(choice)}"


def distance(sizes: tuple[int, ...], others: tuple[int, ...]) -> float:
    """Return how far sizes lie apart, by their ratios."""
    return sum(abs(math.log(max(one, 1) / max(other, 1))) for one, other in zip(sizes, others, strict=True))


def listed(metadata: Mapping[str, Any], kind: type[T]) -> list[T]:
    """Return the rows or facts in the metadata of an entry; none where it is of another kcl."""
    try:
        found = [kind(**one) for one in metadata.get("rows" if kind is Row else "facts", ())]
        return [one._replace(sizes=tuple(one.sizes)) for one in found if _is_sound(one)]
    except (TypeError, ValueError, AttributeError):
        return []


def _is_sound(one: Row | Fact) -> bool:
    """Return True if sizes and choice are what a decision needs; the rest is shown only."""
    sizes = isinstance(one.sizes, (list, tuple)) and all(type(size) is int and size >= 0 for size in one.sizes)
    return sizes and type(one.choice) is dict and all(map(is_scalar, one.choice.values()))


def _bounded(found: list[T], most: int, size: int) -> list[T]:
    """Return the newest rows, as many as may be stored."""
    kept: list[T] = []
    for one in reversed(found[-most:]):
        size -= len(json.dumps(one._asdict()).encode()) + 1
        if size < 0:
            break
        kept.insert(0, one)
    return kept
