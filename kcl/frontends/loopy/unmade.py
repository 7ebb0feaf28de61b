"""Stand-ins for the results of recorded calls, until the program asks a question that only loopy can answer.

A stand-in can be passed to recorded calls, compared by its record's digest, and launched. If the program asks a unit
something else, the stand-in becomes loopy's own unit in place: its attributes are filled in and its class is changed. For
arguments and instructions the memory layout does not allow that: such a stand-in passes all access on to loopy's object.
"""

from __future__ import annotations

import abc
import builtins
import copy
import copyreg
import functools
import importlib
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from kcl.base import port, process
from kcl.errors import UnknownInput
from kcl.frontends.loopy import moment, plain, recorder, table, texts
from kcl.frontends.loopy.record import CallSite, Record
from kcl.frontends.loopy.table import CONSTRUCTORS
from kcl.generate import shown, thread

# Names that numpy, notebooks, test runners and kcl look for in any object, and that no object of loopy has.
_OF_TOOLS = {"__test__", "__wrapped__", "_pytestfixturefunction", "pytestmark"}


def is_absent(name: str) -> bool:
    """Return True if no object of loopy has this name, so that loopy need not be asked."""
    return (
        name.startswith(("__kcl", "_kcl", "__array_", "_repr_", "_ipython_")) or name in _OF_TOOLS
    )


def _making() -> Any:
    """Return what carries records out, imported now: a warm start does without it."""
    from kcl.frontends.loopy import making

    return making


def asked_for(stand_in: Any) -> Any:
    """Return loopy's own class or member for a stand-in, since the program asks a question."""
    _making().loopy(stand_in.text().partition(".")[2])
    return stand_in.real()


class Name(plain.StandIn):
    """A stand-in for a function of loopy, or for a member of an enumeration, by its dotted name."""

    __slots__ = ("__weakref__", "dotted")

    def __init__(self, dotted: str) -> None:
        # The name without "loopy.".
        self.dotted = dotted

    def text(self) -> str:
        """Return the dotted name, which is also the text of loopy's own object."""
        return f"loopy.{self.dotted}"

    def real(self) -> Any:
        """Return loopy's own object."""
        return _making().own(self.dotted)

    def __getattr__(self, name: str) -> Any:
        if is_absent(name) or name in ("dtype", "dotted"):
            raise AttributeError(name)
        return getattr(asked_for(self), name)


class Member(Name):
    """A stand-in for a member of an enumeration of loopy."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.real()) if moment.loaded() is not None else Member

    def __eq__(self, other: object) -> Any:
        return self.dotted == other.dotted if type(other) is Member else asked_for(self) == other

    def __hash__(self) -> int:
        return hash(asked_for(self))

    def __reduce__(self) -> Any:
        return member, (self.dotted,)


def _of_real(operation: Callable[..., Any]) -> Any:
    """Return a special method that calls an operation on loopy's own object."""

    def method(self: Any, *others: Any) -> Any:
        return operation(
            asked_for(self), *[other.real() if type(other) is Member else other for other in others]
        )

    return method


# Name of a special method, without underscores -> the builtin function for it.
_OPERATIONS = {**vars(builtins), **vars(operator)}


def operate(kind: type, names: str) -> None:
    """Give a stand-in class special methods that ask loopy's own object: the common ones and `names`."""
    for name in ("repr", "len", "iter", "getitem", *names.split()):
        setattr(kind, f"__{name}__", _of_real(_OPERATIONS[name]))


operate(Member, "bool str format int index lt le gt ge")


@functools.cache
def member(name: str) -> Member:
    """Return the stand-in for a member; the same object for the same name."""
    return Member(name)


class _Bare:
    """A class whose instances have a dictionary, for the descriptor below."""


# A program that reads `__dict__` or `__class__` of a stand-in gets loopy's. By these descriptors kcl accesses the
# stand-in's own. Its dictionary has the `record`. After a question it has the attributes of loopy's object instead, or
# `real`, loopy's object, and `origin`, the record.
_dictionary: Any = _Bare.__dict__["__dict__"]
_class: Any = object.__dict__["__class__"]


class RecordedResult(_Bare):
    """A stand-in for the result of a recorded call."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _class_of(self)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        # The program may change the dictionary at any time.
        own: dict[str, Any] = vars(_changing(self, "__dict__"))
        return own

    def __getattr__(self, name: str) -> Any:
        if (
            is_absent(name)
            or name in ("__len__", "__iter__")
            or (name == "dtype" and type(self) is RecordedUnit)
        ):
            raise AttributeError(name)
        return getattr(asked(self, name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_changing(self, name), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_changing(self, name), name)

    def __eq__(self, other: object) -> Any:
        mine, others = record_of(self), record_of(other)
        if self is other or (mine is not None and others is not None and mine.is_like(others)):
            return True
        if others is not None:
            asked(other, "__eq__")
        return asked(self, "__eq__") == real_of(other)

    def __hash__(self) -> int:
        return hash(asked(self, "__hash__"))

    def __repr__(self) -> str:
        record = record_of(self) if thread.showing else None
        return (
            repr(asked(self, "__repr__"))
            if record is None
            else f"<{class_name(record)} {record.digest[:12]}>"
        )

    def __str__(self) -> str:
        return str(asked(self, "__str__"))

    # Notebooks call this first: without it they would ask for a text and make the unit.
    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        record, text = record_of(self), shown(self)
        if record is not None and class_name(record) == "TranslationUnit":
            text = text.replace(" ", f" {record.kernel()} ", 1)
        return {"text/plain": text}

    def __reduce_ex__(self, protocol: Any) -> Any:
        return asked(self, "pickle").__reduce_ex__(protocol)

    def __getitem__(self, name: Any) -> Any:
        return asked(self, "__getitem__")[name]

    def __copy__(self) -> Any:
        record = record_of(self)
        # A unit is frozen, and a shallow copy has the same parts. A program may change other results in place.
        if record is not None and record.function not in CONSTRUCTORS:
            return new(record)
        return _copied(self, record, copy.copy)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # Called on the class, since another thread may just be changing the class of the object to loopy's.
        return _copied(self, record_of(self), lambda own: copy.deepcopy(own, memo))


def _copied(value: Any, record: Record | None, by: Callable[[Any], Any]) -> Any:
    """Return a copy of a result that shares nothing with it, made later; else a copy of loopy's own object."""
    twin = record and record.twin()
    return by(asked(value, "copy")) if twin is None else new(twin)


class Kind(texts.StandInType):
    """The metaclass of stand-ins for classes of loopy. Calling such a class is recorded.

    `isinstance` is answered without loopy if possible. Other questions go to loopy's own class. A class of the program that
    derives from a stand-in derives from loopy's own class, and setting an attribute sets it there.
    """

    __slots__ = ()

    @classmethod
    def __prepare__(cls, name: str, bases: Any, **keywords: Any) -> Any:  # type: ignore[override]
        return types.prepare_class(name, _own_bases(bases), keywords)[1]

    def __new__(cls, name: str, bases: Any, names: Any, **keywords: Any) -> Any:
        """Make a class of the program that derives from a stand-in: it gets loopy's own classes as bases."""
        own = _own_bases(bases)
        return types.prepare_class(name, own, keywords)[0](name, own, names, **keywords)

    def text(cls) -> str:
        """Return the dotted name, which is also the text of loopy's own class."""
        return f"loopy.{cls.__name__}"

    def real(cls) -> Any:
        """Return loopy's own class."""
        name = cls.__name__
        own = _making().own(name)
        if _known.get(name) is not own:
            _known[name] = own
            for base in own.__mro__[1:]:
                # Registered, since an abstract base class would otherwise look the stand-in up by its hash.
                if isinstance(base, abc.ABCMeta):
                    base.register(cls)  # type: ignore[arg-type]
        return own

    def __getattribute__(cls, name: str) -> Any:
        if name in _OF_KINDS:
            return super().__getattribute__(name)
        if name == "__class__":
            return Kind if moment.loaded() is None else type(cls.real())
        if is_absent(name):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        if name in table.MEMBERS.get(cls.__name__, ()):
            return member(f"{cls.__name__}.{name}")
        theirs = asked_for(cls)
        return (
            importlib.import_module("inspect").signature(theirs)
            if name == "__signature__"
            else getattr(theirs, name)
        )

    def __setattr__(cls, name: str, value: Any) -> None:
        setattr(asked_for(cls), name, value)

    def __delattr__(cls, name: str) -> None:
        delattr(asked_for(cls), name)

    def __instancecheck__(cls, value: Any) -> bool:
        record = record_of(value)
        if record is not None and class_name(record) == cls.__name__:
            return True
        if record is not None or isinstance(value, plain.StandIn):
            return isinstance(value.real() if type(value) is Member else value, asked_for(cls))
        return moment.loaded() is not None and isinstance(value, cls.real())

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind.real() if isinstance(kind, Kind) else kind, asked_for(cls))

    def __eq__(cls, other: object) -> Any:
        if cls is other or moment.loaded() is None or isinstance(other, Kind):
            return cls is other
        return cls.real() == other

    def __hash__(cls) -> int:
        return hash(asked_for(cls))

    def __bool__(cls) -> bool:
        return True


# The attributes that a stand-in class has itself.
_OF_KINDS = {
    "__name__",
    "__qualname__",
    "__copy__",
    "__deepcopy__",
    "__reduce_ex__",
    "real",
    "text",
}


# Name -> loopy's own class, once its abstract bases know the stand-in.
_known: dict[str, type] = {}


def _own_bases(bases: Any) -> tuple[Any, ...]:
    return tuple([asked_for(base) if isinstance(base, Kind) else base for base in bases])


@functools.cache
def kind_of(name: str) -> Any:
    """Return the stand-in for a class of loopy; the same object for the same name.

    It is a class, since `match` and `type()` need one.
    """
    return type.__new__(Kind, name, (RecordedResult,), {})


operate(Kind, "dir contains")
copyreg.pickle(Kind, lambda kind: (kind_of, (kind.__name__,)))


class _Fields:
    """The fields of loopy's unit, which the functions of `dataclasses` read from the class."""

    def __get__(self, unit: Any, kind: type) -> Any:
        holder = (
            _making().loopy("fields").TranslationUnit if unit is None else asked(unit, "fields")
        )
        return holder.__dataclass_fields__


class RecordedUnit(RecordedResult):
    """A stand-in for a translation unit."""

    __dataclass_fields__ = _Fields()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Launch the unit, as loopy's unit does."""
        if _making().is_replaced("__call__"):
            return asked(self, "__call__")(*arguments, **keywords)
        return port("executor").call(self, arguments, keywords)

    def executor(self, *arguments: Any, entrypoint: str | None = None, **keywords: Any) -> Any:
        """Return an executor of the unit for a context or queue, as loopy's unit does."""
        if _making().is_replaced("executor"):
            return asked(self, "executor").executor(*arguments, entrypoint=entrypoint, **keywords)
        return port("executor").executor(self, arguments, entrypoint, keywords)

    def with_entrypoints(self, entrypoints: Any) -> Any:
        """Return the unit with other entry points."""
        record = record_of(self)
        if record is not None and recorder.is_on():
            name, place = "with_entrypoints", CallSite(sys._getframe(1))
            call = recorder.recorded(f"TranslationUnit.{name}", (self, entrypoints), {}, place)
            if call is not None:
                return answer(call)
        return asked(self, "with_entrypoints").with_entrypoints(entrypoints)


def new(record: Record) -> Any:
    """Return a new stand-in for the result of a record."""
    made: Any = object.__new__(
        kind_of(class_name(record)) if record.function in CONSTRUCTORS else RecordedUnit
    )
    _dictionary.__get__(made)["record"] = record
    return made


def answer(record: Record) -> Any:
    """Return the stand-in for the result of a recorded call, or loopy's own result if it is no unit."""
    waits = recorder.begin(record)
    if not waits and record.function not in CONSTRUCTORS and not is_unit(record.real()):
        return record.real()
    return new(record)


def is_unit(value: Any) -> bool:
    """Return True if an object is a translation unit, loopy's own or a stand-in."""
    if type(value) is RecordedUnit:
        return True
    return type(value) is plain.loaded("loopy", "TranslationUnit")


def is_recorded(value: Any) -> bool:
    """Return True if an object is a stand-in for the result of a recorded call."""
    kind = type(value)
    return kind is RecordedUnit or isinstance(kind, Kind)


def record_of(value: Any) -> Record | None:
    """Return the record of a stand-in; None if the object is none, or has become loopy's."""
    if not is_recorded(value):
        return None
    names = _dictionary.__get__(value)
    record: Record | None = names.get("record")
    # Further names mean that the program has set an attribute by `object.__setattr__`.
    if record is not None and len(names) > 1:
        _edited(value, record)
        return None
    return record


def class_name(record: Record) -> str:
    """Return the name of the loopy class of a record's result."""
    return CONSTRUCTORS.get(record.function, "TranslationUnit")


def _class_of(value: Any) -> type:
    """Return the `__class__` of a stand-in: loopy's class if loopy is imported. The object is not made."""
    record = record_of(value)
    if record is None:
        return type(real_of(value))
    theirs: type = plain.loaded("loopy", class_name(record), type(value))
    return theirs


def real_of(value: Any) -> Any:
    """Return loopy's own object if a stand-in passes access on to it; any other object unchanged."""
    return _dictionary.__get__(value)["real"] if isinstance(type(value), Kind) else value


def asked(value: Any, question: str) -> Any:
    """Return loopy's own object for a question of the program; a stand-in is made first. From now on its content counts."""
    record = record_of(value)
    if record is not None:
        _become(value, record, question)
    return real_of(value)


def _edited(value: Any, record: Record) -> None:
    """Turn a stand-in on which the program has set attributes by `object.__setattr__` into loopy's object with these."""
    names = _dictionary.__get__(value)
    written = {name: names[name] for name in list(names) if name not in ("record", "real")}
    _become(value, record, "object.__setattr__")
    _making().expose(record)
    for name, attribute in written.items():
        object.__setattr__(real_of(value), name, attribute)


def _changing(value: Any, question: str) -> Any:
    """Return loopy's own object to a program that changes it, after carrying out the records that depend on it."""
    own = asked(value, question)
    if isinstance(type(value), Kind):
        _making().expose(_dictionary.__get__(value)["origin"])
    return own


_becoming = process.shared(process.LockedState)


def _become(value: Any, record: Record, question: str) -> None:
    _making().asked(record, question)
    made = _making().handed_out(record)
    with _becoming().lock:
        names = _dictionary.__get__(value) if is_recorded(value) else {}
        # Another thread may have done this already.
        if "record" not in names:
            return
        if type(value) is RecordedUnit:
            names.update(vars(made))
            # The attributes are set before the class, so that another thread sees either a stand-in or a complete unit.
            _class.__set__(value, type(made))
        else:
            names["real"], names["origin"] = made, record
        del names["record"]


def _write(value: Any, taken: texts.ArgumentParts) -> tuple[str, Any]:
    """Return the text and the record of a stand-in; raise UnknownInput if the program may change the object."""
    record = record_of(value)
    if record is None or record.is_spoiled():
        raise UnknownInput("an object of loopy's own, which the program may change")
    taken.inputs.append(record)
    return record.text(), record


def _own(value: Any) -> Any:
    """Return loopy's own object for a stand-in whose record was carried out."""
    record = record_of(value)
    return real_of(value) if record is None else record.real()


for _kind in (RecordedUnit, texts.Instance):
    texts.WRITERS[_kind], texts.OWN[_kind] = _write, _own
    texts.PLAIN.add(_kind)
