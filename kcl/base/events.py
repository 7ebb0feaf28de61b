"""Events: one for each look-up. Hooks receive it, counters add it up, and a collection keeps it for the journal."""

from __future__ import annotations

import functools
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

    `seconds` is the duration of a hit's look-up; for another outcome it includes the work that no entry spared. `bytes`
    is the size of the entry that was read or published, 0 without one. `saved` is the work that a hit spared, as its
    entry has recorded it, less `seconds`. It is 0 for a slower hit, and if this process asked for the entry before:
    without a cache it would have made the code once.

    >>> seen = []
    >>> remove = kcl.add_hook(seen.append)
    >>> event, outputs = doubled()(queue, x=x)
    >>> [(event.layer, event.kernel, event.outcome, event.reason) for event in seen]
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
# The hits of one entry: their number, the time of the last one, the seconds that they took, the seconds that they saved.
Use = tuple[int, float, float, float]
Hook = Callable[[Event], object]

# A process counts at most this many names of a kind. Further names share the row `OTHERS`.
MOST_NAMES = 10_000
OTHERS = "(others)"
_MOST_MISSES = 1024
_MOST_REMARKS = 64
# The most bytes that the texts of all misses of a process take.
TEXTS = 1 << 20
# The column in which each outcome is counted.
_COLUMNS = {
    "hit": "hits",
    "miss": "misses",
    "default": "defaults",
    "bypass": "bypassed",
    "error": "errors",
}
_EMPTY_ROW = {**dict.fromkeys(_COLUMNS.values(), 0), "seconds": 0.0, "saved": 0.0, "bytes": 0}
# Outcomes with nothing to explain.
_QUIET = ("hit", "default")


class MissNote(NamedTuple):
    """A look-up that was no hit: what `kcl explain` needs to know of it.

    `texts` are parts that explain the miss; they are empty if the miss stored an entry, which has them. `parameters` has
    the texts of the recipe's parameters; None if they are unknown. `record` is the journal's record of the process.
    """

    time: float
    event: Event
    # A `kcl.cache.key.Key`, or None if it is unknown. The type cannot stand here: the cache lies above this module.
    key: Any
    texts: Mapping[str, bytes] = {}
    parameters: Mapping[str, str] | None = None
    record: Mapping[str, Any] = {}


class Collection:
    """What a process will write into its next record of the journal.

    `tallies` has counters by layer and kernel. `uses` has the hits of each entry, by its digest; `consumers` has the
    kernel of the first hit. `noted` are the look-ups to explain, `remarks` the remarks on the run, in order.
    """

    def __init__(
        self,
        tallies: Mapping[tuple[str, str], dict[str, float]] = {},
        uses: Mapping[str, Use] = {},
        consumers: Mapping[str, Consumer] = {},
        noted: Iterable[MissNote] = (),
        remarks: Mapping[str, None] = {},
    ) -> None:
        self.tallies = dict(tallies)
        self.uses = dict(uses)
        self.consumers = dict(consumers)
        self.noted = deque(noted, _MOST_MISSES)
        self.remarks = dict(remarks)

    def tally(self, event: Event) -> dict[str, float]:
        """Return the counters of an event's layer and kernel."""
        place = (event.layer, event.kernel)
        if place not in self.tallies and len(self.tallies) >= MOST_NAMES:
            place = (event.layer, OTHERS)
        return self.tallies.setdefault(place, dict(_EMPTY_ROW))

    def select_texts(self, texts: Mapping[str, bytes], key: Any) -> Mapping[str, bytes]:
        """Return the texts if the key has none yet and there is room for them; else an empty mapping."""
        noted_texts = [text for noted in self.noted for text in noted.texts.values()]
        has_room = sum(map(len, (*noted_texts, *texts.values()))) <= TEXTS
        is_new = not any(noted.texts and noted.key == key for noted in self.noted)
        return texts if has_room and is_new else {}


class EventLog(process.LockedState):
    """The hooks of this process, its counters, and the collection for its journal."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks: list[Hook] = []
        self.counters: dict[str, dict[str, float]] = {}
        self.collection = Collection()
        # The counters at the last `stats(reset=True)`.
        self.at_reset: dict[str, dict[str, float]] = {}
        self.listens = False
        # The digests of entries that this process has used or made: a later hit on them saves nothing.
        self.credited: set[str] = set()
        # How often a question of the program needed loopy, by the question and its place.
        self.questions: dict[str, float] = {}

    def after_fork(self) -> None:
        """Start an empty collection, since the parent writes its own; the counters go on."""
        self.credited.clear()
        self.collection = Collection()

    def total(self) -> dict[str, dict[str, float]]:
        """Return a copy of the counters; the caller holds the lock."""
        counters = {layer: dict(self.counters.get(layer, _EMPTY_ROW)) for layer in settings.LAYERS}
        return {**counters, "made": dict(self.questions)}

    def credit_once(self, event: Event, digests: tuple[str, ...]) -> Event:
        """Return the event, with `saved` set to 0 if its entries were asked for before; the caller holds the lock."""
        if not self.credited.isdisjoint(digests):
            event = event._replace(saved=0.0)
        elif len(self.credited) < MOST_NAMES:
            self.credited.update(digests)
        return event


_state = process.own(EventLog)


@functools.cache
def logger() -> logging.Logger:
    """Return the logger `kcl`. The first call imports `logging`, which `kcl ls` does without."""
    import logging

    return logging.getLogger("kcl")


def listen() -> None:
    """Arrange for the report at exit if `KCL_REPORT` asks for one."""
    state = _state()
    if not state.listens:
        state.listens = True
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
    lead: Any = None,
) -> Event:
    """Count `event`, pass it to every hook and return it; an entry counts as saved once in a process.

    `key` and `lead` are those of the look-up; the lead gives the parameters of the recipe. `entries` are the digests of
    a hit. `texts` explain a miss that stores nothing (see `MissNote`): they are collected once per key, while there is
    room.
    """
    now, state = time.time(), _state()
    parameters = None if event.outcome in _QUIET or lead is None else lead.texts()
    entries = tuple(entries)
    with state.lock:
        event = state.credit_once(event, entries or ((key.digest,) if key is not None else ()))
        is_first = not state.collection.tallies
        totals = state.counters.setdefault(event.layer, dict(_EMPTY_ROW))
        for row in (totals, state.collection.tally(event)):
            _add(row, event)
        for digest in entries:
            # Read anew for each entry: a signal handler may take the collection and leave a new one.
            collection = state.collection
            if digest in collection.uses or len(collection.uses) < MOST_NAMES:
                count, _last, seconds, saved = collection.uses.get(digest, (0, 0.0, 0.0, 0.0))
                if not count and lead is not None:
                    collection.consumers[digest] = event.kernel, tuple(lead.parameters)
                use = (count + 1, now, seconds + event.seconds, saved + event.saved)
                collection.uses[digest] = use
        if event.outcome not in _QUIET:
            collection = state.collection
            texts = collection.select_texts(texts, key) if texts else texts
            collection.noted.append(MissNote(now, event, key, texts, parameters))
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


def count_question(question: str, place: str) -> None:
    """Count a question that only loopy could answer; `place` is the line of the program that asked it."""
    name = f"{question} ({place})"
    state = _state()
    with state.lock:
        if name in state.questions or len(state.questions) < MOST_NAMES:
            state.questions[name] = state.questions.get(name, 0) + 1


def remark(words: str) -> None:
    """Keep a remark for this run's record in the journal: each remark once, and at most `_MOST_REMARKS`."""
    remarks = _state().collection.remarks
    if len(remarks) < _MOST_REMARKS:
        remarks[words] = None


def remarks() -> list[str]:
    """Return the remarks that `remark` has kept for this run."""
    return [*_state().collection.remarks]


def stats(reset: bool = False) -> dict[str, dict[str, float]]:
    """Return the counters of this process: layer -> hits, misses, defaults, bypassed, errors, seconds, saved, bytes.

    "made" has the questions for which loopy had to be imported, each with the line of the program that asked, and their
    number. With `reset` the next call counts from now on; the report and `kcl stats` still count everything. So you see
    what a part of a program does:

    >>> before = kcl.stats(reset=True)
    >>> event, outputs = doubled()(queue, x=x)
    >>> kcl.stats()["generator"]["misses"]
    1

    Counts the look-ups of all threads. Thread-safe.
    """
    state = _state()
    with state.lock:
        now = state.total()
        rows = {}
        for name, row in now.items():
            before = state.at_reset.get(name, {})
            rows[name] = {column: count - before.get(column, 0) for column, count in row.items()}
        rows["made"] = {question: count for question, count in rows["made"].items() if count}
        if reset:
            state.at_reset = now
        return rows


def has_looked_up() -> bool:
    """Return True if this process had a look-up."""
    return bool(_state().counters)


def total() -> dict[str, dict[str, float]]:
    """Return the counters since the start of this process; the rows are those of `stats`."""
    state = _state()
    with state.lock:
        return state.total()


def collected() -> Collection:
    """Return a copy of the collection so far."""
    state = _state()
    with state.lock:
        return Collection(**vars(state.collection))


def forget() -> None:
    """Begin a new collection."""
    state = _state()
    with state.lock:
        state.collection = Collection()


def count(events: Iterable[Event]) -> dict[str, dict[str, float]]:
    """Count events by layer; the columns are those of `stats`."""
    rows = {layer: dict(_EMPTY_ROW) for layer in settings.LAYERS}
    for event in events:
        _add(rows[event.layer], event)
    return rows


def _add(row: dict[str, float], event: Event) -> None:
    row[_COLUMNS[event.outcome]] += 1
    row["seconds"] += event.seconds
    row["saved"] += event.saved
    row["bytes"] += event.bytes
