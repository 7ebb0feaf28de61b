"""The faults of a cache: one warning for each cause, at the line of the program; damaged entries go into quarantine."""

from __future__ import annotations

import errno
import inspect
import os
import re
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from kcl.base import events, process, settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault, CacheMiss, DamagedEntry, UnusableDirectory

if TYPE_CHECKING:
    from kcl.base.events import Event
    from kcl.cache.key import Key

# Causes about which one warning serves all layers.
_FULL, _FORBIDDEN = "no space", "not permitted"
# Packages whose code a user does not mend: a warning names the line of the program that called them.
INNER = frozenset({"kcl", "loopy", "pyopencl", "pytools"})
# Python's own modules have no line of the program either: those of imports and of contexts call kcl.
_PASSED = INNER | sys.stdlib_module_names


class CacheWarning(UserWarning):
    """A warning about the cache. Each cause is warned about once in a process.

    Python's filters ignore it or turn it into an error:

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", kcl.CacheWarning)
    ...     event, outputs = doubled()(queue, x=x)
    """


class WarnedCauses:
    """The causes that kcl has warned about."""

    def __init__(self) -> None:
        self.warned: set[str] = set()

    def on_change(self) -> None:
        """Forget the causes, since the files lie in another place now."""
        self.warned.clear()


_state = process.own(WarnedCauses)


def warn_once(cause: str, message: str) -> None:
    """Warn about `cause` once in this process. If warnings are errors, write a line on stderr instead; raise nothing.

    The warning names the line of the program that called kcl, or that called a library in `INNER`.
    """
    if cause in _state().warned:
        return
    _state().warned.add(cause)
    events.logger().info("%s", message)
    try:
        warn_the_program(message, CacheWarning)
    except CacheWarning:
        # The stream may be closed, or None.
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"{line_of_the_program()}: CacheWarning: {message}\n")


def warn_the_program(message: str, category: type[Warning], module: str = "") -> None:
    """Warn at the line of the program that called kcl, or a library in `INNER`. Filters may turn the warning into an error.

    They see the module name `module`, by default that of the line.
    """
    frame = _frame_of_the_program()
    names = frame.f_globals
    place = frame.f_code.co_filename, frame.f_lineno, module or str(names.get("__name__"))
    warnings.warn_explicit(message, category, *place, names.setdefault("__warningregistry__", {}))


def line_of_the_program() -> str:
    """Return `file:line` of the program's line that `warn_the_program` names."""
    frame = _frame_of_the_program()
    return settings.place_of(frame.f_code.co_filename, frame.f_lineno)


def _frame_of_the_program() -> Any:
    """Return the innermost frame outside of kcl and the libraries in `INNER`."""
    frame = sys._getframe(1)
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED
    ):
        frame = frame.f_back
    return frame


def report(layer: str, place: str, action: str, error: Exception) -> None:
    """Warn once that a layer, whose files lie at `place`, could not do `action`, and that kcl goes on without it."""
    cause = _cause(error)
    words = f"kcl goes on without its {layer} cache here: could not {action}: {error}"
    if isinstance(error, DamagedEntry):
        words = f"kcl set a damaged entry of its {layer} cache aside and makes it anew: {error}"
    elif cause == _FULL:
        room = f"no space or no inode is left on the file system of {place}"
        words = f"kcl goes on without writing its caches: {room}; make room there: could not {action}: {error}"
    warn_once(cause if cause in (_FULL, _FORBIDDEN) else f"{layer}: {cause}", words)


def quarantine(folder: str, address: str, blob: bytes, keep: int = 16) -> None:
    """Keep a damaged entry for inspection, with at most `keep` of them. Raises nothing."""
    with suppress(OSError, CacheFault, ValueError):
        trust.make_trusted(folder)
        # The name begins with the time, so that names sort by age.
        name = f"{time.time_ns():020d}-{os.getpid()}-{address.rpartition('/')[2][-128:]}"
        publish(os.path.join(folder, name + places.DAMAGED), blob[: 64 << 20])
    with suppress(OSError, ValueError):
        ours = [name for name in os.listdir(folder) if name.endswith(places.DAMAGED)]
        # If the folder is a link, nothing is removed.
        for name in sorted(ours)[: 0 if os.path.islink(folder) else -keep]:
            os.unlink(os.path.join(folder, name))


def explain_unstored(errors: list[Exception]) -> str:
    """Return why an entry could not be stored if later runs will miss for the same reason; empty otherwise."""
    if _FULL in map(_cause, errors):
        return "there was no space to store it"
    return next((str(error) for error in errors if isinstance(error, UnusableDirectory)), "")


def _cause(error: Exception) -> str:
    """Return the cause of an error as a text without numbers and paths, so that repeats are warned about once."""
    text, number = str(error), getattr(error, "errno", None)
    if number == errno.EPERM:
        return _FORBIDDEN
    if number in (errno.EROFS, errno.EACCES) or "readonly database" in text:
        return "not allowed"
    if number in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in text:
        return _FULL
    words = getattr(error, "strerror", None) or re.sub(r"\S*[/\d]\S*", "", text)
    return f"{type(error).__name__}: {words}"


def is_of_a_handler(error: Exception) -> bool:
    """Return True if an error rose in a handler of a signal: a present one, or a function that got a number and a frame."""
    handlers = map(signal.getsignal, signal.valid_signals())
    # The function of a `functools.partial`.
    codes = {getattr(getattr(call, "func", call), "__code__", None) for call in handlers}
    for frame, _line in traceback.walk_tb(error.__traceback__):
        names, star, _keywords, values = inspect.getargvalues(frame)
        given = values.get(star or "")
        # A method has itself before.
        arguments = [*map(values.get, names), *(given if type(given) is tuple else ())][1:3]
        if frame.f_code in codes or any(isinstance(value, FrameType) for value in arguments):
            return True
    return False


def site_words(refused: str) -> str:
    """Replace the advice in the error of a refused directory by advice for a site directory."""
    named = "list its owner as site_owners in a settings file, or "
    cure = f"{named if ' belongs to uid ' in refused else ''}take it out of KCL_SITE"
    return refused.replace(trust.ELSEWHERE, cure)


def miss_error(event: Event, key: Key | None) -> CacheMiss:
    """Return the error for a look-up that did not hit although `KCL_STRICT=hit` demands it."""
    import shlex

    sought = f" (key {key.digest[:12]})" if key is not None else ""
    cure = "run once without it to fill the cache."
    if event.outcome == "miss":
        ask = f"`python -m kcl explain {shlex.quote(event.kernel)}`"
        cure = f"{ask} says what differs from the nearest earlier entry; {cure}"
    elif event.outcome == "bypass":
        cure = "nothing is stored as long as the reason holds: mend that first."
    return CacheMiss(
        f"{event.layer} layer, kernel {event.kernel!r}: {event.outcome}: {event.reason}{sought}. "
        f"KCL_STRICT=hit allows hits only; {cure}"
    )
