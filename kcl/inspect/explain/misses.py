"""The last misses with their explanations: from the journal, and from the entries in the layers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kcl import drivers
from kcl.base import settings
from kcl.base.text.layout import shortened
from kcl.base.text.names import of_kernel
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.phrases import WIDTH, value
from kcl.cache.stores.base import Stat
from kcl.errors import CacheFault
from kcl.inspect import inventory
from kcl.inspect.explain import FIRST_TIME, Candidate, Explanation, Texts, is_base, starts, texts_in
from kcl.inspect.explain import explain as compared
from kcl.inspect.explain.calls import Change
from kcl.inspect.explain.record import ParsedRecord
from kcl.inspect.history import journal
from kcl.inspect.history.journal import JournalMiss
from kcl.inspect.inventory import ListedEntry
from kcl.record.evidence import PARAMETER

_OTHER_PYTHON = Change("python", "it lies in the file of another Python: each version has a file of its own")
_BEING_WRITTEN = Change("entry", "it was missed before, and a helper still writes its entry")
_PENDING = "pending"  # in the metadata of an entry that a helper still writes
_YOUNGEST = 8
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

    @property
    def label(self) -> str:
        """The kernel with its parameters."""
        return of_kernel(self.kernel, self.parameters)


class Candidates:
    """The entries of some kernels in one layer, with their texts, which are read on request.

    The entries that a helper still writes count, too.
    """

    def __init__(self, layer: str, entries: Iterable[ListedEntry], pending: Iterable[Entry] = ()) -> None:
        self.layer = layer
        self.entries = list(entries)
        self._read: dict[str, Texts] = {}
        there = {one.digest for one in self.entries}
        for job in pending:
            if job.key.digest not in there:
                address, about = job.key.digest, {**job.metadata, _PENDING: True}
                self.entries.append(ListedEntry(layer, address, Stat(0, 0.0), job.key, about, {}))
                self._read[address] = texts_in(job.parts)
        self._rest: Candidates | None = None

    def explain(
        self, key: Key, texts: Texts, moment: float, begun: float, made: Mapping[str, float], source: str = ""
    ) -> Explanation:
        """Compare a key that was missed at a moment with the entries; `begun` is the begin of the run that missed.

        `made` tells when digests were missed first. `source` is the digest of the OpenCL C to compare with, if entries
        have it.
        """
        own = [one for one in self.entries if one.digest == key.digest]
        if own and _PENDING in own[0].metadata and made.get(key.digest, 0.0) < begun:
            return Explanation(None, (_BEING_WRITTEN,))
        known = [self._known(one, made) for one in self.entries if one.digest != key.digest]
        known = [one for one in known if one.written < moment]
        part = Part("source", source)
        paired = [one for one in known if source and part in one.key.parts]
        if source and not paired:  # a program has one entry, under the kernel that asked first
            paired = [one for one in self._others(made) if part in one.key.parts and one.written < moment]
        found = compared(key, texts, paired or known, begun, lambda: self._others(made))
        if found == FIRST_TIME and len(own) > 1:
            return Explanation(None, (_OTHER_PYTHON,))
        return found

    def _others(self, made: Mapping[str, float]) -> list[Candidate]:
        """Return the entries of other kernels: those that make the same calls, or have the same text, share them."""
        if self._rest is None:
            own = {one.address for one in self.entries}
            every = inventory.entries(self.layer, all_rows=True)
            self._rest = Candidates(self.layer, [one for one in every if one.address not in own])
        return [self._rest._known(one, made) for one in self._rest.entries]

    def source_digest(self, key: Key) -> str:
        """Return the digest of the OpenCL C that a row holds, empty where it holds none."""
        own = self._entry_of(key) or (self._rest._entry_of(key) if self._rest is not None else None)
        source = _parts(own).get("source.cl") if own is not None else None
        return hashlib.sha256(source).hexdigest() if source else ""

    def parameters(self, key: Key, record: ParsedRecord | None) -> Mapping[str, str]:
        """Return the parameters of the recipe of a row or a program: from the rows of its code, else from a miss."""
        program = next((part.value for part in key.parts if part.name == "source"), "")
        rows = [one.recipe for one in self.entries if one.digest == key.digest and one.recipe.parameters]
        rows = rows or [one.recipe for one in self.entries if program and one.metadata.get("program") == program]
        named = [*key.parts, *(record.beside.items() if record is not None else ())]
        of_miss = {name[len(PARAMETER) :]: text for name, text in named if name.startswith(PARAMETER)}
        texts = inventory.common(rows).parameters if rows else of_miss
        return {name: shortened(value(text), WIDTH) for name, text in texts.items()}

    def texts(self, key: Key) -> Texts:
        """Return the texts of a key from its own entry; empty where the entry is missing."""
        own = self._entry_of(key)
        return Texts() if own is None else self._texts(own)

    def source(self, digest: str) -> Texts:
        """Return the OpenCL C with a digest, from one of the youngest rows that hold code."""
        rows = [one for one in self.entries if "source.cl" in one.sizes]
        for one in sorted(rows, key=lambda one: -one.modified)[:_YOUNGEST]:
            source = _parts(one).get("source.cl", b"")
            if hashlib.sha256(source).hexdigest() == digest:
                return Texts({"source": source.decode("utf-8", "replace")})
        return Texts()

    def _entry_of(self, key: Key) -> ListedEntry | None:
        return next((one for one in self.entries if one.digest == key.digest), None)

    def _known(self, one: ListedEntry, made: Mapping[str, float]) -> Candidate:
        moment = made.get(one.digest, _NEVER)  # exact, where the file has whole seconds
        is_same = moment < one.built + _SLOW
        return Candidate(one.key, moment if is_same else one.built, one.metadata, lambda: self._texts(one))

    def _texts(self, one: ListedEntry) -> Texts:
        """Read the texts of an entry; those of a row that depends on dtypes or reads lie in its base row."""
        if one.layer == settings.GENERATOR and not {"reached.json", "record.json"} & one.sizes.keys():
            one = next((base for base in self.entries if is_base(base.metadata) and starts(base.key, one.key)), one)
        if one.address not in self._read:
            self._read[one.address] = texts_in(_parts(one))
        return self._read[one.address]


def _parts(one: ListedEntry) -> Mapping[str, bytes]:
    """Return the parts of an entry; none where it cannot be read."""
    try:
        return inventory.read(one.layer, one.address).parts
    except (KeyError, OSError, CacheFault, ValueError):
        return {}


def shelves(layers: Iterable[str], kernels: Iterable[str]) -> dict[tuple[str, str], Candidates]:
    """Return the entries of the layers, by layer and kernel."""
    wanted, found = set(kernels), dict[tuple[str, str], Candidates]()
    for layer in set(layers) if wanted else ():
        listed = list(inventory.entries(layer, all_rows=True))
        pending = _pending() if layer == settings.BINARY else []
        for kernel in wanted:
            jobs = [job for job in pending if job.metadata.get("kernel") == kernel]
            found[layer, kernel] = Candidates(layer, [one for one in listed if one.kernel == kernel], jobs)
    return found


def _pending() -> list[Entry]:
    """Return the entries that a helper still writes."""
    with suppress(OSError, CacheFault):
        found = drivers.pending()
        return [*found.here, *found.elsewhere, *found.early]
    return []


def told(missed: Sequence[JournalMiss], history: Sequence[JournalMiss]) -> list[Miss]:
    """Explain look-ups that were no hits; `history` holds all known ones."""
    grouped = _grouped(missed)
    asked = [one for one, _times in grouped if _is_explained(one)]
    found = shelves({settings.GENERATOR, *(one.layer for one in asked)}, {one.kernel for one in asked})
    made, begun = _moments(history)
    partners: dict[tuple[str, str, str], str] = {}  # run, kernel, OpenCL C -> that of the nearest row
    explained = []
    for one, times in grouped:
        explanation = None
        parameters: Mapping[str, str] = {}
        if _is_explained(one) and one.key is not None:
            shelf = found[one.layer, one.kernel]
            texts = texts_in(one.texts) if one.texts else shelf.texts(one.key)
            digest = next((part.value for part in one.key.parts if part.name == "source"), "")
            if not texts.sources and one.layer == settings.BINARY:  # a helper is still completing the entry
                texts = found[settings.GENERATOR, one.kernel].source(digest)
            partner = partners.get((one.process, one.kernel, digest), "")
            explanation = shelf.explain(one.key, texts, one.time, begun[one.process], made, partner)
            parameters = _noted(one) or found[settings.GENERATOR, one.kernel].parameters(one.key, texts.record)
            if one.layer == settings.GENERATOR and explanation.nearest is not None:
                own = shelf.source_digest(one.key)
                partners[one.process, one.kernel, own] = shelf.source_digest(explanation.nearest.key)
        explained.append(_miss(one, times, explanation, parameters))
    return explained


def _grouped(missed: Iterable[JournalMiss]) -> list[tuple[JournalMiss, int]]:
    """Return the first of the equal look-ups of each process, and their number."""
    alike: dict[tuple[str, ...], list[JournalMiss]] = {}
    for one in missed:
        digest = one.key.digest if one.key else ""
        alike.setdefault((one.process, one.layer, one.kernel, one.outcome, one.reason, digest), []).append(one)
    return [(group[0], len(group)) for group in alike.values()]


def _moments(history: Sequence[JournalMiss]) -> tuple[dict[str, float], dict[str, float]]:
    """Return when the rows of misses were made, by their digests, and when each process missed first."""
    made: dict[str, float] = {}
    for one in sorted(history, key=lambda one: one.time):
        if one.key is not None:
            for digest in inventory.led_by(one.key):  # the row, and its base row
                made.setdefault(digest, one.time)
    begun: dict[str, float] = {}
    for one in history:
        begun[one.process] = min(one.time, begun.get(one.process, one.time))
    return made, begun


def _noted(one: JournalMiss) -> Mapping[str, str]:
    """Return the parameters that the process of a miss left in the journal; empty for a recipe without any."""
    return {name: shortened(text, WIDTH) for name, text in (one.parameters or {}).items()}


def _is_explained(one: JournalMiss) -> bool:
    return one.outcome == "miss" and one.key is not None


def _miss(missed: JournalMiss, times: int, explanation: Explanation | None, parameters: Mapping[str, str]) -> Miss:
    """Describe a look-up by itself; only a miss has an explanation."""
    nearest, changes = (None, ()) if explanation is None else explanation
    often = f" ({times} times)" if times > 1 else ""
    title = f"{of_kernel(missed.kernel, parameters)}, {missed.layer} layer: {missed.outcome}{often}"
    words = [missed.reason] if explanation is None else in_words(explanation)
    return Miss(
        missed.time,
        missed.driver,
        missed.pid,
        missed.layer,
        missed.kernel,
        missed.outcome,
        times,
        missed.reason,
        missed.key.digest if missed.key is not None else None,
        nearest.key.digest if nearest is not None else None,
        changes,
        (title, *(f"  {line}" for line in words)),
        parameters,
        missed.process,
    )


def in_words(explanation: Explanation) -> list[str]:
    """Write an explanation as lines for the user; the earlier entry stands first where the keys differ."""
    nearest, changes = explanation
    lines = [line for change in changes for line in (change.sentence, *(f"  {line}" for line in change.diff))]
    if nearest is None or not changes:
        return lines or ["first time seen"]
    still = ", which a helper still writes" if _PENDING in nearest.metadata else ""
    return [f"nearest earlier entry: {nearest.key.digest[:12]}{still}", *lines]


def lines(found: Iterable[Miss]) -> list[str]:
    """Write look-ups and their explanations as lines for the user.

    The kernels of one file change together. So look-ups of one layer with the same explanation stand together, with the
    explanation below them once. The earlier entry of each then stands beside it.
    """
    alike: dict[tuple[str, str, tuple[str, ...]], list[Miss]] = {}
    for one in found:
        behind = 2 if one.nearest and one.changes else 1  # the title, and the earlier entry
        alike.setdefault((one.layer, one.outcome, one.words[behind:]), []).append(one)
    said: list[str] = []
    for (_layer, _outcome, words), group in alike.items():
        heads = [one.words[: len(one.words) - len(words)] for one in group]
        if len({head[1:] for head in heads}) == 1:
            said += [*(head[0] for head in heads), *heads[0][1:]]
        else:
            said += ["; ".join(line.strip() for line in head) for head in heads]
        said += words
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
    return told(asked[-limit:] if limit > 0 else asked, history)


def chosen(history: Sequence[JournalMiss], kernel: str | None, every: bool) -> list[JournalMiss]:
    """Return the look-ups to explain: those of a kernel, of the last run that has any.

    A kernel is named by its recipe, or with its parameters, as `kcl explain` prints it.
    """
    asked = [one for one in history if kernel in (None, one.kernel, of_kernel(one.kernel, _noted(one)))]
    return asked if every else [one for one in asked if one.process == asked[-1].process]


def now(layer: str, kernel: str, key: Key, texts: Texts) -> list[str]:
    """Explain in words why a key would miss now; its texts and its record come from the caller."""
    shelf = shelves([layer], [kernel])[layer, kernel]
    moment = time.time() + 1.0
    return in_words(shelf.explain(key, texts, moment, moment, {}))
