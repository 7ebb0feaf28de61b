"""Foreign caches: those of loopy, pyopencl and the OpenCL drivers. Where each one lies, and whether it is on.

`kcl.foreign.table` has the facts, one row per cache; each function here works for all rows.
This module imports neither loopy nor pyopencl: a switch inside a module counts only once the program has imported it.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

from kcl.base import is_being_imported, process, settings
from kcl.base.settings import trust
from kcl.foreign.table import ROWS, CacheRow, placed_by

CODE_VARIABLES = sorted({variable for row in ROWS.values() for variable in row.code_variables})
# The variables that decide whether a cache is on and where it lies.
_DECIDING = {name: row.variables for name, row in ROWS.items()}


class Place(NamedTuple):
    """The path of a cache, and the variable that decided it or "default"; both are empty if the cache has no place."""

    path: str
    why: str


def off(name: str) -> str:
    """Return why the cache `name` is off now, as its owner would read its variables; empty if it is on."""
    return off_by_variable(name) or off_by_call(name)


def off_by_variable(name: str) -> str:
    """Return the variable that switches the cache `name` off now, and the reason; empty if there is none."""
    at_first_use = _observations().at_first_use
    if not at_first_use:
        at_first_use.update(os.environ)
    return switched_off(ROWS[name], os.environ)


def switched_off(row: CacheRow, environment: Mapping[str, str]) -> str:
    """Return the variable that switches a cache off in an environment, and the reason; empty if the cache is on."""
    for variable, parse in row.switches.items():
        value = environment.get(variable)
        verdict = parse(value)
        if verdict is not None:
            words = variable if value is None else f"{variable}={value}"
            return words + (f" ({verdict})" if verdict else "")
    return ""


def place(name: str) -> Place:
    """Return the place of the cache `name`, which need not exist, and the variable that decided it."""
    return place_in(ROWS[name], os.environ)


def place_in(row: CacheRow, environment: Mapping[str, str]) -> Place:
    """Return the place of a cache in an environment, and the variable that decided it."""
    places = (_fill_in(template, environment) for template in row.places)
    return next(filter(None, places), Place("", ""))


class Start:
    """The environment at the start of the program; outside Linux the one at kcl's first use of this class."""

    def __init__(self) -> None:
        try:
            # The system keeps the environment that the process began with: a program may have
            # changed `os.environ` before it imported kcl.
            with process.proc("self/environ") as stream:
                pairs = [
                    os.fsdecode(pair).partition("=") for pair in stream.read().split(b"\0") if pair
                ]
            self.environment = {name: value for name, _, value in pairs}
        except OSError:
            self.environment = dict(os.environ)


class Observations:
    """What this process has read from its environment so far."""

    def __init__(self) -> None:
        # The environment when kcl first read a switch. A layer was in use then, so the driver was loaded.
        self.at_first_use: dict[str, str] = {}
        # The variables that change generated code, with the values that drivers have read: see `code_variables`.
        self.read_by_drivers: dict[str, str] = {}
        # The existing directories of caches, by the cache and the values of the variables that decide its place.
        self.directories: dict[tuple[str | None, ...], str] = {}

    def on_change(self) -> None:
        # Layers read their switches again after a change.
        self.at_first_use.clear()


_start = process.shared(Start)
_observations = process.own(Observations)


def record_start() -> None:
    """Record the current environment as that of the program's start, after `kcl run` has set variables for it."""
    _start().environment = dict(os.environ)


def has_changed() -> bool:
    """Return True if this process has changed a variable of kcl or of a row since its start or kcl's first use."""
    start, first, now = environments()
    names = {name for row in ROWS.values() for name in row.variables}
    different = (name for name, _ in (start.items() ^ now.items()) | (first.items() ^ now.items()))
    return any(name in names or name.startswith("KCL_") for name in different)


def environments() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the environment of this process at its start, at kcl's first use of a switch, and now."""
    now = dict(os.environ)
    return dict(_start().environment), dict(_observations().at_first_use) or now, now


def directory_in_use(name: str) -> str:
    """Return the directory that a driver uses which reads its variables once and then makes the directory.

    That is the directory of the current environment if it exists. Else it is an existing one of an earlier environment:
    the variable was changed too late. A directory that existed once is returned from then on without another look.
    """
    decided = (name, *map(os.environ.get, _DECIDING[name]))
    seen = _observations().directories
    if decided in seen:
        return seen[decided]
    here = place(name).path
    if os.path.isdir(here):
        seen[decided] = here
        return here
    start, first, _now = environments()
    earlier = (place_in(ROWS[name], environment).path for environment in (first, start))
    return next(filter(os.path.isdir, earlier), here)


def active_directory(name: str) -> str | None:
    """Return the absolute path of the directory in use; None while the cache is off."""
    return None if off(name) else os.path.abspath(directory_in_use(name))


def _fill_in(template: str, environment: Mapping[str, str]) -> Place | None:
    """Fill in one of a row's templates of places; return None if its variable is not set."""
    # platformdirs ignores a variable with a relative path.
    if template.startswith("user:"):
        application = template.removeprefix("user:")
        path = settings.user_cache_dir(application, environment)
        xdg = environment.get("XDG_CACHE_HOME")
        is_by_xdg = xdg and path == os.path.join(xdg, application)
        return Place(path, "XDG_CACHE_HOME" if is_by_xdg else "default")
    if template.startswith("~"):
        home = environment.get("HOME", "")
        home = home if os.path.isabs(home) else settings.home()
        return Place(os.path.normpath(home + template[1:]), "default")
    variable, _, rest = template.removeprefix("$").partition("/")
    if not placed_by(template):
        return Place(template, "default")
    value = environment.get(variable)
    if not value:
        return None
    return Place(
        os.path.join(value, rest) if rest else value, "default" if variable == "HOME" else variable
    )


def code_variables() -> list[tuple[str, str]]:
    """Return the set variables that change generated code while every OpenCL string stays the same, sorted.

    A look-up and a build call this. PoCL reads such a variable at each build until it is set, then keeps the value (its
    `pocl_get_string_option`). Other drivers read it at their start and may miss what the program set later, so a value
    that the program set has another text than the same value from the start.
    """
    read, start = _observations().read_by_drivers, _start().environment
    for name in CODE_VARIABLES:
        if name in os.environ:
            read.setdefault(name, os.environ[name])
    texts = [(name, read[name]) for name in CODE_VARIABLES if name in read]
    return [
        (name, text if text == start.get(name) else f"{text!r}, set by the program")
        for name, text in texts
    ]


def read_variables() -> dict[str, str]:
    """Return the variables of `code_variables` with their plain values, for the environment of a child."""
    code_variables()
    return dict(_observations().read_by_drivers)


@contextmanager
def variables(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of the environment within the block; None unsets a variable."""
    before = {name: os.environ.get(name) for name in wanted}
    before = {name: value for name, value in before.items() if value != wanted[name]}
    try:
        settings.set_variables({name: wanted[name] for name in before})
        yield
    finally:
        settings.set_variables(before)


class LoopySwitch(process.LockedState):
    """What kcl knows of `loopy.CACHING_ENABLED`, which all threads share.

    `wishes` has the user's value while kcl has switched loopy's caches off, so that other threads see the user's wish.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wishes: list[bool] = []
        # The thread that holds the lock.
        self.thread = 0

    def after_fork(self) -> None:
        """Restore the user's value if another thread of the parent had switched loopy's caches off."""
        if self.wishes and self.thread != threading.get_ident():
            sys.modules["loopy"].CACHING_ENABLED = self.wishes[0]  # type: ignore[attr-defined]
            self.wishes.clear()


_loopy_switch = process.shared(LoopySwitch)


@contextmanager
def loopy_disk_caches_off() -> Iterator[None]:
    """Run loopy without its own disk caches, which return stale code for a changed generator; one thread at a time."""
    import loopy

    switch = _loopy_switch()
    with switch.lock:
        wish, depth = bool(loopy.CACHING_ENABLED), len(switch.wishes)
        # Each step is inside `try`, since an interrupt may come between any two.
        try:
            switch.thread = threading.get_ident()
            switch.wishes.append(wish)
            loopy.CACHING_ENABLED = False
            yield
        finally:
            loopy.CACHING_ENABLED = wish
            del switch.wishes[depth:]


def wait_for_loopy(seconds: float) -> None:
    """Wait until no thread calls loopy for kcl, or until the time is over."""
    lock = _loopy_switch().lock
    if lock.acquire(timeout=seconds):
        lock.release()


def off_by_call(name: str) -> str:
    """Return the name of the switch inside a module by which the user has switched a cache off now; empty if it is on."""
    flag = ROWS[name].flag
    if flag is None:
        return ""
    module, attribute, off, words = flag
    is_off = getattr(sys.modules.get(module), attribute, None) is off
    # kcl itself may have switched loopy's caches off, for a miss of another thread: then the user's value was True.
    by_kcl = module == "loopy" and any(_loopy_switch().wishes[:1])
    return words if is_off and not by_kcl else ""


def import_anyway(name: str) -> None:
    """Import a module that opens caches on disk during its import, even if its cache directory is not usable.

    loopy and pyopencl.invoker cannot be imported without a usable cache directory: they get a private one then.
    """
    module = sys.modules.get(name)
    # `import_module` waits for an import that another thread has begun.
    if module is None or is_being_imported(module):
        load_with_usable_cache(lambda: import_module(name))


def load_with_usable_cache(load: Callable[[], object]) -> None:
    """Call `load`; if the user's cache directory is not usable, call it with a private temporary one."""
    import sqlite3

    try:
        roots = (os.environ.get("XDG_CACHE_HOME", "").strip(), os.path.expanduser("~"))
        if not any(map(os.path.isabs, roots)):
            raise FileNotFoundError("this user has no home directory")
        trust.check_writer(settings.user_cache_dir("pytools"))
        with _resting_collector():
            load()
    except (OSError, sqlite3.Error):
        from kcl.foreign import usable

        folder = usable.private("caches")
        if not folder:
            raise
        with variables({"XDG_CACHE_HOME": folder}):
            load()


class RestingCollector:
    """Whether kcl has switched Python's garbage collector off. A child that is forked meanwhile switches it on again."""

    rests = False

    def after_fork(self) -> None:
        if self.rests:
            self.rests = False
            gc.enable()


_collector = process.shared(RestingCollector)


@contextmanager
def _resting_collector() -> Iterator[None]:
    """Switch Python's garbage collector off in a block, and move the block's objects to the oldest generation.

    An import makes about 100,000 objects that are never freed; for loopy the collector would waste 25 ms on them.
    """
    if not gc.isenabled():
        yield
        return
    state = _collector()
    state.rests = True
    gc.disable()
    try:
        yield
    finally:
        # `unfreeze` would also release objects that the program has frozen.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()
        state.rests = False


def provide_pocl() -> str:
    """Give PoCL a private cache directory if it cannot use its default one; return a message, or "".

    Call this before PoCL starts.

    A directory that POCL_CACHE_DIR names is left as it is. PoCL reads the variable at the first platform query.
    """
    from kcl.foreign import usable

    there = place("pocl")
    why = usable.fault(there.path) if there.path else ""
    if not why:
        return ""
    effect = f"PoCL cannot use its cache {there.path} ({why})"
    folder = usable.private("pocl") if settings.variable("POCL_CACHE_DIR") is None else ""
    if not folder:
        return f"{effect}, and shows no device then: set POCL_CACHE_DIR to a directory that can be written, or unset it"
    settings.export({"POCL_CACHE_DIR": folder})
    return (
        f"{effect}, and takes {folder} in this run: set POCL_CACHE_DIR to a directory of your own"
    )
