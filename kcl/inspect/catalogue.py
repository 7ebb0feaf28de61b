"""The catalogue: the entries of both layers with their uses and partners, for `kcl.entries`, `kcl ls` and `kcl show`.

The catalogue gathers the uses and partners only for the entries that are shown: a cache has thousands.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kcl.base import settings
from kcl.base.text.names import of_parameters
from kcl.cache.layer import warn_once
from kcl.foreign import contents
from kcl.inspect import inventory, variants
from kcl.inspect.history import journal
from kcl.inspect.inventory import ListedEntry, Refusal

T = TypeVar("T")

# The sort orders: words in their order, numbers and times the largest first.
SORTS: dict[str, Callable[[ListedEntry, Callable[[str], journal.EntryUse]], Any]] = {
    "kernel": lambda one, _used: (one.kernel, one.layer, one.device, -one.built),
    "layer": lambda one, _used: (one.layer, one.kernel, one.device),
    "device": lambda one, _used: (one.device, one.kernel, one.layer),
    "size": lambda one, _used: -one.size,
    "built": lambda one, _used: -one.built,
    "took": lambda one, _used: -one.seconds,
    "used": lambda one, used: -used(one.digest).last,
    "uses": lambda one, used: -used(one.digest).uses,
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

    def __init__(self, found: Iterable[T], title: str, *head: str) -> None:
        super().__init__(found)
        self._title, self._head = title, head

    def _repr_html_(self) -> str:
        from kcl.base.text import markup

        rows = ([_cell(getattr(one, name)) for name in self._head] for one in self)
        return markup.titled(f"{self._title}: {len(self)}", self._head, rows)


def _cell(of: object) -> str:
    if isinstance(of, Mapping):
        return of_parameters(of)
    return "; ".join(map(str.strip, of)) if isinstance(of, tuple) else str(of)


class Catalogue:
    """The entries of both layers, and their uses; both are read once. Unreadable ones are added to `faults`."""

    def __init__(self, faults: list[Refusal]) -> None:
        self.rows = list(inventory.entries(faults=faults, all_rows=True))
        self._used = functools.partial(journal.use, journal.uses())

    def chosen(
        self,
        layers: Collection[str] = (),
        kernel: str | None = None,
        device: str | None = None,
        sort: str = "built",
    ) -> list[ListedEntry]:
        """Return the entries of the named layers, or of both layers.

        `kernel` is a name or a shell pattern, `device` a part of the device's name, `sort` one of `SORTS`.
        """
        device, order = (device or "").lower(), SORTS[sort]
        found = [
            one
            for one in self.rows
            if one.is_shown
            and (not layers or one.layer in layers)
            and fnmatch.fnmatchcase(one.kernel, kernel or "*")
            and device in one.device.lower()
        ]
        return sorted(found, key=lambda one: (order(one, self._used), one.digest))

    def kernels(self) -> set[str]:
        """Return the names of the kernels that have an entry."""
        return {one.kernel for one in self.rows if one.is_shown}

    def described(self, shown: Sequence[ListedEntry]) -> list[CacheEntry]:
        """Describe entries, in their order."""
        alike: dict[str, list[ListedEntry]] = {}  # by their OpenCL C: code and its programs
        for one in self.rows:
            if one.program:
                alike.setdefault(one.program, []).append(one)
        here = functools.cache(contents.is_platform_here)
        told = variants.parameters(code for one in shown for code in alike.get(one.program, ()))
        return [
            line._replace(parameters=line.parameters or told.get(one.program, {}))
            for one in shown
            for line in [self._described(one, alike.get(one.program, ()), here)]
        ]

    def _described(
        self, one: ListedEntry, alike: Sequence[ListedEntry], here: Callable[[str], bool]
    ) -> CacheEntry:
        others, recipe = [other for other in alike if other.layer != one.layer], one.recipe
        if len(others) == 1 and one.layer == settings.BINARY:
            recipe = others[0].recipe
        used = self._used(one.digest)
        return CacheEntry(
            one.kernel,
            one.layer,
            one.platform,
            one.device,
            here(one.platform),
            *recipe,
            one.size,
            one.built,
            one.seconds,
            used.last or None,
            used.uses,
            tuple(other.digest for other in others),
            one.digest,
        )


def entries(*layers: str, kernel: str | None = None, device: str | None = None) -> list[CacheEntry]:
    """Return the entries of the layers that are named, of both where none is, the youngest first, as `kcl ls` does.

    `kernel` is a name or a shell pattern, `device` a part of the device's name.

    >>> event, outputs = doubled()(queue, x=x)
    >>> [entry.kernel for entry in kcl.entries("generator")]
    ['doubled']

    Reads files of the cache directory and builds nothing. What cannot be read is left out, with a warning. Raises
    ValueError for an unknown layer. Thread-safe.
    """
    for name in layers:
        if name not in settings.LAYERS:
            raise ValueError(f"{name!r} is no layer: take {' or '.join(settings.LAYERS)}")
    faults: list[Refusal] = []
    catalogue = Catalogue(faults)
    for fault in faults:
        if not layers or fault.cache in layers:
            warn_once(f"entries: {fault.place}", f"kcl cannot read {fault.place}: {fault.reason}")
    return NotebookTable(
        catalogue.described(catalogue.chosen(layers, kernel, device)),
        "entries",
        "kernel",
        "layer",
        "device",
        "parameters",
        "bytes",
        "uses",
        "key",
    )
