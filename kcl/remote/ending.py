"""The end of a process that looked something up while there was a remote: it notes what it used, and may push it."""

from __future__ import annotations

from contextlib import suppress

from kcl.base import events, settings
from kcl.cache import layers, run_memo
from kcl.remote import project, used

# For so long a push tries again beside others, and `remote_write = "exit"` waits.
_SECONDS = 60.0


def at_exit() -> None:
    """Note what this run used, and push it if the settings say so. Raises nothing."""
    try:
        _push(_left())
    except Exception as error:
        events.logger().info("what this run used is not pushed: %r", error)


def in_worker() -> None:
    """Note what this process used so far. Raises nothing."""
    with suppress(Exception):
        _left()


def _left() -> bool | None:
    """Leave what this run used for the next push; return True if no earlier run did, None for nothing."""
    places = {
        name: list(layer.used) for name, layer in layers.opened().items()
    } | run_memo.places_used()
    is_empty = not settings.read().remote or not any(places.values())
    return None if is_empty else used.leave(project.name(), places)


def _push(is_new: bool | None) -> None:
    """Start a push: after the end of this process, or now.

    A run pushes what no earlier push had, and once in `remote_fresh` all, since the server may have lost it. After a
    push that failed no process tries again for some time.
    """
    chosen, name = settings.read(), project.name()
    if is_new is None or not chosen.remote_write or settings.batch():
        return
    # Most runs push nothing, and need none of these.
    from kcl.remote import child, driver, notes

    pushed, age = notes.read(f"{driver.digest(name)}.pushed") or (None, 0.0)
    if pushed is None or age > notes.rest(pushed) or (is_new and not pushed.fault):
        wait = _SECONDS if chosen.remote_write == "exit" else 0.0
        child.run("push", name, chosen.remote, wait, seconds=_SECONDS)
