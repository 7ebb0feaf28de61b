"""The tuner: a search asks for choices; they are checked and raced, and the winner is stored. For `tune` only."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyopencl as cl

import kcl
from kcl.base import events, settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.key import Key, Part
from kcl.cache.progress import ProgressLine
from kcl.drivers import devices
from kcl.errors import CacheFault
from kcl.tuning import candidates, race, views
from kcl.tuning import search as searches
from kcl.tuning.bench import Bench, ChildFault
from kcl.tuning.candidates import LIMIT_SECONDS, CandidateFiles, Trial, TunedKernel, TuningCandidate
from kcl.tuning.child import Question, Tolerance, Verdict
from kcl.tuning.race import Standing
from kcl.tuning.space import Choice, said
from kcl.tuning.table import ChoiceTable, Row, fact_name

_SHORT = 5  # rounds of the race after each step of a search
_CHECKED, _SEARCHED = 0.7, 0.85  # of the time: for building and comparing, and then for the search
_LEAST_SECONDS = 2.0  # of the last race
_FINALISTS, _NEAR = 8, 2.0  # of the last race: who may take less than so many times the best time
_BELIEVED_SECONDS = 30 * 86400.0  # crashes and time-outs
_EVEN = Standing(1.0, 1.0, 1.0)


class Tuning(NamedTuple):
    """The result of a tuning; str() is a table of what was tried.

    `row` is what was stored, or what had been stored before; None, and `why`, if nothing could be measured.
    """

    kernel: str
    sizes: dict[str, int]
    row: Row | None = None
    tried: tuple[TuningCandidate, ...] = ()
    why: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        head = f"{self.kernel}{' at ' if sizes else ''}{sizes}: "
        if self.row is None:
            return f"{head}not tuned: {self.why}"
        head += f"{said(self.row.choice)} takes {self.row.ratio:.2f} of the time of the default"
        if self.why:
            return f"{head}; {self.why}"
        ragged = "" if self.row.ragged else "; not tried ragged"
        head += f"; {self.row.tried} of {self.row.of} choices tried in {self.seconds:.1f} s{ragged}"
        return "\n  ".join(
            [
                head,
                *self.notes,
                *views.outcomes(list(self.sizes), [_fact(one, self.row) for one in self.tried]),
            ]
        )


def _fact(one: TuningCandidate, row: Row) -> Row:
    """Return what became of a candidate, as it is stored beside the row of its tuning."""
    trial, (outcome, detail) = one.trial, one.verdict
    noise = trial.standing.noise if trial.standing else 0.0
    found = Row(
        row.sizes,
        one.choice,
        one.ratio,
        row.level,
        0,
        0,
        noise,
        row.day,
        "",
        trial.ragged,
        trial.program,
    )
    return found._replace(outcome=outcome, detail=detail)


def tune(
    kernel: TunedKernel,
    queue: cl.CommandQueue,
    arguments: Mapping[str, Any],
    level: int = 1,
    seconds: float = 60.0,
    search: Any = None,
    tolerance: Tolerance = None,
    again: bool = False,
    anyway: bool = False,
    limit: float = LIMIT_SECONDS,
) -> Tuning:
    """Measure choices of a kernel with these arguments, and store the fastest. The arguments are not written.

    `limit` are the seconds of one candidate. Raises TypeError for arguments that are no contiguous arrays and numbers,
    ValueError for an unknown level, RuntimeError under MPI or a batch scheduler unless `anyway`. A KeyboardInterrupt
    stores what is known, and passes on. Tunings on one device take turns.
    """
    if settings.batch() and not anyway:
        told = f"{settings.batch()} is set, and every rank would tune: tune in one process"
        raise RuntimeError(f"{told}, or say anyway=True (kcl tune --anyway)")
    sizes, table = kernel.sizes_of(arguments), kernel.table(queue, arguments)
    result, device = Tuning(kernel.name, sizes), devices.places_of(cl.Context([queue.device]))
    if table is None:
        return result._replace(
            why="nothing can be stored: KCL_NO_CACHE has it off, or the recipe has no key"
        )
    if level == 0:
        return result._replace(why="level 0 stands for the defaults, which nobody measures")
    row = table.row(tuple(sizes.values()))
    if row is not None and row.level >= level and row.outcome == "ok" and not again:
        return result._replace(
            row=row, why="tuned before; again=True (kcl tune --again) measures again"
        )
    if not device or not settings.is_python():
        return result._replace(why="it takes child processes: a whole device, and Python by itself")
    with _turn(queue), candidates.folder() as folder, contextlib.ExitStack() as stack:
        files = CandidateFiles(kernel, queue, arguments, folder)
        stack.callback(files.close)
        if files.default.verdict.outcome:
            return result._replace(why=f"the default {': '.join(files.default.verdict[:2])}")
        known = {} if again or tolerance is not None else table.facts()
        return _Tuner(files, table, level, search, known).run(
            files.question(device, tolerance, limit), seconds, result
        )


class _Tuner:
    """One tuning."""

    def __init__(
        self,
        files: CandidateFiles,
        table: ChoiceTable,
        level: int,
        search: Any,
        known: dict[str, Row],
    ) -> None:
        self.files, self.table, self.level, self.kernel, self._known = (
            files,
            table,
            level,
            files.kernel,
            known,
        )
        of_level = searches.of_level(
            level, self.kernel.space, self.kernel.given, files.sizes, files.default.choice
        )
        self.search, self.count = of_level[0] if search is None else search, of_level[1]
        self.tried: list[TuningCandidate] = []

    def run(self, question: Question, seconds: float, result: Tuning) -> Tuning:
        """Search until there is nothing to ask, or the time is over; then let the best race, and store the winner."""
        began = time.monotonic()
        try:
            with (
                Bench(
                    question,
                    self.files.default.trial,
                    self.files.folder,
                    began + seconds,
                    self.kernel.space.comparison.compare,
                ) as bench,
                ProgressLine() as line,
            ):
                self.files.limit = bench.seconds
                while time.monotonic() < began + _CHECKED * seconds and (
                    choices := self.search.ask()
                ):
                    line.say(
                        f"tuning {self.kernel.name}: {len(self.tried)} of {self.count} choices tried"
                    )
                    self._measure(
                        bench, choices, began + _CHECKED * seconds, began + _SEARCHED * seconds
                    )
                end = max(began + seconds, time.monotonic() + _LEAST_SECONDS)
                racers = bench.race(self._finalists(), race.ROUNDS, end, is_last=True)
        except ChildFault as fault:
            return result._replace(
                why=f"two launches of the default must run, and compute the same: {fault}"
            )
        except BaseException:
            self._store(
                [
                    one.trial
                    for one in self.tried
                    if one.ratio and one.trial is not self.files.default.trial
                ],
                level=0,
            )
            raise
        row = self._store(racers, self.level)
        result = result._replace(notes=tuple(self.files.notes(bench.left)))
        return result._replace(row=row, tried=tuple(self.tried), seconds=time.monotonic() - began)

    def _measure(self, bench: Bench, choices: list[Choice], checked: float, raced: float) -> None:
        """Check and race some choices until these moments, and tell the search."""
        new, trials = list[TuningCandidate](), list[Trial]()

        def untried() -> Iterator[Trial]:
            for choice in choices:
                if time.monotonic() >= checked:
                    return
                new.append(one := self._candidate(choice))
                if not one.verdict.outcome and one.trial not in trials:
                    trials.append(one.trial)
                    yield one.trial

        bench.check(untried(), checked)
        bench.race([one for one in trials if one.verdict.outcome == "ok"], _SHORT, raced)
        for one in new:
            self.tried += [one] if one.verdict.outcome else []
            self.search.tell(one.choice, one.ratio)

    def _candidate(self, choice: Choice) -> TuningCandidate:
        """Return the candidate; the failure of an earlier tuning stands if its program is the same, and it is young."""
        one = self.files.candidate(choice, self.kernel.refusal(choice, self.files.sizes))
        fact = self._known.get(fact_name(tuple(self.files.sizes.values()), choice))
        if (
            one.verdict.outcome
            or fact is None
            or fact.outcome == "ok"
            or not fact.program == one.trial.program != ""
        ):
            return one
        if fact.outcome not in ("crashes", "hangs") or fact.day >= _day(_BELIEVED_SECONDS):
            one.trial.verdict = Verdict(fact.outcome, fact.detail)
        return one

    def _finalists(self) -> list[Trial]:
        """Return who may be the fastest, and faster than the default."""
        found = {
            one.trial: one.trial.standing.low
            for one in self.tried
            if one.ratio and one.trial.standing
        }
        found.pop(self.files.default.trial, None)
        most = min(1.0, _NEAR * min(found.values(), default=1.0))
        return sorted((one for one in found if found[one] < most), key=found.__getitem__)[
            :_FINALISTS
        ]

    def _store(self, racers: list[Trial], level: int) -> Row:
        """Store the winner and what became of each candidate. What was interrupted replaces no finished row."""
        sizes, default = tuple(self.files.sizes.values()), self.files.default
        order = sorted((one for one in self.tried if one.trial in racers), key=self._place)
        best = race.winner(
            {one: one.standing for one in racers if one.standing}, [one.trial for one in order]
        )
        end = best.standing if best is not None and best.standing is not None else _EVEN
        won = next((one for one in order if one.trial is best), default)
        row = Row(
            *(
                sizes,
                won.choice,
                end.ratio,
                level,
                len(self.tried),
                self.count,
                end.noise,
                _day(),
                _versions(),
            ),
            ragged=won is default or won.trial.ragged,
            program=won.trial.program,
        )
        self.table.put_facts(_fact(one, row) for one in self.tried)
        before = self.table.row(sizes)
        if level or (racers and (before is None or before.outcome != "ok")):
            self.table.put(row)
        self.kernel.forget()
        return row

    def _place(self, one: TuningCandidate) -> list[int]:
        """Return the place of a choice in the order of declaration."""
        return [self.kernel.space.lists[name].index(value) for name, value in one.choice.items()]


def _day(ago: float = 0.0) -> str:
    """Return the date some seconds ago."""
    return time.strftime("%Y-%m-%d", time.localtime(time.time() - ago))


def _versions() -> str:
    """Return the versions of what made the code."""
    from importlib import metadata

    found = [f"kcl {kcl.__version__}"]
    with contextlib.suppress(metadata.PackageNotFoundError):
        found += [f"loopy {metadata.version('loopy')}"] if "loopy" in sys.modules else []
    return ", ".join(found)


@contextlib.contextmanager
def _turn(queue: cl.CommandQueue) -> Iterator[None]:
    """Wait until no other tuning uses the device; where no lock can be had, go on."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError, CacheFault):
            import fcntl

            folder = places.own(places.FLIGHT)
            trust.make_trusted(folder)
            name = f"tune-{Key([Part('device', queue.device.name)]).digest}"
            descriptor = trust.opened(os.path.join(folder, name), trust.LOCK)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                events.logger().warning("waiting for another tuning on %s", queue.device.name)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
