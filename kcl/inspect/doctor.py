"""The checks of `kcl doctor`: they look for faults around the caches, and give a cure for each. They change nothing."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kcl import drivers, foreign
from kcl.base import settings
from kcl.base.settings import trust
from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.errors import CacheFault, meant
from kcl.foreign import contents, usable
from kcl.foreign.table import ROWS
from kcl.inspect import inventory, packages
from kcl.remote import state

OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"

# The free bytes, and the free inodes, below which a disk counts as full or almost full.
_FULL, _ALMOST_FULL = 100 << 20, 1 << 30
_INODES = 1000
_NO_CACHE = "PoCL shows no device then, or aborts; under kcl run it takes a private directory, unless POCL_CACHE_DIR is set"
_GET_POCL = "pip install pocl-binary-distribution (Linux x86-64), or install the OpenCL driver of your device's vendor"
_NEWER_POCL = (
    "take a PoCL with a newer LLVM (conda install -c conda-forge pocl); with that of the wheel, run your program by "
    "python tools/with_pocl.py of a checkout of kcl"
)
# Seconds: pyopencl waits no longer.
_LOCK_AGE = 60.0
# Caches whose owners fail if they cannot write them -> the variable that moves the cache.
_NEED_A_PLACE = {
    "pocl": "POCL_CACHE_DIR",
    "loopy": "XDG_CACHE_HOME",
    "pyopencl-binary": "XDG_CACHE_HOME",
}
# Switches whose owner raises an error at import for a word that is neither yes nor no.
_RAISES = {"CG_NO_CACHE", "LOOPY_NO_CACHE", "PYOPENCL_NO_CACHE"}


class Finding(NamedTuple):
    """The finding of a check: its severity, its words, its cure, and the name of the check.

    A problem keeps something from working, a warning costs time or space, a note is good to know.
    """

    severity: str
    words: str
    cure: str = ""
    check: str = ""


Findings = Iterator[Finding]


def run() -> Findings:
    """Yield the findings of every check; a check without findings yields one that says so.

    An error that ends a check becomes a problem. If two checks find the same, it is reported once.
    """
    told: set[str] = set()
    for name, check in CHECKS.items():
        findings: list[Finding] = []
        try:
            findings.extend(check())
        except (OSError, CacheFault) as error:
            findings.append(Finding(PROBLEM, str(error)))
        new = {finding.words: finding for finding in findings if finding.words not in told}
        told.update(new)
        for finding in new.values() or [Finding(OK, "nothing found")]:
            yield finding._replace(check=name)


def directories() -> Findings:
    """Find directories that are not writable, belong to other users, or lie on a network file system."""
    for path in dict.fromkeys(settings.folder(name) for name in places.FOLDERS):
        try:
            is_there = trust.check(path)
        except (OSError, CacheFault) as error:
            yield Finding(PROBLEM, str(error))
            continue
        if (why := usable.fault(path, gives=True)) and is_there:
            yield Finding(NOTE, f"{path} cannot be written: {why}; it is read: hits only")
        elif why:
            yield Finding(
                PROBLEM,
                f"{path} cannot be made: {why}",
                "set KCL_CACHE_DIR to a directory of your own",
            )
        if trust.is_network(path):
            yield Finding(
                NOTE,
                f"{path} lies on a network file system: the generator layer keeps a file for each entry",
                "a local KCL_CACHE_DIR is faster",
            )
    for name, variable in _NEED_A_PLACE.items():
        place = foreign.place(name)
        if place.path and (why := usable.fault(place.path)):
            effect = _NO_CACHE if name == "pocl" else f"{ROWS[name].title} fails then"
            yield Finding(
                PROBLEM,
                f"{place.path} ({place.why}) cannot be written: {why}; {effect}",
                f"set {variable} to a directory of your own",
            )


def platforms() -> Findings:
    """Name the OpenCL platforms and devices that pyopencl finds; loads every driver."""
    folder = settings.variable("OCL_ICD_VENDORS")
    where = f"; OCL_ICD_VENDORS={folder}" if folder else ""
    # PoCL shows no device if it cannot write its cache.
    place = foreign.place("pocl").path
    cure = _GET_POCL
    if place and usable.fault(place):
        cure = f"cure the directories first; if that is not enough: {cure}"
    try:
        # The import may fail too, so it stands within the check.
        import pyopencl

        platforms_here = pyopencl.get_platforms()
    except Exception as error:
        # A driver may raise any exception, and no driver at all is an error too.
        yield Finding(PROBLEM, f"no OpenCL platform was found ({error}){where}", cure)
        return
    devices = 0
    for platform in platforms_here:
        try:
            listed = platform.get_devices()
            names = ", ".join(device.name.strip() for device in listed)
            nameless = any(has_no_cpu_name(device.version) for device in listed)
            driver = drivers.named(platform.name)
            untried = list(filter(None, [driver.untried(device) for device in listed]))
        except Exception as error:
            yield Finding(WARNING, f"{platform.name}: its devices cannot be asked for ({error})")
            continue
        devices += len(listed)
        yield Finding(
            OK if names else NOTE, f"{platform.name} ({platform.version}): {names or 'no device'}"
        )
        for words in untried:
            yield Finding(NOTE, f"{words}: its programs run as without kcl")
        if nameless:
            yield Finding(
                WARNING,
                f"{platform.name} has no name for this CPU: no program builds where its LLVM is older than that",
                _NEWER_POCL,
            )
        if re.search(r"(?i)\bpocl\b", platform.version) and shutil.which("ld") is None:
            yield Finding(
                WARNING,
                f"{platform.name} links what it builds with ld, which is not there: a program that is built aborts",
                "apt-get install binutils, or the package of your system that has ld",
            )
    if unknown := drivers.pending().unknown:
        yield Finding(NOTE, unknown)
    if not devices:
        yield Finding(PROBLEM, f"no platform has a device{where}", cure)


def has_no_cpu_name(version: str) -> bool:
    """Return True if a device's version says that PoCL knows no name for this CPU; clang needs one on x86."""
    return bool(re.search(r"(?i)\bpocl\b.*x86_64.*-generic$", version.strip()))


def installed() -> Findings:
    """Name the packages that generate and run kernels; imports those that kcl's tests do not know."""
    versions = packages.installed()
    others = []
    for name, (version, kind) in versions.items():
        yield Finding(OK, f"{name} {version}, {kind}")
        if not packages.is_tested(name, version, kind):
            others.append(name)
    if others:
        faults = packages.faults([name for name in ("pyopencl", "loopy") if name in versions])
        yield from (Finding(WARNING, words) for words in faults)
        if not faults:
            yield Finding(
                NOTE,
                f"kcl's tests do not run with this {', '.join(others)}; nothing that kcl needs is missing",
            )


def disk() -> Findings:
    """Find file systems without room."""
    seen = set()
    for path in filter(None, [places.own(), *(foreign.place(name).path for name in ROWS)]):
        there = trust.nearest(path)
        try:
            device, usage = os.stat(there).st_dev, shutil.disk_usage(there)
        except OSError:
            continue
        if device in seen:
            continue
        seen.add(device)
        free = f"{usage.free / 1e6:.0f} MB"
        files = os.statvfs(there) if hasattr(os, "statvfs") else None
        # Some file systems number no inodes: they say 0.
        is_full = files is not None and files.f_files and files.f_favail < _INODES
        if usage.free < _FULL or is_full:
            yield Finding(
                PROBLEM, f"the disk of {there} is full: {free} left", "kcl purge, or make room"
            )
        elif usage.free < _ALMOST_FULL:
            yield Finding(WARNING, f"the disk of {there} is almost full: {free} left", "kcl purge")


def roots() -> Findings:
    """Find a root that the owners of caches read differently, and a missing home."""
    xdg = settings.variable("XDG_CACHE_HOME")
    if xdg and not os.path.isabs(xdg):
        yield Finding(
            WARNING,
            f"XDG_CACHE_HOME={xdg} is relative: pytools, pyopencl and kcl ignore it, PoCL takes it from wherever a "
            "program starts",
            f"export XDG_CACHE_HOME={os.path.abspath(os.path.expanduser(xdg))}",
        )
    home = settings.variable("HOME")
    if not home and os.name != "nt":
        yield Finding(WARNING, "HOME is not set: PoCL goes to /tmp/pocl", "export HOME=...")
    elif home == "/" and not xdg:
        yield Finding(
            WARNING,
            "HOME is /, as for a user that a container does not know: the caches lie in /.cache",
            "export XDG_CACHE_HOME=... to a volume that outlives the container",
        )


def switches() -> Findings:
    """Name the switches that are set, each as its owner reads it."""
    seen = set()
    for name, row in ROWS.items():
        for variable, parse in row.switches.items():
            value = settings.variable(variable)
            if value is None or variable in seen:
                continue
            seen.add(variable)
            verdict = parse(value)
            if verdict is None:
                yield Finding(OK, f"{row.title} is on: {variable}={value}")
            elif verdict and variable in _RAISES:
                yield Finding(
                    PROBLEM,
                    f"{variable}={value} makes the import fail: {row.title} reads words for yes and no alone",
                    f"unset {variable}",
                )
            else:
                yield Finding(NOTE, f"{row.title} is off: {foreign.off(name)}")


def unknown_settings() -> Findings:
    """Find settings that are not understood, or ask for nothing, and variables that kcl does not have."""
    chosen = settings.read()
    for words in chosen.rejected:
        yield Finding(WARNING, words)
    if "hit" in chosen.strict and chosen.no_cache:
        yield Finding(
            NOTE,
            f"KCL_STRICT=hit asks nothing of layers that KCL_NO_CACHE={chosen.no_cache_value} switches off",
            "unset KCL_NO_CACHE",
        )
    variables = [*(setting.variable for setting in settings.SETTINGS), settings.RUN]
    for name in sorted(settings.environment()):
        if name.startswith("KCL_") and name not in variables and not name.startswith("KCL_TEST"):
            yield Finding(
                WARNING,
                f"{name}: kcl has no such variable{meant(name, variables)}",
                f"unset {name}",
            )


def damaged() -> Findings:
    """Find damaged files: entries of kcl by their headers, databases, PoCL's files."""
    faults: inventory.Faults = []
    list(inventory.entries(faults=faults))
    for fault in faults:
        # `directories` reports the others.
        if os.path.isfile(fault.place):
            yield Finding(
                WARNING,
                f"{fault.cache} layer: {fault.place}: {fault.reason}",
                "the next look-up sets it aside; kcl verify looks at every byte",
            )
    for name in ("loopy", "pyopencl"):
        why = contents.measure(name).fault
        # A locked database is in use, and not damaged.
        if why and "locked" not in why:
            yield Finding(
                PROBLEM,
                f"{why}; import {name} fails on it, or gives wrong values",
                f"kcl purge {name}",
            )
    if faults := inventory.find_damaged_below():
        files = counted(len(faults), "damaged file", "damaged files")
        yield Finding(
            PROBLEM,
            f"{files} in PoCL's cache, such as {faults[0].place}: {faults[0].reason}; kcl replaces those of its "
            "entries, and a program that needs another fails, or its process dies",
            "kcl purge pocl",
        )


def locks() -> Findings:
    """Find left-over locks of killed processes: pyopencl's lock is an existing file."""
    for folder in contents.files("pyopencl-binary"):
        path = os.path.join(folder, "lock")
        with suppress(OSError):
            if time.time() - os.lstat(path).st_mtime > _LOCK_AGE:
                yield Finding(
                    PROBLEM,
                    f"{path} was left over: every build by pyopencl waits for a minute, then it fails",
                    f"rm {path}",
                )
            else:
                yield Finding(
                    NOTE, f"{path} is held at this moment", f"if nothing builds: rm {path}"
                )


def remote() -> Findings:
    """Try the remote, within bounds."""
    fine, fault = state.attempt()
    yield Finding(WARNING if fault else OK, fault or fine or "none is set")


# In the order of the report; a check without findings yields nothing.
CHECKS: dict[str, Callable[[], Findings]] = {
    # The directories come first: a fault there may hide the devices of a driver.
    "directories": directories,
    "platforms": platforms,
    "packages": installed,
    "disk": disk,
    "roots": roots,
    "switches": switches,
    "settings": unknown_settings,
    "damaged files": damaged,
    "lock files": locks,
    "remote": remote,
}
