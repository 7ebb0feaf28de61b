"""Tables: the choices that were measured for a recipe on a device, and what became of every candidate.

    table-<digest>    rows: sizes -> choice, its ratio to the default, and how it was found; read at a launch
    facts-<digest>    the outcome of each candidate; read by `tune` and by views only

Both are entries of the tuning layer under one key: see `make_key`. The texts of kcl and of the generators are not in it:
another release of loopy changes a time a little, and a row names the release.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import computed_once, settings
from kcl.cache import faults, layers, notes
from kcl.cache.entry import Entry, origin
from kcl.cache.key import Key, Part
from kcl.cache.layer import Layer
from kcl.cache.stores import address
from kcl.choices.sizes import NamedSizes, SizeValues
from kcl.choices.tuning.space import Choice, describe
from kcl.drivers import devices
from kcl.errors import UnknownInput

if TYPE_CHECKING:
    from kcl.code import Code
    from kcl.programs.stage import Build

SERVED = 8  # choices of a row
# A row serves sizes that are up to so many times its own, or as much smaller.
_FAR = 2.0
TABLE, FACT = "table", "facts"
_LISTS = {TABLE: "rows", FACT: "facts"}  # the names of what they list
_MOST_BYTES = {TABLE: 64_000, FACT: 800_000}  # of these lists as JSON
MARK = "tuning of "  # begins the remarks of a run on what was decided
_THREADS = "POCL_MAX_PTHREAD_COUNT"
_DIGITS = 32  # of a digest in a row
# Parts of a generator key that say what generates the code. What a recipe asks is in the others.
_GENERATING = ("kcl", "python", "optimize", "argument checks", "dtype names", "state")


class RankedChoice(NamedTuple):
    """A choice that a row may serve: its ratio and noise, and the digests of the code that was compared, of all forms."""

    choice: Choice
    ratio: float
    noise: float
    codes: tuple[str, ...]


class Row(NamedTuple):
    """What was measured of a choice at some sizes: the decision of a tuning, or the outcome of one candidate.

    `ratio` is the elapsed time of the choice by that of the default, 1.0 where the default stays, with a relative
    `noise`; `seconds` is that time, and `gigabytes` how many of the arrays it takes in a second. `tried` of `of` valid
    choices were measured, at a `level`. `versions` has the distributions that generated. `ragged` is True if results
    were compared at cut sizes too. `program` is the digest of the program's key. `outcome` is "ok", or why the choice
    cannot win or no longer runs; `detail` says more.

    A decision counts for calls with the same `dtypes` of the arguments that the default left open, while the files in
    `includes` have these digests. Its `codes` are digests of what the default asks: one of them must be that of the
    call; without any, the key of the table has it. `best` are the choices that it may serve, the first one wins.
    `variant` names the recipe's other parameters. It is `unfinished` if choices are left that the search has not tried.

    The `codes` of an outcome are the digests of the candidate's own code: the outcome counts for that code only, and
    only under the same `terms`, a digest of how results were compared. Of a time-out `limit` is how many seconds there
    were.
    """

    sizes: SizeValues
    choice: Choice
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
    seconds: float = 0.0
    gigabytes: float = 0.0
    dtypes: Mapping[str, str] = {}
    includes: Mapping[str, str] = {}
    best: tuple[RankedChoice, ...] = ()
    variant: str = ""
    unfinished: bool = False
    codes: tuple[str, ...] = ()
    terms: str = ""
    limit: float = 0.0

    def served(self) -> list[tuple[Choice, tuple[str, ...]]]:
        """Return the choices in their order, with the digests of their code; the default stays without any."""
        return [(ranked.choice, ranked.codes) for ranked in self.best] or [(self.choice, ())]

    def at(self, names: Iterable[str]) -> str:
        """Write the sizes, which have these names."""
        return describe(dict(zip(names, self.sizes, strict=False)))

    @property
    def name(self) -> str:
        """What a row is about: one row of a name is kept."""
        return f"{list(self.sizes)} {sorted(self.dtypes.items())} {self.variant}"


class ChoiceTable:
    """The table of a recipe on a device. Thread-safe.

    `about` is stored: the kernel, the names of its sizes, the defaults and the device for views, and the name of a note.
    `rows` are those that were read last. `address` is that of the table in its layer.
    """

    def __init__(self, key: Key, about: Mapping[str, Any]) -> None:
        self.key = key
        self.about = about
        self.note = str(about.get("note", ""))  # the name of that on the last table of this recipe
        self.address = address(key.digest, label=TABLE)
        self.rows: list[Row] = []

    def refresh(self) -> ChoiceTable:
        """Take the rows that are on disk now; those that this process knows stay if there is no table."""
        if (entry := self._stored(TABLE)) is not None:
            self.take(entry)
        return self

    def take(self, entry: Entry) -> None:
        """Take the rows of an entry."""
        if entry.ready is None:
            entry.ready = read_rows(entry, TABLE)
        self.rows = entry.ready

    def row(self, name: str) -> Row | None:
        """Return the row of exactly this name, as it is on disk now."""
        return _by_name(TABLE, self.refresh().rows).get(name)

    @computed_once
    def lost(self) -> str:
        """Why an earlier table of the recipe does not count any more; empty if there is none."""
        digest = notes.read(self.note) if self.note else None
        return "" if digest in (None, self.key.digest) else "its text changed since it was measured"

    def near(self, sizes: SizeValues, variant: str = "") -> list[Row]:
        """Return the rows whose sizes are within a factor of two on each axis: of the variant, the nearest first."""
        rows = [row for row in self.rows if is_near(sizes, row)]
        rows.sort(key=lambda row: (row.variant != variant, sum(_distances(sizes, row))))
        return rows

    def nearest(self, sizes: SizeValues) -> Row | None:
        """Return the nearest row by ratio."""
        return min(self.rows, key=lambda row: sum(_distances(sizes, row)), default=None)

    def put(self, row: Row) -> None:
        """Store a row in the place of that for the same case; other processes may have stored rows since."""
        self.rows = self._write(TABLE, [row], self.rows)
        if self.note:
            notes.write(self.note, self.key.digest)

    def facts(self) -> dict[str, Row]:
        """Return the outcome of each candidate, by `fact_name`."""
        return _by_name(FACT, read_rows(self._stored(FACT), FACT))

    def put_facts(self, facts: Iterable[Row]) -> None:
        """Store outcomes, each in the place of that of the same candidate in the same case."""
        self._write(FACT, facts)

    def _stored(self, label: str) -> Entry | None:
        tables, at = layer(), address(self.key.digest, label=label)
        # Without the entry in memory the layer reads the files: another process may have written since. If nothing can
        # be written, memory alone has the table.
        remembered = tables.memory.pop(at, None)
        entry = tables.look_up(at, self.key).entry
        if entry is None and remembered is not None:
            tables.memory.put(at, remembered)
            entry = remembered.entry
        return entry

    def _write(self, label: str, put: Iterable[Row], read: Iterable[Row] = ()) -> list[Row]:
        """Write rows beside those on disk and those that were `read`; return the rows that are there now.

        If these are too many, the oldest ones go, and a warning names them.
        """
        stored, new = self._stored(label), _by_name(label, put)
        # Rows on disk are newer than those that this process read. The newest rows stand last.
        old = _by_name(label, [*read, *read_rows(stored, label)])
        rows = [*(row for name, row in old.items() if name not in new), *new.values()]
        written = [*map(_written, rows)]
        sizes = itertools.accumulate(len(json.dumps(row)) + 2 for row in reversed(written))
        first = sum(size > _MOST_BYTES[label] for size in sizes)
        if first and label == TABLE:
            gone = ", ".join(row.at(self.about["names"]) for row in rows[:first])
            faults.warn_once(
                f"full {gone}", f"the table of {self.about['kernel']} is full, and forgets {gone}"
            )
        about = {**self.about, **origin(stored), "created": int(time.time())}
        entry = Entry(self.key, {**about, _LISTS[label]: written[first:]}, {})
        layer().publish(address(self.key.digest, label=label), entry)
        return rows[first:]


class Decision(NamedTuple):
    """The line for some sizes, with its choice, and the row that led to it: None for the defaults.

    `why` says why no row serves. `lost` says what was measured and is not served, as it is not what would run. `error` is
    what kept the code of the choice from being compared. It is `in_block` if the call is in a block without the layer.
    """

    line: Any
    choice: Choice
    sizes: NamedSizes
    row: Row | None
    table: ChoiceTable | None
    why: str = ""
    lost: str = ""
    error: Exception | None = None
    in_block: bool = False

    def __str__(self) -> str:
        head = ", ".join(f"{name} = {size or 'any'}" for name, size in self.sizes.items())
        if self.row is None:
            words = f"the default {describe(self.choice)}: {self.lost or self.why}"
        elif not self.row.best:
            words = f"the default {describe_row(self.row, self.sizes)} as the fastest of {self.row.tried}"
        else:
            ratios = {describe(ranked.choice): ranked.ratio for ranked in self.row.best}
            ratio = ratios.get(describe(self.choice), self.row.ratio or 1.0)
            words = describe_row(self.row, self.sizes, self.choice)
            words += f", takes {digits(ratio)} of the time of the default"
            words += f"; {self.lost}" if self.lost else ""
        return f"{head}: {words}" if head else words


def layer() -> Layer:
    """Return the tuning layer."""
    return layers.layer(settings.TUNING)


def _by_name(label: str, rows: Iterable[Row]) -> dict[str, Row]:
    return {row.name if label == TABLE else fact_name(row): row for row in rows}


def make_key(kernel: str, subject: Key, free: Iterable[Part]) -> Key:
    """Return the key of a table: `subject` is the generator key of the default, `free` has what is open, and the device."""
    return Key([Part("recipe", kernel), *_question_parts(subject), *free])


def digest_questions(subject: Key | None) -> str:
    """Return the digest of what a recipe asks, whatever generates; unlike all others if it is unknown."""
    return Key(_question_parts(subject)).digest[:_DIGITS] if subject else os.urandom(16).hex()


def name_note(function: Any, case: Iterable[Part]) -> str:
    """Return the name of the note on the last table of a recipe, whatever its text, in some case on a device."""
    module = function.__module__ or ""
    # Each program is called `__main__`, so its path tells which one it is.
    if module == "__main__":
        module = settings.program_path()
    return f"tuned {module}.{function.__qualname__} {Key([*case]).digest[:_DIGITS]}"


def _question_parts(subject: Key) -> list[Part]:
    return [
        part
        for part in subject.parts
        if not part.name.startswith("distribution ") and part.name not in _GENERATING
    ]


def device_parts(identity: Iterable[Part], units: int) -> list[Part]:
    """Return the parts of a device for the key of a table."""
    threads = Part("threads", settings.variable(_THREADS) or "")
    return [*devices.parts(identity), Part(devices.UNITS, str(units)), threads]


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


def fact_name(row: Row) -> str:
    """Return the name of a candidate in a case."""
    return f"{row.name} {describe(row.choice)}"


def digits(value: float) -> str:
    """Write a number with three digits."""
    return f"{float(f'{value:.3g}'):.12g}"


def describe_row(row: Row, sizes: NamedSizes, choice: Choice | None = None) -> str:
    """Write a choice of a row, by default the first one, and where it was measured."""
    return f"{describe(choice or row.choice)}, measured{f' at {row.at(sizes)}' if sizes else ''}"


def is_near(sizes: SizeValues, row: Row) -> bool:
    """Return True if sizes are within a factor of two of those of a row, on each axis."""
    return max(_distances(sizes, row), default=0.0) <= math.log(_FAR)


def _distances(sizes: SizeValues, row: Row) -> list[float]:
    """Return how far sizes lie from those of a row, on each axis: the logarithm of their ratio."""
    pairs = zip(sizes, row.sizes, strict=False)
    # A size of 0 has no logarithm.
    return [abs(math.log(max(size, 1) / max(measured, 1))) for size, measured in pairs]


def read_rows(entry: Entry | None, label: str) -> list[Row]:
    """Return the rows in the entry of a table, or of facts; a row of another form is left out."""
    written = entry.metadata.get(_LISTS[label]) if entry else None
    rows = map(_read, written if isinstance(written, list) else [])
    return [row for row in rows if row is not None]


def _read(fields: Any) -> Row | None:
    """Return a row as it was written, after JSON; None for one of another form, as another kcl may write it."""
    try:
        best = [RankedChoice(dict(a), b, c, tuple(d)) for a, b, c, d in fields.get("best", ())]
        row = Row(**{**fields, "choice": dict(fields["choice"]), "best": tuple(best)})
        # A decision computes with these, and shows them. What else is wrong makes no choice valid.
        ratios = [row.ratio or 0.0, *[ranked.ratio for ranked in best]]
        is_sound = (
            all(isinstance(size, int) for size in row.sizes)
            and all(isinstance(ratio, (int, float)) for ratio in ratios)
            and all(isinstance(mapping, dict) for mapping in (row.dtypes, row.includes))
        )
        exact = row._replace(sizes=tuple(row.sizes), codes=tuple(row.codes))
        return exact if is_sound else None
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def _written(row: Row) -> dict[str, Any]:
    """Return a row for JSON, without what is as usual; a choice keeps its order."""
    best = [[[*ranked.choice.items()], *ranked[1:]] for ranked in row.best]
    fields = {**row._asdict(), "choice": [*row.choice.items()], "best": best or ()}
    return {
        name: value for name, value in fields.items() if value != Row._field_defaults.get(name, ...)
    }
