"""The look-up that all stages share: it finds entries, waits for other makers, publishes new entries, emits events.

    obtain(stage, job, lead)        one look-up of one job in the layer of its stage
      stage.search(job)             a generator: yields (address, key) to look at, is sent the answer, returns a Look
      stage.load(job, look)         makes the value from the entries; after an error they go to quarantine: a miss
      stage.make(job, look)         makes the value of a miss, and the entries to publish

A stage is a subclass of `Stage`. A new one defines its layer, a name to show and the three methods above, and gets a row
in the table of layers. The other methods have defaults.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kcl.base import events, spans
from kcl.base.events import Event
from kcl.errors import CacheMiss, SettingError, UnknownInput
from kcl.launch import MissingArguments

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.cache.key import Key
    from kcl.cache.layer import Answer, Layer
    from kcl.cache.lead import Lead

Job = TypeVar("Job")


class Look(NamedTuple):
    """The state of a look-up: the outcome, its reason, the entries found, and the value that was loaded or made.

    Made by the search of a stage, and replaced by its `load` and `make`; ends with the look-up, as its event.

    `slots` are the (address, key) pairs that the look-up used, `entries` the entries that were there. `key` is the key of
    the value, None if it is unknown. `digest` names the look-up in its event. `spared` is the time in seconds that making
    the entries of a hit took. `beside` is free for the stage's own use.

    `publish` are the new entries of a miss, each with its address. With `promised` the lead is kept for the next stage, and
    others wait on. If nothing may be stored, the outcome after making is a bypass.
    """

    outcome: str
    reason: str = ""
    key: Key | None = None
    digest: str = ""
    slots: tuple[tuple[str, Key], ...] = ()
    entries: tuple[Entry, ...] = ()
    size: int = 0
    spared: float = 0.0
    value: Any = None
    beside: Any = None
    publish: Sequence[tuple[str, Entry]] = ()
    promised: bool = False

    @property
    def digests(self) -> frozenset[str]:
        """The digests of the entries that exist."""
        return frozenset([entry.key.digest for entry in self.entries])


Searching = Generator[tuple[str, "Key"], "Answer", Look]


class Stage(Generic[Job]):
    """The work whose results a layer caches. A stage serves one Kernel or one context; a job is one request to it.

    A subclass defines `layer`, `name`, `search`, `load` and `make`. The defaults of the other methods are for a stage whose
    jobs have one key each.
    """

    __slots__ = ()
    required = True  # KCL_STRICT=hit allows hits only
    verb = "made"  # the work of another process on the value, in the past tense
    unusable = "the stored entry could not be used"  # words before the error of a load

    @property
    def layer(self) -> Layer:
        """The layer of the stage."""
        raise NotImplementedError

    def name(self, job: Job) -> str:
        """Return the name of the kernel, for display."""
        raise NotImplementedError

    def search(self, job: Job) -> Searching:
        """Yield each (address, key) to look at, receive the layer's Answer, and return the Look.

        Raises UnknownInput for a bypass, MissingArguments, or the user's own error.
        """
        raise NotImplementedError

    def load(self, job: Job, look: Look) -> Look:
        """Return the look with the value, made from its entries."""
        raise NotImplementedError

    def make(self, job: Job, look: Look) -> Look:
        """Make the value of a miss; return the look with it and with the entries to publish."""
        raise NotImplementedError

    def attempt(self, _job: Job) -> str:
        """Return why the value could not be stored, or raise the error that the job raises without kcl too.

        Called if `KCL_STRICT=hit` allows only a hit and there is none.
        """
        return ""

    def explain_error(self, _error: BaseException) -> str:
        """Return a reason for a failed miss that says more than its key does, such as the front end's error; else empty."""
        return ""

    def begin(self, _job: Job) -> None:
        """Read the state that the program can change. Called once in a look-up, even if it waits and looks again."""

    def off(self, _job: Job) -> str:
        """Return why the layer is off for a job; empty if it is on."""
        return self.layer.off()

    def guard(self, _job: Job) -> AbstractContextManager[object]:
        """Return a lock against other threads, for the time in which a thread searches, loads or makes, but not waits."""
        return nullcontext()

    def lead_digest(self, _job: Job, look: Look) -> str:
        """Return the digest under which processes and threads wait for the maker of the value."""
        return look.key.digest if look.key is not None else look.digest

    def on_hit(self, _job: Job, look: Look) -> Look:
        """Return the look of a hit as its event shall show it. `find` emits no event and does not call this."""
        return look

    def texts(self, _look: Look) -> Mapping[str, bytes]:
        """Return texts that explain a miss that stores nothing, for `kcl explain`. Raises nothing."""
        return {}


def obtain(stage: Stage[Job], job: Job, lead: Lead) -> Any:
    """Return the value of a job, from the layer or made now, and emit one event. Thread-safe.

    Raises CacheMiss if `KCL_STRICT=hit` forbids making the value, SettingError if the value of that variable is unknown,
    and the errors of making the value.
    """
    if stage.layer.options.strict_fault:
        raise SettingError(stage.layer.options.strict_fault)
    started = time.perf_counter()
    # Hooks are the user's code: events are emitted in the end, without the lock.
    with ExitStack() as end:
        with stage.guard(job):
            look = _find_allowed(stage, job, lead, started, end)
            if look.outcome != "miss":
                return _settle(stage, job, look, lead, started, end)
        # The thread holds nothing here that another one may want.
        lead.take(stage.layer, stage.lead_digest(job, look))
        # The former holder of the lead may have published the entry.
        with stage.guard(job):
            look = _find_allowed(stage, job, lead, started, end, again=True)
            if look.outcome == "hit":
                meanwhile = f"another thread or process {stage.verb} it meanwhile"
                look = look._replace(reason=look.reason or meanwhile)
            return _settle(stage, job, look, lead, started, end)


def find(stage: Stage[Job], job: Job, again: bool = False) -> Look:
    """Return the result of a look-up, with the value of a hit loaded. Emits no event.

    With `again` the key of the first look is kept, even if the program has changed its state.
    """
    if not again:
        stage.begin(job)
    off = stage.off(job)
    if off:
        return Look("bypass", f"off: {off}")
    seen: list[tuple[tuple[str, Key], Entry]] = []
    searching = stage.search(job)
    try:
        slot = next(searching)
        while True:
            answer = stage.layer.look_up(*slot)
            if answer.entry is not None:
                seen.append((slot, answer.entry))
            slot = searching.send(answer)
    except StopIteration as done:
        look: Look = done.value
    except UnknownInput as error:
        return Look("bypass", str(error))
    except Exception as error:
        if not seen or isinstance(error, MissingArguments):
            raise
        # An entry of another kcl version may have any form, so that the search itself fails on it.
        return _set_aside(stage, Look("error"), seen[-1:], error)
    if look.outcome != "hit":
        return look
    try:
        with spans.span("load", stage.name(job), stage.layer.name):
            return stage.load(job, look)
    except Exception as error:
        return _set_aside(stage, look, zip(look.slots, look.entries, strict=True), error)


def report_error(layer: Layer, kernel: str, key: Key, reason: str) -> None:
    """Emit an error event outside of a look-up: stored facts turned out to be wrong later."""
    events.emit(Event(layer.name, kernel, key.digest, "error", reason, 0.0, 0))


def _find_allowed(
    stage: Stage[Job], job: Job, lead: Lead, started: float, end: ExitStack, again: bool = False
) -> Look:
    """Find the value. If the user's code or `KCL_STRICT=hit` raises, emit the event of the look-up first."""
    try:
        look = find(stage, job, again)
        if look.outcome == "miss" and stage.layer.pull_before_miss():
            look = find(stage, job, again=True)
    except (CacheMiss, MissingArguments):
        raise
    except BaseException:
        failed = Look("miss", "the recipe raised an error")
        _emit(stage, job, failed, lead, started, end)
        raise
    is_allowed = look.outcome == "hit" or not stage.required or look.reason.startswith("off: ")
    if is_allowed or "hit" not in stage.layer.options.strict:
        return look
    try:
        if reason := stage.attempt(job):
            look = look._replace(outcome="bypass", reason=reason)
    except BaseException as error:
        look = _explain_error(stage, look, error)
        raise
    finally:
        # The event is emitted whether the attempt fails or not.
        event = _event(stage, job, look)
        end.callback(events.emit, event, look.key, texts=stage.texts(look), lead=lead)
    from kcl.cache import faults

    raise faults.miss_error(event, look.key)


def _explain_error(stage: Stage[Job], look: Look, error: BaseException) -> Look:
    """Return the look of a value that cannot be made, with the stage's reason. With a reason the key is left out."""
    reason = stage.explain_error(error)
    return look._replace(reason=reason, key=None) if reason else look


def _settle(
    stage: Stage[Job], job: Job, look: Look, lead: Lead, started: float, end: ExitStack
) -> Any:
    """Make the value unless it is a hit, publish its entries, emit the event, and return the value."""
    try:
        if look.outcome == "hit":
            look = stage.on_hit(job, look)
        elif look.outcome != "default":
            # Imported late: a warm start does without these modules.
            from kcl.cache import faults, progress

            with progress.making():
                look = stage.make(job, look)
            errors: list[Exception] = []
            size = sum(
                stage.layer.publish(address, entry, errors) for address, entry in look.publish
            )
            look = look._replace(size=size)
            unstored = faults.explain_unstored(errors)
            if look.outcome == "miss" and unstored:
                look = look._replace(outcome="error", reason=f"{look.reason}; {unstored}")
    except MissingArguments:
        raise
    except BaseException as error:
        look = _explain_error(stage, look, error)
        _emit(stage, job, look, lead, started, end, stage.texts(look))
        raise
    if not look.promised:
        lead.release()
    _emit(stage, job, look, lead, started, end)
    return look.value


def _set_aside(
    stage: Stage[Job],
    look: Look,
    bad: Iterable[tuple[tuple[str, Key], Entry]],
    error: Exception,
) -> Look:
    """Move unusable entries into quarantine; the look-up is an error, and the value is made."""
    for (address, key), entry in bad:
        stage.layer.set_aside(address, entry.pack(), error)
        look = look._replace(key=look.key or key)
    reason = f"{stage.unusable}: {error}"
    return look._replace(outcome="error", reason=reason, entries=(), size=0, spared=0.0, value=None)


def _event(stage: Stage[Job], job: Job, look: Look, seconds: float = 0.0) -> Event:
    digest = look.digest or (look.key.digest if look.key else "")
    saved = max(0.0, look.spared - seconds) if look.outcome == "hit" else 0.0
    return Event(
        stage.layer.name,
        stage.name(job),
        digest,
        look.outcome,
        look.reason,
        seconds,
        look.size,
        saved,
    )


def _emit(
    stage: Stage[Job],
    job: Job,
    look: Look,
    lead: Lead,
    started: float,
    end: ExitStack,
    texts: Mapping[str, bytes] = {},
) -> None:
    """Emit the event of a look-up as `end` is reached."""
    event = _event(stage, job, look, time.perf_counter() - started)
    # A layer that is off says so in the report's line on its files.
    if look.outcome == "bypass" and not look.reason.startswith("off: "):
        stage.layer.note(f"bypassed: {look.reason}")
    hits = look.digests if look.outcome == "hit" else ()
    end.callback(events.emit, event, look.key, hits, texts, lead)
