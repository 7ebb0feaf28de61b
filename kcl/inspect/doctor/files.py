"""Checks of the disk: directories, room, damaged files, left-over locks, entries that no helper completes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress

from kcl import caches, drivers
from kcl.base import settings
from kcl.base.settings import option, trust
from kcl.base.text.layout import counted
from kcl.cache import layers, places
from kcl.caches import contents, usable
from kcl.caches.table import ROWS
from kcl.errors import CacheFault
from kcl.inspect import inventory
from kcl.inspect.doctor.finding import NOTE, PROBLEM, WARNING, Finding

_NEEDED, _WANTED = 100 << 20, 1 << 30  # bytes
_INODES = 1000
_POCL = "PoCL shows no device then, or aborts; under kcl run it takes a private directory, unless POCL_CACHE_DIR is set"
_HOME = "set HOME to a directory that can be written, or what `kcl env --dir DIRECTORY` prints"
_LARGEST = 256 << 20  # bytes of a database that is checked
_LOCK_AGE = 60.0  # pyopencl waits no longer
_OLD = 3600.0


def directories() -> Iterator[Finding]:
    """Find directories that are not writable, belong to other users, or lie on a network file system."""
    said = set()
    own = list(dict.fromkeys(option.folder(name) for name in places.FOLDERS))
    foreign = [name for name in ("pocl", "loopy", "pyopencl-binary") if caches.place(name).path]
    home = settings.home()
    why = usable.fault(home)
    if why:  # the cause of all faults below it
        below = home.rstrip(os.sep) + os.sep
        kept = [path for path in own if not path.startswith(below)]
        others = [name for name in foreign if not caches.place(name).path.startswith(below)]
        if (kept, others) != (own, foreign):
            words = f"the home directory {home} cannot be written: {why}; caches keep nothing there, and {_POCL}"
            yield Finding(PROBLEM, words, _HOME)
        own, foreign = kept, others
    for path in own:
        try:
            trust.check(path)
        except (OSError, CacheFault) as error:
            if str(error) not in said:  # an ancestor of all three
                yield Finding(PROBLEM, str(error))
            said.add(str(error))
            continue
        why = usable.fault(path)
        if why:
            yield Finding(PROBLEM, f"{path} cannot be written: {why}", f"chmod u+rwx {path}, or set KCL_CACHE_DIR")
        if trust.is_network(path):
            words = f"{path} lies on a network file system: the generator layer keeps a file for each entry"
            yield Finding(NOTE, words, "a local KCL_CACHE_DIR is faster")
    for name in foreign:
        place = caches.place(name)
        why = usable.fault(place.path)
        if why:
            effect = _POCL if name == "pocl" else f"{ROWS[name].title} fail then"
            words = f"{place.path} ({place.why}) cannot be written: {why}; {effect}"
            yield Finding(PROBLEM, words, _elsewhere(name))


def _refused() -> Iterator[str]:
    for path in (*(option.folder(name) for name in places.FOLDERS), layers.binary().place, layers.generator().place):
        try:
            trust.check(path)
        except (OSError, CacheFault) as error:
            yield str(error)


def disk() -> Iterator[Finding]:
    """Find file systems without room."""
    seen = set()
    folders = [places.own(), *(caches.directory(name) for name in ROWS)]
    for path in filter(None, folders):
        there = usable.nearest(path)
        try:
            device, usage = os.stat(there).st_dev, shutil.disk_usage(there)
        except OSError:
            continue
        if device in seen:
            continue
        seen.add(device)
        free = f"{usage.free / 1e6:.0f} MB"
        if usage.free < _NEEDED or _inodes(there) < _INODES:
            yield Finding(PROBLEM, f"the disk of {there} is full: {free} left", "kcl purge, or make room")
        elif usage.free < _WANTED:
            yield Finding(WARNING, f"the disk of {there} is almost full: {free} left", "kcl purge")


def damaged() -> Iterator[Finding]:
    """Find damaged files: entries of kcl by their headers, databases, PoCL's files."""
    faults: list[inventory.Fault] = []
    inventory.rows(faults)
    refused = set(_refused())
    for fault in faults:
        if fault.reason in refused:
            continue  # `directories` reports it
        words = f"{fault.layer} layer: {fault.place}: {fault.reason}"
        yield Finding(WARNING, words, "the next look-up sets it aside; kcl verify --all looks at every byte")
    for name in ("loopy", "pyopencl"):
        for path in contents.files(name):
            fault_of = _fault_of_database(path)
            if fault_of:
                words = f"{path}: {fault_of}; import {name} fails on it, or gives wrong values"
                yield Finding(PROBLEM, words, f"kcl purge {name}")
    yield from _of_pocl()


def _of_pocl() -> Iterator[Finding]:
    """Find damaged files in PoCL's cache; kcl replaces those that an entry holds."""
    found = [one for driver in drivers.every() for one in driver.damaged(contents.files("pocl"))]
    held = _held() if found else set()
    root = caches.place("pocl").path
    for mends, severity, effect, cure in (
        (True, WARNING, "kcl replaces them from its entries", "kcl purge pocl does it at once"),
        (False, PROBLEM, "a program that needs one fails, or its process dies", "kcl purge pocl"),
    ):
        some = [one for one in found if (os.path.relpath(one.path, root) in held) == mends]
        if some:
            files = counted(len(some), "damaged file", "damaged files")
            words = f"{files} in PoCL's cache, such as {some[0].path}: {some[0].reason}; {effect}"
            yield Finding(severity, words, cure)


def _held() -> set[str]:
    """Return the files below PoCL's cache that entries of the binary layer hold, by their headers."""
    held = set()
    for entry in inventory.entries(settings.BINARY):
        place, sizes = entry.metadata.get("place"), entry.metadata.get("specialisations")
        if isinstance(place, str) and isinstance(sizes, dict):
            held.add(f"{place}/program.bc")
            held |= {f"{place}/{kernel}/{size}/{kernel}.so" for kernel, known in sizes.items() for size in known}
    return held


def locks() -> Iterator[Finding]:
    """Find left-over locks of killed processes: pyopencl's lock is an existing file."""
    for folder in contents.files("pyopencl-binary"):
        path = os.path.join(folder, "lock")
        with suppress(OSError):
            age = time.time() - os.lstat(path).st_mtime
            if age > _LOCK_AGE:
                words = f"{path} was left over: every build by pyopencl waits for a minute, then it fails"
                yield Finding(PROBLEM, words, f"rm {path}")
            else:
                yield Finding(NOTE, f"{path} is held at this moment", f"if nothing builds: rm {path}")


def pending() -> Iterator[Finding]:
    """Find programs whose entries no helper completes."""
    try:
        found = drivers.pending()
    except (OSError, CacheFault) as error:
        yield Finding(WARNING, f"the queue of programs to complete cannot be read: {error}")
        return
    if found.here and not found.helper and found.since < time.time() - _OLD:
        programs = counted(len(found.here), "program has", "programs have")
        cure = "kcl flush; in a batch job put it at the end of the job script"
        yield Finding(NOTE, f"{programs} waited for more than an hour to be completed, and no helper runs", cure)
    for device, count in found.devices().items():
        words = f"{counted(count, 'program waits', 'programs wait')} to be completed for another device, {device}"
        yield Finding(NOTE, words, "run kcl flush on a machine that has it")


def _elsewhere(name: str) -> str:
    return "set POCL_CACHE_DIR to a directory of your own" if name == "pocl" else "set XDG_CACHE_HOME to one of yours"


def _inodes(path: str) -> float:
    with suppress(OSError, AttributeError):
        status = os.statvfs(path)
        if status.f_files:  # some file systems do not number their inodes
            return status.f_favail
    return float("inf")


def _fault_of_database(path: str) -> str:
    if not path.endswith(places.DATABASE):
        return ""
    try:
        special = trust.special_file(path)
        if special or os.path.getsize(path) > _LARGEST:
            return special
        with closing(sqlite3.connect(trust.database_uri(path, "ro"), uri=True, timeout=1.0)) as database:
            (answer,) = database.execute("PRAGMA quick_check(1)").fetchone()
            return "" if answer == "ok" else str(answer)
    except sqlite3.OperationalError as error:
        return "" if "locked" in str(error) else str(error)
    except (OSError, sqlite3.Error) as error:
        return str(error)
