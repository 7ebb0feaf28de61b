"""The tuner behind `Kernel.tune`: a search proposes choices, which are checked and raced; the winner is stored."""

from __future__ import annotations

import contextlib
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
from kcl.cache.locks import try_lock
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
from kcl.foreign import contents
from kcl.line import bindings_of
from kcl.programs.headers import header_files

_SHORT = 5  # rounds of the race after each step of a search
_CHECKED = 0.7  # of the time: no candidate is built after this part of it
_SEARCHED = 0.85  # of the time: the last race begins after this part of it
_LEAST_SECONDS = 2.0  # that the last race takes, even if the time is over
# A candidate runs in the last race if it may take less than this many times the best time.
_NEAR = 2.0
# A crash or a time-out is believed for a month; then the choice is tried again.
_BELIEVED_SECONDS = 30 * 86400.0
_REPORT_SECONDS = 1.0  # between two times that outcomes are written


class Tuning(NamedTuple):
    """The result of a tuning; str() is a table of the choices that were tried.

    `row` is the stored row, of this tuning or of an earlier one. If nothing could be measured it is None, and `why` says
    why. `tried` has a row for each choice with an outcome; `known` is how many of the outcomes are from earlier tunings.
    `was_time` is False if the time was too short to try any choice.
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
    """Measure choices for `Kernel.tune`, which describes the arguments.

    If the tuning is stopped, the outcomes so far are stored, and the next tuning continues. Tunings of one device wait for
    each other.
    """
    if settings.batch() and not anyway:
        raise RuntimeError(
            f"{settings.batch()} is set, and every rank would tune: tune in one process, "
            "or say anyway=True (kcl tune --anyway)"
        )
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
        # Generating one candidate may take at most the time of the whole tuning.
        files.seconds = lambda least=0.0: min(seconds, max(least, LIMIT_SECONDS))
        tuner = _Tuner(files, table, level, search, tolerance)
        if not again:
            if row := tuner.find_stored():
                why = "tuned before; again=True (kcl tune --again) measures again"
                return result._replace(row=row, why=why)
            tuner.read_outcomes()
        return tuner.run(files.question(device, tolerance), began, seconds, result)


class _Tuner:
    """One tuning: it makes a trial of each choice that the search proposes, and stores the outcomes.

    `known` has the outcomes of earlier tunings: name -> row. `_before` has those that are used in place of a trial:
    trial -> row. `_written` has the outcomes that this tuning has stored: name -> row. `_case` is a row with the fields
    that all rows of this tuning share.
    """

    def __init__(
        self,
        files: CandidateFiles,
        table: ChoiceTable,
        level: int,
        search: Any,
        tolerance: Tolerance,
    ) -> None:
        self.files, self.table, self.chooser = files, table, files.chooser
        self.default = files.default
        of_level, self.count = searches.of_level(
            level, self.chooser.space, self.chooser.given, files.sizes, files.start
        )
        self.search = of_level if search is None else search
        self.known: dict[str, Row] = {}
        self._made: list[tuple[Choice, Trial]] = []
        self._before: dict[Trial, Row] = {}
        self._written: dict[str, Row] = {}
        self._case = Row(
            tuple(files.sizes.values()),
            choice={},
            ratio=None,
            level=level,
            tried=0,
            of=self.count,
            noise=0.0,
            day=_day(),
            dtypes=self.default.needed,
            variant=self.chooser.variant,
            terms=_terms(self.chooser.space, tolerance),
        )

    def find_stored(self) -> Row | None:
        """Return the row of an earlier tuning of this level if it was finished, and the code of its winner is unchanged."""
        row = self.table.row(self._case.name)
        if row is None or row.unfinished or row.outcome != "ok" or row.level < self._case.level:
            return None
        now = self._row(self._case)
        is_same = row.includes.items() <= now.includes.items() and {*row.codes} <= {*now.codes}
        if not is_same or (row.of, row.terms) != (now.of, now.terms):
            return None
        for choice, *_times, codes in row.best[:1]:
            if self._trial(choice).digests.get("") not in codes:
                return None
        return row

    def read_outcomes(self) -> None:
        """Read the outcomes of earlier tunings, and let the search begin with choices that have none."""
        self.known = self.table.facts() if self._case.terms else {}
        # Another search may be the user's, and keeps its own order.
        if isinstance(self.search, searches.Interpolation):
            self.search.first.sort(key=lambda choice: self._name(choice) in self.known)

    @property
    def tried(self) -> list[tuple[Choice, Trial]]:
        """The choices that have an outcome, each with its trial."""
        return [(choice, trial) for choice, trial in self._made if trial.verdict.outcome]

    def run(self, question: Question, began: float, seconds: float, result: Tuning) -> Tuning:
        """Search until all choices are tried or the time is over; then race the best ones and store the winner."""
        has_ended, checked = False, began + _CHECKED * seconds
        try:
            with (
                Bench(
                    question,
                    self.default,
                    self.files.folder,
                    began + seconds,
                    self.chooser.space.compare,
                    LIMIT_SECONDS,
                ) as bench,
                self._reporting(bench, seconds),
            ):
                self.files.seconds = bench.seconds
                while time.monotonic() < checked and not has_ended:
                    choices = self.search.ask()
                    has_ended = not choices
                    self._measure(bench, choices, checked, began + _SEARCHED * seconds)
                # Each choice that the search proposed has an outcome, and there are no other choices.
                is_done = len(self.tried) == len(self._made) and (
                    has_ended or len(self.tried) >= self.count
                )
                has_others = any(trial is not self.default for _choice, trial in self.tried)
                if not has_others and self.count < 2:
                    return result._replace(why="there is no choice beside the default")
                if not has_others and not is_done:
                    why = (
                        f"there was time to try none of {self.count} choices: give it more seconds"
                    )
                    return result._replace(why=why, was_time=False)
                finalists = self._check_again(bench, self._finalists(), began + seconds)
                # The last race gets some seconds even if the search took longer than it should.
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
            notes=tuple(self.files.notes(bench.left_out)),
        )

    @contextlib.contextmanager
    def _reporting(self, bench: Bench, seconds: float) -> Iterator[None]:
        """In the block, write new outcomes and show the progress of the search once a second."""
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
                # These are the outcomes that came after the last report.
                self._note()

    def _note(self) -> None:
        """Store the outcomes that are new or have changed."""
        facts = {fact_name(fact): fact for fact in starmap(self._fact, self.tried)}
        new = {name: fact for name, fact in facts.items() if self._written.get(name) != fact}
        if new:
            self.table.put_facts(new.values())
            self._written |= new

    def _measure(self, bench: Bench, choices: list[Choice], checked: float, raced: float) -> None:
        """Check choices until the moment `checked`, race them until `raced`, and tell the search the results."""
        new, trials = list[tuple[Choice, Trial]](), list[Trial]()

        def untried() -> Iterator[Trial]:
            for choice in choices:
                # Generating code takes long, too, so it reports progress and obeys the limit.
                bench.report()
                if time.monotonic() >= checked:
                    return
                new.append((choice, trial := self._trial(choice)))
                self._made.append(new[-1])
                # Choices with equal code share one trial, which need be checked only once.
                if trial not in trials:
                    trials.append(trial)
                    if not trial.verdict.outcome:
                        yield trial

        bench.check(untried(), checked)
        # The default cannot race against itself; its ratio is 1.
        racers = [
            trial
            for trial in trials
            if trial.verdict.outcome == "ok" and not trial.standing and trial is not self.default
        ]
        bench.race(racers, _SHORT, raced)
        for choice, trial in new:
            self.search.tell(choice, 1.0 if trial is self.default else trial.ratio)

    def _trial(self, choice: Choice) -> Trial:
        """Return the trial of a choice; it gets the outcome of an earlier tuning if code and comparison are the same."""
        if refusal := self.chooser.refusal(choice, self.files.sizes):
            return Trial(Verdict("not valid", refusal))
        trial, fact = self.files.trial(choice), self._standing_fact(choice)
        if fact and fact.codes == _codes(trial) and trial is not self.default:
            trial.verdict, self._before[trial] = Verdict(fact.outcome, fact.detail), fact
            if fact.ratio:
                low, high = (fact.ratio * (1 + sign * fact.noise) for sign in (-1, 1))
                trial.standing = Standing(fact.ratio, low, high, fact.seconds)
        return trial

    def _standing_fact(self, choice: Choice) -> Row | None:
        """Return the outcome of an earlier tuning if it may be used again for equal code.

        A crash is tried again after some weeks, and a time-out also if there is more time now.
        """
        fact = self.known.get(self._name(choice))
        if fact is None or not fact.codes or fact.terms != self._case.terms:
            return None
        is_old = fact.outcome in DEATHS and fact.day < _day(_BELIEVED_SECONDS)
        is_short = fact.outcome == "hangs" and fact.limit < min(self.files.seconds(), LIMIT_SECONDS)
        return None if is_old or is_short else fact

    def _finalists(self) -> list[Trial]:
        """Return the trials that may be faster than the default and nearly as fast as the best one."""
        lows = {
            trial: trial.standing.low
            for _choice, trial in self.tried
            if trial.standing and trial.ratio and trial is not self.default
        }
        most = min(1.0, _NEAR * min(lows.values(), default=1.0))
        fast = (trial for trial in lows if lows[trial] < most)
        return sorted(fast, key=lows.__getitem__)[:SERVED]

    def _check_again(self, bench: Bench, trials: list[Trial], end: float) -> list[Trial]:
        """Return the trials with correct results; check those on the present data that an earlier tuning checked."""
        old = [trial for trial in trials if trial in self._before]
        # The bench checks every trial whose verdict is open.
        for trial in old:
            trial.verdict = OPEN
        bench.check(old, max(end, time.monotonic() + _LEAST_SECONDS))
        right = [trial for trial in trials if trial.verdict.outcome == "ok"]
        for trial in old:
            # Without time for the check the earlier outcome stays, but the trial cannot win.
            if not trial.verdict.outcome:
                trial.verdict = Verdict("ok")
        return right

    def _store(self, racers: list[Trial], finalists: list[Trial], is_unfinished: bool) -> Row:
        """Store the row of the winner, with the finalists that were faster than the default."""
        order = sorted(
            (made for made in self.tried if made[1] in finalists),
            key=lambda made: self._place(made[0]),
        )
        best = race.find_winner(
            {trial: trial.standing for trial in racers if trial.standing},
            [trial for _choice, trial in order],
        )
        # If choices have equal code, the first one in the order of declaration is taken.
        choices = {trial: choice for choice, trial in reversed(order)}
        fact = self._case._replace(choice=self.files.start, ratio=1.0, program=self.default.program)
        if best is not None:
            ranked = sorted(finalists, key=lambda trial: (trial is not best, trial.ratio or 1.0))
            served = tuple(
                RankedChoice(choices[trial], end.ratio, end.noise, _codes(trial))
                for trial in ranked
                if (end := trial.standing) and (trial.ratio or 1.0) < 1.0
            )
            fact = self._fact(choices[best], best)._replace(best=served)
        row = self._row(fact)._replace(unfinished=is_unfinished)
        self.table.put(row)
        return row

    def _row(self, fact: Row) -> Row:
        """Return the row by which later runs use the choice of an outcome."""
        digests = set[str]()
        build, includes = bindings_of(self.files.queue).build, dict[str, str]()
        for form, code in self.default.codes.items():
            sizes = self.files.calls[form].sizes
            digests.add(self.chooser.digest_default(sizes, self.files.start))
            includes |= header_files(code.text.source, build.options(code.text.options).directories)
        return fact._replace(
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
        """Return the outcome of a choice as a row, to be stored beside the row of the tuning."""
        end, earlier = trial.standing, self._before.get(trial)
        if earlier and earlier.outcome == trial.verdict.outcome != "ok":
            # The row keeps the day and the limit of the earlier tuning.
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
            gigabytes=self.files.nbytes / end.seconds * 1e-9 if end and end.seconds else 0.0,
            codes=_codes(trial),
            limit=trial.limit,
        )

    def _name(self, choice: Choice) -> str:
        return fact_name(self._case._replace(choice=choice))

    def _place(self, choice: Choice) -> list[int]:
        """Return a sort key that puts choices into the order of declaration."""
        return [self.chooser.space.lists[name].index(value) for name, value in choice.items()]


def _codes(trial: Trial) -> tuple[str, ...]:
    """Return the code digests of all calls on which a candidate is tried; empty if one of them is unknown."""
    digests = {*trial.digests.values()}
    return tuple(sorted(digests)) if "" not in digests else ()


def _terms(space: Space, tolerance: Tolerance) -> str:
    """Return a digest of the rules by which results are compared; empty if a rule's source cannot be read."""
    text = space.comparison(tolerance)
    return Key([Part("comparison", text)]).digest[:16] if text else ""


def _day(ago: float = 0.0) -> str:
    """Return the date of the moment `ago` seconds before now."""
    return time.strftime("%Y-%m-%d", time.localtime(time.time() - ago))


def _versions() -> str:
    """Return the versions of kcl and, if it is imported, of loopy."""
    loopy = contents.version("loopy") if "loopy" in sys.modules else ""
    return f"kcl {kcl.__version__}{loopy and f', loopy {loopy}'}"


@contextlib.contextmanager
def _turn(queue: cl.CommandQueue) -> Iterator[None]:
    """Wait until no other tuning uses the device; do not wait if the file system has no locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, CacheFault):
            folder = places.own(places.FLIGHT)
            trust.make_trusted(folder)
            name = f"tune-{Key([Part('device', queue.device.name)]).digest}"
            descriptor = trust.open_file(os.path.join(folder, name), trust.LOCK)
            stack.callback(os.close, descriptor)
            if not try_lock(descriptor):
                events.logger().warning("waiting for another tuning on %s", queue.device.name)
                process.lock(descriptor, waits=True)
        yield
