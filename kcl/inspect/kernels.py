"""A run: its look-ups kernel by kernel, from the memory of a process, or from the journal, and from the entries.

`Run` is the content of a report: `kcl report` renders it as text, as JSON and as a page, and a process that ends adds
it to a file.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import events, settings
from kcl.base.text import tables
from kcl.base.text.layout import WIDTH
from kcl.base.text.names import dtype, of_kernel, of_value
from kcl.base.text.tables import Column
from kcl.cache.entry import Entry
from kcl.cache.run_memo import driver_name
from kcl.errors import CacheFault
from kcl.inspect import inventory, tally
from kcl.inspect.explain import misses
from kcl.inspect.explain.misses import Miss
from kcl.inspect.history import journal
from kcl.inspect.history.journal import JournalMiss, RunRecord
from kcl.inspect.history.records import COUNTERS, DIGITS
from kcl.inspect.inventory import ListedEntry

HEAD = (Column("kernel", give="words", least=20), *map(Column, (*settings.LAYERS, "seconds", "saved")))
_MACRO = re.compile(r"-D *(\S+)")
EXPLAINED = 40  # misses of a run


class LookSummary(NamedTuple):
    """The look-ups of one kernel in one layer with the same end; `moment` is the time when the last one ended.

    `digest` is that of the entry, empty where it is not known. `seconds` and `saved` are sums over the look-ups.
    `parameters` are the texts of the parameters of the recipe that asked, None where they are not known.
    """

    layer: str
    kernel: str
    outcome: str
    reason: str
    digest: str
    times: int
    moment: float
    seconds: float
    saved: float
    parameters: tuple[tuple[str, str], ...] | None = None


class KernelEntry(NamedTuple):
    """The cached entry of a look-up, with a name for its OpenCL C and macros."""

    summary: ListedEntry
    entry: Entry
    source: str
    parameters: Mapping[str, str]
    dtypes: Mapping[str, str]


class KernelRow(NamedTuple):
    """A kernel with its parameters and dtypes: its look-ups and its cached entries, layer by layer."""

    kernel: str
    looks: tuple[LookSummary, ...]
    stored: tuple[KernelEntry, ...]

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the recipe as text; empty where they are not known."""
        return dict(next((look.parameters for look in self.looks if look.parameters is not None), ()))

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The dtypes of the arguments by name; empty where they are not known."""
        return next((one.dtypes for one in self.stored if one.dtypes), {})

    @property
    def label(self) -> str:
        """The kernel with its parameters: `matmul(block=16)`."""
        return of_kernel(self.kernel, self.parameters)

    @property
    def spent(self) -> tuple[float, float]:
        """The seconds that all look-ups of the kernel took, and those that its hits saved."""
        return sum(look.seconds for look in self.looks), sum(look.saved for look in self.looks)

    def of(self, layer: str) -> list[LookSummary]:
        """Return the look-ups in a layer."""
        return [look for look in self.looks if look.layer == layer]


class LayerContents(NamedTuple):
    """The contents of a layer: the number of entries and of kernels, all bytes, and when the entries were made."""

    layer: str
    places: tuple[str, ...]
    entries: int
    kernels: int
    size: int
    oldest: float
    newest: float


class Run(NamedTuple):
    """The processes of one run, their look-ups, the explanations of their misses, and the contents of the cache now.

    `began` and `ended` are the times of the first and of the last look-up, in seconds since the epoch. `layers` has
    the counters of each layer. `untold` counts the earlier misses that are not explained: there were too many. `over`
    is the end of the last process.
    """

    driver: str
    processes: tuple[int, ...]
    began: float
    ended: float
    layers: tuple[dict[str, Any], ...]
    rows: tuple[KernelRow, ...]
    told: tuple[Miss, ...] = ()
    untold: int = 0
    remarks: tuple[str, ...] = ()
    held: tuple[LayerContents, ...] = ()
    over: float = 0.0

    def total(self, column: str) -> float:
        """Add up a counter over the layers."""
        return sum(float(row[column]) for row in self.layers)

    def described(self) -> dict[str, Any]:
        """Write the run as JSON: see doc/reference/command-line.md."""
        found = dict(zip(self._fields[:5], self[:5], strict=True))
        return {**found, "kernels": list(map(described, self.rows)), "remarks": self.remarks}


class Entries:
    """The entries of all layers by the first digits of their digests; an entry is read on request."""

    def __init__(self) -> None:
        self._listed = {one.digest[:DIGITS]: one for one in inventory.rows([])}
        self._known: dict[str, KernelEntry | None] = {}

    def get(self, digest: str) -> KernelEntry | None:
        """Return the entry under a digest; None if it is missing or unreadable."""
        start = digest[:DIGITS]
        if start not in self._known:
            self._known[start] = None
            with suppress(KeyError, OSError, CacheFault, ValueError, TypeError, sqlite3.Error):
                listed = self._listed[start]
                recipe, entry = listed.recipe, inventory.read(listed.layer, listed.address)
                parameters = {name: of_value(text) for name, text in recipe.parameters.items()}
                dtypes = {name: dtype(text) for name, text in recipe.dtypes.items()}
                self._known[start] = KernelEntry(listed, entry, _source(entry), parameters, dtypes)
        return self._known[start]


def _source(entry: Entry) -> str:
    """Name the OpenCL C with the macros in the build options: the two tell programs apart."""
    options = " ".join([option for option in entry.metadata.get("options", ()) if isinstance(option, str)])
    return f"{entry.metadata.get('program', '')} {sorted(_MACRO.findall(options))}"


def _texts(parameters: Mapping[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    return None if parameters is None else tuple((name, of_value(text)) for name, text in parameters.items())


def of_this_process() -> list[KernelRow]:
    """Return the look-ups of this process, kernel by kernel, if it keeps them (`kcl.base.events.keep`)."""
    looks = []
    for moment, one, digest, parameters in events.kept():
        seconds = one.seconds, max(0.0, one.saved)
        head = one.layer, one.kernel, one.outcome, one.reason
        looks.append(LookSummary(*head, digest, 1, moment, *seconds, _texts(parameters)))
    return rows(_added(looks), Entries())


def add_to(path: str, layers: list[dict[str, Any]], remarks: list[str]) -> None:
    """Add the run of this process to a file, as one line of JSON; raises OSError."""
    found, now = of_this_process(), time.time()
    began = min((look.moment - look.seconds for row in found for look in row.looks), default=now)
    run = Run(driver_name(), (os.getpid(),), began, now, tuple(layers), tuple(found), remarks=tuple(remarks))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    with os.fdopen(descriptor, "ab", buffering=0) as stream:
        # in one piece: other processes add lines, too
        stream.write(json.dumps(run.described(), allow_nan=False).encode() + b"\n")


def last_run(driver: str | None = None) -> Run | None:
    """Return the last run of a driver, or of any driver; None if none is known."""
    run = journal.last_run(driver)
    if not run:
        return None
    history, names, entries = journal.last_misses(), {one.name for one in run}, Entries()
    missed = [one for one in history if one.process in names]
    looks = of_run(run, missed, entries)
    held = tuple(map(_held, settings.LAYERS))
    late = [note.late.words for note in journal.late() if note.driver == run[0].driver]
    moments = [moment for look in looks if look.moment for moment in (look.moment - look.seconds, look.moment)]
    return Run(
        run[0].driver,
        tuple(sorted({one.pid for one in run})),
        min(moments, default=run[-1].began),
        max(moments, default=run[0].ended),
        tuple(_counted(run, one) for one in held),
        tuple(rows(looks, entries)),
        tuple(misses.told(missed[-EXPLAINED:], history)),
        max(0, len(missed) - EXPLAINED),
        tuple(dict.fromkeys([*(remark for one in run for remark in one.remarks), *late])),
        held,
        run[0].ended,
    )


def _counted(run: Iterable[RunRecord], held: LayerContents) -> dict[str, Any]:
    """Add up the counters of a layer over the processes of a run."""
    rows = [row for one in run for (layer, _kernel), row in one.tallies.items() if layer == held.layer]
    sums = {name: sum(row[name] for row in rows) for name in COUNTERS}
    return {"layer": held.layer, **sums, "files": ", ".join(held.places)}


def _held(layer: str) -> LayerContents:
    found = list(inventory.entries(layer))
    built, kernels = [one.built for one in found], {one.kernel for one in found}
    places = tuple(store.location for store in inventory.stores(layer, []))
    times = min(built, default=0.0), max(built, default=0.0)
    return LayerContents(layer, places, len(found), len(kernels), tally.of_layer(layer).bytes, *times)


def of_run(run: Iterable[RunRecord], missed: Iterable[JournalMiss], entries: Entries) -> list[LookSummary]:
    """Return the look-ups of the processes of a run, without the hits of entries that are gone."""
    looks = [
        LookSummary(*one[2:6], one.key.digest if one.key else "", 1, one.time, one.seconds, 0.0, _texts(one.parameters))
        for one in missed
    ]
    for one in run:
        for digest, used in one.uses.items():
            stored = entries.get(digest)
            if stored is not None:
                held, own = stored.parameters, stored.summary.kernel
                kernel, names = one.asked.get(digest, (own, tuple(held)))
                # Of another recipe the values are not known; the names of a program, such as -DREAL, have none.
                held = held if all(map(str.isidentifier, names)) else dict.fromkeys(names, "")
                is_known = not names or (kernel == own and held and held.keys() <= set(names))
                parameters = (tuple(held.items()) if names else ()) if is_known else None
                key = stored.entry.key.digest
                looks.append(LookSummary(stored.summary.layer, kernel, "hit", "", key, *used, parameters))
    return _added(looks)


def _added(looks: Iterable[LookSummary]) -> list[LookSummary]:
    """Add up look-ups of the same entry with the same end."""
    found: dict[tuple[Any, ...], LookSummary] = {}
    for one in looks:
        same = *one[:5], one.parameters
        before = found.get(same, one._replace(times=0, seconds=0.0, saved=0.0))
        sums = before.times + one.times, max(before.moment, one.moment), before.seconds + one.seconds
        found[same] = LookSummary(*one[:5], *sums, before.saved + one.saved, one.parameters)
    return list(found.values())


def rows(looks: Iterable[LookSummary], entries: Entries) -> list[KernelRow]:
    """Group look-ups by kernel: a program belongs to the code with the same OpenCL C."""
    made: list[tuple[str, list[LookSummary], list[KernelEntry]]] = []
    for look in sorted(looks, key=lambda one: settings.LAYERS.index(one.layer)):
        stored = entries.get(look.digest) if look.digest else None
        place = next((one for one in made if _is_akin(one, look, stored)), None)
        if place is None:
            place = look.kernel, [], []
            made.append(place)
        place[1].append(look)
        if stored is not None and stored not in place[2]:
            place[2].append(stored)
    found = [KernelRow(kernel, tuple(of_row), tuple(stored)) for kernel, of_row, stored in made]
    return sorted(found, key=lambda row: min(look.moment - look.seconds for look in row.looks))


def _is_akin(
    row: tuple[str, list[LookSummary], list[KernelEntry]], look: LookSummary, stored: KernelEntry | None
) -> bool:
    """Return True if a look-up belongs to the look-ups of a row."""
    kernel, looks, held = row
    same = look.layer, look.kernel, look.digest, look.parameters
    if any((one.layer, one.kernel, one.digest, one.parameters) == same for one in looks):
        return True
    if look.layer == settings.GENERATOR:
        return False
    code = [one for one in held if one.summary.layer == settings.GENERATOR]
    if stored is not None and code:
        return any(one.source == stored.source for one in code)
    if None not in (looks[0].parameters, look.parameters):
        return (kernel, looks[0].parameters) == (look.kernel, look.parameters)
    return kernel == look.kernel and not (held and look.layer in {one.layer for one in looks})


def lines(found: Sequence[KernelRow]) -> list[str]:
    """Write rows as a table that fits a terminal of 80 columns."""
    cells = [
        (label, *(outcome(row.of(layer)) for layer in settings.LAYERS), *(f"{seconds:.3f}" for seconds in row.spent))
        for row, label in zip(found, labels(found), strict=True)
    ]
    return tables.lines(HEAD, cells, WIDTH)


def labels(found: Sequence[KernelRow]) -> list[str]:
    """Name rows: kernel and parameters; where these do not tell rows apart, the dtypes that do, or the key."""
    plain = [row.label for row in found]
    rows, shared = Counter(plain), Counter[tuple[str, str, str]]()
    for row, label in zip(found, plain, strict=True):
        shared.update((label, *item) for item in row.dtypes.items())
    typed = list[str]()
    for row, label in zip(found, plain, strict=True):
        own = {name: text for name, text in row.dtypes.items() if shared[label, name, text] < rows[label]}
        typed.append(f"{label} {_by_dtype(own)}" if own else label)
    rows, keys = Counter(typed), [row.looks[0].digest[:12] for row in found]
    return [f"{name}, key {key}" if key and rows[name] > 1 else name for name, key in zip(typed, keys, strict=True)]


def _by_dtype(dtypes: Mapping[str, str]) -> str:
    """Write "u, v: float32, n: int64"."""
    return ", ".join(
        f"{', '.join(n for n in dtypes if dtypes[n] == kind)}: {kind}" for kind in dict.fromkeys(dtypes.values())
    )


def outcome(looks: Iterable[LookSummary]) -> str:
    """Write how look-ups ended: "hit", "miss, hit x2"; "-" for no look-up."""
    counted = Counter[str]()
    for look in looks:
        counted[look.outcome] += look.times
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counted.items()) or "-"


def described(row: KernelRow) -> dict[str, Any]:
    """Write a row as JSON."""
    lookups = [
        {
            **{name: getattr(look, name) for name in ("layer", "outcome", "reason", "times")},
            "time": look.moment or None,
            "seconds": look.seconds,
            "saved": look.saved,
            "key": look.digest or None,
        }
        for look in row.looks
    ]
    known = {"kernel": row.kernel, "parameters": dict(row.parameters), "dtypes": dict(row.dtypes)}
    return {**known, **dict(zip(("seconds", "saved"), row.spent, strict=True)), "lookups": lookups}
