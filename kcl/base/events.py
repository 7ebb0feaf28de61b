"""Every look-up leaves one Event: hooks see it, counters add it up, and this module collects the journal's share."""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import port, process, settings

if TYPE_CHECKING:
    import logging


class Event(NamedTuple):
    """One look-up in one layer.

    Made by the look-up; ends in hooks, counters and the journal.

    `seconds` is what the look-up, or on anything but a hit the work that it could not save, took;
    `bytes` is the size of the entry that was read or published, 0 if there is none. `saved` is by how many seconds
    a hit was faster than what it spared, as the entry has recorded that; 0 if it was slower, and from the second time
    on that this process asks for the entry: it would have made the code once.

    >>> seen = []
    >>> remove = kcl.add_hook(seen.append)
    >>> event, outputs = doubled()(queue, x=x)
    >>> [(one.layer, one.kernel, one.outcome, one.reason) for one in seen]
    [('generator', 'doubled', 'miss', 'not in the cache'), ('binary', 'doubled', 'miss', 'not in the cache')]
    """

    layer: str
    kernel: str
    key: str
    outcome: str
    reason: str
    seconds: float
    bytes: int
    saved: float = 0.0


# The kernel that hit an entry, and the names of its parameters: another program may have stored the entry.
Consumer = tuple[str, tuple[str, ...]]


class MissNote(NamedTuple):
    """A look-up that was no hit, its time, and its key, where the key is known.

    `texts` are the parts of an entry that explain a miss; a miss that stored an entry has them there. `parameters` are
    the texts of the recipe's parameters, None if they are unknown. `record` is that of the process, from the journal.
    """

    time: float
    event: Event
    # A `kcl.cache.key.Key` or None; the cache lies above this module.
    key: Any
    texts: Mapping[str, bytes] = {}
    parameters: Mapping[str, str] | None = None
    record: Mapping[str, Any] = {}


class Collection(NamedTuple):
    """The events of a process, collected for its end.

    `tallies` has the counters by layer and kernel. `uses` has for an entry, by its digest, the number of its hits, the
    time of the last hit, and the seconds that the hits took and saved. `asked` has, by digest, the consumer of the
    first hit.
    """

    tallies: dict[tuple[str, str], dict[str, float]]
    uses: dict[str, Use]
    noted: tuple[MissNote, ...]
    asked: dict[str, Consumer]


Use = tuple[int, float, float, float]
Hook = Callable[[Event], object]

_PLACES = 10_000
_REMARKS = 64
# The most bytes that the texts of all misses of a process take.
TEXTS = 1 << 20
# Stands for the names beyond the bound.
OTHERS = "(others)"
_COLUMNS = {
    "hit": "hits",
    "miss": "misses",
    "default": "defaults",
    "bypass": "bypassed",
    "error": "errors",
}
# Outcomes with nothing to explain.
_QUIET = ("hit", "default")


class EventLog:
    """The hooks of a cache, its counters, and the notes for its journal."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.hooks: list[Hook] = []
        self.counters: dict[str, dict[str, float]] = {}
        self.tallies: dict[tuple[str, str], dict[str, float]] = {}
        self.uses: dict[str, Use] = {}
        self.asked: dict[str, Consumer] = {}
        self.noted: deque[MissNote] = deque(maxlen=1024)
        # The counters at the last reset.
        self.before: dict[str, dict[str, float]] = {}
        self.is_heard = False
        # The digests of entries that count as saved, or were made.
        self.spared: set[str] = set()
        # The count of each question, with its place, that needed loopy.
        self.made: dict[str, float] = {}
        self.remarks: dict[str, None] = {}

    def after_fork(self) -> None:
        """Leave the collection to the parent; the lock is new, as a thread of the parent may hold the old one."""
        self.lock = threading.RLock()
        self.spared.clear()
        self.forget()

    def total(self) -> dict[str, dict[str, float]]:
        """Return a copy of the counters; the caller holds the lock."""
        counted = {layer: dict(self.counters.get(layer, _empty_row())) for layer in settings.LAYERS}
        return {**counted, "made": dict(self.made)}

    def tally(self, event: Event) -> dict[str, float]:
        """Return the counters of an event's layer and kernel; the caller holds the lock."""
        place = (event.layer, event.kernel)
        if place not in self.tallies and len(self.tallies) >= _PLACES:
            place = (event.layer, OTHERS)
        return self.tallies.setdefault(place, _empty_row())

    def once(self, event: Event, digests: tuple[str, ...]) -> Event:
        """Return an event that saved nothing if its entries were asked for before; the caller holds the lock."""
        if not self.spared.isdisjoint(digests):
            event = event._replace(saved=0.0)
        elif len(self.spared) < _PLACES:
            self.spared.update(digests)
        return event

    def within(self, texts: Mapping[str, bytes], key: Any) -> Mapping[str, bytes]:
        """Return the texts of a key that has none yet, if there is room for them."""
        noted_texts = [text for noted in self.noted for text in noted.texts.values()]
        has_room = sum(map(len, (*noted_texts, *texts.values()))) <= TEXTS
        return (
            {}
            if not has_room or any(noted.texts and noted.key == key for noted in self.noted)
            else texts
        )

    def forget(self) -> None:
        """Begin a new collection; the caller holds the lock."""
        self.tallies, self.uses, self.asked, self.remarks = {}, {}, {}, {}
        self.noted.clear()


_state = process.own(EventLog)


@functools.cache
def logger() -> logging.Logger:
    """Return the logger `kcl`; the first call imports logging, which a listing does not need."""
    import logging

    return logging.getLogger("kcl")


def listen() -> None:
    """Have a report printed at exit if `KCL_REPORT` asks for one; other tools listen from the first event on."""
    state = _state()
    if not state.is_heard:
        state.is_heard = True
        options = settings.read()
        if options.report or options.report_file:
            port("report").ending()


def add_hook(hook: Hook) -> Callable[[], None]:
    """Call `hook` with every Event from now on, in the thread of the look-up; returns the function that removes it.

    An exception that a hook raises is logged and goes no further.

    >>> remove = kcl.add_hook(lambda event: print(event.layer, event.outcome))
    >>> event, outputs = doubled()(queue, x=x)
    generator miss
    binary miss
    >>> remove()
    """
    state = _state()
    with state.lock:
        state.hooks.append(hook)

    def remove() -> None:
        with state.lock:
            if hook in state.hooks:
                state.hooks.remove(hook)

    return remove


def emit(
    event: Event,
    key: Any = None,
    entries: Iterable[str] = (),
    texts: Mapping[str, bytes] = {},
    asking: Any = None,
) -> Event:
    """Count `event`, show it to every hook and return it; an entry counts as saved once in a process.

    `key` is that of the look-up, `entries` are the digests of a hit. `texts` explain a miss that stores nothing (see
    `MissNote`). They are collected once per key, while there is room. `asking` is the `Lead` of the look-up, for its
    parameters.
    """
    now, state = time.time(), _state()
    parameters = None if event.outcome in _QUIET or asking is None else asking.texts()
    entries = tuple(entries)
    with state.lock:
        event = state.once(event, entries or ((key.digest,) if key is not None else ()))
        is_first = not state.tallies
        for row in (state.counters.setdefault(event.layer, _empty_row()), state.tally(event)):
            _count(row, event)
        for digest in entries:
            # A signal handler may take the collection, and leaves new dictionaries here.
            uses = state.uses
            if digest in uses or len(uses) < _PLACES:
                count, _last, seconds, saved = uses.get(digest, (0, 0.0, 0.0, 0.0))
                if not count and asking is not None:
                    state.asked[digest] = event.kernel, tuple(asking.parameters)
                uses[digest] = count + 1, now, seconds + event.seconds, saved + event.saved
        if event.outcome not in _QUIET:
            state.noted.append(
                MissNote(now, event, key, state.within(texts, key) if texts else texts, parameters)
            )
    if is_first:
        try:
            port("report").keep_journal()
        except ImportError:
            # An application has left the tools out.
            logger().exception("this process keeps no statistics")
    logger().debug("%s %s of %s: %s", event.layer, event.outcome, event.kernel, event.reason)
    # A copy, and without the lock: a hook may remove itself, and may take its time.
    for hook in tuple(state.hooks):
        try:
            hook(event)
        except Exception:
            logger().exception("a hook of kcl failed and was skipped")
    return event


def made(question: str, place: str) -> None:
    """Count a question at a place of the program that only loopy could answer."""
    name = f"{question} ({place})"
    state = _state()
    with state.lock:
        if name in state.made or len(state.made) < _PLACES:
            state.made[name] = state.made.get(name, 0) + 1


def remark(words: str) -> None:
    """Keep what else there is to say of this run, for its record: each remark once, and a bounded number of them."""
    kept = _state().remarks
    if len(kept) < _REMARKS:
        kept[words] = None


def remarks() -> list[str]:
    """Return the remarks of this run."""
    return [*_state().remarks]


def stats(reset: bool = False) -> dict[str, dict[str, float]]:
    """Return the counters of this process: layer -> hits, misses, defaults, bypassed, errors, seconds, saved, bytes.

    Under "made" stand the questions that had loopy imported, each with the line that asked and how often it did. With
    `reset` the next call counts from now on; the report and `kcl stats` lose nothing. So you see what a part of a
    program does:

    >>> before = kcl.stats(reset=True)
    >>> event, outputs = doubled()(queue, x=x)
    >>> kcl.stats()["generator"]["misses"]
    1

    Counts the look-ups of all threads. Thread-safe.
    """
    state = _state()
    with state.lock:
        now = state.total()
        pairs = [(name, row, state.before.get(name, {})) for name, row in now.items()]
        rows = {
            name: {key: row[key] - before.get(key, 0) for key in row} for name, row, before in pairs
        }
        rows["made"] = {question: count for question, count in rows["made"].items() if count}
        if reset:
            state.before = now
        return rows


def asked() -> bool:
    """Return True if this process had a look-up."""
    return bool(_state().counters)


def total() -> dict[str, dict[str, float]]:
    """Return the counters since the start of this process, with the rows of `stats`."""
    state = _state()
    with state.lock:
        return state.total()


def collected() -> Collection:
    """Return a copy of the collection so far."""
    state = _state()
    with state.lock:
        return Collection(
            dict(state.tallies), dict(state.uses), tuple(state.noted), dict(state.asked)
        )


def forget() -> None:
    """Begin a new collection."""
    state = _state()
    with state.lock:
        state.forget()


def counted(events: Iterable[Event]) -> dict[str, dict[str, float]]:
    """Return the counters of some events by layer, with the columns of `stats`."""
    rows = {layer: _empty_row() for layer in settings.LAYERS}
    for event in events:
        _count(rows[event.layer], event)
    return rows


def _count(row: dict[str, float], event: Event) -> None:
    row[_COLUMNS[event.outcome]] += 1
    row["seconds"] += event.seconds
    row["saved"] += event.saved
    row["bytes"] += event.bytes


def _empty_row() -> dict[str, float]:
    return {
        "hits": 0,
        "misses": 0,
        "defaults": 0,
        "bypassed": 0,
        "errors": 0,
        "seconds": 0.0,
        "saved": 0.0,
        "bytes": 0,
    }
