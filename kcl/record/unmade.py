"""The result of a recorded call, until a program asks a question that only loopy's own object can answer.

Until then it is handed to recorded calls, compared by its record's digest, and launched. A unit that gets a question
becomes loopy's own in place: its contents are filled in and its class is exchanged. Arguments and instructions have
another memory layout than the classes of kcl; one that gets a question passes all access on to loopy's own object.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from kcl.record import beside, recorder, texts
from kcl.record.record import CallSite, Record
from kcl.record.table import CONSTRUCTORS

_LAUNCHING = "kcl.integrations.executor"  # the module that launches units; it lies above this room


class _Bare:
    """A class with the descriptor of an object's own dictionary, which `RecordedResult` hides."""


_dictionary: Any = _Bare.__dict__["__dict__"]
_class: Any = object.__dict__["__class__"]


class RecordedResult(_Bare):
    """The result of one recorded call."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _class_of(self)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        own: dict[str, Any] = vars(asked(self, "__dict__"))
        return own

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array_") or name in _ABSENT or (name == "dtype" and type(self) is RecordedUnit):
            raise AttributeError(name)
        return getattr(asked(self, name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(asked(self, name), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(asked(self, name), name)

    def __eq__(self, other: object) -> Any:
        mine, others = record_of(self), record_of(other)
        if self is other or (mine is not None and others is not None and mine.is_like(others)):
            return True
        if others is not None:
            asked(other, "__eq__")
        return asked(self, "__eq__") == other

    def __hash__(self) -> int:
        return hash(asked(self, "__hash__"))

    def __repr__(self) -> str:
        record = record_of(self) if recorder.thread.showing else None
        return repr(asked(self, "__repr__")) if record is None else f"<{class_name(record)} {record.digest[:12]}>"

    def __str__(self) -> str:
        return str(asked(self, "__str__"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return asked(self, "pickle").__reduce_ex__(protocol)

    def __getitem__(self, name: Any) -> Any:
        return asked(self, "__getitem__")[name]

    def __copy__(self) -> Any:
        record = record_of(self)
        return real_of(self) if record is None else new(record)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return RecordedResult.__copy__(self)  # another thread may be asking: then its class is loopy's now


class _Fields:
    """The fields of loopy's unit, which functions of `dataclasses` look for on the class."""

    def __get__(self, unit: Any, kind: type) -> Any:
        found = recorder.loopy("fields").TranslationUnit if unit is None else asked(unit, "fields")
        return found.__dataclass_fields__


class RecordedUnit(RecordedResult):
    """A translation unit that no program has asked yet."""

    __dataclass_fields__ = _Fields()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Launch the unit, as loopy's unit does; the executor is kept with the record."""
        return importlib.import_module(_LAUNCHING).call(self, arguments, keywords)

    def executor(self, *arguments: Any, entrypoint: str | None = None, **keywords: Any) -> Any:
        """Return an object that launches the unit on a context or queue, as loopy's `executor` does."""
        return importlib.import_module(_LAUNCHING).executor(self, arguments, entrypoint, keywords)

    def with_entrypoints(self, entrypoints: Any) -> Any:
        """Return the unit with other entry points."""
        record = record_of(self)
        if record is not None and recorder.is_on():
            name, place = "with_entrypoints", CallSite(sys._getframe(1))
            with recorder.timed():
                try:
                    record = Record(f"TranslationUnit.{name}", (self, entrypoints), {}, beside.state(), place)
                except Exception as error:
                    recorder.unknown(name, error, place)
                else:
                    return answer(record)
        return asked(self, "with_entrypoints").with_entrypoints(entrypoints)


_ABSENT = frozenset({"__kcl_key__", "__kcl_lazy_module__", "__len__", "__iter__", "_kcl_bindings"})


KINDS = frozenset({RecordedResult, RecordedUnit})


def new(record: Record) -> Any:
    """Return a new object for the result of a record."""
    made = RecordedResult() if record.function in CONSTRUCTORS else RecordedUnit()
    _dictionary.__get__(made)["record"] = record
    return made


def answer(record: Record) -> Any:
    """Return the stand-in for the result of a call; loopy's own result where that is not a unit."""
    waits = recorder.begin(record)
    if not waits and record.function not in CONSTRUCTORS and not is_unit(record.real()):
        return record.real()
    return new(record)


def is_unit(value: Any) -> bool:
    """Tell whether an object is a translation unit, made or not."""
    if type(value) is RecordedUnit:
        return True
    found = sys.modules.get("loopy")
    return found is not None and type(value) is getattr(found, "TranslationUnit", None)


def record_of(value: Any) -> Record | None:
    """Return the record behind an object; None for an object that became loopy's, and for any other object."""
    if type(value) not in KINDS:
        return None
    record: Record | None = _dictionary.__get__(value).get("record")
    return record


def shown(value: Any) -> str:
    """Return the repr of a value; results that are not made appear by class and digest."""
    with recorder.thread.having(showing=True):
        return repr(value)


def class_name(record: Record) -> str:
    """Return the name of the class of a record's result, as loopy's package shows it."""
    return CONSTRUCTORS.get(record.function, "TranslationUnit")


def _class_of(value: Any) -> type:
    """Return the class that an object claims: loopy's class where loopy is imported, without making the object."""
    record = record_of(value)
    if record is None:
        return type(real_of(value))
    found: type = getattr(sys.modules.get("loopy"), class_name(record), type(value))
    return found


def real_of(value: Any) -> Any:
    """Return loopy's own object behind an object that passes access on; return any other object as it is."""
    return _dictionary.__get__(value)["real"] if type(value) is RecordedResult else value


def asked(value: Any, question: str) -> Any:
    """Have loopy's own object made and return it: a program asked a question. It counts by its content from now on."""
    record = record_of(value)
    if record is not None:
        recorder.asked(record, question)
        _become(value, record, recorder.handed_out(record))
    return real_of(value)


def _become(value: Any, record: Record, made: Any) -> None:
    with record.lock:
        if record_of(value) is None:  # another thread was faster
            return
        names = _dictionary.__get__(value)
        if type(value) is RecordedUnit:
            names.update(vars(made))
            _class.__set__(value, type(made))  # another thread may be asking: it finds one of the two classes
        else:
            names["real"] = made
        del names["record"]


def _write(value: Any, taken: texts.ArgumentParts) -> tuple[str, Any]:
    """Return the text and a copy of an object: an object that waits counts by its record, any other by its content."""
    record = record_of(value)
    if record is None or record.exposed:
        return texts.take(real_of(value) if record is None else recorder.make(record), taken)
    taken.inputs.append(record)
    return record.text(), record


for _kind in KINDS:
    texts.know(_kind, _write)
