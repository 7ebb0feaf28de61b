"""Removes entries and caches, for `kcl purge`, `kcl gc` and the bound on space.

An item to remove is a file or a directory in a known cache directory, or rows of a database. Links are not followed. If
entries were chosen one by one, a line for each is added to the file of removed entries, by which later misses are
explained.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kcl import drivers, foreign
from kcl.base import process, settings
from kcl.base.settings import parsers, trust
from kcl.base.text.layout import counted
from kcl.cache import layers, places, run_memo
from kcl.cache.entry import signers
from kcl.cache.stores.directory import publish
from kcl.cache.stores.sqlite import Database
from kcl.errors import CacheFault, refuse_unknown
from kcl.foreign import contents
from kcl.foreign.table import ROWS
from kcl.inspect import inventory
from kcl.inspect.history import journal
from kcl.inspect.inventory import Faults, ListedEntry, Refusal

# The name for kcl's layers and all other files of kcl.
OWN = "kcl"
# The files that kcl keeps beside its entries.
KEPT = "kept"
_LINK = "it is a symbolic link, and none is followed"
# The pages that a database frees in one step.
_AT_ONCE = 100
_HOUR = 3600.0
# The removed entries that are remembered, at most.
_REMEMBERED = 10_000


class RemovalItem(NamedTuple):
    """A file or a directory to remove, or rows of a database: the number of files, and the bytes.

    If entries were chosen one by one, `addresses` has theirs; in a database only these rows are removed.
    """

    cache: str
    path: str
    files: int
    size: int
    addresses: tuple[str, ...] = ()

    @property
    def is_database(self) -> bool:
        """True if rows are removed, and not the file."""
        return bool(self.addresses) and self.path.endswith(places.DATABASE)


class Removal(NamedTuple):
    """The items that `kcl.purge` removed, or would remove.

    `items` are files and directories, and rows of the generator layer's database. `refusals` names the places that
    were left alone, each with the reason.

    >>> event, outputs = doubled()(queue, x=x)
    >>> removal = kcl.purge("generator")
    >>> removal.files, removal.bytes > 0, removal.refusals
    (1, True, [])
    """

    items: list[RemovalItem]
    refusals: Faults

    @property
    def files(self) -> int:
        """The number of files."""
        return sum(item.files for item in self.items)

    @property
    def rows(self) -> int:
        """The number of rows of the generator layer's database."""
        return sum(len(item.addresses) for item in self.items if item.is_database)

    @property
    def bytes(self) -> int:
        """The bytes of files and rows."""
        return sum(item.size for item in self.items)

    def __repr__(self) -> str:
        counts = {"file": self.files, "row": self.rows, "byte": self.bytes}
        words = ", ".join(counted(count, name, f"{name}s") for name, count in counts.items())
        left = f", {counted(len(self.refusals), 'place', 'places')} left alone"
        return f"<kcl.Removal {words}{left if self.refusals else ''}>"


def purge(
    *layers: str,
    everything: bool = False,
    older: float | str | None = None,
    kernel: str | None = None,
    dry_run: bool = False,
) -> Removal:
    """Remove caches as `kcl purge` does, without asking; return what was removed.

    A layer is `kcl` (the default: its layers and its other files), `generator`, `binary`, `tuning`, or the name of another
    cache as in `kcl status`; `everything` means kcl, loopy, pyopencl and the OpenCL drivers. With `older`, seconds or a
    text such as "30d", only items are removed that were neither made nor used for that time; with `kernel`, a name or a
    shell pattern, only kcl's entries of these kernels. `dry_run` removes nothing. Afterwards every kernel of this process
    is looked up again.

    >>> kcl.purge("binary", kernel="doubled", dry_run=True)
    <kcl.Removal 0 files, 0 rows, 0 bytes>

    Raises ValueError for an unknown layer, and for `kernel` together with a cache that knows no kernels. What the
    system refuses is in `refusals`. Waits at most a minute for a helper process that works on these entries.
    Thread-safe.
    """
    age = parsers.age(older) if isinstance(older, str) else older
    return carry_out(layers, everything, age, kernel, dry_run=dry_run)


def carry_out(
    names: tuple[str, ...] = (),
    everything: bool = False,
    older: float | None = None,
    kernel: str | None = None,
    signer: str | None = None,
    dry_run: bool = False,
) -> Removal:
    """Remove what a request names, and return it; parameters and errors as for `purge`.

    With a `signer`, the id of a key, only entries are removed that came from a remote and were signed by this key.
    """
    wanted = [] if signer is not None else _resolve_names(names, everything, kernel)
    own = [name for name in wanted if name in settings.LAYERS]
    is_own = signer is not None or own or KEPT in wanted
    # The helper process is ended first, because what it writes later would reappear.
    is_quiet = dry_run or not is_own or drivers.quiet(places.own())
    plan, before = Removal([], []), None if older is None else time.time() - older
    if signer is not None:
        signed = [entry for entry, ids in list_signed(plan.refusals) if signer in ids]
        # The rows that lead to these entries came under the same key, so they are among them.
        plan.items.extend(collect_items(signed, []))
    if own and (kernel is not None or before is not None):
        plan.items.extend(_choose_entries(own, kernel, before, plan.refusals))
        wanted = [name for name in wanted if name not in own]
    for name in wanted:
        plan.items.extend(find_items(name, plan.refusals, before))
    if dry_run:
        return plan
    if not is_quiet:
        words = "its helper process still works: what it makes may reappear"
        plan.refusals.append(Refusal(OWN, places.own(), words))
    remove(plan, "kcl purge")
    # This fails if the directory has other files, or is a link; then it stays.
    with suppress(OSError):
        os.rmdir(places.own())
    # The layers also drop what they have in memory.
    process.on_change()
    return plan


def remove(plan: Removal, reason: str) -> None:
    """Remove items. What could not be removed is added to the refusals."""
    gone = []
    for item in plan.items:
        # If one item cannot be removed, the others still are.
        try:
            _remove_rows(item) if item.is_database else remove_path(item.path)
            gone.append(item)
        except (OSError, sqlite3.Error, CacheFault) as error:
            plan.refusals.append(Refusal(item.cache, item.path, str(error)))
    note_removed([address[-64:] for item in gone for address in item.addresses], reason)


def find_items(name: str, refusals: Faults, before: float | None = None) -> Iterator[RemovalItem]:
    """Yield the removable items of a cache, with `before` only the older ones; add refused places to `refusals`.

    The age of a directory is that of its newest file.
    """
    own = {KEPT: places.KEPT} | {layer: row.own for layer, row in layers.TABLE.items()}
    shared, pattern = own.get(name, ("", ""))
    folder = settings.folder(shared) if shared else foreign.place(name).path
    try:
        if os.path.islink(folder):
            raise CacheFault(_LINK)
        if shared:
            names = filter(re.compile(pattern).fullmatch, sorted(os.listdir(folder)))
            paths = [os.path.join(folder, own_name) for own_name in names]
        elif (paths := [*contents.files(name)]) and contents.is_too_wide(folder):
            raise CacheFault(f"it does not look like {ROWS[name].title}")
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, CacheFault) as error:
        refusals.append(Refusal(name, folder, getattr(error, "strerror", "") or str(error)))
        return
    for path in paths:
        if os.path.islink(path):
            refusals.append(Refusal(name, path, _LINK))
            continue
        measured = contents.count([path], ".*")
        if before is None or 0.0 < measured.newest < before:
            yield RemovalItem(name, path, measured.entries, measured.bytes)


def collect_items(gone: Sequence[ListedEntry], listed: Sequence[ListedEntry]) -> list[RemovalItem]:
    """Return the items to remove for entries: files for entries that are files, rows for the others.

    Base rows, by which code is found, are removed if all their code is, or if they have had no code for an hour.
    """
    if not gone:
        return []
    going, now = set(map(id, gone)), time.time()
    # The digests of base rows whose code stays, and of those whose code is removed.
    living, dead = set[str](), set[str]()
    for entry in listed:
        if entry.kind == inventory.CODE:
            (dead if id(entry) in going else living).update(inventory.find_leading(entry.key))
    leading = [
        entry
        for entry in listed
        if entry.kind == inventory.BASE
        and entry.digest not in living
        and (entry.digest in dead or now - entry.modified > _HOUR)
    ]
    by_file = inventory.group((*gone, *leading), lambda entry: (entry.layer, entry.file))
    return [
        RemovalItem(
            layer,
            file,
            not file.endswith(places.DATABASE),
            sum(entry.size for entry in entries),
            tuple(entry.address for entry in entries),
        )
        for (layer, file), entries in by_file.items()
    ]


def find_last_use(entry: ListedEntry, uses: Mapping[str, journal.Use]) -> float:
    """Return when an entry was last a hit, or when it was made if it never was."""
    return max(entry.modified, journal.find_use(uses, entry.digest)[1])


def read_removed() -> list[tuple[str, str, float]]:
    """Return the last removed entries, the latest last: digest, reason, and the time in seconds since the epoch."""
    with suppress(OSError, ValueError, CacheFault):
        trust.check(places.own())
        with open(places.own(places.REMOVED), encoding="utf-8") as stream:
            return [(digest, reason, moment) for digest, reason, moment in map(json.loads, stream)]
    return []


def _resolve_names(names: tuple[str, ...], everything: bool, kernel: str | None) -> list[str]:
    refuse_unknown(names, (OWN, *settings.LAYERS, *ROWS))
    if kernel is not None:
        if everything or not set(names) <= set(settings.LAYERS):
            raise ValueError(
                f"a kernel is known to the layers {', '.join(settings.LAYERS)} only: other caches know no kernel"
            )
        return list(names or settings.LAYERS)
    wanted = names or (OWN,)
    if everything:
        below = [name for name, row in ROWS.items() if not row.neighbour]
        wanted = (OWN, *below, *names)
    own = (*settings.LAYERS, KEPT)
    parts = (part for name in wanted for part in (own if name == OWN else (name,)))
    return list(dict.fromkeys(parts))


def _choose_entries(
    names: list[str], kernel: str | None, before: float | None, refusals: Faults
) -> list[RemovalItem]:
    """Return kcl's entries of a kernel (a name or a shell pattern) that were neither made nor used since `before`.

    Base rows are removed with the code that is found by them. Unreadable entries are added to `refusals`.
    """
    listed = list(inventory.entries(*names, all_rows=True, faults=refusals, own=True))
    uses = journal.read_uses()
    gone = [
        entry
        for entry in listed
        if entry.kind != inventory.BASE
        and (before is None or find_last_use(entry, uses) < before)
        and (kernel is None or fnmatch.fnmatchcase(entry.kernel, kernel))
    ]
    return collect_items(gone, listed)


def list_signed(faults: Faults) -> list[tuple[ListedEntry, list[str]]]:
    """Return kcl's own entries that came from a remote, each with the ids of its keys; add unreadable ones to `faults`."""
    memos = inventory.read_store(places.SHAPES, run_memo.store(), faults)
    listed = [*inventory.entries(all_rows=True, own=True, faults=faults), *memos]
    return [(entry, ids) for entry in listed if (ids := signers(entry.metadata))]


def remove_path(path: str) -> None:
    """Remove a file, or a directory with its contents, even if others write into it meanwhile; raises OSError."""
    with suppress(FileNotFoundError):
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            return
        # The second pass removes what others wrote during the first. Only the call below raises errors.
        for _ in range(2):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            shutil.rmtree(path)


def _remove_rows(item: RemovalItem) -> None:
    """Remove rows of a database, and give their space back in small steps; raises `sqlite3.Error`, `OSError`."""
    database = Database(item.path, "rw")
    # Not waiting for the disk is safe: a crash may damage rows, but readers verify every row.
    database.ask("PRAGMA synchronous = 'OFF'")
    # One statement for each row, so that other processes do not wait long.
    for address in item.addresses:
        database.ask("DELETE FROM dict WHERE keyhash = ?", address)
    # If another process reads, the space stays in the file, and later rows use it.
    with suppress(sqlite3.OperationalError):
        while database.ask("PRAGMA freelist_count") not in ([(0,)], []):
            database.ask(f"PRAGMA incremental_vacuum({_AT_ONCE})")


def note_removed(digests: list[str], reason: str) -> None:
    """Add entries to the file of removed ones. Raises nothing: a lost line only costs the explanation of a later miss."""
    if digests:
        now = round(time.time(), 3)
        notes = [*read_removed(), *((digest, reason, now) for digest in digests)]
        with suppress(OSError, CacheFault):
            trust.make_trusted(places.own())
            publish(
                places.own(places.REMOVED),
                "".join(f"{json.dumps(note)}\n" for note in notes[-_REMEMBERED:]).encode(),
            )
