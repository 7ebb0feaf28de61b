"""The inventory: what lies in the layers, by the headers of the entries; writes nothing.

Loads neither pytools nor pyopencl, so that a listing starts at once. It reads the files of every Python version and of
both stores of the generator layer.
"""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple

from kcl import config, option
from kcl.entry import Entry, header_end, read_header
from kcl.errors import CacheFault, DamagedEntry, UnusableDirectory
from kcl.key import Key
from kcl.stores import trust
from kcl.stores.base import digest_of
from kcl.stores.directory import Directory

_HEAD = 8192  # holds most headers; what is longer is read again
_ROWS = "pdict-v5-kcl-generated-v1"
_PATIENCE = 1.0
_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError)

CODE, BASE, POINTER, BINARY = "code", "base", "pointer", "binary"


class Listed(NamedTuple):
    """An entry by its header: `sizes` are those of its parts, `size` that of the whole in bytes.

    `modified` is in seconds since the epoch: of a file when it was written, of a row when the entry was made.
    """

    layer: str
    address: str
    key: Key
    metadata: dict[str, Any]
    sizes: dict[str, int]
    size: int
    modified: float

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
        """What the entry is: "binary", or in the generator layer "code", "base" or "pointer" (see `kcl.rows`)."""
        if self.layer == "binary":
            return BINARY
        return CODE if "function" in self.metadata else POINTER if "row" in self.metadata else BASE


class Fault(NamedTuple):
    """Something in a layer that cannot be read, and why."""

    layer: str
    place: str
    reason: str


def entries(*layer_names: str, faults: list[Fault] | None = None, all_rows: bool = False) -> Iterator[Listed]:
    """Yield what lies in the layers, all of them where none is named; what cannot be read is added to `faults`.

    Of the generator layer only the rows that hold code are yielded, unless `all_rows` asks for those that lead there.
    """
    for layer in layer_names or config.LAYERS:
        for found in _raw(layer, [] if faults is None else faults):
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


def find(text: str, faults: list[Fault] | None = None) -> list[Listed]:
    """Return the entries that a text names: the start of a digest, an address, or the name of a kernel.

    The digest of a row that leads to code stands for that code.
    """
    named = [found for found in entries(faults=faults, all_rows=True) if _is_named(found, text)]
    shown = [found for found in named if found.kind in (CODE, BINARY)]
    led = [found for found in named if found.kind not in (CODE, BINARY) and found.kernel != text]
    if led:
        wanted = {Key(map(tuple, found.metadata["row"])).digest for found in led if found.kind == POINTER}
        starts = [found.key.parts for found in led if found.kind == BASE]
        present = {found.address for found in shown}
        for found in entries("generator"):
            is_led = found.digest in wanted or any(found.key.parts[: len(start)] == start for start in starts)
            if is_led and found.address not in present:
                shown.append(found)
    return shown


def _is_named(found: Listed, text: str) -> bool:
    return found.kernel == text or found.digest.startswith(text) or found.address == text


def _raw(layer: str, faults: list[Fault]) -> Iterator[Listed]:
    for place in _places(layer):
        try:
            yield from _rows(place, faults) if place.endswith(".sqlite") else _files(layer, place, faults)
        except _FAULTS as error:
            faults.append(Fault(layer, place, str(error)))


def _places(layer: str) -> list[str]:
    """Return the files and directories of a layer that are there."""
    if layer == "binary":
        places = [os.path.join(option.folder("pyopencl"), "kcl-binary-v1")]
    else:
        folder = option.folder("pytools")
        names: list[str] = []
        with suppress(OSError):
            names = sorted(name for name in os.listdir(folder) if name.startswith(_ROWS) and name.endswith(".sqlite"))
        places = [*(os.path.join(folder, name) for name in names), os.path.join(folder, "kcl-generated-v1")]
    return [place for place in places if os.path.lexists(place)]


def _blobs(layer: str, address: str) -> Iterator[bytes | None]:
    for place in _places(layer):
        if not place.endswith(".sqlite"):
            yield Directory(place).get(address)
            continue
        with _connected(place) as rows:
            for (blob,) in rows.execute("SELECT key_value FROM dict WHERE keyhash=?", (address,)):
                yield bytes(blob) if isinstance(blob, bytes) else b""


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


def _rows(path: str, faults: list[Fault]) -> Iterator[Listed]:
    command = f"SELECT keyhash, length(key_value), substr(key_value, 1, {_HEAD}) FROM dict"
    with _connected(path) as rows:
        for address, size, start in rows.execute(command):
            name = address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)
            try:
                digest_of(name)
                head = _whole_head(rows, address, size, start)
                found = _listed("generator", name, head, size, 0.0)
            except (DamagedEntry, ValueError) as error:
                faults.append(Fault("generator", f"{path}: {name}", str(error)))
                continue
            yield found


def _whole_head(rows: sqlite3.Connection, address: bytes, size: object, start: object) -> bytes:
    if not isinstance(start, bytes) or not isinstance(size, int):
        raise DamagedEntry("the row holds no bytes")
    if size <= _HEAD or header_end(start) <= _HEAD:
        return start
    command = "SELECT substr(key_value, 1, ?) FROM dict WHERE keyhash=?"
    return next((bytes(head) for (head,) in rows.execute(command, (header_end(start), address))), b"")


def _files(layer: str, root: str, faults: list[Fault]) -> Iterator[Listed]:
    for address in Directory(root).scan():
        path = os.path.join(root, address)
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
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        fault = trust.file_fault(status)
        if fault is not None:
            raise DamagedEntry(f"{path} cannot be an entry of ours: {fault}; remove it")
        head = os.read(descriptor, _HEAD)
        if len(head) == _HEAD:
            while len(head) < header_end(head):
                more = os.read(descriptor, header_end(head) - len(head))
                if not more:
                    break
                head += more
        return head, status.st_size, status.st_mtime
    finally:
        os.close(descriptor)


def _listed(layer: str, address: str, head: bytes, size: int, modified: float) -> Listed:
    header = read_header(io.BytesIO(head), size)
    created = header.metadata.get("created")
    if not modified and isinstance(created, (int, float)):
        modified = float(created)
    return Listed(layer, address, header.key, header.metadata, header.sizes, size, modified)
