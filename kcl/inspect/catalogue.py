"""The catalogue: the entries of the layers with their uses and partners, for `kcl.entries`, `kcl ls` and `kcl show`.

The catalogue gathers the uses and partners only for the entries that are shown: a cache has thousands.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from kcl.base import settings
from kcl.base.text.names import of_parameters
from kcl.cache.faults import warn_once
from kcl.errors import refuse_unknown
from kcl.foreign import contents
from kcl.inspect import inventory, variants
from kcl.inspect.history import journal
from kcl.inspect.inventory import Faults, ListedEntry

T = TypeVar("T")

# The sort orders: words in their order, numbers and times the largest first.
SORTS: dict[str, Callable[[ListedEntry, journal.Use], Any]] = {
    "kernel": lambda entry, _use: (entry.kernel, entry.layer, entry.device, -entry.built),
    "layer": lambda entry, _use: (entry.layer, entry.kernel, entry.device),
    "device": lambda entry, _use: (entry.device, entry.kernel, entry.layer),
    "size": lambda entry, _use: -entry.size,
    "built": lambda entry, _use: -entry.built,
    "took": lambda entry, _use: -entry.seconds,
    "used": lambda _entry, use: -use[1],
    "uses": lambda _entry, use: -use[0],
}


class CacheEntry(NamedTuple):
    """An entry of a layer, with the fields that `kcl ls --json` prints.

    `device` and `platform` are empty in the generator layer, whose entries serve every device; `here` tells whether the
    driver of the platform is on this machine. `recipe` is its file and line, `parameters` are the starts of the texts
    of its parameters, and `dtypes` are those of the arguments as numpy writes them, by name; a program has those of its
    code. A program of pyopencl has the line that built it, and its options and headers as parameters without a text.
    So does code of one name that no parameter tells apart: the arguments of its calls into loopy that differ.
    `bytes` is the size. `built` and `last_used` are in seconds since the epoch, `last_used` is None where the
    entry never was a hit; `build_seconds` is what making it took. `uses` counts its hits in processes that have ended.
    `key` is the digest of the key; `partners` are those of the programs of generated code, or of a program's code.

    >>> event, outputs = doubled()(queue, x=x)
    >>> (entry,) = kcl.entries("generator")
    >>> entry.kernel, entry.parameters, entry.last_used, entry.uses
    ('doubled', {'factor': '2'}, None, 0)
    """

    kernel: str
    layer: str
    platform: str
    device: str
    here: bool
    recipe: str
    parameters: Mapping[str, str]
    dtypes: Mapping[str, str]
    bytes: int
    built: float
    build_seconds: float
    last_used: float | None
    uses: int
    partners: tuple[str, ...]
    key: str


class NotebookTable(list[T]):
    """A list of named tuples. A notebook shows it as a table of the fields that are in `head`."""

    def __init__(self, rows: Iterable[T], title: str, *head: str) -> None:
        super().__init__(rows)
        self._title, self._head = title, head

    def _repr_html_(self) -> str:
        from kcl.base.text import markup

        rows = ([_write_cell(getattr(row, name)) for name in self._head] for row in self)
        return markup.make_table(f"{self._title}: {len(self)}", self._head, rows)


def _write_cell(value: object) -> str:
    if isinstance(value, Mapping):
        return of_parameters(value)
    return "; ".join(map(str.strip, value)) if isinstance(value, tuple) else str(value)


class Catalogue:
    """The entries of the layers, and their uses; both are read once. `faults` has what cannot be read."""

    def __init__(self) -> None:
        self.faults: Faults = []
        # Every header is read each time. A stored listing saved 0.7 s at 10,000 entries, and took 180 lines.
        self.rows = list(inventory.entries(faults=self.faults))
        self._uses = journal.read_uses()

    def choose(
        self,
        layers: Collection[str] = (),
        kernel: str | None = None,
        device: str | None = None,
        sort: str = "built",
    ) -> tuple[list[ListedEntry], Faults]:
        """Return the entries of the named layers, or of all layers, and the faults of these layers.

        `kernel` is a name or a shell pattern, `device` a part of the device's name, `sort` one of `SORTS`.
        """
        layers, device, order = layers or settings.LAYERS, (device or "").lower(), SORTS[sort]
        chosen = [
            row
            for row in self.rows
            if row.layer in layers
            and fnmatch.fnmatchcase(row.kernel, kernel or "*")
            and device in row.device.lower()
        ]
        chosen.sort(
            key=lambda row: (order(row, journal.find_use(self._uses, row.digest)), row.digest)
        )
        return chosen, [fault for fault in self.faults if fault.cache in layers]

    def list_kernels(self) -> set[str]:
        """Return the names of the kernels that have an entry."""
        return {row.kernel for row in self.rows}

    def describe(self, chosen: Sequence[ListedEntry]) -> list[CacheEntry]:
        """Describe entries, in their order."""
        # Code and its programs have the same OpenCL C. An entry without a program has no partners.
        paired = inventory.group(filter(attrgetter("program"), self.rows), attrgetter("program"))
        related = [paired.get(row.program, []) for row in chosen]
        told = variants.find_parameters(code for rows in related for code in rows)
        is_here = functools.cache(contents.is_platform_here)
        described = []
        for row, rows in zip(chosen, related, strict=True):
            partners = [other for other in rows if other.layer != row.layer]
            # A program has the recipe of its code, if just one code has this program.
            is_of_code = len(partners) == 1 and row.layer == settings.BINARY
            recipe = (partners[0] if is_of_code else row).recipe
            uses, last = journal.find_use(self._uses, row.digest)
            described.append(
                CacheEntry(
                    row.kernel,
                    row.layer,
                    row.platform,
                    row.device,
                    is_here(row.platform),
                    recipe.site,
                    recipe.parameters or told.get(row.program, {}),
                    recipe.dtypes,
                    row.size,
                    row.built,
                    row.seconds,
                    last or None,
                    uses,
                    tuple(partner.digest for partner in partners),
                    row.digest,
                )
            )
        return described


def entries(*layers: str, kernel: str | None = None, device: str | None = None) -> list[CacheEntry]:
    """Return the entries of the named layers, or of all layers, the youngest first, as `kcl ls` does.

    `kernel` is a name or a shell pattern, `device` a part of the device's name.

    >>> event, outputs = doubled()(queue, x=x)
    >>> [entry.kernel for entry in kcl.entries("generator")]
    ['doubled']

    Reads files of the cache directory and builds nothing. What cannot be read is left out, with a warning. Raises
    ValueError for an unknown layer. Thread-safe.
    """
    refuse_unknown(layers, settings.LAYERS)
    catalogue = Catalogue()
    chosen, faults = catalogue.choose(layers, kernel, device)
    for fault in faults:
        warn_once(f"entries: {fault.place}", f"kcl cannot read {fault.place}: {fault.reason}")
    head = "kernel layer device parameters bytes uses key"
    return NotebookTable(catalogue.describe(chosen), "entries", *head.split())
