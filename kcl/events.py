"""Every look-up leaves one Event; hooks see it, counters add it up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

logger = logging.getLogger("kcl")

OUTCOMES = ("hit", "miss", "bypass", "error")


class Event(NamedTuple):
    """One look-up in one layer.

    `seconds` is what the look-up, or on anything but a hit the work that it could not save, took;
    `bytes` is the size of the entry that was read or published, 0 where there is none.
    """

    layer: str
    kernel: str
    key: str
    outcome: str
    reason: str
    seconds: float
    bytes: int


Hook = Callable[[Event], object]

_lock = threading.Lock()
_hooks: list[Hook] = []
_counters: dict[str, dict[str, float]] = {}
_COLUMNS = {"hit": "hits", "miss": "misses", "bypass": "bypassed", "error": "errors"}


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


def emit(event: Event) -> None:
    """Count `event` and show it to every hook."""
    with _lock:
        row = _counters.setdefault(event.layer, _empty_row())
        row[_COLUMNS[event.outcome]] += 1
        row["seconds"] += event.seconds
        row["bytes"] += event.bytes
        hooks = tuple(_hooks)
    logger.debug("%s %s of %s: %s", event.layer, event.outcome, event.kernel, event.reason)
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            logger.exception("a hook of kcl failed and was skipped")


def stats() -> dict[str, dict[str, float]]:
    """Return the counters of this process: layer -> hits, misses, bypassed, errors, seconds, bytes."""
    with _lock:
        return {layer: dict(_counters.get(layer, _empty_row())) for layer in ("generator", "binary")}


def reset() -> None:
    """Set every counter of this process to zero; hooks stay."""
    with _lock:
        _counters.clear()


def _empty_row() -> dict[str, float]:
    return {"hits": 0, "misses": 0, "bypassed": 0, "errors": 0, "seconds": 0.0, "bytes": 0}
