"""What a process does with its remote: at its first miss it fetches the driver's pack, and at its end it may push.

A child does both (`kcl.remote.child`), so this module imports no client and waits within bounds.
"""

from __future__ import annotations

import json
import os
import time

from kcl.base import events, process, settings
from kcl.base.settings import trust
from kcl.cache import layers
from kcl.cache.layer import warn_once
from kcl.errors import CacheFault, UnusableDirectory
from kcl.remote import child, driver, notes
from kcl.remote.notes import ABSENT, FAILED, LATE, PULLED, Outcome
from kcl.remote.stores import RemoteFault, shown

_EXIT_SECONDS = 60.0
_PAUSE = 0.005


class State(process.LockedState):
    """Whether the remote was asked and has answered: once in a process and its forks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.answered = False


class Ending:
    """The end of a process that missed."""

    def at_exit(self) -> None:
        """Note what the run used, and push it if the settings say so. Raises nothing."""
        try:
            _leave()
        except Exception as error:
            events.logger().info("what this run used is not pushed: %r", error)


_state = process.own(State)
_ending = process.own(Ending)


def before_a_miss(strict: bool) -> bool:
    """Fetch the pack of this driver at the first miss of the process; return True if a second look may find more.

    With `strict` a miss is an error: the remote is asked whatever the notes say, and the child is waited for in full.
    Raises nothing, unless `KCL_STRICT=fault`. Thread-safe: other threads wait for the one that asks.
    """
    state = _state()
    late = state.answered
    with state.lock:
        if not state.asked:
            state.asked = True
            try:
                if _came(strict):
                    return True
            finally:
                state.answered = True
        elif state.answered and not late:
            return True
    _ending()
    return False


def by_hand(work: str, name: str, file: str = "") -> Outcome:
    """Pull or push the pack of a driver now, and wait for it; raises OSError, and CacheFault without a remote."""
    address = settings.read().remote
    if not address:
        raise RemoteFault("no remote is set: set KCL_REMOTE, or remote in the settings file")
    asked = {"work": work, "driver": name, "address": address, "file": os.path.abspath(file) if file else ""}
    said = child.wait(child.start(asked), child.SECONDS[work] + 5.0)
    return Outcome(*json.loads(said)) if said else Outcome(name, FAILED, "it took too long, or ended without a word")


def _came(strict: bool) -> bool:
    """Have the pack pulled, by this process or by one that is at it; return True if entries came."""
    address = settings.read().remote
    try:
        found = _outcome(driver.name(), address, strict)
    except (OSError, UnusableDirectory) as error:  # no own cache that could take the pack
        events.logger().info("the remote is not asked: %s", error)
        return False
    except Exception as error:
        found = Outcome("", FAILED, str(error))
    if found is not None and found.state not in (PULLED, ABSENT):
        words = f"kcl: the remote {shown(address)} is left out: {found.why}"
        if "fault" in settings.read().strict:
            raise CacheFault(words)
        warn_once("remote", words)
    return found is not None and found.entries > 0


def _outcome(name: str, address: str, strict: bool) -> Outcome | None:
    """Return the outcome of a pull now, None if there is none to wait for."""
    digest, started = driver.digest(name), time.monotonic()
    seconds = child.SECONDS["pull"] + 5.0 if strict else settings.read().remote_timeout
    if not strict and notes.recent(digest, address) is not None:
        return None
    lock = trust.opened(notes.path(f"{digest}.lock"), trust.LOCK)
    try:
        locked, waited = _lock(lock, started + seconds)
        noted = notes.read(digest)  # another process may have pulled since this one began, and be done with it
        is_new = waited or (noted is not None and noted[1] < (time.time_ns() - process.STARTED) * 1e-9)
        found = notes.recent(digest, address) if is_new else None
        if found is not None or not locked:
            return found
        ended = child.start({"work": "pull", "driver": name, "address": address}, lock)
    finally:
        os.close(lock)  # the child keeps it
    said = child.wait(ended, started + seconds - time.monotonic())
    if said:
        return Outcome(*json.loads(said))
    state, why = (LATE, f"no answer in {seconds:g} s") if said is None else (FAILED, "it ended without a word")
    lost = Outcome(name, state, why, seconds=time.monotonic() - started, terms=driver.terms(address))
    notes.write(digest, lost)
    return lost


def _lock(descriptor: int, end: float) -> tuple[bool, bool]:
    """Lock a file, or wait until `end` for the child that has it; return whether it is locked, and whether it was."""
    import fcntl

    waited = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False, True
            waited = True
            time.sleep(_PAUSE)
            continue
        except OSError as error:  # a file system without locks
            events.logger().debug("packs are pulled without a lock: %s", error)
        return True, waited


def _leave() -> None:
    """Leave what this run used for the next push, and start that: after the end of this process, or now."""
    chosen = settings.read()
    used = {name: list(layer.used) for name, layer in layers.opened().items()}
    if not chosen.remote or not any(used.values()):
        return
    name = driver.name()
    notes.leave(driver.digest(name), name, used)
    if chosen.remote_write and not settings.batch():
        ended = child.start({"work": "push", "driver": name, "address": chosen.remote})
        child.wait(ended, _EXIT_SECONDS if chosen.remote_write == "exit" else 0.0)
