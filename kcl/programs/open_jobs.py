"""The open entries: those that wait for a driver's helper to complete them. For commands and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcl.base.text.layout import counted

if TYPE_CHECKING:
    from kcl.cache.entry import Entry


class OpenJobs(NamedTuple):
    """The entries that wait for a driver's helper.

    `here` can be completed on this host, `elsewhere` cannot. `since` is the time of the oldest in seconds since the epoch,
    0 without one. `helper` says whether a helper is running. `failures` say why entries were given up, each with the name
    of its kernel. `unknown` says why no entry of this driver can be completed.
    """

    here: tuple[Entry, ...] = ()
    elsewhere: tuple[Entry, ...] = ()
    since: float = 0.0
    helper: bool = False
    failures: tuple[str, ...] = ()
    unknown: str = ""

    def devices(self) -> dict[str, int]:
        """Return the number of jobs for each device that this host lacks."""
        names = [
            str(dict(job.metadata.get("device") or {}).get("name", "unknown"))
            for job in self.elsewhere
        ]
        return {name: names.count(name) for name in names}

    def described(self) -> list[str]:
        """Return sentences on the open entries, which say what completes them."""
        sentences = []
        if self.here:
            programs = counted(len(self.here), "program waits", "programs wait")
            sentences.append(
                f"{programs} to be completed: {'a helper is at it' if self.helper else 'run `kcl flush`'}"
            )
        for device, count in self.devices().items():
            jobs = counted(count, "job is", "jobs are")
            sentences.append(
                f"{jobs} for another device ({device}): run `kcl flush` on a machine that has it"
            )
        if self.failures:
            programs, latest = (
                counted(len(self.failures), "program", "programs"),
                ", ".join(self.failures[:3]),
            )
            sentences.append(
                f"{programs} could not be completed: {latest}; runs build from source and ask again"
            )
        return [*sentences, *filter(None, [self.unknown])]
