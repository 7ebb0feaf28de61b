"""What a process does with its remote: at its first miss it fetches the packs of its project.

A child does it (`kcl.remote.child`), so this module imports no client and waits within bounds.
"""

from __future__ import annotations

import os
import time
from typing import Any

from kcl.base import events, process, settings
from kcl.cache import layers
from kcl.cache.faults import warn_once
from kcl.cache.locks import try_lock
from kcl.errors import CacheFault, UnusableDirectory
from kcl.remote import child, outcomes, project, seal, stores, used
from kcl.remote.outcomes import Outcome
from kcl.remote.stores import shown

# Seconds for the start of a child that is waited for in full.
_SLACK = 5.0
_PAUSE = 0.005


class RemoteAnswer(process.LockedState):
    """Whether the remote has answered, once in a process and its forks; None before it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: bool | None = None


_state = process.own(RemoteAnswer)


def before_a_miss(strict: bool) -> bool:
    """Fetch the packs of this project at the first miss of the process; return True if a second look may find more.

    With `strict` a miss is an error: the remote is asked whatever the notes say, and the child is waited for in full.
    Raises nothing, unless `KCL_STRICT=fault`. Thread-safe: other threads wait for the one that asks.
    """
    state = _state()
    # Read before the lock is taken: an answer that comes while this thread waits is new to it.
    had_answer = state.answered
    with state.lock:
        has_more = bool(state.answered) and not had_answer
        if state.answered is None:
            # Its holder may take the lock again. Such a call asks nothing.
            state.answered = False
            try:
                has_more = _pull(strict)
            finally:
                state.answered = True
    return has_more


def by_hand(work: str, name: str, **more: Any) -> Outcome:
    """Pull or push the packs of a project now, and wait for it; raises OSError, and CacheFault without a remote.

    `more` are arguments of `packs.pull` or `packs.push`.
    """
    wait = child.SECONDS[work] + _SLACK
    return child.run(work, name, stores.chosen(), wait, **more) or _no_answer(wait)


def _pull(strict: bool) -> bool:
    """Have the pack pulled, by this process or by one that is at it; return True if entries came."""
    options = settings.read()
    address = options.remote
    try:
        outcome = _outcome(project.name(), address, strict)
        if words := outcomes.refused_push(project.name(), address):
            layers.generator().note(words)
    except (OSError, UnusableDirectory) as error:
        # There is no own cache that could take the pack.
        events.logger().info("the remote is not asked: %s", error)
        return False
    except Exception as error:
        outcome = Outcome(str(error))
    if outcome.fault:
        words = f"kcl: the remote {shown(address)} is left out: {outcome.fault}"
        if "fault" in options.strict:
            raise CacheFault(words)
        warn_once("remote", words)
    return outcome.entries > 0


def _outcome(name: str, address: str, strict: bool) -> Outcome:
    """Return the outcome of a pull now; that of another process, for which it has warned, has no fault."""
    note, started = outcomes.note_name("pull", name, address), time.monotonic()
    seconds = child.SECONDS["pull"] + _SLACK if strict else settings.read().remote_timeout
    lock = used.open_lock(seal.project_digest(name))
    try:
        while True:
            is_mine, left = _try_lock(lock), started + seconds - time.monotonic()
            # Another process may have pulled while this one waited for the lock.
            noted = outcomes.recent(note, strict)
            if noted is not None or (not is_mine and left < 0):
                return (noted or Outcome())._replace(fault="")
            if is_mine:
                break
            time.sleep(_PAUSE)
        outcome = child.run("pull", name, address, left, (lock,))
    finally:
        # The child keeps the lock.
        os.close(lock)
    if outcome is None:
        # The child left no note, so this process does.
        outcome = _no_answer(left)
        outcomes.write(note, outcome)
    return outcome


def _no_answer(seconds: float) -> Outcome:
    return Outcome(f"no answer in {seconds:.1f} s", seconds=seconds)


def _try_lock(lock: int) -> bool:
    try:
        return try_lock(lock)
    except OSError:
        # A file system without locks lets everybody in.
        return True
