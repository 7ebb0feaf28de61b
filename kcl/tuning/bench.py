"""The bench: the children of one tuning. They build, launch and compare, one for each processor; then one child races.

A question that a child does not answer costs the candidate that it is about, and the next question goes to a new child.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe
from typing import Any

from kcl.base import settings
from kcl.caches import shell
from kcl.code import Code
from kcl.tuning.candidates import Trial
from kcl.tuning.child import Question, Verdict
from kcl.tuning.race import FEWEST, Sample, is_disturbed, is_over, losers, standing

_MOST_BYTES = 4 << 30  # of arrays in all children together
_COPIES = 4  # of each array in a child: as it begins, on the device, expected, found
_SLOW = 10.0  # a question may take this many times what it took for the default
_CODE = (
    "import sys; fd, *sys.path[:] = sys.argv[1:]; from kcl.tuning import child; child.main(int(fd))"
)
_SAMPLE_SECONDS, _LAST_SAMPLE_SECONDS = (
    5e-3,
    20e-3,
)  # launches are repeated in a sample: others disturb some of them
_ATTEMPTS = 3  # at a round that others disturb
_LONG = 1.0  # seconds: a round that takes longer is not repeated
_RENEWED_BYTES = 256 << 20  # of arrays which each round has anew
_OF_CHILD = 5  # rounds of one child: the next one has other memory
_BEGIN = 10.0  # times the limit: the default may be slow
_NO_LAUNCH = "does not launch"
_DAMAGES = frozenset(
    {"writes past the end", _NO_LAUNCH}
)  # the memory of a child, or its context on a GPU


class ChildFault(Exception):
    """A child that died or was stopped at a question, or that cannot launch the default."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(": ".join(verdict[:2]))
        self.verdict = verdict


class Child:
    """A process that answers questions. `is_new` until its first candidate, `is_clean` until a wrong one or its end."""

    def __init__(self, question: Question, folder: str) -> None:
        self.is_new = self.is_clean = True
        self._pipe, end = Pipe()
        wish = shell.made([], [], folder)
        inherited = {**settings.environment_alone(), **wish.set}
        mine = {name for name in inherited if name.startswith("KCL_")}
        environment = {
            name: text for name, text in inherited.items() if name not in mine.union(wish.unset)
        }
        with end:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-c",
                    _CODE,
                    str(end.fileno()),
                    *map(os.path.abspath, sys.path),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[end.fileno()],
                start_new_session=True,
                env={
                    **environment,
                    "KCL_CACHE_DIR": folder,
                    "KCL_PROMOTE": "off",
                    "TMPDIR": folder,
                },
            )
        self._send(question)

    def ask(self, seconds: float, verb: str, *given: Any) -> Any:
        """Return the answer; raises ChildFault if there is none in some seconds."""
        self._send((seconds, verb, *given))
        try:
            if self._pipe.poll(seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            self.is_clean, status = False, self._process.wait()
            signalled = signal.Signals(-status).name if status < 0 else f"status {status}"
            raise ChildFault(Verdict("crashes", signalled)) from None
        self.end()
        raise ChildFault(Verdict("hangs", f"no result in {seconds:.3g} s"))

    def end(self) -> None:
        """End the process, whatever it does."""
        self.is_clean = False
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _send(self, what: Any) -> None:
        with suppress(OSError):  # the answer will be missing, too
            self._pipe.send(what)


class Bench:
    """The children of one tuning. Raises ChildFault if the default does not run, or computes something else each time.

    The default keeps the forms of the call at which it runs. `limit` are the seconds that a question may take.
    """

    def __init__(self, question: Question, default: Trial, folder: str) -> None:
        self.default, self.limit = default, question.seconds
        self._question, self._folder = question, folder
        size = sum(math.prod(one.shape) * one.dtype.itemsize for one in question.arrays.values())
        count = max(
            1, min(settings.processors(), _MOST_BYTES // (_COPIES * len(question.forms) * size + 1))
        )
        self._pool = ThreadPoolExecutor(count, "kcl-tune")
        self._thread = threading.local()  # has the child of each thread of the pool
        self._children: list[Child] = []
        self._racer: Child | None = None
        self._homes: dict[Trial, Child | None] = {}  # the child that built a candidate
        self._is_renewed = size <= _RENEWED_BYTES
        self._is_over = False

    def __enter__(self) -> Bench:
        """Let the first child launch the default."""
        try:
            self._pool.submit(self._begin).result()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """End all children."""
        self._is_over = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for _time in range(2):  # a thread may start one in between
            for child in tuple(self._children):
                child.end()
            self._pool.shutdown()

    def check(self, trials: Iterable[Trial], end: float) -> None:
        """Have code built, launched once and compared, until a moment, while the next code is generated."""
        for work in [self._pool.submit(self._check, one, end) for one in trials]:
            work.result()

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
        running, rounds = set(range(len(racers))), list[dict[int, float]]()
        earlier: list[list[Sample]] = [[] for _racer in racers]
        while not is_over(rounds, running, most) and (
            len(rounds) < fewest or time.monotonic() < end
        ):
            began = time.monotonic()
            if rounds and len(rounds) % _OF_CHILD == 0:
                self._racer = self._clean(self._racer)
            for _attempt in range(_ATTEMPTS):
                found = self._round(racers, running, sample)
                is_long = time.monotonic() - began > _LONG
                if is_long or not any(
                    is_disturbed(taken, earlier[racer]) for racer, taken in found.items()
                ):
                    break
            for racer, taken in found.items():
                earlier[racer].append(taken)
            rounds.append(
                {racer: taken.elapsed for racer, taken in found.items() if racer in running}
            )
            for racer in running:
                racers[racer].standing = standing(rounds, racer)
            processor = {
                racer: min(taken.processor for taken in earlier[racer]) for racer in running
            }
            running -= losers(rounds, running, processor)
        return [racers[racer] for racer in running if racer and len(rounds) >= FEWEST]

    def _clean(self, racer: Child | None) -> Child | None:
        """Return a child, but not the racer, that built right candidates only; None without one."""
        return next((one for one in self._children if one.is_clean and one is not racer), None)

    def _round(self, racers: list[Trial], running: set[int], sample: float) -> dict[int, Sample]:
        """Take a sample of each, in random order; who dies is out.

        Small arrays lie in another place each round, as their place changes a time; large ones have pages of all kinds.
        """
        found = {}
        with suppress(ChildFault):  # it will not answer the next question, either
            for child in [one for one in self._children if one.is_clean and self._is_renewed]:
                child.ask(self.limit, "renew")
        for racer in random.sample(sorted(running), len(running)):
            one = racers[racer]
            home = self._homes.get(one) if sample < _LAST_SAMPLE_SECONDS else None
            if home is None or not home.is_clean:
                home = self._racer = self._racer or self._pool.submit(self._child).result()[0]
            try:
                found[racer] = home.ask(self.limit, "sample", one.codes[""], sample)
            except ChildFault as fault:
                self._racer = None if home is self._racer else self._racer
                running.discard(racer)
                one.verdict = fault.verdict._replace(detail=f"{fault.verdict.detail}, in the race")
                if not racer:
                    raise
        return found

    def _check(self, one: Trial, end: float) -> None:
        """Check one trial. If a child dies that had others before, these may be the reason: a new child decides."""
        is_decided = False
        while not is_decided and not self._is_over and time.monotonic() < end:
            child = self._thread.__dict__.pop("child", None) or self._child(self.default.codes)[0]
            is_decided, child.is_new = child.is_new, False
            try:
                verdict: Verdict = child.ask(self.limit, "check", one.codes)
            except ChildFault as fault:
                verdict, child = fault.verdict, None
                is_decided = is_decided or verdict.outcome == "hangs"
                one.limit = self.limit
            else:
                is_decided = True
            if is_decided and not self._is_over:
                one.verdict = verdict
                self._homes[one] = child
            if child is not None and verdict.outcome in _DAMAGES:
                child.end()
            elif child is not None:
                self._thread.child, child.is_clean = (
                    child,
                    child.is_clean and verdict.outcome == "ok",
                )

    def _begin(self) -> None:
        """Start the first child; the forms of the call at which the default fails are left out."""
        codes = dict(self.default.codes)
        try:
            self._thread.child, verdicts = self._child(codes)
        except ChildFault:
            codes = {"": codes[""]}
            self._thread.child, verdicts = self._child(codes)
        while failed := [
            form for form, verdict in verdicts.items() if verdict.outcome == _NO_LAUNCH
        ]:
            self._thread.child.end()
            del codes[failed[0]]  # the others may have failed for that one
            self._thread.child, verdicts = self._child(codes)
        self.default.codes = {
            form: code for form, code in codes.items() if verdicts[form].outcome == "ok"
        }
        self.default.ragged = len(self.default.codes) > 1

    def _child(self, codes: dict[str, Code] | None = None) -> tuple[Child, dict[str, Verdict]]:
        """Start a child that launches the default, in a thread, which Ctrl-C does not stop; return a Verdict a form."""
        codes = codes or {"": self.default.codes[""]}
        if self._is_over:
            raise ChildFault(Verdict("was stopped"))
        self._children.append(child := Child(self._question, self._folder))
        verdicts, seconds = child.ask(_BEGIN * self.limit, "begin", codes)
        self.default.verdict = verdicts[""]
        if verdicts[""].outcome != "ok":
            raise ChildFault(verdicts[""])
        self.limit = max(self.limit, _SLOW * seconds)
        return child, verdicts
