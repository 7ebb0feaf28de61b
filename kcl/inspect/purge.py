"""Purging: choose the files and rows for a request, and remove them, for `kcl purge` and `kcl.purge`.

`kcl gc` asks for the stores of an earlier kcl.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kcl import drivers
from kcl.base import process, settings
from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.caches.table import ROWS
from kcl.errors import CacheFault, meant
from kcl.inspect import purge_items
from kcl.inspect.purge_items import Refusal, RemovalItem, RemovalRows

OWN = "kcl"  # the name that stands for both layers and all that belongs to them
_WEEK = 7 * 86400.0
_VERSION = re.compile(r"(pdict|kcl-generated|kcl-binary)-v(\d+)")
_CURRENT = dict(_VERSION.findall(f"{places.DICTIONARY}{places.GENERATED} {places.BINARIES}"))


class Removal(NamedTuple):
    """What `kcl.purge` removed, or would remove.

    `items` are files and directories, `rows` rows of the generator layer's database. `refusals` names the places that
    were left alone, each with the reason. `remarks` says what may come back, and why.

    >>> event, outputs = doubled()(queue, x=x)
    >>> removal = kcl.purge("generator")
    >>> removal.files, removal.bytes > 0, removal.refusals
    (1, True, [])
    """

    items: list[RemovalItem]
    rows: RemovalRows
    refusals: list[Refusal]
    remarks: list[str]

    @property
    def files(self) -> int:
        """The number of files."""
        return sum(item.files for item in self.items)

    @property
    def bytes(self) -> int:
        """The bytes of files and rows."""
        return sum(item.size for item in self.items) + self.rows.size

    def __repr__(self) -> str:
        found = [
            counted(self.files, "file", "files"),
            counted(len(self.rows.addresses), "row", "rows"),
            counted(self.bytes, "byte", "bytes"),
            *([counted(len(self.refusals), "place left alone", "places left alone")] if self.refusals else []),
        ]
        return f"<kcl.Removal {', '.join(found)}>"


def purge(
    *layers: str,
    everything: bool = False,
    older: float | str | None = None,
    kernel: str | None = None,
    dry_run: bool = False,
) -> Removal:
    """Remove caches as `kcl purge` does, without asking; returns what went.

    `layers` are `kcl` (both layers and all that belongs to them, as where none is named), `generator`, `binary`, or the
    name of another cache, see `kcl status`; `everything` stands for kcl, loopy, pyopencl and the OpenCL drivers.
    `older`, seconds or a text such as "30d", takes only what was neither made nor used for so long; `kernel`, a name or
    a shell pattern, only kcl's entries of these kernels. `dry_run` removes nothing. Afterwards every kernel of this
    process is looked up again.

    >>> kcl.purge("binary", kernel="doubled", dry_run=True)
    <kcl.Removal 0 files, 0 rows, 0 bytes>

    Raises ValueError for an unknown layer, and for `kernel` together with a cache that knows no kernels. What the
    system refuses is in `refusals`. Waits at most a minute for a helper process that works on these entries.
    Thread-safe.
    """
    age = settings.age(older) if isinstance(older, str) else older
    found = planned(layers, everything, age, kernel)
    if dry_run:
        return found
    found = carry_out(found, lambda: planned(layers, everything, age, kernel))
    process.changed()  # the contents of memory are gone too
    return found


def planned(layers: tuple[str, ...], everything: bool, older: float | None, kernel: str | None) -> Removal:
    """Return the items and rows that a request would remove, and remove none; parameters and errors as for `purge`."""
    names = _names(layers, everything, kernel)
    before = None if older is None else time.time() - older
    own = [name for name in names if name in settings.LAYERS]
    found = Removal([], RemovalRows((), 0), [], [])
    if own and (kernel is not None or before is not None):
        items, rows = purge_items.entries(own, kernel, before, found.refusals)
        found = found._replace(items=items, rows=rows)
        names = [name for name in names if name not in own]
    for name in names:
        found.items.extend(purge_items.items(name, found.refusals, before))
    return found


def carry_out(found: Removal, plan: Callable[[], Removal]) -> Removal:
    """End kcl's work in the background, then remove the planned items; returns the removed ones.

    `plan` is called again when the work has ended, since a helper may have stored more until then. An item that could
    not be removed becomes a refusal.
    """
    if found.rows.addresses or any(item.cache in purge_items.own() for item in found.items):
        if not drivers.quiet(places.own()):
            found.remarks.append("kcl's helper process still works: what it makes may reappear")
        found = plan()._replace(remarks=found.remarks)
    take_away(found)
    purge_items.sweep()
    return found


def take_away(found: Removal) -> None:
    """Remove items and rows; add those that could not be removed to the refusals."""
    for item in found.items:
        try:
            purge_items.remove(item)
        except OSError as error:
            found.refusals.append(Refusal(item.cache, item.path, str(error)))
    if found.rows.addresses:
        try:
            purge_items.remove_rows(found.rows)
        except (OSError, sqlite3.Error, CacheFault) as error:
            found.refusals.append(Refusal(settings.GENERATOR, "rows", str(error)))


def leftovers(refusals: list[Refusal], now: float | None = None) -> Iterator[RemovalItem]:
    """Yield the stores of both layers that an earlier kcl wrote and that no process has changed for a week.

    This kcl reads no store of an earlier one. The stores of a later kcl stay.
    """
    old = (time.time() if now is None else now) - _WEEK
    for layer in settings.LAYERS:
        for item in purge_items.items(layer, refusals, before=old):
            if any(int(number) < int(_CURRENT[of]) for of, number in _VERSION.findall(item.name)):
                yield item


def _names(layers: tuple[str, ...], everything: bool, kernel: str | None) -> list[str]:
    known = (OWN, *settings.LAYERS, *ROWS)
    for name in layers:
        if name not in known:
            raise ValueError(f"{name!r} is no layer{meant(name, known)}: take one of {', '.join(known)}")
    if kernel is not None:
        if everything or not set(layers) <= set(settings.LAYERS):
            raise ValueError("a kernel is known to the layers generator and binary only: other caches know no kernel")
        return list(layers or settings.LAYERS)
    wanted = [*(purge_items.everything() if everything else ()), *(layers or (() if everything else (OWN,)))]
    return list(dict.fromkeys(own for name in wanted for own in (purge_items.own() if name == OWN else (name,))))
