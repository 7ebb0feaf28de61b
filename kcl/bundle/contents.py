"""The entries of a bundle: collected from the layers of this process, packed, unpacked, and stored into layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kcl import drivers
from kcl.base import settings
from kcl.bundle.format import ENTRY_LIMIT, read, write
from kcl.bundle.info import CacheInfo, misfit
from kcl.cache import layers, notes, places, run_memo
from kcl.cache.entry import Entry, entry_at, signers
from kcl.cache.layer import Layer
from kcl.cache.run_memo import EntryPlace
from kcl.cache.stores import Store, digest_of
from kcl.errors import CacheFault, DamagedEntry
from kcl.frontends.loopy import proofs

Contents = dict[EntryPlace, Entry]
# The fields of a tuning row that say for which calls it is (see `kcl.choices.tuning.table.Row`).
_CASE = ("sizes", "dtypes", "variant")
# Besides the entries of layers a bundle has memos, which record results of earlier runs.
_MEMO = places.SHAPES
_KINDS = (*settings.LAYERS, _MEMO)
_CODE = "binary"  # the part of a program that has its code
_DEBUG = "its debug information (-g) names directories of this machine"
_OWN_PATH = "a header asks for its own path (__FILE__), which is one of this machine"
_INCOMPLETE = "it is not complete: run kcl flush, then save again"


def complete() -> None:
    """Write proofs that are not yet on disk, and complete entries whose binaries the driver gives out late."""
    proofs.write()
    drivers.flush()


def collect_used(info: CacheInfo) -> Contents:
    """Return the entries that this process looked up or made, without those that are missing or must stay here."""
    complete()
    return collect(run_memo.places_used(), info)


def collect(listed: Iterable[EntryPlace], info: CacheInfo) -> Contents:
    """Return the entries at these places (layer, address), without those that are missing or must stay here."""
    entries: Contents = {}
    for kind, address in listed:
        entry = read_entry(_open_target(kind), address, info) if kind in _KINDS else None
        if entry is not None:
            add(entries, kind, address, entry, info)
        elif kind == settings.BINARY:
            info.left_out.append((address[-64:], _INCOMPLETE))
    return entries


def add(entries: Contents, kind: str, address: str, entry: Entry, info: CacheInfo) -> None:
    """Add an entry to `entries`; if it must stay on this machine, add the reason to `info` instead."""
    reason = _reason_to_stay(entry) if kind == settings.BINARY else ""
    if reason:
        info.left_out.append((entry.key.digest, reason))
    else:
        entries[kind, address] = entry


def pack(entries: Contents, info: CacheInfo) -> bytes:
    """Return the bundle of entries; too large ones are left out. Raises CacheFault if the bundle would be too large."""
    records = []
    for (kind, address), entry in entries.items():
        # The bundle compresses all entries together, which is smaller than compressing each part by itself.
        blob = entry.pack(in_pieces=False)
        if len(blob) > ENTRY_LIMIT:
            info.left_out.append(
                (entry.key.digest, f"its size is above the limit of {ENTRY_LIMIT} bytes")
            )
        else:
            records.append((kind, address, blob))
            info._add(kind, entry)
    data = write(records)
    info.bytes = len(data)
    return data


def unpack(data: bytes, info: CacheInfo) -> Iterator[tuple[EntryPlace, Entry]]:
    """Yield each entry of a bundle that is undamaged, as ((layer, address), entry); raises CacheFault at damage."""
    for kind, address, blob in read(data):
        if kind not in _KINDS:
            info.skipped[kind] += 1
            continue
        try:
            # This raises ValueError if the text is not an address.
            digest_of(address)
            entry = entry_at(address, blob)
            if (_CODE in entry.parts) != (kind == settings.BINARY):
                raise DamagedEntry(f"this is no entry of the {kind} layer")
        except (CacheFault, ValueError) as error:
            info.refused.append((address[-64:], str(error)))
        else:
            yield (kind, address), entry


def load(blob: bytes, usable: bool = False, into: str = "", signer: str = "") -> CacheInfo:
    """Store the entries of a bundle, or with `usable` those that can hit on this machine.

    An entry that exists already is replaced only if the new one contains more. Entries go into the layers, or into the
    site directory `into`. Each entry records `signer`, the id of the key that signed the bundle.
    The report has the faults.
    """
    info = CacheInfo(len(blob))
    try:
        for (kind, address), entry in unpack(blob, info):
            is_memo = kind == _MEMO
            if is_memo and (into or settings.read().no_cache & {kind, settings.GENERATOR}):
                continue
            if reason := "" if is_memo or into else _reason_to_skip(kind, entry, usable):
                info.left_out.append((entry.key.digest, reason))
                continue
            target = layers.site(kind, into) if into else _open_target(kind)
            before = read_entry(target, address)
            new = improve(before, entry)
            info._add(kind, entry)
            if signer:
                new = _sign(before, new, signer)
            if new is None:
                continue
            if isinstance(target, Layer):
                target.publish(address, new)
            else:
                target.put(address, new.pack())
            # By the note of a table an edit of that recipe is said on this machine, too.
            if not into and (note := str(entry.metadata.get("note") or "")):
                notes.write(note, entry.key.digest)
    except Exception as error:
        info.refused.append(("bundle", str(error)))
    return info


def _open_target(kind: str) -> Layer | Store:
    return layers.layer(kind) if kind in settings.LAYERS else run_memo.store()


def _sign(before: Entry | None, new: Entry | None, signer: str) -> Entry | None:
    """Return the entry to store, with the ids of all keys that signed it; None if the earlier entry stays as it is.

    An earlier entry that was made on this machine has no ids, and gets none.
    """
    ids = signers(before.metadata) if before else []
    changed = new or (before if ids and signer not in ids else None)
    return changed and changed.with_metadata(signers=sorted({*ids, signer}))


def _reason_to_skip(kind: str, entry: Entry, usable: bool) -> str:
    """Return why an entry is not stored in its layer on this machine; empty if it is stored."""
    layer, owners = layers.layer(kind), layers.TABLE[kind].owners
    front_ends = owners.keys() & {str(entry.metadata.get("front_end"))}
    if layer.is_off_for_all(frozenset(front_ends)):
        return f"the {kind} layer is off: {layer.off(frozenset(front_ends))}"
    return misfit(kind, entry.key) if usable else ""


def improvements(before: Contents, entries: Contents) -> Contents:
    """Return those of `entries` that are not in `before`, or contain more than the entry there."""
    better = {place: improve(before.get(place), entry) for place, entry in entries.items()}
    return {place: entry for place, entry in better.items() if entry is not None}


def improve(before: Entry | None, entry: Entry) -> Entry | None:
    """Return the entry to store in place of an earlier one of the same key; None if the earlier one stays."""
    if before is None:
        return entry
    # Proofs, and the rows of tuning tables, are merged.
    for name in ("proven", "rows"):
        items, there = _items(entry, name), _items(before, name)
        new = {
            item: value
            for item, value in items.items()
            if item not in there or _rank(value) > _rank(there[item])
        }
        if new:
            joined = there | new
            return before.with_metadata(
                **{name: joined if name == "proven" else [*joined.values()]}
            )
    return entry if _completeness(entry) > _completeness(before) else None


def _items(entry: Entry, name: str) -> dict[str, Any]:
    """Return a table in the metadata of an entry as a dictionary; rows of a list get the case that they are for as key."""
    table = entry.metadata.get(name)
    if isinstance(table, list):
        rows = [row for row in table if isinstance(row, dict)]
        return {repr([row.get(part) for part in _CASE]): row for row in rows}
    return table if isinstance(table, dict) else {}


def _rank(row: Any) -> tuple[str, ...]:
    """Return a sort key for rows of one case: a finished tuning is better, then a higher level, then a later day."""
    if not isinstance(row, dict):
        return ()
    return str(not row.get("unfinished")), str(row.get("level", "")), str(row.get("day", ""))


def _completeness(entry: Entry) -> set[str]:
    """Return a text "kernel size" for each specialisation in an entry, and "complete" if it has that mark."""
    texts = {
        f"{kernel} {size}"
        for kernel, sizes in _items(entry, "specialisations").items()
        if isinstance(sizes, list)
        for size in sizes
    }
    return {*texts, "complete"} if entry.metadata.get("complete") else texts


def read_entry(store: Layer | Store, address: str, info: CacheInfo | None = None) -> Entry | None:
    """Return the entry at an address of a store, or None; an unreadable one is noted in `info`."""
    try:
        if isinstance(store, Layer):
            return store.read(address)
        blob = store.get(address)
        return None if blob is None else entry_at(address, blob)
    except Exception as error:
        # No warning is needed here: the next look-up of this entry gives one, and sets the entry aside.
        if info is not None:
            info.refused.append((address[-64:], str(error)))
        return None


def _reason_to_stay(entry: Entry) -> str:
    """Return why a program must not go into a bundle; empty if it may."""
    parts = dict(entry.key.parts)
    options = f"{parts.get('options')} {parts.get('variable POCL_EXTRA_BUILD_FLAGS')}"
    # An option may be in quotes.
    if any(word.lstrip("'\"").startswith("-g") for word in options.split()):
        return _DEBUG
    return _OWN_PATH if "header paths" in parts else "" if _CODE in entry.parts else _INCOMPLETE
