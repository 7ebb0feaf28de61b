"""The bench: the child processes of one tuning. They build, launch and check candidates, and run the races.

There is one child for each processor. If a child dies at a question, the candidate is out, and a new child is started.

The tuning shall end at the time `end`. Each question may take a third of the remaining time, but at least as long as the
default takes. Work that has begun may end some seconds after `end`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from kcl.base import process, settings
from kcl.choices.tuning.candidates import LIMIT_SECONDS, Trial
from kcl.choices.tuning.child import OTHER_SHAPE, Question, find_tolerance
from kcl.choices.tuning.inputs import INTEGERS, NUMBERS, is_cut, place
from kcl.choices.tuning.race import (
    FEWEST,
    Sample,
    find_losers,
    find_standing,
    is_disturbed,
    is_over,
)
from kcl.choices.tuning.results import BY, Arrays, difference
from kcl.code import Code
from kcl.drivers.child import ChildFault, PythonChild, Verdict
from kcl.foreign import shell

_MOST_BYTES = 4 << 30  # of arrays in all children together
# A child has each array three times: its start, on the device, and the expected result.
_COPIES = 3
# A question may take this many times as long as for the default.
_SLOW = 3.0
_LEAST_SECONDS = 2.0  # of a question
_OVERTIME = 9.0  # seconds after the end of the tuning, for what was begun
# The length of a sample, in which launches are repeated, since other processes disturb some of them.
_SAMPLE_SECONDS, _LAST_SAMPLE_SECONDS = 5e-3, 20e-3
_ATTEMPTS = 3  # at a round that other processes disturb
# A longer round, in seconds, is not repeated.
_LONG = 1.0
_RENEWED_BYTES = 256 << 20  # of arrays that get new memory in each round
# Rounds in one child. The next child has other memory, so that no racer wins by its place there.
_OF_CHILD = 5
# The first launch of the default may take this many times the limit.
_BEGIN = 10.0
# Outcomes after which the child's memory, or its context on a GPU, may be damaged.
_DAMAGES = {"writes past the end", "does not launch", OTHER_SHAPE}


class ReadOutputs(dict[str, Any]):
    """The outputs that are passed to the user's `compare`; the dictionary gets those that `compare` reads."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __missing__(self, name: str) -> Any:
        """Return the array of an output, and note that it was read."""
        array = self[name] = self._arrays[name]
        return array


class Child(PythonChild):
    """A child process. `is_new` before its first candidate, `is_clean` as long as all its candidates were right."""

    def __init__(self, question: Question, folder: str) -> None:
        self.is_new = self.is_clean = True
        inherited = {**settings.environment_alone(), **shell.plan_change([], [], folder)}
        environment = {
            name: text
            for name, text in inherited.items()
            if text is not None and not name.startswith("KCL_")
        }
        own = {"KCL_CACHE_DIR": folder, "KCL_PROMOTE": "off", "TMPDIR": folder}
        super().__init__("kcl.choices.tuning.child", environment | own, "-I")
        self.begin(question)

    def end(self) -> int:
        """Kill the process and return its exit status."""
        self.is_clean = False
        return super().end()


class Bench(process.LockedState):
    """The children of one tuning. Raises ChildFault if the default does not run, or if its results vary.

    Forms of the call on which the default does not run are left out; `left_out` has their verdicts. `end` is the time at
    which the tuning shall end. A question may take at most `limit` seconds. `compare` is the user's comparison, see
    `kcl.space`.
    """

    def __init__(
        self,
        question: Question,
        default: Trial,
        folder: str,
        end: float = math.inf,
        compare: Callable[[Mapping[str, Any]], Any] | None = None,
        limit: float = LIMIT_SECONDS,
    ) -> None:
        super().__init__()
        self.default, self.limit, self.left_out = default, limit, dict[str, Verdict]()
        self._question, self._folder, self._end, self._compare = question, folder, end, compare
        size = question.forms[""].nbytes
        fitting = _MOST_BYTES // (_COPIES * len(question.forms) * size + 1)
        count = max(1, min(settings.processors(), fitting))
        self._pool = ThreadPoolExecutor(count, "kcl-tune")
        self._children: list[Child] = []
        self._idle: list[Child] = []  # children that wait for a candidate
        self._racer: Child | None = None
        self._homes: dict[Trial, Child] = {}  # the child that built a candidate
        self._is_renewed = size <= _RENEWED_BYTES
        self._is_over = self._has_cure = False
        self._least = _LEAST_SECONDS  # of a question
        self._unweighed = set[str]()  # forms on which the default does not run on absolute values
        self._dtypes = dict[str, Any]()  # of the outputs that `compare` reads
        # Form -> the result of `compare` for the default, and for the default on absolute values.
        self._expected: Arrays = {}
        self._scales: Arrays = {}
        self._racer_seconds = 0.0  # of a racer in a round
        # Called after each step.
        self.report: Callable[[], object] = lambda: None

    def __enter__(self) -> Bench:
        """Start the first child, which launches the default."""
        try:
            self._idle.append(self._pool.submit(self._start).result())
        except BaseException:
            # Python does not call `__exit__` if `__enter__` raises.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """End all children."""
        self._is_over = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in tuple(self._children):
            child.end()
        self._pool.shutdown()

    def seconds(self, least: float = 0.0) -> float:
        """Return the seconds that a question may take now: a third of the remaining time, but at least `least`."""
        third = (self._end - time.monotonic()) / 3
        return self._within(max(least, min(self.limit, third)))

    def _within(self, seconds: float) -> float:
        """Limit the seconds of a question, so that the tuning ends at most `_OVERTIME` late."""
        return max(0.1, min(seconds, self._end + _OVERTIME - time.monotonic()))

    def check(self, trials: Iterable[Trial], end: float) -> None:
        """Check trials in the children, until the time `end`."""
        for work in [self._pool.submit(self._check, trial, end) for trial in trials]:
            work.result()
            self.report()

    def race(
        self, trials: Iterable[Trial], most: int, end: float, is_last: bool = False
    ) -> list[Trial]:
        """Let trials race against the default, for at most `most` rounds or until `end`; return those not eliminated.

        The last race has at least the rounds that a winner needs, even after `end`. Sets `standing` of each trial. If a
        trial crashes its verdict says so, and the race goes on.
        """
        self._racer = self._clean(None)
        sample, fewest = (_LAST_SAMPLE_SECONDS, FEWEST) if is_last else (_SAMPLE_SECONDS, 1)
        racers = [self.default, *trials]
        # The number of racers in the last race is limited, so that their rounds end soon after `end`.
        if is_last and self._racer_seconds:
            left = end + _OVERTIME / 2 - time.monotonic()
            racers = racers[: max(2, int(left / FEWEST / self._racer_seconds))]
        running, rounds = set(range(len(racers))), list[dict[int, float]]()
        earlier = [list[Sample]() for _racer in racers]
        while not is_over(rounds, running, most) and (
            len(rounds) < fewest or time.monotonic() < end
        ):
            began = time.monotonic()
            if rounds and len(rounds) % _OF_CHILD == 0:
                self._racer = self._clean(self._racer)
            for _attempt in range(_ATTEMPTS if began < end else 1):
                samples = self._round(racers, running, sample)
                took = time.monotonic() - began
                self._racer_seconds = took / (1 + len(samples))
                disturbed = (
                    is_disturbed(taken, earlier[racer]) for racer, taken in samples.items()
                )
                if took > _LONG or not any(disturbed):
                    break
            for racer, taken in samples.items():
                earlier[racer].append(taken)
            rounds.append({racer: taken.elapsed for racer, taken in samples.items()})
            for racer in running:
                racers[racer].standing = find_standing(rounds, racer)
            processor = {
                racer: min(taken.processor for taken in earlier[racer]) for racer in running
            }
            running -= find_losers(rounds, running, processor)
            self.report()
        return [racers[racer] for racer in running if racer and len(rounds) >= FEWEST]

    def _clean(self, racer: Child | None) -> Child | None:
        """Return a clean child other than the racer; None if there is none."""
        return next(
            (child for child in self._children if child.is_clean and child is not racer), None
        )

    def _round(self, racers: list[Trial], running: set[int], sample: float) -> dict[int, Sample]:
        """Take a sample of each racer, in random order. A racer that crashes is out.

        Small arrays get new memory in each round, since their place affects the time; large ones cover all kinds of pages.
        """
        samples = {}
        # A child that fails here will fail again at its next question, which handles the failure.
        with suppress(ChildFault):
            for child in [child for child in self._children if child.is_clean and self._is_renewed]:
                child.ask(self.seconds(self._least), "renew")
        for racer in random.sample(sorted(running), len(running)):
            trial = racers[racer]
            # In a short race a candidate runs in the child that built it; in the last race all run in one child.
            home = self._homes.get(trial) if sample < _LAST_SAMPLE_SECONDS else None
            if home is None or not home.is_clean:
                home = self._racer = self._racer or self._pool.submit(self._start, True).result()
            try:
                limit = self.seconds(self._least)
                samples[racer] = home.ask(limit, "sample", trial.codes[""], sample)
            except ChildFault as fault:
                self._racer = None if home is self._racer else self._racer
                running.discard(racer)
                trial.limit = limit
                trial.verdict = fault.verdict._replace(
                    detail=f"{fault.verdict.detail}, in the race"
                )
                # Racer 0 is the default. Without it there is no ratio.
                if not racer:
                    raise
        return samples

    def _check(self, trial: Trial, end: float) -> None:
        """Check one trial. If a child dies that had other candidates before, a new child decides: these may be why."""
        is_decided = False
        while not is_decided and not self._is_over and time.monotonic() < end:
            try:
                # `pop` is one step, since another thread may take the last child.
                child = self._idle.pop()
            except IndexError:
                child = self._start()
            is_decided, child.is_new = child.is_new, False
            limit = self.seconds(self._least)
            try:
                verdict, outputs = child.ask(limit, "check", trial.codes)
            except ChildFault as fault:
                verdict, trial.limit = fault.verdict, limit
                is_decided = is_decided or verdict.outcome == "hangs"
            else:
                verdict, is_decided = self._judge(verdict, outputs), True
                child.is_clean = child.is_clean and verdict.outcome == "ok"
                if verdict.outcome in _DAMAGES:
                    child.end()
                else:
                    self._idle.append(child)
            if is_decided and not self._is_over:
                trial.verdict, self._homes[trial] = verdict, child

    def _start(self, is_racer: bool = False) -> Child:
        """Start a child, which launches the default on all forms; a racer only on the call itself.

        A form on which the default fails is left out, and another child is started, since it may have damaged this one.
        Runs in a thread of the pool, which Ctrl-C does not interrupt.
        """
        # After the first launch it is known which outputs `compare` reads.
        if self._question.compared == ():
            self._question = self._question._replace(compared=tuple(self._dtypes))
        # Listed before it is asked, so that `__exit__` ends it in any case.
        self._children.append(child := Child(self._question, self._folder))
        # `__exit__` may have read the list before.
        if self._is_over:
            child.end()
            raise ChildFault(Verdict("was stopped"))
        codes = {"": self.default.codes[""]} if is_racer else dict(self.default.codes)
        for form, code in codes.items():
            # Drawn numbers are positive already, so there is nothing to weigh.
            has_signs = not is_racer and form not in {NUMBERS, INTEGERS, *self._unweighed}
            for verb in ["begin", "weigh"][: 1 + has_signs]:
                if not self._has_run(child, verb, form, code):
                    child.end()
                    return self._start(is_racer)
        return child

    def _has_run(self, child: Child, verb: str, form: str, code: Code) -> bool:
        """Let a child launch the default for one form of the call; return False if this form is left out from now on."""
        is_first = verb == "begin" and not form
        usual = _BEGIN * self.limit if is_first else min(self.limit, 2 * self._least)
        try:
            verdict: Verdict
            verdict, seconds, outputs = child.ask(self._within(usual), verb, form, code)
            if outputs:
                verdict = self._compare_default(form, outputs)
        except ChildFault as fault:
            verdict = fault.verdict
        is_good = verdict.outcome == "ok"
        if is_first:
            self.default.verdict = verdict
        if is_good and is_first:
            self._least = max(self._least, _SLOW * seconds)
            # This child does not know yet which outputs are compared; the next one does.
            is_good = self._question.compared != ()
        elif not is_good and verb == "weigh":
            self._unweighed.add(form)
        elif not is_good:
            if is_first:
                raise ChildFault(verdict)
            self.left_out[form] = verdict
            self.default.codes.pop(form, None)
            self.default.ragged = any(map(is_cut, self.default.codes))
        return is_good

    def _compare_default(self, form: str, outputs: list[Arrays]) -> Verdict:
        """Keep what `compare` returns for the default: of two launches, which must agree, or of one on absolute values."""
        first, *others = map(self._numbers, outputs)
        self._scales[form] = first
        if not others:
            return Verdict("ok")
        self._expected[form] = first
        words = self._difference(form, others[0])
        return Verdict("wrong result", words) if words else Verdict("ok")

    def _judge(self, verdict: Verdict, outputs: dict[str, Arrays]) -> Verdict:
        """Return a child's verdict, or that of `compare`. The first verdict on another shape says what to do."""
        if verdict.outcome == OTHER_SHAPE and not self._has_cure:
            self._has_cure, name = True, verdict.detail.partition(" ")[0]
            cure = f"kcl.space(compare=lambda out: out[{name!r}].sum()) compares the sums"
            return verdict._replace(detail=f"{verdict.detail}; {cure}")
        for form, arrays in outputs.items() if self._compare else ():
            try:
                words = self._difference(form, self._numbers(arrays))
            except TypeError as error:
                words = str(error)
            if words:
                return Verdict("wrong result", words + place(form))
        return verdict

    def _numbers(self, outputs: Arrays) -> Any:
        """Return the result of the user's `compare` for outputs; raises TypeError if it is no numbers."""
        seen = ReadOutputs(outputs)
        assert self._compare is not None
        try:
            # Locked, since several threads come here and the user's function need not be thread-safe.
            with self.lock:
                numbers = np.asarray(self._compare(seen))
        except Exception as error:
            names = ", ".join(outputs)
            raise TypeError(
                f"compare= raises {type(error).__name__}: {error}; outputs: {names}"
            ) from error
        if not seen:
            raise TypeError("compare= reads no output by its name, as out['y'] does")
        if numbers.dtype.kind not in "biufc":
            raise TypeError(f"compare= returns {numbers.dtype}: return numbers")
        self._dtypes |= {name: array.dtype for name, array in seen.items()}
        return numbers

    def _difference(self, form: str, numbers: Any) -> str:
        """Describe the difference between results of `compare` for a candidate and for the default; empty for none."""
        expected, scale = self._expected[form], self._scales[form]
        if numbers.shape != expected.shape:
            return f"compare= has the shape {numbers.shape}, {BY} {expected.shape}"

        def tolerance(_name: str, dtype: Any) -> tuple[float, float]:
            wanted = self._question.tolerance
            every = [
                find_tolerance(wanted, name, output if output.kind in "fc" else dtype)
                for name, output in self._dtypes.items()
            ]
            relative, absolute = map(max, zip(*every, strict=True))
            return relative, absolute

        scales = {"compare": scale} if scale.shape == expected.shape else {}
        return difference({"compare": numbers}, {"compare": expected}, tolerance, scales)
