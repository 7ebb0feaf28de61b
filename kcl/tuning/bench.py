"""The bench: the children of one tuning. They build, launch and compare, one for each processor; then one child races.

A question that a child does not answer costs the candidate that it is about, and the next question goes to a new child.
"""

from __future__ import annotations

import math
import os
import queue
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe
from typing import Any

from kcl.base import settings
from kcl.caches import shell
from kcl.tuning.candidates import TuningCandidate
from kcl.tuning.child import Question, Verdict
from kcl.tuning.race import FEWEST, Sample, Standing, is_disturbed, is_over, losers, standing

_MOST_BYTES = 4 << 30  # of arrays in all children together
_COPIES = 4  # of each array in a child: as it begins, on the device, expected, found
_SLOW = 10.0  # a question may take this many times what it took for the default
_CODE = "import sys; fd, *sys.path[:] = sys.argv[1:]; from kcl.tuning import child; child.main(int(fd))"
_SAMPLE_SECONDS = 2e-3  # short launches are repeated in a sample, up to
_LAUNCHES = 20
_ATTEMPTS = 3  # at a round that others disturb
_BEGIN = 10.0  # times the limit: the default may be slow


class NoBench(Exception):
    """A child cannot launch the default."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(": ".join(verdict[:2]))


class LostChild(Exception):
    """A child that died or was stopped at a question."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(outcome, detail)
        self.verdict = Verdict(outcome, detail)


class Child:
    """A process that answers questions. `is_new` until it had a candidate."""

    def __init__(self, question: Question, folder: str) -> None:
        self.is_new = True
        self._pipe, end = Pipe()
        wish = shell.made([], [], folder)
        inherited = {**settings.environment_alone(), **wish.set}
        mine = {name for name in inherited if name.startswith("KCL_")}
        environment = {name: text for name, text in inherited.items() if name not in mine.union(wish.unset)}
        with end:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _CODE, str(end.fileno()), *map(os.path.abspath, sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[end.fileno()],
                start_new_session=True,
                env={**environment, "KCL_CACHE_DIR": folder, "KCL_PROMOTE": "off", "TMPDIR": folder},
            )
        self._send(question)

    def ask(self, seconds: float, verb: str, *given: Any) -> Any:
        """Return the answer; raises LostChild if there is none in some seconds."""
        self._send((seconds, verb, *given))
        try:
            if self._pipe.poll(seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            status = self._process.wait()
            raise LostChild("crashes", signal.Signals(-status).name if status < 0 else f"status {status}") from None
        self.end()
        raise LostChild("hangs", f"no result in {seconds:.3g} s")

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _send(self, what: Any) -> None:
        with suppress(OSError):  # the answer will be missing, too
            self._pipe.send(what)


class Bench:
    """The children of one tuning. Raises NoBench if the default does not run, or computes something else each time.

    `limit` are the seconds that a candidate may take: a slow default gives it more. `cuts` are those at which the
    default runs.
    """

    def __init__(self, question: Question, default: TuningCandidate, folder: str) -> None:
        self.default, self.limit = default, question.seconds
        self.cuts = [cut for cut in question.cuts if cut in default.paths]
        self._question, self._folder = question, folder
        size = sum(math.prod(one.shape) * one.dtype.itemsize for one in question.arrays.values())
        count = max(1, min(settings.processors(), _MOST_BYTES // (_COPIES * (1 + len(self.cuts)) * size + 1)))
        self._pool = ThreadPoolExecutor(count, "kcl-tune")
        self._idle: queue.SimpleQueue[Child | None] = queue.SimpleQueue()
        for _child in range(count):
            self._idle.put(None)
        self._children: list[Child] = []
        self._racer: Child | None = None
        self._is_over = False

    def __enter__(self) -> Bench:
        """Let the first child launch the default."""
        try:
            self._idle.get()
            self._idle.put(self._child(self.cuts))
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

    def check(self, candidates: Iterable[TuningCandidate], end: float) -> None:
        """Have candidates built, launched once and compared, until a moment, while the next ones are generated."""
        for work in [self._pool.submit(self._check, one, end) for one in candidates]:
            work.result()

    def race(self, candidates: Iterable[TuningCandidate], most: int, end: float) -> dict[TuningCandidate, Standing]:
        """Let candidates race against the default, for some rounds at most; return who ran to the end.

        Sets where each of them stands. A candidate that dies is named, and the race goes on.
        """
        racers = [self.default, *candidates]
        running, rounds = set(range(len(racers))), list[dict[int, float]]()
        earlier: list[list[Sample]] = [[] for _racer in racers]
        while not is_over(rounds, running, most) and (not rounds or time.monotonic() < end):
            for _attempt in range(_ATTEMPTS):
                found = self._round(racers, running)
                if not any(is_disturbed(sample, earlier[racer]) for racer, sample in found.items()):
                    break
            for racer, sample in found.items():
                earlier[racer].append(sample)
            rounds.append({racer: sample.elapsed for racer, sample in found.items() if racer in running})
            for racer in running:
                racers[racer].standing = standing(rounds, racer)
            running -= losers(rounds, running)
        decided = running if len(rounds) >= FEWEST else set()
        return {racers[racer]: standing(rounds, racer) for racer in decided if racer}

    def _round(self, racers: list[TuningCandidate], running: set[int]) -> dict[int, Sample]:
        """Take a sample of each, in random order; who dies is out."""
        found = {}
        for racer in random.sample(sorted(running), len(running)):
            one = racers[racer]
            launches = int(_SAMPLE_SECONDS / max(one.verdict.elapsed, 1e-9))
            self._racer = self._racer or self._child([])
            try:
                found[racer] = self._racer.ask(self.limit, "sample", one.paths[""], min(_LAUNCHES, max(1, launches)))
            except LostChild as lost:
                self._racer = None
                running.discard(racer)
                one.verdict = lost.verdict._replace(detail=f"{lost.verdict.detail}, in the race")
                if not racer:
                    raise NoBench(one.verdict) from None
        return found

    def _check(self, one: TuningCandidate, end: float) -> None:
        """Check one candidate. If a child dies that had others before, these may be the reason: a new child decides."""
        child, verdict, is_new = self._idle.get(), Verdict(""), False
        try:
            while not is_new and not self._is_over and time.monotonic() < end:
                child = child or self._child(self.cuts)
                is_new, child.is_new = child.is_new, False
                try:
                    verdict = self._compared(child, one)
                    break
                except LostChild as lost:
                    verdict, child = lost.verdict, None
                    is_new = is_new or verdict.outcome == "hangs"
            if child is not None and verdict.outcome == "writes past the end":
                child.end()
                child = None
        finally:
            self._idle.put(child)
        if not self._is_over:
            one.verdict = verdict

    def _compared(self, child: Child, one: TuningCandidate) -> Verdict:
        cuts = [cut for cut in self.cuts if cut in one.paths]
        elapsed, one.ragged = 0.0, bool(cuts) and len(cuts) == len(self.cuts)
        for cut in ("", *cuts):
            found: Verdict = child.ask(self.limit, "check", one.paths[cut], cut)
            if found.outcome != "ok":
                return found._replace(detail=f"{found.detail}, at {cut}" if cut else found.detail)
            elapsed = elapsed or found.elapsed
        return Verdict("ok", elapsed=elapsed)

    def _child(self, cuts: list[str]) -> Child:
        """Start a child, and let it launch the default; a cut at which that fails is left out."""
        if self._is_over:
            raise NoBench(Verdict("was stopped"))
        child, began = Child(self._question, self._folder), 0.0
        self._children.append(child)
        for cut in ("", *cuts):
            try:
                if not cut:
                    child.ask(_BEGIN * self.limit, "ready")
                    began = time.monotonic()
                verdict: Verdict = child.ask(_BEGIN * self.limit, "begin", self.default.paths[cut], cut)
            except LostChild as lost:
                verdict = lost.verdict
            if not cut and verdict.outcome != "ok":
                raise NoBench(verdict)
            if not cut:
                self.default.verdict = verdict
            elif verdict.outcome != "ok":
                child.end()
                self.cuts = [one for one in self.cuts if one != cut]
                return self._child(self.cuts)
        self.limit = max(self.limit, _SLOW * (time.monotonic() - began))
        return child
