"""The check-up behind `kcl doctor`: the faults around the caches, each finding with its cure. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kcl.inspect.doctor import files, switches, system
from kcl.inspect.doctor.finding import NOTE, OK, PROBLEM, WARNING, Finding

__all__ = ["CHECKS", "NOTE", "OK", "PROBLEM", "WARNING", "Finding", "run"]

# In the order of the report; a check without findings yields nothing.
CHECKS: dict[str, Callable[[], Iterable[Finding]]] = {
    "directories": files.directories,  # a fault there may hide the devices of a driver
    "platforms": system.platforms,
    "packages": system.packages,
    "versions": system.versions,
    "disk": files.disk,
    "roots": switches.roots,
    "switches": switches.values,
    "contradictions": switches.contradictions,
    "late switches": switches.late,
    "process ids": switches.process_ids,
    "settings": switches.unknown_settings,
    "damaged files": files.damaged,
    "lock files": files.locks,
    "completing": files.pending,
}


def run() -> Iterator[tuple[str, Finding]]:
    """Yield the findings of every check, with its name; a check without findings yields one that says so."""
    for name, check in CHECKS.items():
        for found in list(check()) or [Finding(OK, "nothing found")]:
            yield name, found
