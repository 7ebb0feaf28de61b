"""The inventory: the contents of the layers, from the headers of the entries; writes nothing.

It loads neither pytools nor pyopencl, so that a listing starts at once. It reads the stores of every Python version,
and both sorts of the generator layer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache import layers
from kcl.cache.entry import Entry, header_end, key_from, peek
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import Stat
from kcl.cache.stores.directory import Directory
from kcl.cache.verified import entry_at
from kcl.errors import CacheFault, DamagedEntry, UnusableDirectory
from kcl.inspect.inventory import listing
from kcl.inspect.inventory.listing import KINDS, RecipeSummary, Summary

_HEAD = 4096  # holds most headers; a longer header is read again
_PROGRAM = 16  # digits of the digest of a program's text: enough to tell the programs of a cache apart
_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError)

CODE, BASE, POINTER, PROOFS = KINDS
Partners = dict[tuple[str, str], list[Summary]]
LEADING = frozenset({BASE, POINTER})  # the kinds of rows that lead to code
HIDDEN = frozenset({*LEADING, PROOFS})  # the kinds that a listing does not show
_SPECIAL = Part("row", "special")  # in the key of a row with a base row, behind the key of the base row


class ListedEntry:
    """An entry by its header: `sizes` are those of its parts, `size` is that of the whole, in bytes.

    `modified` is in seconds since the epoch: for a file the time of writing, for a row the time when the entry was
    made.
    """

    __slots__ = ("_key", "address", "layer", "metadata", "modified", "size", "sizes")

    def __init__(
        self,
        layer: str,
        address: str,
        key: bytes | Key,
        metadata: dict[str, Any],
        sizes: dict[str, int],
        size: int,
        modified: float,
    ) -> None:
        self.layer, self.address = layer, address
        self._key = key
        self.metadata, self.sizes, self.size, self.modified = metadata, sizes, size, modified

    @property
    def key(self) -> Key:
        """The full key; raises DamagedEntry where the header holds none."""
        if isinstance(self._key, bytes):
            self._key = key_from(self._key)
        return self._key

    @property
    def digest(self) -> str:
        """The digest of the key, as in the address."""
        return self.address[-64:]

    @property
    def kernel(self) -> str:
        """The name of the kernel's recipe."""
        return str(self.metadata.get("kernel", ""))

    @property
    def kind(self) -> str:
        """The sort of entry: the name of its layer, or in the generator layer "code", "base", "pointer" or "proofs"."""
        if self.layer != settings.GENERATOR:
            return self.layer
        if "proven" in self.metadata:
            return PROOFS
        return CODE if "function" in self.metadata else POINTER if "row" in self.metadata else BASE

    @property
    def leads_to(self) -> str:
        """The digest by which a base row or a pointer leads to code; `led_by` of the key of that code contains it."""
        return Key(map(tuple, self.metadata["row"])).digest if self.kind == POINTER else self.digest

    @property
    def built(self) -> float:
        """The time when the entry was made, in seconds since the epoch; the file may be a copy, or completed later."""
        created = self.metadata.get("created")
        return float(created) if isinstance(created, (int, float)) else self.modified

    @property
    def summary(self) -> Summary:
        """The summary of the entry in a listing."""
        device, platform = (_name(self.metadata.get(of)) for of in ("device", "platform"))
        seconds = self.metadata.get("seconds")
        took = float(seconds) if isinstance(seconds, (int, float)) else 0.0
        program = str(self.metadata.get("program", ""))[:_PROGRAM]
        return Summary(
            self.layer,
            self.address,
            self.kind,
            self.kernel,
            platform,
            device,
            self.size,
            self.built,
            took,
            program,
            self.recipe,
        )

    @property
    def recipe(self) -> RecipeSummary:
        """The recipe of generated code, as far as the entry names it; empty for any other entry."""
        try:
            recipe = self.metadata.get("recipe", {})
            dtypes = {name: dtype for name, _kind, dtype, _required in self.metadata["arguments"] if dtype}
            return RecipeSummary(recipe.get("site", ""), dict(recipe.get("parameters", ())), dtypes)
        except (KeyError, TypeError, ValueError, AttributeError):
            return RecipeSummary()


def led_by(key: Key) -> list[str]:
    """Return the digests by which rows lead to a row with this key: its own, and that of its base row if it has one."""
    base = [Key(key.parts[: key.parts.index(_SPECIAL)]).digest] if _SPECIAL in key.parts else []
    return [key.digest, *base]


def launched(one: ListedEntry | Entry) -> tuple[str, str]:
    """Return the digest of the OpenCL C, and the launched kernels in it: an invoker is for these."""
    program = one.metadata.get("program")  # an earlier kcl said so in the key of a program alone
    return program or dict(one.key.parts).get("source", ""), repr(one.metadata.get("kernels"))


class Fault(NamedTuple):
    """An unreadable place in a layer, and the reason."""

    layer: str
    place: str
    reason: str


def summaries(*layer_names: str, faults: list[Fault] | None = None) -> Iterator[Summary]:
    """Return the entries of the named layers, or of all layers, as a listing shows them.

    Of the generator layer only the rows that hold code. Unreadable entries are added to `faults`.
    """
    found = rows([] if faults is None else faults, layer_names)
    return (one for one in found if one.kind not in HIDDEN)


def rows(faults: list[Fault], layer_names: Iterable[str] = ()) -> list[Summary]:
    """Return the entries of layers, including rows without code; add unreadable ones to `faults`."""
    names = layer_names or settings.LAYERS
    return [one for layer in names for store in stores(layer, faults) for one in of_store(layer, store, faults)]


def partners(shown: Iterable[Summary], every: Iterable[Summary]) -> Partners:
    """Return, by layer and program, the entries of other layers with the same OpenCL C: code and its programs."""
    wanted = {one.program for one in shown if one.program}
    found: Partners = {}
    for one in every:
        for layer in settings.LAYERS if one.program in wanted else ():
            if layer != one.layer:
                found.setdefault((layer, one.program), []).append(one)
    return found


def common(recipes: Sequence[RecipeSummary]) -> RecipeSummary:
    """Return the common facts of recipes, for a program whose code several entries hold."""
    first, *rest = recipes
    if not rest:
        return first
    same = [name for name in first._fields if all(getattr(one, name) == getattr(first, name) for one in rest)]
    return RecipeSummary(**{name: getattr(first, name) for name in same})


def entries(
    *layer_names: str,
    faults: list[Fault] | None = None,
    all_rows: bool = False,
    kernels: Collection[str] | None = None,
) -> Iterator[ListedEntry]:
    """Yield the entries of the named layers, or of all layers; add unreadable ones to `faults`.

    The generator layer yields only the rows that hold code, unless `all_rows` asks for those that lead there.
    With `kernels`, only the entries of these kernels.
    """
    told: list[Fault] = [] if faults is None else faults
    for layer in layer_names or settings.LAYERS:
        for store in stores(layer, told):
            named = None
            if kernels is not None:
                named = {found.address for found in of_store(layer, store, told) if found.kernel in kernels}
            for found in _headers(layer, store, told, named):
                if all_rows or found.kind not in HIDDEN:
                    yield found


def read(layer: str, address: str) -> Entry:
    """Return the verified entry at an address; raises KeyError where it is missing, CacheFault, or OSError."""
    faults: list[Fault] = []
    for store in stores(layer, faults):
        with suppress(sqlite3.Error):  # it may lie in the file of another Python
            blob = store.get(address)
            if blob is not None:
                return entry_at(address, blob)
    raise UnusableDirectory(faults[0].reason) if faults else KeyError(address)


def blobs(layer: str, faults: list[Fault]) -> Iterator[tuple[str, str, bytes]]:
    """Yield the place, the address and the bytes of each entry of a layer; add unreadable ones to `faults`."""
    for store in stores(layer, faults):
        try:
            for address in store.scan():
                try:
                    blob = store.get(address)
                except _FAULTS as error:
                    faults.append(Fault(layer, _where(store, address), str(error)))
                    continue
                if blob is not None:  # not removed in between
                    yield _where(store, address), address, blob
        except _FAULTS as error:
            faults.append(Fault(layer, store.location, str(error)))


def file_of(layer: str, address: str) -> str:
    """Return the path of the file that holds an entry, for a row the database; empty where the entry is missing."""
    for store in stores(layer, []):
        with suppress(sqlite3.Error):
            if store.stat(address) is not None:
                path = os.path.join(store.location, address)
                return path if os.path.isfile(path) else store.location
    return ""


def stores(layer: str, faults: list[Fault]) -> list[layers.Files]:
    """Return the existing stores of a layer; empty where its directory cannot be used."""
    row = layers.TABLE[layer]
    folder = row.folder()
    try:
        if not trust.check(folder):
            return []
        names = sorted(os.listdir(folder))
    except (OSError, CacheFault) as error:
        faults.append(Fault(layer, folder, str(error)))
        return []
    return row.on_disk(folder, names)


def find(text: str, faults: list[Fault] | None = None) -> list[Summary]:
    """Return the entries that a text names: the start of a digest, an address, or the name of a kernel.

    The digest of a row that leads to code stands for that code.
    """
    return named(text, rows([] if faults is None else faults))


def named(text: str, listed: Iterable[Summary]) -> list[Summary]:
    """Return the rows of all layers that a text names, in the way of `find`."""
    if not text:
        return []
    found = [one for one in listed if text in (one.kernel, one.address) or one.address[-64:].startswith(text)]
    shown = [one for one in found if one.kind not in HIDDEN]
    leading = {one.address for one in found if one.kind in LEADING and one.kernel != text}
    if leading:
        every = list(entries(settings.GENERATOR, all_rows=True))
        to = {one.leads_to for one in every if one.address in leading}
        digests = {one.digest for one in every if one.kind == CODE and not to.isdisjoint(led_by(one.key))}
        shown += [one for one in listed if one.digest in digests and one not in shown]
    return shown


def _name(described: object) -> str:
    return str(described.get("name", "")) if isinstance(described, dict) else ""


def of_store(layer: str, store: layers.Files, faults: list[Fault]) -> list[Summary]:
    """Summarise a store, from the saved listing and the headers of new entries."""
    stamp = listing.stamp_of(store.location)
    before, known = listing.load(store.location, layer)
    if stamp and stamp == before:
        return [found for _stamp, found in known.values()]
    try:
        stamps = store.stamps()
    except _FAULTS as error:
        faults.append(Fault(layer, store.location, str(error)))
        return []
    known = {
        address: known[address] for address in known.keys() & stamps.keys() if known[address][0] == stamps[address]
    }
    new, so_far = stamps.keys() - known.keys(), len(faults)
    for found in _headers(layer, store, faults, new if known else None):
        if found.address in new:
            known[found.address] = stamps[found.address], found.summary
    if len(known) > listing.FEW and (new or stamp != before):
        listing.save(store.location, [] if len(faults) > so_far else stamp, known)  # else faults appear only once
    return [found for _stamp, found in known.values()]


def _headers(
    layer: str, store: layers.Files, faults: list[Fault], named: Collection[str] | None
) -> Iterator[ListedEntry]:
    """Read headers, of all entries or of those with the named addresses."""
    try:
        for address in store.scan() if named is None else named:
            try:
                found = _header(layer, store, address)
            except (OSError, DamagedEntry) as error:
                faults.append(Fault(layer, _where(store, address), str(error)))
                continue
            if found is not None:  # not removed in between
                yield found
    except _FAULTS as error:
        faults.append(Fault(layer, store.location, str(error)))


def _header(layer: str, store: layers.Files, address: str) -> ListedEntry | None:
    found = store.head(address, _HEAD)
    if found is not None and len(found[1]) == _HEAD < header_end(found[1]):
        found = store.head(address, header_end(found[1]))
    return None if found is None else _listed(layer, address, *found)


def _where(store: layers.Files, address: str) -> str:
    return os.path.join(store.location, address) if isinstance(store, Directory) else f"{store.location}: {address}"


def _listed(layer: str, address: str, stat: Stat, head: bytes) -> ListedEntry:
    key, metadata, sizes = peek(head, stat.size)
    created = metadata.get("created")
    made = float(created) if isinstance(created, (int, float)) else 0.0
    return ListedEntry(layer, address, key, metadata, sizes, stat.size, stat.used or made)
