"""The recorder: what becomes of each call that a program makes into loopy.

A call whose record has a proof waits; any other is carried out now, in its order, so that an error is raised where it
is made. A call that cannot be recorded, since an argument has no exact text, loopy would run code of the user during
the call, or it answers a question, is carried out with loopy's own objects. With the generator layer off nothing is
recorded. Whatever fails in here is a fault of kcl: the call is carried out, and the run goes on.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from kcl import events, process, spans
from kcl.cache import layers
from kcl.errors import CacheFault, UnknownInput
from kcl.record import beside, proofs, table, texts, unmade
from kcl.record.proofs import Group
from kcl.record.record import CallSite, Record

_LOOPY = frozenset({"loopy"})
_VERSIONS = ("LOOPY_USE_LANGUAGE_VERSION_2018_2",)


class _State(threading.local):
    """What this thread does: runs a recipe (its group), carries a record out, or runs a recipe that is not recorded."""

    group: Group | None = None
    carrying = False
    silent = False
    carried = 0
    seconds = 0.0


_state = _State()


class _Waiting:
    """The records that wait."""

    def __init__(self) -> None:
        self.records: weakref.WeakSet[Record] = weakref.WeakSet()

    def after_fork(self) -> None:
        for record in list(self.records):
            record.lock = threading.RLock()  # a thread that is not here may have been carrying the record out


_waiting = process.shared(_Waiting)


@contextmanager
def recording(recipe: Any) -> Iterator[None]:
    """Record the calls of a recipe; their proofs lie with those of its file."""
    before = _state.group, _state.silent
    _state.group, _state.silent = _group_of(recipe.__code__), False
    try:
        yield
    finally:
        mine = _state.group
        _state.group, _state.silent = before
        if mine is not None:
            mine.write()


@contextmanager
def silent() -> Iterator[None]:
    """Record nothing in this thread: a pure recipe runs, or one whose layer is off."""
    before = _state.silent
    _state.silent = True
    try:
        yield
    finally:
        _state.silent = before


@contextmanager
def carrying() -> Iterator[None]:
    """Let every call through to loopy."""
    before = _state.carrying
    _state.carrying = True
    try:
        yield
    finally:
        _state.carrying = before


def is_on() -> bool:
    """Tell whether calls are recorded in this thread now."""
    return not (_state.carrying or _state.silent or layers.generator().off(_LOOPY))


def carried() -> int:
    """Return how many calls this thread has carried out."""
    return _state.carried


def seconds() -> float:
    """Return the processor seconds that the calls of this thread took."""
    return _state.seconds


def in_recipe() -> bool:
    """Tell whether this thread runs a recipe whose calls are recorded."""
    return _state.group is not None and is_on()


def call(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], depth: int = 2) -> Any:
    """Answer a program's call of `loopy.<name>`; `depth` leads to the frame of the caller."""
    frame = sys._getframe(depth)
    place = _place(frame)
    if not is_on():
        return at_once(name, arguments, keywords, place)
    started = time.thread_time()
    try:
        return _recorded(name, arguments, keywords, place, _state.group or _group_of(frame.f_code))
    finally:
        _state.seconds += time.thread_time() - started


def _place(frame: Any) -> CallSite:
    return CallSite(frame.f_code, frame.f_lasti, frame.f_globals)


def _recorded(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite, group: Group) -> Any:
    plain = _is_plain(arguments, keywords)
    if not plain:
        arguments, keywords = _each(texts.consumed, arguments, keywords)
    record = None
    if name in table.DEFERRED:
        try:
            if _is_about_units(name, arguments) and (plain or not _calls_user(name, arguments, keywords)):
                record = _record(name, arguments, keywords, place)
        except Exception as error:
            _unknown(name, error, place)
    if record is None:
        return at_once(name, arguments, keywords, place)
    return _answer(record, group)


def _unknown(name: str, error: Exception, place: CallSite) -> None:
    """Note why a call could not be recorded: an argument that has no exact text, or a fault of kcl."""
    made(f"{name}: {error}", place)
    if not isinstance(error, (UnknownInput, RecursionError)):
        fault(error)


def method(unit: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    """Answer a call of a method of a unit that gives another unit."""
    record = unmade.record_of(unit)
    if record is None or not is_on():
        return getattr(unmade.asked(unit, name), name)(*arguments)
    frame = sys._getframe(2)
    arguments, _ = _each(texts.consumed, arguments, {})
    try:
        made_of = Record(f"TranslationUnit.{name}", (unit, *arguments), {}, beside.state(), _place(frame))
    except Exception as error:
        _unknown(name, error, _place(frame))
        return getattr(unmade.asked(unit, name), name)(*arguments)
    return _answer(made_of, _state.group or _group_of(frame.f_code))


def at_once(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite) -> Any:
    """Call loopy's own function with loopy's own objects."""
    function = getattr(loopy(), name)
    function = getattr(function, "__kcl_real__", function)
    if name in table.CHANGING:
        settle()
    if name in table.VERSIONED:
        keywords = _with_version(keywords, place)
    arguments, keywords = _each(lambda value: _own(value, name), arguments, keywords)
    return function(*arguments, **keywords)


def _each(
    change: Callable[[Any], Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Change what stands in arguments; those that hold themselves stay as they are."""
    try:
        return tuple([texts.mapped(value, change) for value in arguments]), {
            name: texts.mapped(value, change) for name, value in keywords.items()
        }
    except RecursionError:
        return arguments, keywords


def make(record: Record) -> Any:
    """Return what a record gives, carried out if it was not; raises what loopy raises."""
    if record.is_made:
        return record.made(_carry_out)
    from kcl import caches
    from kcl.record import observe

    with observe.unobserved():
        loopy()
    with caches.loopy_disk_caches_off():  # one thread at a time, and its lock before those of records
        return record.made(_carry_out)


def handed_out(record: Record) -> Any:
    """Return what a record gives, for a program that may change it: all that shares parts of it was made before."""
    made = make(record)
    for other in record.expose():
        try:
            make(other)
        except Exception:  # raised to who asks for it
            continue
    return made


def asked(record: Record, question: str) -> None:
    """Note that a program asked what only loopy's own object can answer."""
    if _state.carrying:
        return
    frame: Any = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("kcl."):
        frame = frame.f_back
    place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}" if frame is not None else "?"
    events.made(question if record.function == question else f"{question} of {record.function}", place)


def made(question: str, place: CallSite) -> None:
    """Note that a call could not be recorded."""
    events.made(question, str(place))


def settle() -> None:
    """Carry out every record that waits, before something changes what it would meet."""
    for record in list(_waiting().records):
        make(record)


def fault(error: Exception) -> None:
    """Say once that kcl could not record a call; raises CacheFault under `KCL_STRICT=fault`."""
    if isinstance(error, CacheFault):
        raise error
    layers.generator().fault("record a call of loopy", error)


def loopy() -> Any:
    """Return the real loopy, imported also where its own cache directory cannot be used."""
    found = sys.modules.get("loopy")
    if found is None or not hasattr(found, "untag_inames"):
        from kcl import caches

        with carrying(), spans.span("import loopy"):
            caches.import_anyway("loopy")
        found = importlib.import_module("loopy")  # waits for another thread that is importing it
    return found


def _is_about_units(name: str, arguments: tuple[Any, ...]) -> bool:
    """Tell whether a call is one of loopy's own function that begins from texts or units."""
    return (name not in table.TRANSFORMATIONS or bool(arguments and _is_unit(arguments[0]))) and not _is_replaced(name)


def _calls_user(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Tell whether loopy may run code of the user during a call."""
    later = table.FOR_GENERATING.get(name, frozenset())
    given = [*enumerate(arguments), *keywords.items()]
    return any(texts.calls_user(value) for place, value in given if place not in later)


def _is_replaced(name: str) -> bool:
    """Tell whether the program put a function of its own in the place of loopy's."""
    loopy = sys.modules.get("loopy")
    function = None if loopy is None else vars(loopy).get(name)
    return isinstance(function, FunctionType) and not str(function.__module__).startswith(("loopy", "pytools"))


def _is_plain(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Tell whether there is nothing in arguments that is read once, or that loopy could call."""
    try:
        return all(map(texts.is_plain, arguments)) and all(map(texts.is_plain, keywords.values()))
    except RecursionError:
        return False


def _is_unit(value: Any) -> bool:
    if type(value) is unmade.UnmadeUnit:
        return True
    found = sys.modules.get("loopy")
    return found is not None and type(value) is getattr(found, "TranslationUnit", None)


def _record(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite) -> Record:
    if name in table.VERSIONED:
        keywords = _with_version(keywords, place)
    return Record(name, arguments, keywords, beside.state(), place)


def _with_version(keywords: dict[str, Any], place: CallSite) -> dict[str, Any]:
    """Add the version of loopy's language that the caller's globals choose, as loopy looks for it there."""
    if keywords.get("lang_version") is None:
        for symbol in _VERSIONS:
            if symbol in place.names:
                return {**keywords, "lang_version": place.names[symbol]}
    return keywords


def _answer(record: Record, group: Group) -> Any:
    """Return what stands for the result of a record, carried out now where nothing proves that it can be."""
    found = _proof(record, group)
    if found is not None:
        if found:
            from kcl.record import warned

            warned.again(found, record.place)
        _waiting().records.add(record)
        return unmade.new(record, _gives_unit(record))
    from kcl.record import warned

    try:
        value = make(record)
    finally:
        warned.give(record.heard, record.place)
    said = warned.kept(record.heard)
    if said is not None:
        proofs.add(record.digest, said, group)
    if _gives_unit(record) and not _is_unit(value):
        return value
    return unmade.new(record, _gives_unit(record))


def _proof(record: Record, group: Group) -> tuple[proofs.Warned, ...] | None:
    try:
        return proofs.find(record.digest, group)
    except Exception as error:
        fault(error)
        return None


def _gives_unit(record: Record) -> bool:
    return record.function not in table.CONSTRUCTORS


def _carry_out(record: Record, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call loopy. Its warnings stay with the record: they are given at the call, not when somebody asks."""
    from kcl.record import warned

    real = loopy()
    _state.carried += 1
    holder, _, name = record.function.rpartition(".")
    function = getattr(getattr(real, holder) if holder else real, name)
    with carrying(), spans.span("make", record.function), warned.hearing() as record.heard:
        return getattr(function, "__kcl_real__", function)(*arguments, **keywords)


def _own(value: Any, question: str) -> Any:
    """Return loopy's own object for what stands for one."""
    if issubclass(type(value), texts.Standing):
        return value.real()
    return unmade.asked(value, question) if type(value) in unmade.KINDS else value


def _group_of(code: Any) -> Group:
    """Return the group of the calls that stand in one file."""
    return proofs.group(code.co_filename.rpartition("/")[2])
