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
from kcl.base.text import tables
from kcl.base.text.tables import Column
from kcl.cache import places
from kcl.cache.key import Key
from kcl.cache.progress import ProgressLine
from kcl.drivers import devices
from kcl.errors import CacheFault
from kcl.line import bindings_of
from kcl.tuning import candidates, race
from kcl.tuning import search as searches
from kcl.tuning.bench import Bench, NoBench
from kcl.tuning.candidates import CandidateFiles, TunedKernel, TuningCandidate
from kcl.tuning.child import Question, Verdict
from kcl.tuning.race import Standing
from kcl.tuning.space import Choice
from kcl.tuning.table import ChoiceTable, Fact, Row, fact_name

LIMIT_SECONDS = 30.0  # of one candidate
_SHORT = 5  # rounds of the race after each step of a search
_CHECKED, _SEARCHED = 0.7, 0.85  # of the time: for building and comparing, and then for the search
_LEAST_SECONDS = 2.0  # of the last race
_NEAR = 1.1  # of the best time: who is nearer takes part in the last race
_FINALISTS = 12
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

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        head = f"{self.kernel}{' at ' if sizes else ''}{sizes}: "
        if self.row is None:
            return f"{head}not tuned: {self.why}"
        choice = ", ".join(f"{name}={value!r}" for name, value in self.row.choice.items())
        head += f"{choice} takes {self.row.ratio:.2f} of the time of the default"
        if self.why:
            return f"{head}; {self.why}"
        ragged = "" if self.row.ragged else "; not tried ragged"
        lines = [f"{head}; {self.row.tried} of {self.row.of} choices tried in {self.seconds:.1f} s{ragged}"]
        ordered = sorted(self.tried, key=lambda one: (one.ratio is None, one.ratio))
        columns = [*map(Column, self.row.choice), Column("/ default"), Column("noise"), Column("outcome")]
        cells = [[*map(repr, one.choice.values()), *_cells(one)] for one in ordered]
        return "\n".join([*lines, *(f"  {line}" for line in tables.lines(columns, cells))])


def _cells(one: TuningCandidate) -> list[str]:
    figures = [f"{one.standing.ratio:.3f}", f"{one.standing.noise:.0%}"] if one.standing else ["", ""]
    return [*figures, ": ".join(filter(None, one.verdict[:2]))]


def tune(
    kernel: TunedKernel,
    queue: cl.CommandQueue,
    arguments: Mapping[str, Any],
    level: int = 1,
    seconds: float = 60.0,
    search: Any = None,
    tolerance: float | None = None,
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
    result = Tuning(kernel.name, sizes, table.row(tuple(sizes.values())) if table is not None else None)
    device = devices.places_of(cl.Context([queue.device]))
    if table is None:
        return result._replace(why="nothing can be stored: KCL_NO_CACHE has it off, or the recipe has no key")
    if level == 0:
        return result._replace(row=None, why="level 0 stands for the defaults, which nobody measures")
    if result.row is not None and result.row.level >= level and not result.row.refused and not again:
        return result._replace(why="tuned before; again=True (kcl tune --again) measures again")
    if not device or os.name != "posix" or not os.path.basename(sys.executable or "").startswith(("python", "pypy")):
        return result._replace(row=None, why="it takes child processes: a whole device, and Python by itself")
    with _turn(queue), candidates.folder() as folder:
        files = CandidateFiles(kernel, queue, arguments, folder)
        found = _Tuner(kernel, sizes, table, files, level, search, again or tolerance is not None)
        return found.run(files.question(device, tolerance, limit), seconds)


class _Tuner:
    """One tuning. Of candidates with equal code one is measured."""

    def __init__(
        self,
        kernel: TunedKernel,
        sizes: dict[str, int],
        table: ChoiceTable,
        files: CandidateFiles,
        level: int,
        search: Any,
        anew: bool,
    ) -> None:
        self.kernel, self.sizes, self.table, self.files, self.level = kernel, sizes, table, files, level
        start = kernel.default_at(sizes)
        built_in, self.count = searches.of_level(level, kernel.space, kernel.given, sizes, start)
        self.search = built_in if search is None else search
        self.default = files.candidate(start)
        self.tried: list[TuningCandidate] = []
        self._known = {} if anew else table.facts()
        self._of_code = {self.default.code: self.default}

    def run(self, question: Question, seconds: float) -> Tuning:
        """Search until there is nothing to ask, or the time is over; then let the best race, and store the winner."""
        began, result = time.monotonic(), Tuning(self.kernel.name, self.sizes)
        if not self.default.paths:
            return result._replace(why=f"the default {': '.join(self.default.verdict[:2])}")
        try:
            with Bench(question, self.default, self.files.folder) as bench, ProgressLine() as line:
                while time.monotonic() < began + _CHECKED * seconds and (choices := self.search.ask()):
                    line.say(f"tuning {self.kernel.name}: {len(self.tried)} of {self.count} choices tried")
                    self._measure(bench, choices, began + _CHECKED * seconds, began + _SEARCHED * seconds)
                self.default.ragged = bool(bench.cuts)
                end = max(began + seconds, time.monotonic() + _LEAST_SECONDS)
                standings = bench.race(self._finalists(), race.ROUNDS, end)
        except NoBench as error:
            return result._replace(why=f"two launches of the default must run, and compute the same: {error}")
        except BaseException:
            self._store({one: one.standing for one in self.tried if one.ratio and one.standing}, level=0)
            raise
        self._share(self.tried)
        row = self._store(standings, self.level)
        return result._replace(row=row, tried=tuple(self.tried), seconds=time.monotonic() - began)

    def _measure(self, bench: Bench, choices: list[Choice], checked: float, raced: float) -> None:
        """Check and race some choices until these moments, and tell the search."""
        new: list[TuningCandidate] = []
        bench.check(self._generated(choices, new), checked)
        bench.race([one for one in new if one.verdict.outcome == "ok"], _SHORT, raced)
        self._share(new)
        for one in new:
            self.tried += [one] if one.verdict.outcome else []
            self.search.tell(one.choice, one.ratio)

    def _share(self, found: list[TuningCandidate]) -> None:
        """Let candidates have what was measured of equal code."""
        for one in found:
            twin = self._of_code.get(one.code, one)
            one.verdict, one.standing, one.ragged = twin.verdict, twin.standing, twin.ragged

    def _generated(self, choices: list[Choice], new: list[TuningCandidate]) -> Iterator[TuningCandidate]:
        """Yield the candidates to be checked; add all of them to `new`."""
        for choice in choices:
            refusal = self.kernel.space.refusal({**self.kernel.given, **choice}, self.sizes)
            if not self.kernel.space.has(choice):
                refusal = "a value is not in the space"
            one = self.files.candidate(choice, refusal)
            new.append(one)
            fact = self._known.get(fact_name(tuple(self.sizes.values()), choice))
            if one.paths and self._of_code.setdefault(one.code, one) is one:
                if fact is not None and _is_believed(fact, one.program):
                    one.verdict = Verdict(fact.outcome, fact.detail)
                else:
                    yield one

    def _finalists(self) -> list[TuningCandidate]:
        """Return the fastest, if they are faster than the default."""
        found = {one: one.ratio for one in self._of_code.values() if one.ratio and one is not self.default}
        most = min(1.0, _NEAR * min(found.values(), default=1.0))
        return sorted((one for one, ratio in found.items() if ratio <= most), key=found.__getitem__)[:_FINALISTS]

    def _store(self, standings: Mapping[TuningCandidate, Standing], level: int) -> Row:
        """Store the winner and what became of each candidate. What was interrupted replaces no finished row."""
        sizes, day = tuple(self.sizes.values()), time.strftime("%Y-%m-%d")
        best = race.winner(standings, sorted(standings, key=self._place)) or self.default
        end, tried, is_ragged = standings.get(best, _EVEN), len(self.tried), best.ragged or best is self.default
        row = Row(
            *(sizes, best.choice, end.ratio, level, tried, self.count, end.noise, day, _versions()),
            ragged=is_ragged,
            program=best.program,
        )
        self.table.put_facts(
            Fact(sizes, one.choice, *one.verdict[:2], one.ratio, level, day, one.program) for one in self.tried
        )
        before = self.table.row(sizes)
        if level or (standings and (before is None or before.refused)):
            self.table.put(row)
        self.kernel.forget()
        return row

    def _place(self, one: TuningCandidate) -> list[int]:
        """Return the place of a choice in the order of declaration."""
        return [self.kernel.space.lists[name].index(value) for name, value in one.choice.items()]


def _is_believed(fact: Fact, program: str) -> bool:
    """Return True if the failure of an earlier tuning still stands: the program is the same, and a crash is not old."""
    if fact.outcome == "ok" or not program or fact.program != program:
        return False
    age = time.time() - time.mktime(time.strptime(fact.day, "%Y-%m-%d"))
    return fact.outcome not in ("crashes", "hangs") or age < _BELIEVED_SECONDS


def _versions() -> dict[str, str]:
    """Return the versions of what made the code."""
    from importlib import metadata

    found = {"kcl": kcl.__version__}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found.update(loopy=metadata.version("loopy") if "loopy" in sys.modules else "")
    return {name: version for name, version in found.items() if version}


@contextlib.contextmanager
def _turn(queue: cl.CommandQueue) -> Iterator[None]:
    """Wait until no other tuning uses the device; where no lock can be had, go on."""
    build, descriptor = bindings_of(queue).build, -1
    parts = [part for (one, _), part in zip(build.devices, build.identities, strict=True) if one == queue.device]
    try:
        with contextlib.suppress(ImportError, OSError, CacheFault):
            import fcntl

            folder = places.own(places.FLIGHT)
            trust.make_trusted(folder)
            descriptor = trust.opened(os.path.join(folder, f"tune-{Key(parts[0]).digest}"), trust.LOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                events.logger().warning("waiting for another tuning on %s", queue.device.name)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)
