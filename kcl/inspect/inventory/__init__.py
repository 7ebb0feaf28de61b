"""The inventory: what lies in the layers, by the headers of the entries; writes nothing.

Loads neither pytools nor pyopencl, so that a listing starts at once. It reads the files of every Python version and of
both stores of the generator layer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

from kcl import settings
from kcl.cache import places
from kcl.cache.entry import Entry, header_end, key_from, peek
from kcl.cache.key import Key
from kcl.cache.stores.base import digest_of
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault, DamagedEntry, UnusableDirectory
from kcl.inspect.inventory import listing
from kcl.inspect.inventory.listing import KINDS, Summary
from kcl.namedtuple import NamedTuple
from kcl.settings import trust

_HEAD = 4096  # holds most headers; what is longer is read again
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_READ |= getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for its writer
_PATIENCE = 1.0
_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError)

CODE, BASE, POINTER, PROOFS, BINARY = KINDS


class Listed:
    """An entry by its header: `sizes` are those of its parts, `size` that of the whole in bytes.

    `modified` is in seconds since the epoch: of a file when it was written, of a row when the entry was made.
    """

    __slots__ = ("_key", "address", "layer", "metadata", "modified", "size", "sizes")

    def __init__(
        self,
        layer: str,
        address: str,
        key: bytes,
        metadata: dict[str, Any],
        sizes: dict[str, int],
        size: int,
        modified: float,
    ) -> None:
        self.layer, self.address = layer, address
        self._key: bytes | Key = key
        self.metadata, self.sizes, self.size, self.modified = metadata, sizes, size, modified

    @property
    def key(self) -> Key:
        """The full key; raises DamagedEntry where it is none."""
        if isinstance(self._key, bytes):
            self._key = key_from(self._key)
        return self._key

    @property
    def digest(self) -> str:
        """The digest of the key, as the address says it."""
        return self.address[-64:]

    @property
    def kernel(self) -> str:
        """The name of the kernel's recipe."""
        return str(self.metadata.get("kernel", ""))

    @property
    def kind(self) -> str:
        """What the entry is: "binary", or in the generator layer "code", "base", "pointer" or "proofs"."""
        if self.layer == "binary":
            return BINARY
        if "proven" in self.metadata:
            return PROOFS
        return CODE if "function" in self.metadata else POINTER if "row" in self.metadata else BASE

    @property
    def summary(self) -> Summary:
        """What a listing shows of it."""
        device, platform = (_name(self.metadata.get(of)) for of in ("device", "platform"))
        seconds = self.metadata.get("seconds")
        took = float(seconds) if isinstance(seconds, (int, float)) else 0.0
        created = self.metadata.get("created")  # the file may be a copy, or have been completed
        built = float(created) if isinstance(created, (int, float)) else self.modified
        return Summary(self.layer, self.address, self.kind, self.kernel, platform, device, self.size, built, took)


class Fault(NamedTuple):
    """Something in a layer that cannot be read, and why."""

    layer: str
    place: str
    reason: str


def summaries(*layer_names: str, faults: list[Fault] | None = None) -> Iterator[Summary]:
    """Yield what lies in the layers, all of them where none is named, as a listing shows it.

    Of the generator layer only the rows that hold code. What cannot be read is added to `faults`.
    """
    for found in _summaries(layer_names or settings.LAYERS, [] if faults is None else faults):
        if found.kind in (CODE, BINARY):
            yield found


def entries(
    *layer_names: str,
    faults: list[Fault] | None = None,
    all_rows: bool = False,
    kernels: Collection[str] | None = None,
) -> Iterator[Listed]:
    """Yield what lies in the layers, all of them where none is named; what cannot be read is added to `faults`.

    Of the generator layer only the rows that hold code are yielded, unless `all_rows` asks for those that lead there.
    With `kernels`, those of these names alone.
    """
    told: list[Fault] = [] if faults is None else faults
    for layer in layer_names or settings.LAYERS:
        for place in _places(layer, told):
            named = None
            if kernels is not None:
                named = {found.address for found in _of_place(layer, place, told) if found.kernel in kernels}
            for found in _headers(layer, place, told, named):
                if all_rows or found.kind in (CODE, BINARY):
                    yield found


def read(layer: str, address: str) -> Entry:
    """Return the verified entry at an address; raises KeyError where there is none, DamagedEntry, or OSError."""
    blob = next((blob for blob in _blobs(layer, address) if blob is not None), None)
    if blob is None:
        raise KeyError(address)
    entry = Entry.unpack(blob)
    if entry.key.digest != digest_of(address):
        raise DamagedEntry(f"the entry at {address} is that of another key: {entry.key.digest}")
    return entry


def blobs(layer: str, faults: list[Fault]) -> Iterator[tuple[str, str, bytes]]:
    """Yield where each entry of a layer lies, its address and its bytes; what cannot be read is added to `faults`."""
    for place in _places(layer, faults):
        try:
            if place.endswith(places.DATABASE):
                yield from _all_rows(place)
                continue
            store = Directory(place)
            for address in store.scan():
                path = os.path.join(place, address)
                try:
                    blob = store.get(address)
                except _FAULTS as error:
                    faults.append(Fault(layer, path, str(error)))
                    continue
                if blob is not None:  # not removed meanwhile
                    yield path, address, blob
        except _FAULTS as error:
            faults.append(Fault(layer, place, str(error)))


def _all_rows(path: str) -> Iterator[tuple[str, str, bytes]]:
    with _connected(path) as rows:
        for address, blob in rows.execute("SELECT keyhash, key_value FROM dict"):
            name = address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)
            yield f"{path}: {name}", name, blob if isinstance(blob, bytes) else b""


def file_of(layer: str, address: str) -> str:
    """Return the path of the file that holds an entry, empty where there is none; of a row that is a database."""
    for place in _places(layer, []):
        path = place if place.endswith(places.DATABASE) else os.path.join(place, address)
        if os.path.isfile(path) and (path != place or any(_of_row(place, address))):
            return path
    return ""


def find(text: str, faults: list[Fault] | None = None) -> list[Summary]:
    """Return the entries that a text names: the start of a digest, an address, or the name of a kernel.

    The digest of a row that leads to code stands for that code.
    """
    listed = list(_summaries(settings.LAYERS, [] if faults is None else faults))
    named = [found for found in listed if _is_named(found, text)]
    shown = [found for found in named if found.kind in (CODE, BINARY)]
    led = {found.address for found in named if found.kind in (BASE, POINTER) and found.kernel != text}
    if led:
        digests = {found.digest for found in _led(led)}
        shown += [found for found in listed if found.digest in digests and found not in shown]
    return shown


def _led(addresses: Collection[str]) -> Iterator[Listed]:
    """Yield the rows with code to which other rows lead."""
    leading = [found for found in entries("generator", all_rows=True) if found.address in addresses]
    wanted = {Key(map(tuple, found.metadata["row"])).digest for found in leading if found.kind == POINTER}
    starts = [found.key.parts for found in leading if found.kind == BASE]
    for found in entries("generator"):
        if found.digest in wanted or any(found.key.parts[: len(start)] == start for start in starts):
            yield found


def _is_named(found: Summary, text: str) -> bool:
    return bool(text) and (found.kernel == text or found.digest.startswith(text) or found.address == text)


def _name(described: object) -> str:
    return str(described.get("name", "")) if isinstance(described, dict) else ""


def _summaries(layer_names: Iterable[str], faults: list[Fault]) -> Iterator[Summary]:
    for layer in layer_names:
        for place in _places(layer, faults):
            yield from _of_place(layer, place, faults)


def _of_place(layer: str, place: str, faults: list[Fault]) -> list[Summary]:
    """Summarise a file or directory: what is known of it, and the headers of what is new."""
    stamp = listing.stamp_of(place)
    before, known = listing.load(place, layer)
    if stamp and stamp == before:
        return [found for _stamp, found in known.values()]
    try:
        stamps = _row_stamps(place) if place.endswith(places.DATABASE) else _file_stamps(place)
    except _FAULTS as error:
        faults.append(Fault(layer, place, str(error)))
        return []
    known = {
        address: known[address] for address in known.keys() & stamps.keys() if known[address][0] == stamps[address]
    }
    new, so_far = stamps.keys() - known.keys(), len(faults)
    for found in _headers(layer, place, faults, new if known else None):
        if found.address in new:
            known[found.address] = stamps[found.address], found.summary
    if len(known) > listing.FEW and (new or stamp != before):
        listing.save(place, [] if len(faults) > so_far else stamp, known)  # faults are to be told again
    return [found for _stamp, found in known.values()]


def _headers(layer: str, place: str, faults: list[Fault], named: Collection[str] | None) -> Iterator[Listed]:
    """Read headers, of all entries or of those with the named addresses."""
    try:
        if place.endswith(places.DATABASE):
            yield from _rows(place, faults, named)
        else:
            yield from _files(layer, place, faults, named)
    except _FAULTS as error:
        faults.append(Fault(layer, place, str(error)))


def _places(layer: str, faults: list[Fault]) -> list[str]:
    """Return the files and directories of a layer that are there; none where its directory cannot be used."""
    is_binary = layer == "binary"
    folder = places.binaries() if is_binary else places.dictionaries()
    try:
        if not trust.check(folder):
            return []
        names = sorted(os.listdir(folder))
    except (OSError, CacheFault) as error:
        faults.append(Fault(layer, folder, str(error)))
        return []
    if is_binary:
        return [folder]
    files = [name for name in names if places.is_dictionary(name)]
    return [os.path.join(folder, name) for name in (*files, places.GENERATED) if name in names]


def _blobs(layer: str, address: str) -> Iterator[bytes | None]:
    faults: list[Fault] = []
    for place in _places(layer, faults):
        if place.endswith(places.DATABASE):
            yield from _of_row(place, address)
        else:
            yield Directory(place).get(address)
    if faults:
        raise UnusableDirectory(faults[0].reason)


def _of_row(path: str, address: str) -> Iterator[bytes]:
    with suppress(sqlite3.Error), _connected(path) as rows:  # it may lie in the file of another Python
        for (blob,) in rows.execute("SELECT key_value FROM dict WHERE keyhash=?", (address,)):
            yield blob if isinstance(blob, bytes) else b""


def _connected(path: str) -> closing[sqlite3.Connection]:
    trust.check(os.path.dirname(path))
    fault = trust.file_fault(os.lstat(path))
    if fault is not None:
        raise UnusableDirectory(f"{path} cannot be the cache: {fault}; remove it")
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    uri = f"file:{'///' + path.replace(os.sep, '/') if os.name == 'nt' else path}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
    connection.text_factory = bytes
    return closing(connection)


def _row_stamps(path: str) -> dict[str, listing.Stamp]:
    """Return what tells whether a row is still the same: replacing one gives it a new number."""
    with _connected(path) as rows:
        return {
            address.decode("utf-8", "replace"): [number, size]
            for number, address, size in rows.execute("SELECT rowid, keyhash, length(key_value) FROM dict")
            if isinstance(address, bytes)
        }


def _file_stamps(root: str) -> dict[str, listing.Stamp]:
    """Return what tells whether a file is still the same."""
    found = {}
    for address, item in Directory(root).items():
        with suppress(FileNotFoundError):
            status = item.stat(follow_symlinks=False)
            found[address] = [status.st_mtime_ns, status.st_size, status.st_ino]
    return found


def _rows(path: str, faults: list[Fault], named: Collection[str] | None) -> Iterator[Listed]:
    command = f"SELECT keyhash, length(key_value), substr(key_value, 1, {_HEAD}) FROM dict"
    with _connected(path) as rows:
        if named is None:
            found: Iterable[tuple[bytes, Any, Any]] = rows.execute(command)
        else:
            found = (row for address in named for row in rows.execute(f"{command} WHERE keyhash=?", (address,)))
        for address, size, start in found:
            name = address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)
            try:
                digest_of(name)
                head = _whole_head(rows, name, size, start)
                listed = _listed("generator", name, head, size, 0.0)
            except (DamagedEntry, ValueError) as error:
                faults.append(Fault("generator", f"{path}: {name}", str(error)))
                continue
            yield listed


def _whole_head(rows: sqlite3.Connection, address: str, size: Any, start: Any) -> bytes:
    if not isinstance(start, bytes) or not isinstance(size, int):
        raise DamagedEntry("the row holds no bytes")
    if size <= _HEAD or header_end(start) <= _HEAD:
        return start
    command = "SELECT substr(key_value, 1, ?) FROM dict WHERE keyhash=?"
    return next((bytes(head) for (head,) in rows.execute(command, (header_end(start), address))), b"")


def _files(layer: str, root: str, faults: list[Fault], named: Collection[str] | None) -> Iterator[Listed]:
    for address in Directory(root).scan() if named is None else named:
        path = f"{root}/{address}"
        try:
            found = _listed(layer, address, *_head(path))
        except FileNotFoundError:
            continue  # removed meanwhile
        except (OSError, DamagedEntry) as error:
            faults.append(Fault(layer, path, str(error)))
            continue
        yield found


def _head(path: str) -> tuple[bytes, int, float]:
    """Return the header's bytes, size and time of a file that is ours alone."""
    descriptor = os.open(path, _READ)
    try:
        status = os.fstat(descriptor)
        fault = trust.file_fault(status)
        if fault is not None:
            raise DamagedEntry(f"{path} cannot be an entry of ours: {fault}; remove it")
        head = os.read(descriptor, _HEAD)
        if len(head) == _HEAD < header_end(head):
            head += os.read(descriptor, header_end(head) - _HEAD)
        return head, status.st_size, status.st_mtime
    finally:
        os.close(descriptor)


def _listed(layer: str, address: str, head: bytes, size: int, modified: float) -> Listed:
    key, metadata, sizes = peek(head, size)
    if not modified:
        created = metadata.get("created")
        modified = float(created) if isinstance(created, (int, float)) else 0.0
    return Listed(layer, address, key, metadata, sizes, size, modified)
