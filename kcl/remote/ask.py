"""Fetches the packs of the project at the first miss of a process.

A child process does the work (`kcl.remote.child`), so this module imports no client library and waits a bounded time.
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

# Seconds that are added for the start of a child if its whole work is waited for.
_SLACK = 5.0
_PAUSE = 0.005


class RemoteAnswer(process.LockedState):
    """Whether the remote has answered: None before it is asked, False meanwhile. Forked children share the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: bool | None = None


_state = process.own(RemoteAnswer)


def before_a_miss(strict: bool) -> bool:
    """Fetch the packs of this project at the first miss of the process; return True if it pays to look again.

    `strict` says that a miss will be an error: then the remote is asked even if a note says that it was asked lately, and
    the end of the fetch is waited for. Raises nothing, unless `KCL_STRICT=fault`. Thread-safe: other threads wait for the
    one that fetches.
    """
    state = _state()
    # Read before the lock is taken, so that an answer that comes while this thread waits counts as new.
    had_answer = state.answered
    with state.lock:
        has_more = bool(state.answered) and not had_answer
        if state.answered is None:
            # The fetch may itself miss, and come here again in this thread; then nothing is asked.
            state.answered = False
            try:
                has_more = _pull(strict)
            finally:
                state.answered = True
    return has_more


def by_hand(work: str, name: str, **more: Any) -> Outcome:
    """Pull or push the packs of a project now, as a user asked, and wait for the end.

    `work` is "pull" or "push"; `more` has arguments of that function of `kcl.remote.packs`. Raises OSError, and CacheFault
    without a remote.
    """
    wait = child.SECONDS[work] + _SLACK
    return child.run(work, name, stores.chosen(), wait, **more) or _no_answer(wait)


def _pull(strict: bool) -> bool:
    """Fetch the packs, or wait for another process that is fetching them; return True if entries came."""
    options = settings.read()
    address = options.remote
    try:
        outcome = _outcome(project.name(), address, strict)
        if words := outcomes.refused_push(project.name(), address):
            layers.generator().note(words)
    except (OSError, UnusableDirectory) as error:
        # The user's cache directory cannot be used, so there is no place for the entries.
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
    """Return the outcome of a pull by this process or by another one.

    A fault of another process's pull is left out, since that process has warned of it.
    """
    note, started = outcomes.note_name("pull", name, address), time.monotonic()
    seconds = child.SECONDS["pull"] + _SLACK if strict else settings.read().remote_timeout
    lock = used.open_lock(seal.project_digest(name))
    try:
        while True:
            is_mine, left = _try_lock(lock), started + seconds - time.monotonic()
            # Another process may have finished a pull while this one waited for the lock.
            noted = outcomes.recent(note, strict)
            if noted is not None or (not is_mine and left < 0):
                return (noted or Outcome())._replace(fault="")
            if is_mine:
                break
            time.sleep(_PAUSE)
        outcome = child.run("pull", name, address, left, (lock,))
    finally:
        # The child has inherited the lock, and keeps it until it ends.
        os.close(lock)
    if outcome is None:
        # The child has written no note yet, so this process writes one.
        outcome = _no_answer(left)
        outcomes.write(note, outcome)
    return outcome


def _no_answer(seconds: float) -> Outcome:
    return Outcome(f"no answer in {seconds:.1f} s", seconds=seconds)


def _try_lock(lock: int) -> bool:
    try:
        return try_lock(lock)
    except OSError:
        # Without locks on the file system every process fetches for itself.
        return True
