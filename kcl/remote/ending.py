"""Runs at the end of a process that has a remote: records the entries that it used, and may push them."""

from __future__ import annotations

from contextlib import suppress

from kcl.base import events, settings
from kcl.cache import layers, run_memo
from kcl.remote import project, used

# With `remote_write = "exit"` the end of the process waits up to this long for the push.
_SECONDS = 60.0


def at_exit() -> None:
    """Record the entries that this run used, and push them if the settings say so. Raises nothing."""
    try:
        if _leave():
            _push()
    except Exception as error:
        events.logger().info("what this run used is not pushed: %r", error)


def in_worker() -> None:
    """Record the entries that this process has used so far. Raises nothing."""
    with suppress(Exception):
        _leave()


def _leave() -> bool:
    """Record the used entries for the next push; return False if there are none, or there is no remote."""
    places = run_memo.places_used()
    if not settings.read().remote or not places:
        return False
    used.leave(project.name(), places)
    return True


def _push() -> None:
    """Start a push in a child, which may outlive this process.

    A run that made an entry pushes at once. Other runs push once in `remote_fresh` seconds, since the server may have lost
    the pack. After a failed push no process tries again for some time.
    """
    options, name = settings.read(), project.name()
    if not options.remote_write or settings.batch():
        return
    # Imported late: most runs push nothing.
    from kcl.remote import child, outcomes

    pushed = outcomes.recent(outcomes.note_name("push", name, options.remote))
    has_made = any(any(layer.used.values()) for layer in layers.opened().values())
    if pushed is None or (has_made and not pushed.fault):
        wait = _SECONDS if options.remote_write == "exit" else 0.0
        child.run("push", name, options.remote, wait)
