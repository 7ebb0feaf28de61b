"""Tables: the choices that were measured for a recipe on a device, and what became of every candidate.

    kcl/tuning/table-<digest>    rows: sizes -> choice, its ratio to the default, and how it was found; read at a launch
    kcl/tuning/facts-<digest>    the outcome of each candidate; read by `tune` and by views only

Both are entries under one key: see `key_of`. The texts of kcl and of the generators are not in it, since another release
of loopy changes speed a little and results not at all. No table is needed for a right answer, so no fault passes here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import settings
from kcl.base.dtypes import dtype_text
from kcl.cache import layers, places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo

if TYPE_CHECKING:
    from kcl.build.stage import Build

ROWS = 64  # of a table
BYTES = 8_000  # of the rows of a table, as JSON
FACTS_BYTES = 500_000
TABLES = 4_096  # on disk
_THREADS = "POCL_MAX_PTHREAD_COUNT"
_SUBJECT = ("declared version", "entry point", "source", "record", "unit")  # the parts of a key that name no generator


class Row(NamedTuple):
    """A decision: the choice for some sizes, and how it was found.

    `ratio` is the elapsed time of the choice by that of the default, 1.0 where the default stays. `tried` of `of` valid
    choices were measured, at a `level`, with a relative `noise`. `versions` has the distributions that generated, and
    `ragged` is True if the results were compared at cut sizes too. `refused` says why the choice no longer runs.
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
    refused: str = ""


class Fact(NamedTuple):
    """The outcome of one candidate at some sizes: "ok", or why it did not win; `program` is a digest of its key."""

    sizes: tuple[int, ...]
    choice: dict[str, Any]
    outcome: str
    detail: str
    ratio: float | None
    level: int
    day: str
    program: str = ""


class Table:
    """The table of a recipe on a device, for some dtypes. Raises nothing for damaged or foreign files: no table."""

    def __init__(self, key: Key) -> None:
        self.key = key

    @property
    def rows(self) -> list[Row]:
        """The rows, oldest first."""
        raise NotImplementedError

    def row(self, sizes: tuple[int, ...]) -> Row | None:
        """Return the row for exactly these sizes."""
        raise NotImplementedError

    def nearest(self, sizes: tuple[int, ...]) -> Row | None:
        """Return the nearest row whose sizes lie in the same power of two on each axis."""
        raise NotImplementedError

    def put(self, row: Row) -> None:
        """Store a row in the place of that for the same sizes."""
        raise NotImplementedError

    def facts(self) -> dict[str, Fact]:
        """Return the outcome of each candidate, by `fact_name`."""
        raise NotImplementedError

    def put_facts(self, facts: Iterable[Fact]) -> None:
        """Store outcomes, each in the place of that of the same candidate at the same sizes."""
        raise NotImplementedError


def fact_name(sizes: tuple[int, ...], choice: Mapping[str, Any]) -> str:
    """Return the name of a candidate at some sizes."""
    return json.dumps([list(sizes), choice], sort_keys=True)
