"""The last misses with their explanations: from the journal, and from the entries in the layers."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple

from kcl import drivers
from kcl.base import settings
from kcl.base.events import MissNote
from kcl.base.text.layout import shortened
from kcl.base.text.names import of_kernel
from kcl.cache.key import Key
from kcl.cache.phrases import WIDTH
from kcl.cache.stores import Stat
from kcl.errors import CacheFault
from kcl.inspect import inventory, purge, variants
from kcl.inspect.catalogue import NotebookTable
from kcl.inspect.explain import FIRST_TIME, Candidate, Explanation, Texts, read_texts
from kcl.inspect.explain import explain as compared
from kcl.inspect.explain.listing import Change
from kcl.inspect.history import journal
from kcl.inspect.inventory import ListedEntry
from kcl.programs.driver import BEING_COMPLETED
from kcl.programs.open_jobs import OpenJobs

LEFT_OUT = "{} earlier ones are left out: kcl explain --limit 0"
_BEING_WRITTEN = Change("entry", "it was missed before, and its entry waits to be completed")
_NEVER = float("inf")
# The seconds between the entry and the event of one look-up, at most.
_SLOW = 60.0


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
    """The entries of a layer with their texts, which are read when needed; includes entries that a helper still writes.

    `made` tells when each entry was first missed: digest -> time.
    """

    def __init__(self, layer: str, made: Mapping[str, float] = {}) -> None:
        self.made = made
        self.removed = {digest: (reason, moment) for digest, reason, moment in purge.read_removed()}
        self._by_digest = {entry.digest: entry for entry in inventory.entries(layer)}
        self._texts: dict[str, Texts] = {}
        self._waiting = set[str]()
        open_jobs = find_pending() if layer == settings.BINARY else OpenJobs()
        for job in (*open_jobs.here, *open_jobs.elsewhere):
            digest = job.key.digest
            if digest not in self._by_digest:
                entry = ListedEntry(layer, digest, Stat(0, 0.0), job.key, job.metadata)
                self._by_digest[digest], self._texts[digest] = entry, read_texts(job.parts)
                self._waiting.add(digest)
        self._by_kernel = inventory.group(self._by_digest.values(), attrgetter("kernel"))

    def explain(
        self,
        kernel: str,
        key: Key,
        texts: Texts,
        moment: float,
        begun: float,
        program: str = "",
    ) -> Explanation:
        """Compare a key that was missed at a moment with the entries; `begun` is the begin of the run that missed.

        `program` is the start of the digest of the OpenCL C to compare with, if entries have it.
        """
        if key.digest in self._waiting and self.made.get(key.digest, 0.0) < begun:
            return None, [_BEING_WRITTEN]
        reason, gone = self.removed.get(key.digest, ("", _NEVER))
        if gone < moment:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(gone))
            return None, [Change("entry", f"removed by {reason}, {when}")]

        def is_earlier(entry: ListedEntry) -> bool:
            return entry.digest != key.digest and self._find_time(entry) < moment

        of_kernel = [*filter(is_earlier, self._by_kernel.get(kernel, ()))]
        near = [entry for entry in of_kernel if program and entry.program == program]
        if program and not near:
            # A program has one entry, with the name of the kernel that was first to ask for it, which may be another one.
            same = [entry for entry in self._by_digest.values() if entry.program == program]
            near = [*filter(is_earlier, same)]
        # A miss that stored nothing has a key without dtypes.
        is_base = inventory.find_base_key(key) is key
        candidates = [
            Candidate(
                inventory.find_base_key(entry.key) if is_base else entry.key,
                self._find_time(entry),
                functools.partial(self.read_texts, entry),
            )
            for entry in near or of_kernel
        ]
        return compared(key, texts, candidates, begun)

    def find_entry(self, key: Key) -> ListedEntry | None:
        """Return the entry under a key."""
        return self._by_digest.get(key.digest)

    def _find_time(self, entry: ListedEntry) -> float:
        """Return when an entry was made: the time of its miss if known, else that of its file, in whole seconds."""
        moment = self.made.get(entry.digest, _NEVER)
        return moment if moment < entry.built + _SLOW else entry.built

    def read_texts(self, listed: ListedEntry) -> Texts:
        """Read the texts of an entry; those of a row that depends on dtypes lie in its base row."""
        if listed.address not in self._texts:
            entry = listed.read([], with_texts=True)
            self._texts[listed.address] = read_texts(entry.parts if entry else {})
        return self._texts[listed.address]


def find_pending() -> OpenJobs:
    """Return the entries that wait for a helper; none if these cannot be read."""
    with suppress(OSError, CacheFault):
        return drivers.pending()
    return OpenJobs()


def explain_looks(missed: Sequence[MissNote], history: Sequence[MissNote]) -> list[Miss]:
    """Explain look-ups that were no hits; `history` holds all known ones, oldest first."""
    made, begun = _find_moments(history)
    shelf_of = functools.cache(lambda layer: Shelf(layer, made))
    # A program is compared with the program of the code that was nearest to its own code:
    # (run, kernel, own program) -> that program.
    partners: dict[tuple[str, str, str], str] = {}
    explained = []
    for note, times in _group_equal(missed):
        event, run = note.event, note.record["name"]
        explanation, own = None, None
        if event.outcome == "miss" and note.key is not None and event.reason != BEING_COMPLETED:
            shelf = shelf_of(event.layer)
            own = shelf.find_entry(note.key)
            texts = read_texts(note.texts) if note.texts or own is None else shelf.read_texts(own)
            pair = run, event.kernel, own.program if own else ""
            program = partners.get(pair, "") if event.layer == settings.BINARY else ""
            explanation = shelf.explain(
                event.kernel, note.key, texts, note.time, begun[run], program
            )
            if event.layer == settings.GENERATOR and explanation[0] is not None:
                nearest = shelf.find_entry(explanation[0].key)
                partners[pair] = nearest.program if nearest else ""
        explained.append((note, times, explanation, own))
    variant_of = variants.find_parameters(own for *_, own in explained if own)
    return [
        _describe(note, times, explanation, variant_of.get(own.program if own else "", {}))
        for note, times, explanation, own in explained
    ]


def explain_last(
    missed: Sequence[MissNote], history: Sequence[MissNote], limit: int
) -> tuple[list[Miss], int]:
    """Explain the last look-ups, all with a `limit` of 0; return the number of the earlier ones, too."""
    # With 0 the slice begins at 0.
    last = missed[-limit:]
    return explain_looks(last, history), len(missed) - len(last)


def _group_equal(missed: Iterable[MissNote]) -> list[tuple[MissNote, int]]:
    """Return the first of the equal look-ups of each process, and their number."""

    def name(note: MissNote) -> tuple[object, ...]:
        event = note.event._replace(key=note.key.digest if note.key else "")
        return (note.record["name"], *event[:5])

    return [(alike[0], len(alike)) for alike in inventory.group(missed, name).values()]


def _find_moments(history: Sequence[MissNote]) -> tuple[dict[str, float], dict[str, float]]:
    """Return when the rows of misses were made, by their digests, and when each process missed first."""
    made, begun = dict[str, float](), dict[str, float]()
    for note in history:
        begun.setdefault(note.record["name"], note.time)
        if note.key is not None:
            made.setdefault(note.key.digest, note.time)
    return made, begun


def _find_parameters(note: MissNote) -> Mapping[str, str]:
    """Return the parameters that the process of a miss left in the journal; empty for a recipe without any."""
    return {name: shortened(text, WIDTH) for name, text in (note.parameters or {}).items()}


def _describe(
    note: MissNote, times: int, explanation: Explanation | None, variant: Mapping[str, str]
) -> Miss:
    """Describe a look-up by itself; only a miss has an explanation."""
    event, (nearest, changes) = note.event, explanation or FIRST_TIME
    often = f" ({times} times)" if times > 1 else ""
    parameters = _find_parameters(note) or variant
    words = [event.reason] if explanation is None else write_explanation(explanation)
    return Miss(
        note.time,
        note.record["driver"],
        note.record["pid"],
        event.layer,
        event.kernel,
        event.outcome,
        times,
        event.reason,
        None if note.key is None else note.key.digest,
        None if nearest is None else nearest.key.digest,
        tuple(changes),
        (
            f"{of_kernel(event.kernel, parameters)}, {event.layer} layer: {event.outcome}{often}",
            *(f"  {line}" for line in words),
        ),
        parameters,
        note.record["name"],
    )


def write_explanation(explanation: Explanation) -> list[str]:
    """Write an explanation as lines for the user."""
    lines = [
        line
        for change in explanation[1]
        for line in (change.sentence, *(f"  {line}" for line in change.diff))
    ]
    return lines or ["first time seen"]


def write_lines(looks: Iterable[Miss]) -> list[str]:
    """Write look-ups and their explanations as lines for the user.

    The kernels of one file change together. So look-ups of one layer with the same explanation stand together, with the
    explanation below them once. Equal lines of ranks are one line.
    """
    alike: dict[tuple[str, str, tuple[str, ...]], Counter[str]] = {}
    for look in looks:
        title, *words = look.words
        alike.setdefault((look.layer, look.outcome, tuple(words)), Counter()).update([title])
    texts: list[str] = []
    for (_layer, _outcome, explanation), titles in alike.items():
        texts += [title + (f" x{count}" if count > 1 else "") for title, count in titles.items()]
        texts += explanation
    return texts


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
    explained, _left_out = explain_last(choose(history, kernel, every), history, max(0, limit))
    return NotebookTable(explained, "misses", "driver", "words")


def choose(history: Sequence[MissNote], kernel: str | None, every: bool) -> list[MissNote]:
    """Return the look-ups to explain: those of a kernel, of the last run that has any.

    A kernel is named by its recipe, or with its parameters, as `kcl explain` prints it.
    """
    missed = [
        note
        for note in history
        if kernel in (None, note.event.kernel, of_kernel(note.event.kernel, _find_parameters(note)))
    ]
    # The oldest stands first, so the last one names the last run.
    return missed if every else [note for note in missed if note.record is missed[-1].record]
