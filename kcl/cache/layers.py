"""Layers: one level of the line each, with its switches, its chain of stores and what happens when one fails.

No fault of a store passes this module, unless `KCL_STRICT=fault` asks for it: it is counted, said once, and the
look-up is a miss.
"""

from __future__ import annotations

import errno
import re
import sqlite3
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kcl import caches, events, process, settings
from kcl.cache import places
from kcl.cache.stores.memory import Memory
from kcl.cache.verified import entry_at
from kcl.errors import CacheFault, DamagedEntry, UnusableDirectory
from kcl.namedtuple import NamedTuple

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.cache.flight import Flight
    from kcl.cache.key import Key
    from kcl.cache.quarantine import Quarantine
    from kcl.cache.stores.base import Store

T = TypeVar("T")

_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError)
_UNKNOWN = frozenset({"loopy", "opencl"})
_OWNERS = {"loopy": "loopy", "opencl": "pyopencl"}
_MEMORY_LIMIT = 64 << 20
_UNPACKED = 256  # entries


class CacheWarning(UserWarning):
    """Something about the cache that the user should know, said once per cause."""


class Found(NamedTuple):
    """What a layer holds for a key: an entry, or the reason why there is none."""

    entry: Entry | None
    outcome: str
    reason: str
    size: int


class Layer:
    """A level of the line: memory above one store on disk. Thread-safe.

    `keeps_read` says whether memory keeps what was read from disk too, beside what was made here.
    """

    def __init__(
        self, name: str, owners: dict[str, str], disk: Store, chosen: settings.Settings, keeps_read: bool = True
    ) -> None:
        self.name = name
        self.disk: Store | None = disk
        self.place = disk.location
        self.notes: list[str] = []
        self.memory = Memory(_MEMORY_LIMIT)
        self._unpacked: dict[str, tuple[bytes, Entry]] = {}  # what the blobs in memory hold, verified before
        self._keeps_read = keeps_read
        self.strict = chosen.strict
        self.promote = chosen.promote
        self.ahead = chosen.ahead
        self.verify = chosen.verify
        self.verify_results = chosen.verify_results
        self._by_name = f"KCL_NO_CACHE={chosen.no_cache_value}" if name in chosen.no_cache else ""
        self._by_owner = {kind: _why_off(owner) for kind, owner in owners.items()}
        self._off: dict[frozenset[str], str] = {}

    def off(self, front_ends: frozenset[str] = _UNKNOWN) -> str:
        """Return why the layer is off for a kernel of these front ends; empty where it is on.

        A recipe of which it is not known what it will return is off as soon as one of its front ends is.
        """
        found = self._off.get(front_ends)
        if found is None:
            kinds = sorted(front_ends or _UNKNOWN)
            owners = next((self._by_owner[kind] for kind in kinds if self._by_owner.get(kind)), "")
            found = self._off[front_ends] = self._by_name or owners
        return found

    @property
    def state(self) -> str:
        """Say where the layer's files lie, or why it is off, for all kernels or for some."""
        off = {kind: self.off(frozenset({kind})) for kind in _OWNERS}
        if all(off.values()):
            return f"off: {self.off()}"
        some = [f"off for {kind} recipes: {reason}" for kind, reason in off.items() if reason]
        return f"{self.place} ({some[0]})" if some else self.place

    def look_up(self, address: str, key: Key) -> Found:
        """Return the verified entry of `key`, from memory or from disk; a bad one is set aside and reported."""
        blob = self.memory.get(address)
        if blob is None:
            faults: list[Exception] = []
            blob = self._try("read", lambda disk: disk.get(address), faults)
            if blob is None and faults:
                return Found(None, "error", str(faults[0]), 0)
            if blob is None:
                return Found(None, "miss", "not in the cache", 0)
        known = self._unpacked.get(address)
        if known is not None and known[0] is blob and known[1].key == key:
            return Found(known[1], "hit", "", len(blob))
        try:
            entry = entry_at(address, blob, key)
        except Exception as error:
            self.set_aside(address, blob, error)
            return Found(None, "error", f"damaged entry set aside: {error}", 0)
        if self._keeps_read:
            self.memory.put(address, blob)
            if len(self._unpacked) >= _UNPACKED:
                self._unpacked.clear()
            self._unpacked[address] = blob, entry
        return Found(entry, "hit", "", len(blob))

    def read(self, address: str) -> Entry | None:
        """Return the verified entry at an address, None where there is none; raises what the disk raises, DamagedEntry.

        This is for entries that nobody asked for yet: nothing is set aside.
        """
        blob = self.memory.get(address)
        if blob is None and self.disk is not None:
            blob = self.disk.get(address)
        return None if blob is None else entry_at(address, blob)

    def join(self, digest: str, kernel: str, before_waiting: Callable[[], object] = lambda: None) -> Flight | None:
        """Wait for the thread or process that is making the entry of a key, or take the lead: look again then.

        `before_waiting` is called before a wait, maybe several times. None where others would not see the entry, or
        where waiting fails.
        """
        from kcl.cache import flight

        if self.disk is None:
            return None
        try:
            return flight.join(digest, kernel, before_waiting)
        except _FAULTS as error:
            self.fault("wait for other processes", error)
            return None

    def publish(self, address: str, entry: Entry) -> int:
        """Store `entry` in memory and on disk; returns its size in bytes, 0 where it could not be packed."""
        try:
            blob = entry.pack()
        except (TypeError, ValueError) as error:
            self.fault("pack", error)
            return 0
        self.memory.put(address, blob)
        self._try("write", lambda disk: disk.put(address, blob))
        return len(blob)

    def delete(self, address: str) -> None:
        """Remove an entry from memory and from disk."""
        self.memory.delete(address)
        self._try("delete", lambda disk: disk.delete(address))

    def remember(self, address: str, blob: bytes) -> None:
        """Keep entry bytes in memory only."""
        self.memory.put(address, blob)

    def set_aside(self, address: str, blob: bytes, error: Exception) -> None:
        """Move a bad entry into quarantine, so that it never costs a second miss."""
        self.fault("verify", error)
        self.delete(address)
        if self.disk is not None:
            try:
                _quarantine().put(address, blob, f"{self.name}: {error}")
            except _FAULTS as failure:
                events.logger().debug("quarantine: %s", failure)

    def fault(self, action: str, error: Exception) -> None:
        """Say once that a store failed, and go on; raises CacheFault under `KCL_STRICT=fault`."""
        if "fault" in self.strict:
            if isinstance(error, CacheFault):
                raise error
            raise CacheFault(f"{self.name} layer: could not {action}: {error}") from error
        cause = f"{self.name}: {_cause(error)}"
        if isinstance(error, DamagedEntry):
            warn_once(cause, f"kcl set a damaged entry of its {self.name} cache aside and makes it anew: {error}")
        else:
            warn_once(cause, f"kcl goes on without its {self.name} cache here: could not {action}: {error}")

    def _try(self, action: str, use: Callable[[Store], T], faults: list[Exception] | None = None) -> T | None:
        """Use the disk; a fault is said, added to `faults`, and None comes back."""
        disk = self.disk
        if disk is None:
            return None
        try:
            return use(disk)
        except _FAULTS as error:
            if isinstance(error, UnusableDirectory):
                self.notes.append(f"memory only: {error}")
                self.disk = None
            if faults is not None:
                faults.append(error)
            self.fault(action, error)
        return None


def _cause(error: Exception) -> str:
    """Return what two errors of one cause have in common: not the numbers, not the paths, nor who speaks of it."""
    said, number = str(error), getattr(error, "errno", None)
    if number in (errno.EROFS, errno.EACCES, errno.EPERM) or "readonly database" in said:
        return "not allowed"
    if number in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in said:
        return "no space"
    words = getattr(error, "strerror", None) or re.sub(r"\S*[/\d]\S*", "", said)
    return f"{type(error).__name__}: {words}"


class State:
    """The layers that were opened, and the causes that were warned about."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.layers: dict[str, Layer] = {}
        self.warned: set[str] = set()

    def after_fork(self) -> None:
        """Forget who holds the lock: that thread is not here."""
        self.lock = threading.RLock()

    def on_change(self) -> None:
        """Forget every layer, so that the next look-up reads switches and places again."""
        with self.lock:
            self.layers.clear()
            self.warned.clear()


_state = process.own(State)


def generator() -> Layer:
    """Return the generator layer; its switches and its place are read at the first call."""
    return _state().layers.get("generator") or _open("generator")


def binary() -> Layer:
    """Return the binary layer; its switches and its place are read at the first call."""
    return _state().layers.get("binary") or _open("binary")


def unopened(name: str) -> Layer:
    """Return a layer that only shows its switches, as of now, and the directory that its files are in."""
    from kcl.cache.stores.directory import Directory

    if name == "binary":
        return _binary(settings.read())
    return Layer(name, _OWNERS, Directory(places.dictionaries()), settings.read())


def opened() -> dict[str, Layer]:
    """Return the layers that were used so far."""
    return dict(_state().layers)


def reset() -> None:
    """Forget every layer, so that the next look-up reads switches and places again."""
    _state().on_change()


def warn_once(cause: str, message: str, stacklevel: int = 1) -> None:
    """Warn about `cause` once in this process; never raises, not even where warnings are errors.

    `stacklevel` counts from the caller, as that of `warnings.warn` does: 1 is the caller's own line.
    """
    state = _state()
    with state.lock:
        if cause in state.warned:
            return
        state.warned.add(cause)
    events.logger().info("%s", message)
    try:
        warnings.warn(message, CacheWarning, stacklevel=stacklevel + 1)
    except CacheWarning:
        pass


def _why_off(owner: str) -> str:
    state = caches.state(owner)
    return "" if state.on else state.reason


def _open(name: str) -> Layer:
    state = _state()
    with state.lock:
        if name not in state.layers:
            chosen = settings.read()
            for text in chosen.rejected:
                warn_once(text, text)
            state.layers[name] = _generator(chosen) if name == "generator" else _binary(chosen)
        return state.layers[name]


def _generator(chosen: settings.Settings) -> Layer:
    import pytools  # before its submodule: threads that import them the other way round wait for each other
    import pytools.version

    from kcl.cache.stores.directory import Directory
    from kcl.cache.stores.persistentdict import Rows, supported
    from kcl.settings.trust import is_network

    folder = places.dictionaries()
    notes = []
    if not supported(pytools.version.VERSION):
        notes.append(f"directory store: pytools {pytools.version.VERSION_TEXT} is not known to this kcl")
    elif is_network(folder):
        notes.append("directory store: SQLite is not safe on a network file system")
    disk = Directory(places.generated(), notes_use=True) if notes else Rows(folder)
    layer = Layer("generator", _OWNERS, disk, chosen)
    layer.notes += notes
    return layer


def _binary(chosen: settings.Settings) -> Layer:
    from kcl.cache.stores.directory import Directory

    disk = Directory(places.binaries(), notes_use=True)
    # A program that was made lives on by itself; 60 kB of each would only push the rest out of the processor.
    return Layer("binary", dict.fromkeys(_OWNERS, "pyopencl"), disk, chosen, keeps_read=False)


def _quarantine() -> Quarantine:
    from kcl.cache.quarantine import Quarantine

    return Quarantine(places.own(places.QUARANTINE))
