"""A layer: one level of the way from a recipe to a program, with its switches and its stores.

A fault of a store does not reach the user: it is reported once, and the look-up is a miss. Under `KCL_STRICT=fault` it
raises.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcl import foreign
from kcl.base import port, settings
from kcl.cache import places
from kcl.cache.entry import entry_at
from kcl.errors import CacheFault, DamagedEntry, UnusableDirectory

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.cache.key import Key
    from kcl.cache.stores import Store

T = TypeVar("T")

_disabled: ContextVar[frozenset[str]] = ContextVar("kcl.disabled", default=frozenset())

_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError)
_NOTES = 20  # of one layer in the report
_KEPT = 2000  # entries of one layer in memory


class Answer(NamedTuple):
    """The answer of a layer for a key: a verified entry with the number of its bytes, or why the layer has none.

    Made by a layer; ends in the search of a stage.
    """

    entry: Entry | None
    outcome: str
    reason: str
    size: int


class Memory(dict[str, Answer]):
    """The newest answers of a layer by address. Their entries are verified already. Thread-safe."""

    def put(self, address: str, answer: Answer) -> None:
        """Keep an answer; drop the oldest ones if there are more than `_KEPT`."""
        self[address] = answer
        # A dictionary keeps the order of insertion. `pop` has a default, since another thread may drop the same one.
        for oldest in list(self)[:-_KEPT] if len(self) > _KEPT else ():
            self.pop(oldest, None)


class Layer:
    """A layer: its stores in order, and a memory above them. Thread-safe.

    An entry is read from the first store that has it, and written to the first writable one. Entries of a read-only store,
    such as a site directory, are neither copied nor removed. Memory keeps the entries made in this process; with
    `keeps_read` it also keeps those read from a store. `owners` maps a front end to the foreign cache whose switches apply
    to its kernels too.
    """

    def __init__(
        self,
        name: str,
        owners: dict[str, str],
        stores: list[Store],
        options: settings.Settings,
        keeps_read: bool = True,
        place: str = "",
    ) -> None:
        self.name = name
        self.stores = stores
        self.place = place or stores[0].location
        # The settings when the layer was opened.
        self.options = options
        # Remarks on the layer, for the report.
        self.notes: list[str] = []
        self.memory = Memory()
        # The addresses that this process looked up, for a bundle of its entries; True if it published the entry. Also the
        # missing ones, since a helper may make the entry later.
        self.used: dict[str, bool] = {}
        self._keeps_read = keeps_read
        is_named = name in options.no_cache
        self._by_name = f"KCL_NO_CACHE={options.no_cache_value}" if is_named else ""
        self._owners = owners
        self._by_owner = {kind: foreign.off_by_variable(owner) for kind, owner in owners.items()}

    def off(self, front_ends: frozenset[str] = frozenset()) -> str:
        """Return why the layer is off for a kernel; empty if it is on.

        `front_ends` are those that the kernel may belong to; none stands for all. The layer is off for the kernel if it
        is off for one of them.
        """
        kinds = [kind for kind in sorted(front_ends or self._owners) if kind in self._owners]
        owners = [self._by_owner[kind] or foreign.off_by_call(self._owners[kind]) for kind in kinds]
        here = "kcl.disabled()" if self.name in _disabled.get() else ""
        return next(filter(None, [self._by_name, here, *owners]), "")

    def is_off_for_all(self, front_ends: frozenset[str]) -> bool:
        """Return True if the layer is off for each of these front ends; none stands for all."""
        return all(self.off(frozenset({kind})) for kind in front_ends or self._owners)

    @property
    def state(self) -> str:
        """The place of the layer's files, or the reason why the layer is off, for all kernels or for some."""
        reasons = {kind: self.off(frozenset({kind})) for kind in sorted(self._owners)}
        if all(reasons.values()):
            return f"off: {self.off()}"
        place = self.place if self.stores else "memory only"
        off = [f" (off for {kind} recipes: {reason})" for kind, reason in reasons.items() if reason]
        return "".join([place, *off[:1]])

    def note(self, note: str) -> None:
        """Keep a remark on the layer for the report: each once, and at most `_NOTES`."""
        if note not in self.notes and len(self.notes) < _NOTES:
            self.notes.append(note)

    def look_up(self, address: str, key: Key) -> Answer:
        """Return the verified entry of `key` from memory or a store; a damaged one goes to quarantine, with a warning."""
        self.used.setdefault(address, False)
        if self.options.remote:
            from kcl.cache import remote_use

            remote_use.begin()
        remembered = self.memory.get(address)
        if remembered is not None and remembered.entry is not None and remembered.entry.key == key:
            return remembered
        faults: list[Exception] = []
        answer = self._use(
            "read",
            self.stores,
            lambda store: self._read_verified(store, address, key, faults),
            faults,
        )
        if answer is not None:
            if self._keeps_read:
                self.memory.put(address, answer)
            return answer
        if faults:
            return Answer(None, "error", str(faults[0]), 0)
        has_site = any(not store.writable for store in self.stores)
        nor = ", nor in a site directory" if has_site else ""
        return Answer(None, "miss", f"not in the cache{nor}", 0)

    def _read_verified(
        self, store: Store, address: str, key: Key, faults: list[Exception]
    ) -> Answer | None:
        """Return the verified entry of a store. A damaged one is moved to quarantine, except from a read-only store."""
        blob = None
        try:
            blob = store.get(address)
            return (
                None if blob is None else Answer(entry_at(address, blob, key), "hit", "", len(blob))
            )
        except UnusableDirectory as error:
            if store.writable:
                raise
            from kcl.cache.faults import site_words

            words = site_words(str(error))
            raise UnusableDirectory(f"a site directory is not used: {words}") from error
        except DamagedEntry as error:
            if not store.writable:
                named = f"{store.location}/{address} is left out: {error}"
                raise CacheFault(f"{named}; tell the owner of the site") from error
            if blob is None:
                raise
            self.set_aside(address, blob, error)
            faults.append(CacheFault(f"damaged entry set aside: {error}"))
            return None

    def read(self, address: str) -> Entry | None:
        """Return the verified entry at an address, or None; raises DamagedEntry, and the errors of the stores.

        For use before an entry's first look-up: a damaged entry stays where it is.
        """
        self.used.setdefault(address, False)
        remembered = self.memory.get(address)
        if remembered is not None:
            return remembered.entry
        blob = next(
            (stored for store in self.stores if (stored := store.get(address)) is not None), None
        )
        return None if blob is None else entry_at(address, blob)

    def moment(self) -> tuple[int, ...]:
        """Return a value that changes when any process changes the file of the first store; empty without one."""
        with suppress(OSError, IndexError):
            status = os.stat(self.stores[0].location)
            return status.st_ino, status.st_mtime_ns
        return ()

    def pull_before_miss(self) -> bool:
        """Pull from the remote, if one is set. Return True if the look-up should be repeated."""
        if not self.options.remote or self.off():
            return False
        return bool(port("remote").before_a_miss("hit" in self.options.strict))

    def publish(self, address: str, entry: Entry, faults: list[Exception] | None = None) -> int:
        """Store `entry` in memory and in the first writable store; return its bytes, 0 if it could not be packed.

        A fault of the store is reported, and added to `faults`.
        """
        try:
            blob = entry.pack()
            # Decoded again, so that memory has the entry as a store would return it.
            answer = Answer(entry_at(address, blob), "hit", "", len(blob))
        except (TypeError, DamagedEntry, ImportError, *_FAULTS) as error:
            self.fault("pack", error)
            return 0
        self.used[address] = True
        self.memory.put(address, answer)
        self._use("write", self._writable()[:1], lambda store: store.put(address, blob), faults)
        return len(blob)

    def delete(self, address: str) -> None:
        """Remove an entry from memory and from the writable stores."""
        self.memory.pop(address, None)
        self._use("delete", self._writable(), lambda store: store.delete(address))

    def set_aside(self, address: str, blob: bytes, error: Exception) -> None:
        """Move an unusable entry into quarantine, so that it does not cost another miss."""
        from kcl.cache import faults

        self.fault("verify", error)
        self.delete(address)
        if self.stores:
            faults.quarantine(places.own(places.QUARANTINE), address, blob)

    def fault(self, action: str, error: Exception) -> None:
        """Report a fault of a store once, and go on; raises CacheFault under `KCL_STRICT=fault`.

        What a handler of a signal has raised meanwhile, such as the program's time-out, is no fault, and raised again.
        """
        from kcl.cache import faults

        if faults.is_of_a_handler(error):
            raise error
        if "fault" in self.options.strict:
            if isinstance(error, CacheFault):
                raise error
            raise CacheFault(f"{self.name} layer: could not {action}: {error}") from error
        faults.report(self.name, self.place, action, error)

    @contextmanager
    def reporting(self, action: str) -> Iterator[None]:
        """Report an error in the block as a fault of the layer, and go on."""
        try:
            yield
        except (*_FAULTS, ImportError) as error:
            self.fault(action, error)

    def _writable(self) -> list[Store]:
        return [store for store in self.stores if store.writable]

    def _use(
        self,
        action: str,
        stores: list[Store],
        use: Callable[[Store], T | None],
        faults: list[Exception] | None = None,
    ) -> T | None:
        """Call `use` for each store in order until one returns a result that is not None; return that result.

        A fault is reported, and added to `faults`.
        """
        # A copy, since an unusable store is removed from the layer's list below.
        for store in list(stores):
            try:
                result = use(store)
            except (*_FAULTS, ImportError) as error:
                if isinstance(error, UnusableDirectory):
                    self.notes.append(f"memory only: {error}" if store.writable else str(error))
                    self.stores.remove(store)
                # A fault of a read-only store counts as a miss.
                if faults is not None and store.writable:
                    faults.append(error)
                self.fault(action, error)
            else:
                if result is not None:
                    return result
        return None


@contextmanager
def disabled(*layers: str) -> Iterator[None]:
    """Switch layers of kcl off in a block: "generator", "binary" or "tuning", or all if none is named.

    Nothing is looked up or stored there. The block applies to its thread, and to asyncio tasks that begin in it. A kernel
    that was launched before keeps its program. Raises ValueError for another name.

    >>> with kcl.disabled("binary"):
    ...     event, outputs = doubled()(queue, x=x)
    >>> kcl.stats()["binary"]["bypassed"]
    1
    """
    unknown = set(layers) - set(settings.LAYERS)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is no layer: {', '.join(settings.LAYERS)}")
    before = _disabled.set(_disabled.get() | frozenset(layers or settings.LAYERS))
    try:
        yield
    finally:
        _disabled.reset(before)
