"""What a process with a remote does as it ends: it notes what it used, and may push it."""

from __future__ import annotations

from contextlib import suppress

from kcl.base import events, settings
from kcl.cache import layers, run_memo
from kcl.remote import project, used

# For so long `remote_write = "exit"` waits.
_SECONDS = 60.0


def at_exit() -> None:
    """Note what this run used, and push it if the settings say so. Raises nothing."""
    try:
        if _leave():
            _push()
    except Exception as error:
        events.logger().info("what this run used is not pushed: %r", error)


def in_worker() -> None:
    """Note what this process used so far. Raises nothing."""
    with suppress(Exception):
        _leave()


def _leave() -> bool:
    """Note what this run used, for the next push; return False if it used nothing, and without a remote."""
    places = run_memo.places_used()
    if not settings.read().remote or not places:
        return False
    used.leave(project.name(), places)
    return True


def _push() -> None:
    """Start a push: after the end of this process, or now.

    A run pushes at once if it made an entry, and once in `remote_fresh` all, since the server may have lost it. After a
    push that failed no process tries again for some time.
    """
    options, name = settings.read(), project.name()
    if not options.remote_write or settings.batch():
        return
    # Most runs push nothing, and need none of these.
    from kcl.remote import child, outcomes

    pushed = outcomes.recent(outcomes.note_name("push", name, options.remote))
    has_made = any(any(layer.used.values()) for layer in layers.opened().values())
    if pushed is None or (has_made and not pushed.fault):
        wait = _SECONDS if options.remote_write == "exit" else 0.0
        child.run("push", name, options.remote, wait)
