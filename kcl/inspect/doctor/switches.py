"""Checks of the variables: caches that are off, misread values, and settings that kcl does not have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from kcl import caches
from kcl.base import settings
from kcl.caches.table import ROWS, CacheSwitch
from kcl.errors import meant
from kcl.inspect.doctor.finding import NOTE, PROBLEM, WARNING, Finding
from kcl.inspect.history import journal

_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
_TRUE, _FALSE = {"1", "y", "yes", "t", "true", "on"}, {"0", "n", "no", "f", "false", "off"}
_RAISES = {"CG_NO_CACHE", "LOOPY_NO_CACHE", "PYOPENCL_NO_CACHE"}
_SIBLINGS = 3


def roots() -> Iterator[Finding]:
    """Find a root that the owners of caches read differently, and a missing home."""
    xdg = settings.variable("XDG_CACHE_HOME")
    if xdg and not os.path.isabs(xdg):
        literal = [row.title for row in ROWS.values() if not row.neighbour and "XDG_CACHE_HOME" in row.variables]
        yield Finding(
            WARNING,
            f"XDG_CACHE_HOME={xdg} is relative: pytools, pyopencl and kcl ignore it, PoCL takes it from wherever a "
            f"program starts ({', '.join(sorted(literal))})",
            f"export XDG_CACHE_HOME={os.path.abspath(os.path.expanduser(xdg))}",
        )
    if not settings.variable("HOME") and os.name != "nt":
        yield Finding(WARNING, "HOME is not set: PoCL goes to /tmp/pocl", "export HOME=...")


def values() -> Iterator[Finding]:
    """Find switches whose value means something else to the owner than it seems to, and name caches that are off."""
    seen = set()
    for name, row in ROWS.items():
        for switch in row.switches:
            value = settings.variable(switch.variable)
            if value is None or switch.variable in seen:
                continue
            seen.add(switch.variable)
            found = _misread(switch, value, row.title)
            if found is None and switch.parse(value) is not None:
                found = Finding(NOTE, f"{row.title} is off: {caches.state(name).reason}")
            if found is not None:
                yield found


def contradictions() -> Iterator[Finding]:
    """Find contradicting switches of one cache."""
    for row in ROWS.values():
        given = {switch.variable: settings.variable(switch.variable) for switch in row.switches}
        off = [s.variable for s in row.switches if given[s.variable] is not None and s.parse(given[s.variable]) == ""]
        on = [s.variable for s in row.switches if given[s.variable] and s.parse(given[s.variable]) is None]
        if off and on and len({_is_negative(s) for s in row.switches if s.variable in (*off, *on)}) == 1:
            says = " and ".join(f"{name}={given[name]}" for name in (*off, *on))
            yield Finding(WARNING, f"{says} contradict: {row.title} is off", f"unset {on[0]}")
    chosen = settings.read()
    if "hit" in chosen.strict and chosen.no_cache:
        words = f"KCL_STRICT=hit asks nothing of layers that KCL_NO_CACHE={chosen.no_cache_value} switches off"
        yield Finding(NOTE, words, "unset KCL_NO_CACHE")


def late() -> Iterator[Finding]:
    """Find the switches of the last week that came too late in a program."""
    for note in journal.late():
        severity = WARNING if note.late.sure else NOTE
        cure = f"set {note.late.variable} before the program starts, or first of all in it"
        yield Finding(severity, f"{note.driver}: {note.late.words}", cure)


def process_ids() -> Iterator[Finding]:
    """Find directories that are new for each process or job, so that no later run finds their contents again."""
    changing = {str(number): "process id" for number in _ancestors()}
    changing |= {value: name for name in _JOBS if (value := settings.variable(name) or "")}
    seen = set()
    places = [("KCL_CACHE_DIR", settings.read().cache_dir or "")]
    places += [(caches.place(name).why, caches.place(name).path) for name in ROWS]
    for variable, path in places:
        value = settings.variable(variable) or ""
        if not path or not value or variable in seen:
            continue
        seen.add(variable)
        why = next((f"the {changing[word]} {word}" for word in re.findall(r"\d+", value) if word in changing), "")
        others = _siblings(value)
        if not why and others >= _SIBLINGS:
            why = f"a number, and {others} directories beside it differ in that alone"
        if why:
            words = f"{variable}={value} names {why}: a cache of its own for each, which is never warm"
            yield Finding(WARNING, words, f"take the number out of {variable}; the caches can be shared")


def unknown_settings() -> Iterator[Finding]:
    """Find settings that are not understood, and variables that kcl does not have."""
    for words in settings.read().rejected:
        yield Finding(WARNING, words)
    known = [*(setting.variable for setting in settings.SETTINGS), settings.RUN]
    for name in sorted(settings.environment()):
        if name.startswith("KCL_") and name not in known and not name.startswith("KCL_TEST"):
            yield Finding(WARNING, f"{name}: kcl has no such variable{meant(name, known)}", f"unset {name}")


def _misread(switch: CacheSwitch, value: str, title: str) -> Finding | None:
    verdict = switch.parse(value)
    if verdict and switch.variable in _RAISES:
        words = f"{switch.variable}={value} makes the import fail: {title} reads words for yes and no alone"
        return Finding(PROBLEM, words, f"unset {switch.variable}")
    word = value.strip().lower()
    if word not in _TRUE | _FALSE or switch.parse("1") == switch.parse("0"):
        return None
    means_off = (word in _TRUE) == _is_negative(switch)
    if means_off == (verdict is not None):
        return None
    right = ("1" if means_off else "0") if _is_negative(switch) else ("0" if means_off else "1")
    effect = "is off all the same" if verdict is not None else "is on all the same"
    cure = f"export {switch.variable}={right}"
    return Finding(WARNING, f"{switch.variable}={value}: {title} {effect}", cure)


def _is_negative(switch: CacheSwitch) -> bool:
    """Tell whether a 1 switches the cache off."""
    return switch.parse("1") is not None


def _ancestors() -> list[int]:
    """Return the ids of the ancestors of this process; on other systems than Linux only that of the parent."""
    found = [os.getppid()]
    while len(found) < 64 and found[-1] > 1:
        try:
            with open(f"/proc/{found[-1]}/stat", encoding="ascii", errors="replace") as stream:
                found.append(int(stream.read().rpartition(")")[2].split()[1]))
        except (OSError, ValueError, IndexError):
            break
    return [number for number in found if number > 999]  # a small number in a path may be anything


def _siblings(path: str) -> int:
    """Count the directories beside a path, or beside its parent, whose names differ only in their number."""
    most = 0
    for _ in range(2):
        folder, name = os.path.split(path.rstrip(os.sep))
        if re.search(r"\d{3,}", name):
            alike = re.compile(re.sub(r"\\?\d{3,}", r"\\d{3,}", re.escape(name)))
            try:
                most = max(most, sum(1 for each in os.listdir(folder) if each != name and alike.fullmatch(each)))
            except OSError:
                pass
        path = folder
    return most
