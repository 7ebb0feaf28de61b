"""The tuner: a search asks for choices; they are checked and raced, and the winner is stored. For `tune` only."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any, NamedTuple

import pyopencl as cl

import kcl
from kcl.base import events, process, settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.key import Key, Part
from kcl.cache.progress import ProgressLine
from kcl.choices.tuning import candidates, race, views
from kcl.choices.tuning import search as searches
from kcl.choices.tuning import table as tables
from kcl.choices.tuning.bench import Bench
from kcl.choices.tuning.candidates import (
    DEATHS,
    LIMIT_SECONDS,
    ByTable,
    CandidateFiles,
    Trial,
)
from kcl.choices.tuning.child import Question, Tolerance
from kcl.choices.tuning.race import Standing
from kcl.choices.tuning.space import Choice, Space, describe
from kcl.choices.tuning.table import SERVED, ChoiceTable, RankedChoice, Row, fact_name
from kcl.drivers import devices
from kcl.drivers.child import OPEN, ChildFault, Verdict
from kcl.errors import CacheFault
from kcl.line import bindings_of
from kcl.programs.headers import header_files

_SHORT = 5  # rounds of the race after each step of a search
# Shares of the time: for building and comparing, then for the search.
_CHECKED, _SEARCHED = 0.7, 0.85
_LEAST_SECONDS = 2.0  # of the last race
# A candidate runs in the last race if it may take less than so many times the best time.
_NEAR = 2.0
# A crash or a time-out is remembered for a month.
_BELIEVED_SECONDS = 30 * 86400.0
_REPORT_SECONDS = 1.0  # between two writes of outcomes


class Tuning(NamedTuple):
    """The result of a tuning; str() is a table of what was tried.

    `row` is what was stored, or what had been stored before; None, and `why`, if nothing could be measured. `tried` has
    a row for each choice with an outcome; as many as `known` had theirs from before. There `was_time` unless no choice
    could be tried.
    """

    kernel: str
    sizes: dict[str, int]
    row: Row | None = None
    tried: tuple[Row, ...] = ()
    why: str = ""
    seconds: float = 0.0
    known: int = 0
    was_time: bool = True
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        head, row = f"{self.kernel}{' at ' if sizes else ''}{sizes}: ", self.row
        if row is None:
            return f"{head}not tuned: {self.why}"
        words = f"{describe(row.choice)} takes {views.ratio(row)} of the time of the default"
        if not row.best:
            words = f"the default {describe(row.choice)} is the fastest of {row.tried}"
        if self.why:
            return f"{head}{words}; {self.why}"
        if speed := views.speed(row):
            words += f": {speed}"
        words += f"; {row.tried} of {row.of} choices tried in {self.seconds:.1f} s"
        if self.known:
            words += f", {self.known} of {row.of} known from before"
        words += "" if row.ragged else "; not tried ragged"
        words += "; the next tuning goes on with the others" if row.unfinished else ""
        return "\n  ".join(
            [head + words, *self.notes, *views.outcomes(list(self.sizes), self.tried, [row])]
        )


def tune(
    chooser: ByTable,
    queue: cl.CommandQueue,
    arguments: Mapping[str, Any],
    level: int,
    seconds: float,
    search: Any,
    tolerance: Tolerance,
    again: bool,
    anyway: bool,
) -> Tuning:
    """Measure choices as `Kernel.tune` does, which has the defaults of the options.

    What is known when it is stopped is stored: the next tuning goes on. Tunings on one device take turns.
    """
    if settings.batch() and not anyway:
        told = f"{settings.batch()} is set, and every rank would tune: tune in one process"
        raise RuntimeError(f"{told}, or say anyway=True (kcl tune --anyway)")
    sizes, off = chooser.sizes_of(arguments), tables.layer().off()
    table = None if off else chooser.table(queue)
    result, device = Tuning(chooser.name, sizes), devices.places_of(cl.Context([queue.device]))
    if table is None:
        return result._replace(
            why=f"nothing can be stored: {f'off: {off}' if off else 'the recipe has no key'}"
        )
    if level == 0:
        return result._replace(why="level 0 stands for the defaults, which nobody measures")
    if not device or not settings.is_python():
        return result._replace(why="it takes child processes: a whole device, and Python by itself")
    with _turn(queue), candidates.folder() as folder, contextlib.ExitStack() as stack:
        began = time.monotonic()
        files = CandidateFiles(chooser, queue, arguments, folder)
        stack.callback(files.close)
        if files.default.verdict.outcome:
            return result._replace(why=f"the default {': '.join(files.default.verdict[:2])}")
        # No candidate has more time to generate than the whole tuning has.
        files.limit = lambda least=0.0: min(seconds, max(least, LIMIT_SECONDS))
        tuner = _Tuner(files, table, level, search, tolerance)
        row = None if again else tuner.find_stored()
        if row is not None:
            return result._replace(
                row=row, why="tuned before; again=True (kcl tune --again) measures again"
            )
        tuner.known = {} if again else tuner.read_outcomes()
        return tuner.run(files.question(device, tolerance, LIMIT_SECONDS), began, seconds, result)


class _Tuner:
    """One tuning. `known` are the outcomes of earlier ones, by name."""

    def __init__(
        self,
        files: CandidateFiles,
        table: ChoiceTable,
        level: int,
        search: Any,
        tolerance: Tolerance,
    ) -> None:
        self.files, self.table, self.level, self.chooser = files, table, level, files.chooser
        self.default = files.default
        of_level = searches.of_level(
            level, self.chooser.space, self.chooser.given, files.sizes, files.start
        )
        self.search, self.count = of_level[0] if search is None else search, of_level[1]
        self.known: dict[str, Row] = {}
        self._made: list[tuple[Choice, Trial]] = []
        self._before: dict[Trial, Row] = {}
        self._written: dict[str, Row] = {}
        self._size = 0  # bytes of the arrays
        terms = _terms(self.chooser.space, tolerance)
        sizes = tuple(files.sizes.values())
        self._case = Row(sizes, {}, None, level, 0, self.count, 0.0, _day(), terms=terms)
        self._case = self._case._replace(dtypes=self.default.needed, variant=self.chooser.variant)

    def find_stored(self) -> Row | None:
        """Return the row of an earlier tuning of this level, if it ended and its winner is what would run."""
        row = self.table.row(self._case.sizes, self._case.dtypes, self._case.variant)
        if row is None or row.unfinished or row.outcome != "ok" or row.level < self.level:
            return None
        now = self._row(self.files.start, self.default)
        is_same = row.includes.items() <= now.includes.items() and {*row.codes} <= {*now.codes}
        if not is_same or (row.of, row.terms) != (now.of, now.terms):
            return None
        for choice, *_times, codes in row.best[:1]:
            if self._trial(choice).digests.get("") not in codes:
                return None
        return row

    def read_outcomes(self) -> dict[str, Row]:
        """Return the outcomes that may stand; a search of all choices begins with the others."""
        facts = self.table.facts() if self._case.terms else {}
        # A search of the user's keeps its own order.
        if self.level == 2 and isinstance(self.search, searches.Interpolation):
            self.search.first.sort(key=lambda choice: self._name(choice) in facts)
        return facts

    @property
    def tried(self) -> list[tuple[Choice, Trial]]:
        """The choices with an outcome, and their trials."""
        return [(choice, trial) for choice, trial in self._made if trial.verdict.outcome]

    def run(self, question: Question, began: float, seconds: float, result: Tuning) -> Tuning:
        """Search until there is nothing to ask, or the time is over; then let the best race, and store the winner."""
        is_done = False
        arrays = question.forms[""].arrays.values()
        self._size = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
        checked = began + _CHECKED * seconds
        try:
            with (
                Bench(
                    question,
                    self.default,
                    self.files.folder,
                    began + seconds,
                    self.chooser.space.comparison.compare,
                ) as bench,
                self._reporting(bench, seconds),
            ):
                self.files.limit = bench.seconds
                while time.monotonic() < checked and not is_done:
                    choices = self.search.ask()
                    is_done = not choices
                    self._measure(bench, choices, checked, began + _SEARCHED * seconds)
                is_done = is_done or len(self.tried) >= self.count
                is_done = is_done and len(self.tried) == len(self._made)
                others = [trial for _choice, trial in self.tried if trial is not self.default]
                if not others and self.count < 2:
                    return result._replace(why="there is no choice beside the default")
                if not others and not is_done:
                    words = (
                        f"there was time to try none of {self.count} choices: give it more seconds"
                    )
                    return result._replace(why=words, was_time=False)
                finalists = self._check_again(bench, self._finalists(), began + seconds)
                # The last race has some seconds of its own, whatever the search took.
                end = max(began + seconds, time.monotonic() + _LEAST_SECONDS)
                racers = bench.race(finalists, race.ROUNDS, end, is_last=True)
        except ChildFault as fault:
            words = f"two launches of the default must run, and compute the same: {fault}"
            is_slow = fault.verdict.outcome == "hangs"
            words += ": give it more seconds" if is_slow else ""
            return result._replace(why=words, was_time=not is_slow)
        row = self._store(racers, finalists, not is_done)
        return result._replace(
            row=row,
            tried=tuple(starmap(self._fact, self.tried)),
            seconds=time.monotonic() - began,
            known=len(self._before),
            notes=tuple(self.files.notes(bench.left)),
        )

    @contextlib.contextmanager
    def _reporting(self, bench: Bench, seconds: float) -> Iterator[None]:
        """Within the block, write outcomes as they come and show how far the search is, once a second."""
        began = reported = time.monotonic()
        sizes = "".join(f", {name}={size}" for name, size in self.files.sizes.items())

        def report() -> None:
            nonlocal reported
            if time.monotonic() < reported + _REPORT_SECONDS:
                return
            reported = time.monotonic()
            self._note()
            raced = sum(trial.standing is not None for _choice, trial in self.tried)
            line.say(
                f"tuning {self.chooser.name}{sizes}: {len(self.tried)} of {self.count} built, {raced} raced, "
                f"{reported - began:.0f} of {seconds:.0f} s"
            )

        with ProgressLine() as line:
            bench.report = report
            try:
                yield
            finally:
                # Outcomes that came after the last report are written, too.
                self._note()

    def _note(self) -> None:
        """Write the outcomes that are new."""
        facts = {fact_name(fact): fact for fact in starmap(self._fact, self.tried)}
        new = {name: fact for name, fact in facts.items() if self._written.get(name) != fact}
        if new:
            self.table.put_facts(new.values())
            self._written |= new

    def _measure(self, bench: Bench, choices: list[Choice], checked: float, raced: float) -> None:
        """Check and race some choices until these moments, and tell the search."""
        new, trials = list[tuple[Choice, Trial]](), list[Trial]()

        def untried() -> Iterator[Trial]:
            for choice in choices:
                # The generation of all choices may take as long as the checks.
                bench.report()
                if time.monotonic() >= checked:
                    return
                new.append((choice, trial := self._trial(choice)))
                self._made.append(new[-1])
                # Choices with equal code share one trial, which is checked once.
                if trial not in trials:
                    trials.append(trial)
                    if not trial.verdict.outcome:
                        yield trial

        bench.check(untried(), checked)
        right = [
            trial for trial in trials if trial.verdict.outcome == "ok" and trial.standing is None
        ]
        bench.race([trial for trial in right if trial is not self.default], _SHORT, raced)
        # The default does not race against itself: its ratio is one.
        for choice, trial in new:
            self.search.tell(choice, 1.0 if trial is self.default else trial.ratio)

    def _trial(self, choice: Choice) -> Trial:
        """Return the trial of a choice; an earlier outcome stands for the same code, under the same terms."""
        refusal = self.chooser.refusal(choice, self.files.sizes)
        verdict = Verdict("not valid", refusal) if refusal else OPEN
        trial, fact = self.files.trial(choice, verdict), self._standing_fact(choice)
        if fact and not refusal and fact.codes == _codes(trial) and trial is not self.default:
            trial.verdict, self._before[trial] = Verdict(fact.outcome, fact.detail), fact
            if fact.ratio:
                low, high = (fact.ratio * (1 + sign * fact.noise) for sign in (-1, 1))
                trial.standing = Standing(fact.ratio, low, high, fact.seconds)
        return trial

    def _standing_fact(self, choice: Choice) -> Row | None:
        """Return the outcome of an earlier tuning if it stands for equal code; a crash is believed for a while."""
        fact = self.known.get(self._name(choice))
        if fact is None or not fact.codes or fact.terms != self._case.terms:
            return None
        is_old = fact.outcome in DEATHS and fact.day < _day(_BELIEVED_SECONDS)
        is_short = fact.outcome == "hangs" and fact.limit < min(self.files.limit(), LIMIT_SECONDS)
        return None if is_old or is_short else fact

    def _finalists(self) -> list[Trial]:
        """Return who may be the fastest, and faster than the default."""
        trials = [
            trial for _choice, trial in self.tried if trial.ratio and trial is not self.default
        ]
        lows = {trial: trial.standing.low for trial in trials if trial.standing}
        most = min(1.0, _NEAR * min(lows.values(), default=1.0))
        return sorted((trial for trial in lows if lows[trial] < most), key=lows.__getitem__)[
            :SERVED
        ]

    def _check_again(self, bench: Bench, trials: list[Trial], end: float) -> list[Trial]:
        """Return the trials that are right; compare those on the data of this tuning that an earlier one compared."""
        old = [trial for trial in trials if trial in self._before]
        # A verdict that is open has the bench compare again.
        for trial in old:
            trial.verdict = OPEN
        bench.check(old, max(end, time.monotonic() + _LEAST_SECONDS))
        right = [trial for trial in trials if trial.verdict.outcome == "ok"]
        for trial in old:
            # There was no time: what is known stands, and is not served.
            if not trial.verdict.outcome:
                trial.verdict = Verdict("ok")
        return right

    def _store(self, racers: list[Trial], finalists: list[Trial], is_unfinished: bool) -> Row:
        """Store the winner, and those that were nearly as fast."""
        order = sorted(
            (made for made in self.tried if made[1] in finalists),
            key=lambda made: self._place(made[0]),
        )
        best = race.winner(
            {trial: trial.standing for trial in racers if trial.standing},
            [trial for _choice, trial in order],
        )
        # Of choices with equal code the first in the order of declaration counts.
        choices = {trial: choice for choice, trial in reversed(order)}
        row = self._row(self.files.start, self.default)._replace(
            ratio=1.0, noise=0.0, seconds=0.0, outcome="ok"
        )
        row = row._replace(gigabytes=0.0, ragged=True, detail="")
        if best is not None:
            others = [
                trial for trial in finalists if trial is not best and (trial.ratio or 1.0) < 1.0
            ]
            others.sort(key=lambda trial: trial.ratio or 1.0)
            served = tuple(
                RankedChoice(choices[trial], end.ratio, end.noise, _codes(trial))
                for trial in (best, *others)
                if (end := trial.standing)
            )
            row = self._row(choices[best], best)._replace(best=served)
        row = row._replace(unfinished=is_unfinished)
        self.table.put(row)
        # The chooser reads the table again at the next call.
        self.chooser.forget()
        return row

    def _row(self, choice: Choice, trial: Trial) -> Row:
        """Return the row that serves a choice."""
        digests = set[str]()
        build, includes = bindings_of(self.files.queue).build, dict[str, str]()
        for form, code in self.default.codes.items():
            digests.add(self.chooser.digest_default(self.files.sizes_at(form), self.files.start))
            includes |= header_files(code.text.source, build.options(code.text.options).directories)
        return self._fact(choice, trial)._replace(
            of=self.count,
            tried=len(self.tried),
            versions=_versions(),
            includes=includes,
            codes=tuple(sorted(digests)) if digests != {""} else (),
            limit=0.0,
            level=self._case.level,
            day=self._case.day,
        )

    def _fact(self, choice: Choice, trial: Trial) -> Row:
        """Return what became of a choice, as it is stored beside the row of its tuning."""
        end, earlier = trial.standing, self._before.get(trial)
        if earlier and earlier.outcome == trial.verdict.outcome != "ok":
            # Its day and its limit stay.
            return earlier._replace(choice=choice)
        return self._case._replace(
            choice=choice,
            ratio=trial.ratio,
            of=0,
            noise=end.noise if end else 0.0,
            ragged=trial.ragged,
            program=trial.program,
            outcome=trial.verdict.outcome,
            detail=trial.verdict.detail,
            seconds=end.seconds if end else 0.0,
            gigabytes=self._size / end.seconds * 1e-9 if end and end.seconds else 0.0,
            codes=_codes(trial),
            limit=trial.limit,
        )

    def _name(self, choice: Choice) -> str:
        return fact_name(self._case._replace(choice=choice))

    def _place(self, choice: Choice) -> list[int]:
        """Return the place of a choice in the order of declaration."""
        return [self.chooser.space.lists[name].index(value) for name, value in choice.items()]


def _codes(trial: Trial) -> tuple[str, ...]:
    """Return the digests of all forms of a candidate; none if one is unknown."""
    digests = {*trial.digests.values()}
    return tuple(sorted(digests)) if "" not in digests else ()


def _terms(space: Space, tolerance: Tolerance) -> str:
    """Return a digest of how results are compared; empty if the text of a comparison cannot be read."""
    text = space.comparison.text(tolerance)
    return Key([Part("comparison", text)]).digest[:16] if text else ""


def _day(ago: float = 0.0) -> str:
    """Return the date some seconds ago."""
    return time.strftime("%Y-%m-%d", time.localtime(time.time() - ago))


def _versions() -> str:
    """Return the versions of what made the code."""
    from importlib import metadata

    versions = [f"kcl {kcl.__version__}"]
    with contextlib.suppress(metadata.PackageNotFoundError):
        versions += [f"loopy {metadata.version('loopy')}"] if "loopy" in sys.modules else []
    return ", ".join(versions)


@contextlib.contextmanager
def _turn(queue: cl.CommandQueue) -> Iterator[None]:
    """Wait until no other tuning uses the device; where no lock can be had, go on."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, CacheFault):
            folder = places.own(places.FLIGHT)
            trust.make_trusted(folder)
            name = f"tune-{Key([Part('device', queue.device.name)]).digest}"
            descriptor = trust.opened(os.path.join(folder, name), trust.LOCK)
            stack.callback(os.close, descriptor)
            try:
                process.lock(descriptor)
            except BlockingIOError:
                events.logger().warning("waiting for another tuning on %s", queue.device.name)
                process.lock(descriptor, waits=True)
        yield
