"""Runs: the look-ups of the processes of the last run of each driver, from the journal.

No record says which processes make one run. Processes that ran the same file and were alive at the same time count as
one run: forked and spawned workers, and the ranks of MPI.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcl.base.events import Consumer
from kcl.inspect.history.records import COUNTERS, Counters, merged

_DRIVERS = 32
_USES = 20_000  # entries that are named in all runs that are kept

Tallies = dict[tuple[str, str], Counters]  # by layer and kernel


class EntryUse(NamedTuple):
    """The hits of an entry: their number, the last one, in seconds since the epoch, and the seconds taken and saved."""

    uses: int
    last: float
    seconds: float = 0.0
    saved: float = 0.0


UNUSED = EntryUse(0, 0.0)


class RunRecord(NamedTuple):
    """The record of one process: its name in the journal, the file that it ran, its counters, and the used entries.

    `began`, with the first look-up, and `ended` are in seconds since the epoch. `uses` is by the first digits of the
    digests of the entries. `remarks` are those of its report about loopy. `asked` gives, by the same digits, the kernel
    and parameters for which an entry was used.
    """

    name: str
    driver: str
    pid: int
    began: float
    ended: float
    tallies: Tallies
    uses: dict[str, EntryUse]
    remarks: Sequence[str] = ()
    asked: Mapping[str, Consumer] = {}


def packed(ran: RunRecord) -> list[Any]:
    """Write a process as a value of JSON."""
    tallies = [[*place, *(row[name] for name in COUNTERS)] for place, row in ran.tallies.items()]
    return [*ran[:5], tallies, ran.uses]


def told(ran: RunRecord) -> list[Any]:
    """Write the facts of a process beside its counters as a value of JSON."""
    return [ran.remarks, ran.asked]


def unpacked(
    fields: list[Any], tallies: Tallies, uses: dict[str, EntryUse], told: Sequence[Any] = ((), {})
) -> RunRecord:
    """Read a process; without counters and uses of its own it has the given ones."""
    if len(fields) > 5:
        tallies = {(layer, kernel): dict(zip(COUNTERS, row, strict=True)) for layer, kernel, *row in fields[5]}
        uses = {digest: EntryUse(*used) for digest, used in fields[6].items()}
    name, driver, pid, began, ended = fields[:5]
    remarks, asked = told
    named = {digest: Consumer(kernel, tuple(parameters)) for digest, (kernel, parameters) in asked.items()}
    return RunRecord(name, driver, pid, began, ended, tallies, uses, remarks, named)


def merged_uses(found: Iterable[Mapping[str, EntryUse]]) -> dict[str, EntryUse]:
    """Add up the uses of the same entries."""
    total: dict[str, EntryUse] = {}
    for digest, used in (pair for uses in found for pair in uses.items()):
        count, last, seconds, saved = total.get(digest, UNUSED)
        total[digest] = EntryUse(count + used.uses, max(last, used.last), seconds + used.seconds, saved + used.saved)
    return total


def last(found: Iterable[RunRecord], driver: str | None = None) -> list[RunRecord]:
    """Return the processes of the last run of a driver, or of any, the one that ended last first."""
    ordered = sorted(_whole(found), key=lambda one: -one.ended)
    run: list[RunRecord] = []
    for one in ordered:
        if not run and driver in (None, one.driver):
            run, begin = [one], one.began
        elif run and one.driver == run[0].driver and one.ended >= begin:
            run.append(one)
            begin = min(begin, one.began)
    return run


def kept(found: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the last runs of the drivers that ran last: a folded record keeps these."""
    found, kept, room = list(found), list[RunRecord](), _USES
    newest = {one.driver: one.ended for one in sorted(found, key=lambda one: one.ended)}
    for driver in sorted(newest, key=lambda one: -newest[one])[:_DRIVERS]:
        run = last(found, driver)
        room -= sum(len(one.uses) for one in run)
        if room < 0 and kept:
            break
        kept += run
    return kept


def _whole(found: Iterable[RunRecord]) -> Iterable[RunRecord]:
    """Add up the several records of one process."""
    whole: dict[str, RunRecord] = {}
    for one in found:
        before = whole.get(one.name)
        if before is None:
            whole[one.name] = one
            continue
        tallies, uses = merged([before.tallies, one.tallies]), merged_uses([before.uses, one.uses])
        began, ended = min(before.began, one.began), max(before.ended, one.ended)
        remarks = max(before, one, key=lambda each: each.ended).remarks
        whole[one.name] = RunRecord(*before[:3], began, ended, tallies, uses, remarks, {**one.asked, **before.asked})
    return whole.values()
