"""Every look-up leaves one Event; hooks see it, counters add it up, and what the journal keeps is collected."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcl.namedtuple import NamedTuple

if TYPE_CHECKING:
    import logging


OUTCOMES = ("hit", "miss", "bypass", "error")


class Event(NamedTuple):
    """One look-up in one layer.

    `seconds` is what the look-up, or on anything but a hit the work that it could not save, took;
    `bytes` is the size of the entry that was read or published, 0 where there is none. `saved` is by how many seconds
    a hit was faster than what it spared, as the entry has recorded that.
    """

    layer: str
    kernel: str
    key: str
    outcome: str
    reason: str
    seconds: float
    bytes: int
    saved: float = 0.0


class Noted(NamedTuple):
    """A look-up that was no hit, when it was, and the key that was looked for, where that is known.

    `texts` are the parts of an entry that explain a miss; a miss that stored an entry has them there.
    """

    time: float
    event: Event
    key: Any  # kcl.cache.key.Key, or None
    texts: Mapping[str, bytes] = {}


class Collected(NamedTuple):
    """What a process has to say when it ends.

    `tallies` has the counters by layer and kernel, `uses` the number and time of the hits of an entry by its digest.
    """

    tallies: dict[tuple[str, str], dict[str, float]]
    uses: dict[str, tuple[int, float]]
    noted: tuple[Noted, ...]


Hook = Callable[[Event], object]

_lock = threading.RLock()
_hooks: list[Hook] = []
_counters: dict[str, dict[str, float]] = {}
_tallies: dict[tuple[str, str], dict[str, float]] = {}
_uses: dict[str, tuple[int, float]] = {}
_noted: deque[Noted] = deque(maxlen=1024)
_made: dict[str, float] = {}  # question and place of what could not wait -> how often
_begin: Callable[[], object] | None = None
_PLACES = 10_000
_NO_TEXTS: Mapping[str, bytes] = MappingProxyType({})
TEXTS = 1 << 20  # bytes, of the texts of all misses of a process
OTHERS = "(others)"  # what stands for the names beyond the bound
_COLUMNS = {"hit": "hits", "miss": "misses", "bypass": "bypassed", "error": "errors"}


@functools.cache
def logger() -> logging.Logger:
    """Return the logger `kcl`; the first who has something to say imports logging, which a listing need not."""
    import logging

    return logging.getLogger("kcl")


def add_hook(hook: Hook) -> Callable[[], None]:
    """Call `hook` with every Event from now on, in the thread of the look-up; returns the function that removes it.

    An exception that a hook raises is logged and goes no further.
    """
    with _lock:
        _hooks.append(hook)

    def remove() -> None:
        with _lock:
            if hook in _hooks:
                _hooks.remove(hook)

    return remove


def emit(event: Event, key: Any = None, entries: Iterable[str] = (), texts: Mapping[str, bytes] = _NO_TEXTS) -> None:
    """Count `event` and show it to every hook; `key` was looked for, a hit found `entries`, named by their digests.

    `texts` explain a miss that stores nothing (see `Noted`); they are collected once a key, while there is room.
    """
    now = time.time()
    with _lock:
        begin = None if _tallies else _begin
        for row in (_counters.setdefault(event.layer, _empty_row()), _tally(event)):
            row[_COLUMNS[event.outcome]] += 1
            row["seconds"] += event.seconds
            row["saved"] += event.saved
            row["bytes"] += event.bytes
        for digest in entries:
            if digest in _uses or len(_uses) < _PLACES:
                _uses[digest] = _uses.get(digest, (0, 0.0))[0] + 1, now
        if event.outcome != "hit":
            _noted.append(Noted(now, event, key, _within(texts, key) if texts else texts))
        hooks = tuple(_hooks)
    if begin is not None:
        begin()
    logger().debug("%s %s of %s: %s", event.layer, event.outcome, event.kernel, event.reason)
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            logger().exception("a hook of kcl failed and was skipped")


def made(question: str, place: str) -> None:
    """Count a question that only loopy could answer, asked at a place of the program."""
    name = f"{question} ({place})"
    with _lock:
        if name in _made or len(_made) < _PLACES:
            _made[name] = _made.get(name, 0) + 1


def stats() -> dict[str, dict[str, float]]:
    """Return the counters of this process: layer -> hits, misses, bypassed, errors, seconds, saved, bytes.

    Under "made" stand the questions that had loopy imported, each with the line that asked and how often it did.
    """
    with _lock:
        counted = {layer: dict(_counters.get(layer, _empty_row())) for layer in ("generator", "binary")}
        return {**counted, "made": dict(_made)}


def reset() -> None:
    """Set every counter of this process to zero; hooks stay."""
    with _lock:
        _counters.clear()
        _made.clear()
    taken()


def collected() -> Collected:
    """Return what was collected since the start of this process, or since it was taken."""
    with _lock:
        return _collected()


def taken() -> Collected:
    """Hand over what was collected, and begin anew."""
    with _lock:
        found = _collected()
        _tallies.clear()
        _uses.clear()
        _noted.clear()
    return found


def on_first(begin: Callable[[], object]) -> None:
    """Call `begin` with the first event of this process, of a forked child, and after each `taken`."""
    global _begin
    _begin = begin


def _collected() -> Collected:
    return Collected({place: dict(row) for place, row in _tallies.items()}, dict(_uses), tuple(_noted))


def _within(texts: Mapping[str, bytes], key: Any) -> Mapping[str, bytes]:
    """Return the texts of a key that has none yet, in their order as long as there is room for them."""
    if any(noted.texts and noted.key == key for noted in _noted):
        return _NO_TEXTS
    room = TEXTS - sum(len(text) for noted in _noted for text in noted.texts.values())
    kept = {}
    for name, text in texts.items():
        if len(text) <= room:
            kept[name] = text
            room -= len(text)
    return kept


def _tally(event: Event) -> dict[str, float]:
    place = (event.layer, event.kernel)
    if place not in _tallies and len(_tallies) >= _PLACES:
        place = (event.layer, OTHERS)
    return _tallies.setdefault(place, _empty_row())


def _empty_row() -> dict[str, float]:
    return {"hits": 0, "misses": 0, "bypassed": 0, "errors": 0, "seconds": 0.0, "saved": 0.0, "bytes": 0}


def _after_fork() -> None:
    """What the parent has collected is the parent's to tell; and a thread that is not here may hold the lock."""
    global _lock
    _lock = threading.RLock()
    taken()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
