"""The last misses with their explanations: from the journal, and from the entries in the layers."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kcl import drivers
from kcl.base import settings
from kcl.base.text.layout import shortened
from kcl.base.text.names import of_kernel
from kcl.cache.key import Key
from kcl.cache.phrases import WIDTH
from kcl.cache.stores import Stat
from kcl.errors import CacheFault
from kcl.inspect import inventory, purge, variants
from kcl.inspect.catalogue import NotebookTable
from kcl.inspect.explain import Candidate, Explanation, Texts, texts_in
from kcl.inspect.explain import explain as compared
from kcl.inspect.explain.listing import Change
from kcl.inspect.history import journal
from kcl.inspect.history.journal import JournalMiss
from kcl.inspect.inventory import ListedEntry
from kcl.programs.driver import BEING_COMPLETED, OpenJobs

_BEING_WRITTEN = Change("entry", "it was missed before, and its entry waits to be completed")
_PENDING = "pending"  # in the metadata of an entry that a helper still writes
_NEVER = float("inf")
_SLOW = 60.0  # seconds between the entry and the event of one look-up, at most


class Miss(NamedTuple):
    """A look-up that was no hit, and why, as `kcl explain` tells it; `str` of it is what that prints.

    `time` is in seconds since the epoch, `driver` the file of the program, `process` its process id. `outcome` is
    "miss", "bypass" or "error", and `times` says how often it was so in that run. `reason` is the event's. `key` and
    `nearest` are digests: of the key that was looked for, and of the nearest earlier entry; None where there is none.
    `changes` says what differs between these two, `words` has the lines of the text. `parameters` are those of the
    recipe as text, as far as they are known, `run` is the name of the process in the journal.

    >>> event, outputs = doubled(factor=2)(queue, x=x)
    >>> event, outputs = doubled(factor=3)(queue, x=x)
    >>> miss = [miss for miss in kcl.explain("doubled") if miss.layer == "generator"][-1]
    >>> miss.outcome, len(miss.changes) > 0
    ('miss', True)
    """

    time: float
    driver: str
    process: int
    layer: str
    kernel: str
    outcome: str
    times: int
    reason: str
    key: str | None
    nearest: str | None
    changes: tuple[Change, ...]
    words: tuple[str, ...]
    parameters: Mapping[str, str] = {}
    run: str = ""

    def __str__(self) -> str:
        return "\n".join(self.words)


class Shelf:
    """The entries of a layer, with their texts, which are read on request; those that a helper still writes count, too.

    `made` tells when digests were missed first.
    """

    def __init__(self, layer: str, made: Mapping[str, float] = {}) -> None:
        self.entries = list(inventory.entries(layer, all_rows=True))
        self.made = made
        self.removed = {digest: (reason, moment) for digest, reason, moment in purge.removed()}
        self._read: dict[str, Texts] = {}
        self._by_digest = {one.digest: one for one in self.entries}
        open_jobs = pending() if layer == settings.BINARY else OpenJobs()
        for job in (*open_jobs.here, *open_jobs.elsewhere):
            listed = ListedEntry(
                layer,
                job.key.digest,
                Stat(0, 0.0),
                job.key,
                {**job.metadata, _PENDING: True},
                {},
            )
            if listed.digest not in self._by_digest:
                self._by_digest[listed.digest] = listed
                self.entries.append(listed)
                self._read[listed.digest] = texts_in(job.parts)

    def explain(
        self,
        kernel: str,
        key: Key,
        texts: Texts,
        moment: float,
        begun: float,
        program: str = "",
        asked: Callable[[], Iterable[str]] = tuple,
    ) -> Explanation:
        """Compare a key that was missed at a moment with the entries; `begun` is the begin of the run that missed.

        `program` is the start of the digest of the OpenCL C to compare with, if entries have it. `asked` returns the
        kernels of the same run: none of these names is an old name of the kernel.
        """
        own = self.entry_of(key)
        if own is not None and _PENDING in own.metadata and self.made.get(key.digest, 0.0) < begun:
            return Explanation(None, (_BEING_WRITTEN,))
        reason, gone = self.removed.get(key.digest, ("", _NEVER))
        if gone < moment:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(gone))
            return Explanation(None, (Change("entry", f"removed by {reason}, {when}"),))

        def known(is_of_kernel: bool) -> list[ListedEntry]:
            return [
                one
                for one in self.entries
                if (one.kernel == kernel) == is_of_kernel
                and one.digest != key.digest
                and self._written(one) < moment
            ]

        # A program has one entry, under the kernel that asked first.
        for is_of_kernel in (True, False) if program else ():
            paired = [one for one in known(is_of_kernel) if one.program == program]
            if paired:
                return compared(key, texts, map(self._candidate, paired), begun)
        return compared(
            key,
            texts,
            map(self._candidate, known(True)),
            begun,
            lambda: [self._candidate(one) for one in known(False) if one.kernel not in asked()],
        )

    def entry_of(self, key: Key) -> ListedEntry | None:
        """Return the entry under a key."""
        return self._by_digest.get(key.digest)

    def _written(self, one: ListedEntry) -> float:
        """Return when an entry was made: exactly if it was missed then; the file has whole seconds."""
        moment = self.made.get(one.digest, _NEVER)
        return moment if moment < one.built + _SLOW else one.built

    def _candidate(self, one: ListedEntry) -> Candidate:
        return Candidate(one.key, self._written(one), one.metadata, lambda: self.texts(one))

    def texts(self, one: ListedEntry) -> Texts:
        """Read the texts of an entry; those of a row that depends on dtypes lie in its base row."""
        if one.address not in self._read:
            entry = inventory.read(one, [], with_texts=True)
            self._read[one.address] = Texts() if entry is None else texts_in(entry.parts)
        return self._read[one.address]


def pending() -> OpenJobs:
    """Return the entries that wait for a helper; none if these cannot be read."""
    with suppress(OSError, CacheFault):
        return drivers.pending()
    return OpenJobs()


def told(missed: Sequence[JournalMiss], history: Sequence[JournalMiss]) -> list[Miss]:
    """Explain look-ups that were no hits; `history` holds all known ones, oldest first."""
    made, begun = _moments(history)
    shelf_of = functools.cache(lambda layer: Shelf(layer, made))
    # run, kernel, its program -> that of the nearest row
    partners: dict[tuple[str, str, str], str] = {}
    explained, asked = [], functools.cache(journal.asked)
    for one, times in _grouped(missed):
        explanation, own = None, None
        if one.outcome == "miss" and one.key is not None and one.reason != BEING_COMPLETED:
            shelf = shelf_of(one.layer)
            own = shelf.entry_of(one.key)
            texts = texts_in(one.texts) if one.texts or own is None else shelf.texts(own)
            pair = one.process, one.kernel, own.program if own else ""
            program = partners.get(pair, "") if one.layer == settings.BINARY else ""
            explanation = shelf.explain(
                one.kernel,
                one.key,
                texts,
                one.time,
                begun[one.process],
                program,
                functools.partial(asked, one.process),
            )
            if one.layer == settings.GENERATOR and explanation.nearest is not None:
                nearest = shelf.entry_of(explanation.nearest.key)
                partners[pair] = nearest.program if nearest else ""
        explained.append((one, times, explanation, own))
    told = variants.parameters(own for *_, own in explained if own)
    return [
        _miss(one, times, explanation, told.get(own.program if own else "", {}))
        for one, times, explanation, own in explained
    ]


def _grouped(missed: Iterable[JournalMiss]) -> list[tuple[JournalMiss, int]]:
    """Return the first of the equal look-ups of each process, and their number."""
    alike: dict[tuple[str, ...], list[JournalMiss]] = {}
    for one in missed:  # with the same process, layer, kernel, outcome, reason and key
        same = *one[1:6], one.key.digest if one.key else ""
        alike.setdefault(same, []).append(one)
    return [(group[0], len(group)) for group in alike.values()]


def _moments(history: Sequence[JournalMiss]) -> tuple[dict[str, float], dict[str, float]]:
    """Return when the rows of misses were made, by their digests, and when each process missed first."""
    made, begun = dict[str, float](), dict[str, float]()
    for one in history:
        begun.setdefault(one.process, one.time)
        # the row, and its base row
        for digest in inventory.led_by(one.key) if one.key is not None else ():
            made.setdefault(digest, one.time)
    return made, begun


def _noted(one: JournalMiss) -> Mapping[str, str]:
    """Return the parameters that the process of a miss left in the journal; empty for a recipe without any."""
    return {name: shortened(text, WIDTH) for name, text in (one.parameters or {}).items()}


def _miss(
    missed: JournalMiss, times: int, explanation: Explanation | None, variant: Mapping[str, str]
) -> Miss:
    """Describe a look-up by itself; only a miss has an explanation."""
    nearest, changes = (None, ()) if explanation is None else explanation
    often = f" ({times} times)" if times > 1 else ""
    parameters = _noted(missed) or variant
    words = [missed.reason] if explanation is None else in_words(explanation)
    return Miss(
        missed.time,
        missed.driver,
        missed.pid,
        *missed[2:5],
        times,
        missed.reason,
        None if missed.key is None else missed.key.digest,
        None if nearest is None else nearest.key.digest,
        changes,
        (
            f"{of_kernel(missed.kernel, parameters)}, {missed.layer} layer: {missed.outcome}{often}",
            *(f"  {line}" for line in words),
        ),
        parameters,
        missed.process,
    )


def in_words(explanation: Explanation) -> list[str]:
    """Write an explanation as lines for the user."""
    lines = [
        line
        for change in explanation.changes
        for line in (change.sentence, *(f"  {line}" for line in change.diff))
    ]
    return lines or ["first time seen"]


def lines(found: Iterable[Miss]) -> list[str]:
    """Write look-ups and their explanations as lines for the user.

    The kernels of one file change together. So look-ups of one layer with the same explanation stand together, with the
    explanation below them once. Equal lines of ranks are one line.
    """
    alike: dict[tuple[str, str, tuple[str, ...]], Counter[str]] = {}
    for one in found:
        title, *words = one.words
        alike.setdefault((one.layer, one.outcome, tuple(words)), Counter()).update([title])
    said: list[str] = []
    for (_layer, _outcome, explanation), titles in alike.items():
        said += [title + (f" x{count}" if count > 1 else "") for title, count in titles.items()]
        said += explanation
    return said


def explain(kernel: str | None = None, *, every: bool = False, limit: int = 40) -> list[Miss]:
    """Return why look-ups missed, oldest first, as `kcl explain` does: those of the last run in which any did.

    With `kernel` those of the recipe of this name, of the last run in which it missed; with `every` those of all runs
    that are remembered, this process included; the last `limit` of them, 0 is all. Nothing is run again.

    >>> event, outputs = doubled()(queue, x=x)
    >>> for miss in kcl.explain("doubled"):
    ...     print(miss)
    doubled(factor=2), generator layer: miss
      first time seen
    doubled(factor=2), binary layer: miss
      first time seen

    Reads files of the cache directory; where these cannot be read the list is empty. Raises nothing. Thread-safe.
    """
    history = journal.last_misses()
    asked = chosen(history, kernel, every)
    return NotebookTable(
        told(asked[-limit:] if limit > 0 else asked, history), "misses", "driver", "words"
    )


def chosen(history: Sequence[JournalMiss], kernel: str | None, every: bool) -> list[JournalMiss]:
    """Return the look-ups to explain: those of a kernel, of the last run that has any.

    A kernel is named by its recipe, or with its parameters, as `kcl explain` prints it.
    """
    asked = [
        one for one in history if kernel in (None, one.kernel, of_kernel(one.kernel, _noted(one)))
    ]
    return asked if every else [one for one in asked if one.process == asked[-1].process]
