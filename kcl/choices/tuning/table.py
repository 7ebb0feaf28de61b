"""Tables of choices: what was measured for a recipe on a device.

    table-<digest>    rows: sizes -> choice, its ratio to the default, and how it was found; read at a launch
    facts-<digest>    the outcome of each candidate; read only by `tune` and by reports

Both are entries of the tuning layer under the same key, see `make_key`. The key leaves out kcl and the code generators:
another release of loopy changes times only a little, and a row names the release.
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
# A row is used for sizes up to this many times larger or smaller than its own.
_FAR = 2.0
TABLE, FACT = "table", "facts"
_LISTS = {TABLE: "rows", FACT: "facts"}  # the metadata with their list
_MOST_BYTES = {TABLE: 64_000, FACT: 800_000}  # of these lists as JSON
MARK = "tuning of "  # the beginning of a run's remarks on decisions
_THREADS = "POCL_MAX_PTHREAD_COUNT"
_DIGITS = 32  # of a digest in a row
# Parts of a generator key that describe the code generators. The others describe the recipe's request.
_GENERATING = ("kcl", "python", "optimize", "argument checks", "dtype names", "state")


class RankedChoice(NamedTuple):
    """A choice of a row: its ratio and noise, and the digests of its code that was compared, for all forms."""

    choice: Choice
    ratio: float
    noise: float
    codes: tuple[str, ...]


class Row(NamedTuple):
    """What was measured for a choice at some sizes. A row is the *decision* of a tuning, or the *outcome* of a candidate.

    `ratio` is the time of the choice divided by that of the default (1.0 if the default stays), with a relative `noise`.
    `seconds` is the time, `gigabytes` the rate in GB/s of reading all arrays once in that time. `tried` of `of` valid
    choices were measured, at a `level`. `versions` names the generators' releases. `ragged` is True if results were
    compared at cut sizes too. `program` is the digest of the program key. `outcome` is "ok", or why the choice cannot win
    or does not run any more; `detail` says more.

    A decision applies to calls with the same `dtypes` of open arguments, while the files in `includes` have these digests.
    Its `codes` are digests of the default's key parts, one of which must be that of the call; it has none if the table's
    key covers that. `best` are the choices that may be used, the best first. `variant` names the recipe's other parameters.
    `unfinished` is True if the search has not tried all its choices.

    An outcome's `codes` are the digests of the candidate's code. It applies only to that code, and only with the same
    `terms`, a digest of how results were compared. If the candidate timed out, `limit` is the time that it had, in seconds.
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
        """Return (choice, digests of its code) in order of preference; if the default stays, it without digests."""
        return [(ranked.choice, ranked.codes) for ranked in self.best] or [(self.choice, ())]

    def at(self, names: Iterable[str]) -> str:
        """Return the sizes as a text, given their names."""
        return describe(dict(zip(names, self.sizes, strict=False)))

    @property
    def name(self) -> str:
        """The text that identifies a row's case: a table has one row for each."""
        return f"{list(self.sizes)} {sorted(self.dtypes.items())} {self.variant}"


class ChoiceTable:
    """The table of a recipe on a device. Thread-safe.

    `about` is metadata for reports: the kernel, the names of its sizes, the defaults, the device, and the name of a note.
    `rows` are those that were read last. `address` is the table's address in its layer.
    """

    def __init__(self, key: Key, about: Mapping[str, Any]) -> None:
        self.key = key
        self.about = about
        self.note = str(about.get("note", ""))  # the name of that on the last table of this recipe
        self.address = address(key.digest, label=TABLE)
        self.rows: list[Row] = []

    def refresh(self) -> ChoiceTable:
        """Read the rows that are on disk now; if there is no table there, keep the present ones."""
        if (entry := self._stored(TABLE)) is not None:
            self.take(entry)
        return self

    def take(self, entry: Entry) -> None:
        """Set `rows` to those of an entry."""
        if entry.ready is None:
            entry.ready = read_rows(entry, TABLE)
        self.rows = entry.ready

    def row(self, name: str) -> Row | None:
        """Return the row with this `Row.name` that is on disk now."""
        return _by_name(TABLE, self.refresh().rows).get(name)

    @computed_once
    def lost(self) -> str:
        """Why an earlier table of the recipe does not apply any more; empty if there was none."""
        digest = notes.read(self.note) if self.note else None
        return "" if digest in (None, self.key.digest) else "its text changed since it was measured"

    def near(self, sizes: SizeValues, variant: str = "") -> list[Row]:
        """Return the rows whose sizes are all within a factor of two: first those of the variant, the nearest first."""
        rows = [row for row in self.rows if is_near(sizes, row)]
        rows.sort(key=lambda row: (row.variant != variant, sum(_distances(sizes, row))))
        return rows

    def nearest(self, sizes: SizeValues) -> Row | None:
        """Return the row with the nearest sizes, by their ratios; None without rows."""
        return min(self.rows, key=lambda row: sum(_distances(sizes, row)), default=None)

    def put(self, row: Row) -> None:
        """Store a row, in place of one for the same case. Rows that other processes have stored are kept."""
        self.rows = self._write(TABLE, [row], self.rows)
        if self.note:
            notes.write(self.note, self.key.digest)

    def facts(self) -> dict[str, Row]:
        """Return `fact_name` -> outcome for all candidates."""
        return _by_name(FACT, read_rows(self._stored(FACT), FACT))

    def put_facts(self, facts: Iterable[Row]) -> None:
        """Store outcomes, each in place of one of the same candidate in the same case."""
        self._write(FACT, facts)

    def _stored(self, label: str) -> Entry | None:
        tables, at = layer(), address(self.key.digest, label=label)
        # Taken out of memory, so that the layer reads the file, which another process may have written. If there is no
        # file, as in a read-only cache, the one in memory counts.
        remembered = tables.memory.pop(at, None)
        entry = tables.look_up(at, self.key).entry
        if entry is None and remembered is not None:
            tables.memory.put(at, remembered)
            entry = remembered.entry
        return entry

    def _write(self, label: str, put: Iterable[Row], read: Iterable[Row] = ()) -> list[Row]:
        """Write rows, together with those on disk and those that were `read`; return all of them.

        If these are too many, the oldest ones are dropped, with a warning.
        """
        stored, new = self._stored(label), _by_name(label, put)
        # Rows on disk replace those that this process has read. The newest rows are last.
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
    """The choice for some sizes, its line, and the row that it comes from; the row is None for the defaults.

    `why` says why no row is used. `lost` says which measured choice is not used since its code has changed. `error` is the
    error that kept the choice's code from being compared. `in_block` is True for a call within `kcl.disabled("tuning")`.
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
    """Return the key of a table. `subject` is the default's generator key; `free` has the choices and the device."""
    return Key([Part("recipe", kernel), *_question_parts(subject), *free])


def digest_questions(subject: Key | None) -> str:
    """Return a digest of a generator key without the generators' parts; a random one if the key is unknown."""
    return Key(_question_parts(subject)).digest[:_DIGITS] if subject else os.urandom(16).hex()


def name_note(function: Any, case: Iterable[Part]) -> str:
    """Return the name of the note with the key of the recipe's last table; it does not depend on the recipe's code."""
    module = function.__module__ or ""
    # The module of each program is `__main__`, so the program's path is used instead.
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
    """Return the parts of a table's key that describe the device."""
    threads = Part("threads", settings.variable(_THREADS) or "")
    return [*devices.parts(identity), Part(devices.UNITS, str(units)), threads]


def code_digest(build: Build, code: Code, headers: str) -> str:
    """Return a digest of everything that runs: OpenCL C, options, contents of headers, and the invoker.

    `headers` is `build.headers_digest(code.text)`, by which include directories count. Empty if the options cannot be
    parsed.
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
    """Return the text that identifies a candidate in a case."""
    return f"{row.name} {describe(row.choice)}"


def digits(value: float) -> str:
    """Write a number with three digits."""
    return f"{float(f'{value:.3g}'):.12g}"


def describe_row(row: Row, sizes: NamedSizes, choice: Choice | None = None) -> str:
    """Describe a choice of a row, by default the best one, and the sizes at which it was measured."""
    return f"{describe(choice or row.choice)}, measured{f' at {row.at(sizes)}' if sizes else ''}"


def is_near(sizes: SizeValues, row: Row) -> bool:
    """Return True if all sizes are within a factor of two of those of a row."""
    return max(_distances(sizes, row), default=0.0) <= math.log(_FAR)


def _distances(sizes: SizeValues, row: Row) -> list[float]:
    """Return the distance of each size from that of a row: the absolute logarithm of their ratio."""
    pairs = zip(sizes, row.sizes, strict=False)
    # `max`, since 0 has no logarithm.
    return [abs(math.log(max(size, 1) / max(measured, 1))) for size, measured in pairs]


def read_rows(entry: Entry | None, label: str) -> list[Row]:
    """Return the rows in the entry of a table, or of facts; malformed rows are left out."""
    written = entry.metadata.get(_LISTS[label]) if entry else None
    rows = map(_read, written if isinstance(written, list) else [])
    return [row for row in rows if row is not None]


def _read(fields: Any) -> Row | None:
    """Return a row from its form in JSON; None if it is malformed, or from an unknown version of kcl."""
    try:
        best = [RankedChoice(dict(a), b, c, tuple(d)) for a, b, c, d in fields.get("best", ())]
        row = Row(**{**fields, "choice": dict(fields["choice"]), "best": tuple(best)})
        # Only fields that are computed with are checked: another wrong field only makes the choice invalid.
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
    """Return a row in the form of JSON, without fields that have their default; choices keep their order."""
    best = [[[*ranked.choice.items()], *ranked[1:]] for ranked in row.best]
    fields = {**row._asdict(), "choice": [*row.choice.items()], "best": best or ()}
    return {
        name: value for name, value in fields.items() if value != Row._field_defaults.get(name, ...)
    }
