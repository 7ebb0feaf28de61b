"""The look-ups of a run, grouped by kernel; they are taken from the records of its processes and from the entries.

`Run` is the content of a report: `kcl report` renders it as text, as JSON and as a page, and a process that ends adds
it to a file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.base.events import MissNote
from kcl.base.text import tables
from kcl.base.text.layout import WIDTH
from kcl.base.text.names import dtype, of_kernel, of_value
from kcl.cache import layers
from kcl.inspect import inventory, variants
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.inspect.history.records import COUNTERS, DIGITS, SELDOM, Record, merge
from kcl.inspect.inventory import ListedEntry

_MACRO = re.compile(r"-D *(\S+)")
# The misses of a run that are explained, at most.
MOST_EXPLAINED = 40

Entries = Mapping[str, ListedEntry]  # by the first digits of their digests


class LookSummary(NamedTuple):
    """The look-ups of one kernel in one layer that ended in the same way.

    `time` is when the last one ended, 0 if unknown. `key` is the digest of the entry, empty if it is not known. `seconds`
    and `saved` are sums over the look-ups. `parameters` are the texts of the parameters of the recipe that asked, None
    if they are not known.
    """

    layer: str
    kernel: str
    outcome: str
    reason: str
    key: str
    times: int
    time: float
    seconds: float
    saved: float
    parameters: Mapping[str, str] | None = None


class KernelRow(NamedTuple):
    """A kernel with its parameters and dtypes: its look-ups and its cached entries, layer by layer."""

    kernel: str
    looks: list[LookSummary]
    stored: list[ListedEntry]

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the recipe as text; empty if they are unknown."""
        return next((look.parameters for look in self.looks if look.parameters is not None), {})

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The dtypes of the arguments by name; empty if they are unknown."""
        texts = next((entry.recipe.dtypes for entry in self.stored if entry.recipe.dtypes), {})
        return {name: dtype(text) for name, text in texts.items()}

    @property
    def further_kernels(self) -> int:
        """The number of further kernels of a program that kcl names by its first."""
        programs = [
            entry
            for entry in self.stored
            if entry.metadata.get("site") and entry.layer == settings.BINARY
        ]
        return max((len(entry.metadata.get("kernels", ())) - 1 for entry in programs), default=0)

    @property
    def spent(self) -> tuple[float, float]:
        """The seconds that all look-ups of the kernel took, and those that its hits saved."""
        return sum(look.seconds for look in self.looks), sum(look.saved for look in self.looks)

    @property
    def lengths(self) -> Mapping[str, float]:
        """What a bar of the kernel shows: the seconds of misses, those of hits, and those that hits saved."""
        spent, saved = self.spent
        hits = sum(look.seconds for look in self.looks if look.outcome == "hit")
        return {"miss": spent - hits, "hit": hits, "saved": max(0.0, saved)}

    @property
    def source(self) -> str:
        """The OpenCL C, read from an entry; empty if no entry has it."""
        entry = self.stored[0].read([]) if self.stored else None
        return "" if entry is None else entry.parts.get("source.cl", b"").decode("utf-8", "replace")

    def of(self, layer: str) -> list[LookSummary]:
        """Return the look-ups in a layer."""
        return [look for look in self.looks if look.layer == layer]

    def describe(self) -> dict[str, Any]:
        """Write the row as JSON."""
        lookups = [
            {**look._asdict(), "time": look.time or None, "key": look.key or None}
            for look in self.looks
        ]
        for look in lookups:
            del look["kernel"], look["parameters"]
        seconds, saved = self.spent
        return {
            "kernel": self.kernel,
            "parameters": self.parameters,
            "dtypes": self.dtypes,
            "seconds": seconds,
            "saved": saved,
            "lookups": lookups,
        }


class Run(NamedTuple):
    """The processes of one run, their look-ups, and the explanations of their misses.

    `began` is the time of the first look-up, `ended` the end of the last process, in seconds since the epoch. `layers`
    has the counters of each layer. `left_out` counts the earlier misses that are not explained: there were too many.
    """

    driver: str
    processes: tuple[int, ...]
    began: float
    ended: float
    layers: Sequence[Mapping[str, Any]]
    rows: Sequence[KernelRow]
    remarks: Sequence[str] = ()
    misses: Sequence[misses.Miss] = ()
    left_out: int = 0

    def describe(self) -> dict[str, Any]:
        """Write the run as JSON: see doc/reference/command-line.md."""
        return {
            "driver": self.driver,
            "processes": self.processes,
            "began": self.began,
            "ended": self.ended,
            "layers": self.layers,
            "kernels": [row.describe() for row in self.rows],
            "remarks": self.remarks,
        }


def find_last_run(driver: str | None = None, limit: int = MOST_EXPLAINED) -> Run | None:
    """Return the last run of a driver, or of any driver; None if none is known.

    The last `limit` of its misses are explained, all with 0.
    """
    run = journal.last_run(driver)
    if not run:
        return None
    history, names = journal.last_misses(), {record["name"] for record in run}
    missed = [note for note in history if note.record["name"] in names]
    remarks = [words for record in run for words in (*record["remarks"], *record["late"])]
    return Run(
        run[0]["driver"],
        tuple(sorted({record["pid"] for record in run})),
        min(record["began"] for record in run),
        run[0]["ended"],
        _count_layers(run),
        group_records(run, missed),
        list(dict.fromkeys(remarks)),
        *misses.explain_last(missed, history, limit),
    )


def _count_layers(run: Iterable[Record]) -> list[dict[str, Any]]:
    """Add up the counters of each layer over the processes of a run."""
    sums = merge(
        {layer: row} for record in run for (layer, _), row in journal.tallies(record).items()
    )
    return [
        {
            "layer": layer,
            **sums.get(layer, dict.fromkeys(COUNTERS, 0)),
            "files": ", ".join(store.location for store in inventory.find_stores(layer, [])),
        }
        for layer in settings.LAYERS
    ]


def group_records(run: Iterable[Record], missed: Iterable[MissNote]) -> list[KernelRow]:
    """Return the look-ups of the processes of a run, kernel by kernel."""
    entries = {entry.digest[:DIGITS]: entry for entry in inventory.entries()}
    return group_looks(find_looks(run, missed, entries), entries)


def find_looks(
    run: Iterable[Record], missed: Iterable[MissNote], entries: Entries
) -> list[LookSummary]:
    """Return the look-ups of the processes of a run, without the hits of entries that are gone."""
    looks = [
        LookSummary(
            note.event.layer,
            note.event.kernel,
            note.event.outcome,
            note.event.reason,
            note.key.digest if note.key else "",
            1,
            note.time,
            note.event.seconds,
            0.0,
            _write_parameters(note.parameters),
        )
        for note in missed
    ]
    codes = {
        identify_text(entry): entry
        for entry in entries.values()
        if entry.layer == settings.GENERATOR and entry.program
    }
    for record in run:
        # An outcome that needs no explanation has no look-up of its own in the record.
        looks += [
            LookSummary(
                layer, kernel, "default", "", "", int(row[SELDOM]), record["ended"], 0.0, 0.0
            )
            for (layer, kernel), row in journal.tallies(record).items()
            if row[SELDOM]
        ]
        for digest, used in record["uses"].items():
            stored = entries.get(digest)
            # The names of a hit come from its entry, so a hit of a removed entry cannot be told.
            if stored is None:
                continue
            is_code = stored.layer == settings.GENERATOR
            code = stored if is_code else codes.get(identify_text(stored), stored)
            kernel, names = record["asked"].get(digest, (code.kernel, [*code.recipe.parameters]))
            texts = _write_parameters(_find_parameters(code, kernel, names))
            times, last, seconds, saved = used
            looks.append(
                LookSummary(
                    stored.layer,
                    kernel,
                    "hit",
                    "",
                    stored.digest,
                    times,
                    last,
                    seconds,
                    saved,
                    texts,
                )
            )
    return looks


def _find_parameters(
    code: ListedEntry, kernel: str, names: Sequence[str]
) -> Mapping[str, str] | None:
    """Return the parameters of a hit; None if another recipe stored the code, so that their values are not known."""
    # The names of a program of pyopencl are its build options, such as -DREAL.
    if not all(map(str.isidentifier, names)):
        return dict.fromkeys(names, "")
    stored = code.recipe.parameters
    if not names:
        return {}
    return stored if kernel == code.kernel and stored and stored.keys() <= {*names} else None


def _write_parameters(parameters: Mapping[str, str] | None) -> Mapping[str, str] | None:
    return parameters and {name: of_value(text) for name, text in parameters.items()}


def group_looks(looks: Iterable[LookSummary], entries: Entries) -> list[KernelRow]:
    """Group look-ups by kernel, parameters and OpenCL C."""
    grouped: list[KernelRow] = []
    # In the order of the layers: code comes first, and its program joins the row of the code.
    for look in sorted(_merge(looks), key=lambda summed: settings.LAYERS.index(summed.layer)):
        stored = entries.get(look.key[:DIGITS])
        row = next((earlier for earlier in grouped if _is_akin(earlier, look, stored)), None)
        if row is None:
            row = KernelRow(look.kernel, [], [])
            grouped.append(row)
        row.looks.append(look)
        if stored is not None and stored not in row.stored:
            row.stored.append(stored)
    return sorted(grouped, key=lambda row: min(look.time - look.seconds for look in row.looks))


def _merge(looks: Iterable[LookSummary]) -> list[LookSummary]:
    """Sum the look-ups that share entry, outcome and parameters."""
    same = inventory.group(looks, lambda look: repr((*look[:5], look.parameters)))
    return [
        alike[-1]._replace(
            times=sum(look.times for look in alike),
            time=max(look.time for look in alike),
            seconds=sum(look.seconds for look in alike),
            saved=sum(look.saved for look in alike),
        )
        for alike in same.values()
    ]


def _is_akin(row: KernelRow, look: LookSummary, stored: ListedEntry | None) -> bool:
    """Return True if a look-up may belong to a row, as far as parameters and OpenCL C are known."""
    # None stands for parameters that are not known: they may be any.
    parameters = row.looks[0].parameters
    return (
        row.kernel == look.kernel
        and (parameters == look.parameters or None in (parameters, look.parameters))
        and (
            stored is None
            or not row.stored
            or identify_text(row.stored[0]) == identify_text(stored)
        )
    )


def identify_text(entry: ListedEntry) -> tuple[str, ...]:
    """Return what tells one program from another: the digest of its OpenCL C, and the macros in its build options."""
    return entry.program, *sorted(_MACRO.findall(" ".join(inventory.read_options(entry))))


def write_table(kernels: Sequence[KernelRow]) -> list[str]:
    """Write rows as a table that fits a terminal of 80 columns."""
    names = choose_layers(kernels)
    head = tables.Column("kernel", give="words", least=20)
    return tables.lines(
        [head, *map(tables.Column, (*names, "seconds", "saved"))],
        [
            (
                label,
                *(write_outcome(row.of(layer)) for layer in names),
                *(f"{seconds:.3f}" for seconds in row.spent),
            )
            for row, label in zip(kernels, name_rows(kernels), strict=True)
        ],
        WIDTH,
    )


def name_rows(kernels: Sequence[KernelRow]) -> list[str]:
    """Name rows: `matmul(block=16)`, `lap(solver.py:49) +2`; if that is not unique, add dtypes, or else the key.

    Rows that dtypes do not tell apart have the arguments of loopy's calls that differ: `arakawa(split_iname 8)`.
    """
    variant_of = variants.find_parameters(entry for row in kernels for entry in row.stored)
    typed = _name_by_dtypes(kernels, [row.parameters for row in kernels])
    rows = Counter(typed)
    shown = [
        row.parameters
        or (rows[name] > 1 and row.stored and variant_of.get(row.stored[0].program))
        or {}
        for row, name in zip(kernels, typed, strict=True)
    ]
    typed = _name_by_dtypes(kernels, shown)
    rows, keys = Counter(typed), [row.looks[0].key[:12] for row in kernels]
    return [
        f"{name}, key {key}" if key and rows[name] > 1 else name
        for name, key in zip(typed, keys, strict=True)
    ]


def _name_by_dtypes(
    kernels: Sequence[KernelRow], parameters: Sequence[Mapping[str, str]]
) -> list[str]:
    """Name rows by kernel and parameters, and by those dtypes that rows of the same name do not share."""
    plain = [
        of_kernel(row.kernel, own) + (f" +{row.further_kernels}" if row.further_kernels else "")
        for row, own in zip(kernels, parameters, strict=True)
    ]
    rows, typed = Counter(plain), list[str]()
    named = [*zip(kernels, plain, strict=True)]
    shared = Counter((label, *item) for row, label in named for item in row.dtypes.items())
    for row, label in named:
        kinds: dict[str, list[str]] = {}
        for name, kind in row.dtypes.items():
            if shared[label, name, kind] < rows[label]:
                kinds.setdefault(kind, []).append(name)
        written = ", ".join(f"{', '.join(names)}: {kind}" for kind, names in kinds.items())
        typed.append(f"{label} {written}" if kinds else label)
    return typed


def choose_layers(rows: Sequence[KernelRow]) -> list[str]:
    """Return the layers to show beside rows: those that are always shown, and those that one of the kernels asked."""
    return [
        layer
        for layer, about in layers.TABLE.items()
        if about.always or any(row.of(layer) for row in rows)
    ]


def write_outcome(looks: Iterable[LookSummary]) -> str:
    """Write how look-ups ended: "hit", "miss, hit x2"; "-" for no look-up."""
    counted = Counter[str]()
    for look in looks:
        counted[look.outcome] += look.times
    words = [name if count == 1 else f"{name} x{count}" for name, count in counted.items()]
    return ", ".join(words) or "-"
