"""The bench: the children of one tuning. They build, launch and compare, one for each processor; then one child races.

A question that a child does not answer costs the candidate that it is about, and the next question goes to a new child.

The tuning is to end at a moment, `end`. Each question has at most a third of the time that is left, and at least what
the default takes. What was begun may end some seconds later.
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
# A child has each array three times: as it begins, on the device, and what is expected.
_COPIES = 3
# A question may take this many times what it took for the default.
_SLOW = 3.0
_LEAST_SECONDS = 2.0  # of a question
_OVERTIME = 9.0  # seconds after the end of the tuning, for what was begun
# Launches are repeated in a sample, since other processes disturb some of them.
_SAMPLE_SECONDS, _LAST_SAMPLE_SECONDS = 5e-3, 20e-3
_ATTEMPTS = 3  # at a round that others disturb
# A round that takes longer, in seconds, is not repeated.
_LONG = 1.0
_RENEWED_BYTES = 256 << 20  # of arrays which each round has anew
# Rounds of one child. The next child has other memory, so no racer wins by its place.
_OF_CHILD = 5
# The default may be slow, so its first launch has so many times the limit.
_BEGIN = 10.0
# What damages the memory of a child, or its context on a GPU.
_DAMAGES = frozenset({"writes past the end", "does not launch", OTHER_SHAPE})


class ReadOutputs(dict[str, Any]):
    """The outputs that a comparison of the user's gets, of which it holds those that were read."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __missing__(self, name: str) -> Any:
        """Return the array of an output."""
        # The entry says later which outputs the comparison has read.
        array = self[name] = self._arrays[name]
        return array


class Child(PythonChild):
    """A process that answers questions. `is_new` until its first candidate, `is_clean` until a wrong one or its end."""

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
        """End the process, whatever it does."""
        self.is_clean = False
        return super().end()


class Bench(process.LockedState):
    """The children of one tuning. Raises ChildFault if the default does not run, or computes something else each time.

    Forms of the call on which the default does not run are left out: `left_out` has its verdicts there. `end` is the moment
    when the tuning is to end. A question has at most `limit` seconds. `compare` is a comparison of the user's; see
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
        self._idle: list[Child] = []  # those that wait for a candidate
        self._racer: Child | None = None
        self._homes: dict[Trial, Child] = {}  # the child that built a candidate
        self._is_renewed = size <= _RENEWED_BYTES
        self._is_over = self._has_cure = False
        self._least = _LEAST_SECONDS  # of a question
        self._unweighed = set[str]()  # forms on which the default does not run on absolute values
        self._dtypes = dict[str, Any]()  # of the outputs that `compare` reads
        # By form: what `compare` returns for the default, and for it on absolute values.
        self._expected: Arrays = {}
        self._scales: Arrays = {}
        self._racer_seconds = 0.0  # of a racer in a round
        # This is called after each step.
        self.report: Callable[[], object] = lambda: None

    def __enter__(self) -> Bench:
        """Let the first child launch the default."""
        try:
            self._idle.append(self._pool.submit(self._start).result())
        except BaseException:
            # Python ends no block that did not begin.
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
        """Return the seconds that a candidate may take now: at most a third of the time that is left."""
        third = (self._end - time.monotonic()) / 3
        return self._within(max(least, min(self.limit, third)))

    def _within(self, seconds: float) -> float:
        """Bound the seconds of a question, so that the whole call ends in its time and a little more."""
        return max(0.1, min(seconds, self._end + _OVERTIME - time.monotonic()))

    def check(self, trials: Iterable[Trial], end: float) -> None:
        """Check trials in the children, until the moment `end`. Further code is generated meanwhile."""
        for work in [self._pool.submit(self._check, trial, end) for trial in trials]:
            work.result()
            self.report()

    def race(
        self, trials: Iterable[Trial], most: int, end: float, is_last: bool = False
    ) -> list[Trial]:
        """Let trials race against the default until a moment, for some rounds; return those that ran to the end.

        The last race has the rounds without which nobody wins, whatever the time. Sets where each of them stands. One
        that dies is named, and the race goes on.
        """
        self._racer = self._clean(None)
        sample, fewest = (_LAST_SAMPLE_SECONDS, FEWEST) if is_last else (_SAMPLE_SECONDS, 1)
        racers = [self.default, *trials]
        # In the last race as many run as have their rounds soon after the end.
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
        """Return a child other than the racer that built right candidates only, None if there is none."""
        return next(
            (child for child in self._children if child.is_clean and child is not racer), None
        )

    def _round(self, racers: list[Trial], running: set[int], sample: float) -> dict[int, Sample]:
        """Take a sample of each racer, in random order. A racer that dies is out.

        Small arrays lie in another place each round, as their place changes a time; large ones have pages of all kinds.
        """
        samples = {}
        # A child that fails here does not answer the next question, either.
        with suppress(ChildFault):
            for child in [child for child in self._children if child.is_clean and self._is_renewed]:
                child.ask(self.seconds(self._least), "renew")
        for racer in random.sample(sorted(running), len(running)):
            trial = racers[racer]
            # In a short race a candidate runs in the child that built it, in the last race all
            # share one.
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
        """Check one trial. If a child dies that had others before, these may be the reason: a new child decides."""
        is_decided = False
        while not is_decided and not self._is_over and time.monotonic() < end:
            try:
                # One step: another thread may take the last one.
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
        """Start a child that launches the default, in a thread, which Ctrl-C does not stop; a racer has no other form.

        A form on which the default fails is left out, and another child starts, as it may be the reason of others.
        """
        # Which outputs are compared is known after the first launch.
        if self._question.compared == ():
            self._question = self._question._replace(compared=tuple(self._dtypes))
        # The child is listed before it is asked, so `__exit__` ends it whatever happens.
        self._children.append(child := Child(self._question, self._folder))
        # `__exit__` may have read the list before.
        if self._is_over:
            child.end()
            raise ChildFault(Verdict("was stopped"))
        codes = {"": self.default.codes[""]} if is_racer else dict(self.default.codes)
        for form, code in codes.items():
            # Drawn numbers have no signs to leave out, so there is nothing to weigh.
            has_signs = not is_racer and form not in {NUMBERS, INTEGERS, *self._unweighed}
            for verb in ["begin", "weigh"][: 1 + has_signs]:
                if not self._has_run(child, verb, form, code):
                    child.end()
                    return self._start(is_racer)
        return child

    def _has_run(self, child: Child, verb: str, form: str, code: Code) -> bool:
        """Let a child launch the default on a form; return False if the form is left out from now on."""
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
            # This child began before the compared outputs were known. The next one knows them.
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
        """Keep what `compare` returns for the default: for two launches, or for one on absolute values."""
        first, *others = map(self._numbers, outputs)
        self._scales[form] = first
        if not others:
            return Verdict("ok")
        self._expected[form] = first
        words = self._difference(form, others[0])
        return Verdict("wrong result", words) if words else Verdict("ok")

    def _judge(self, verdict: Verdict, outputs: dict[str, Arrays]) -> Verdict:
        """Return the verdict of a child, or that of `compare`. The first verdict on another shape names the cure."""
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
        """Return what `compare` makes of outputs; raises TypeError for no numbers."""
        seen = ReadOutputs(outputs)
        assert self._compare is not None
        try:
            # All threads of the pool call the user's function, which need not be thread-safe.
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
        """Describe the difference of what `compare` returns to what it returns for the default."""
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
