"""The text of a value: typed, exact, the same in every process, readable where it is short.

Two values with one text make a recipe return the same result. So the text holds types (``1`` is not ``True`` is not
``1.0``), dictionaries keep their order, sets are sorted, and objects are taken apart: class by code, attributes by
value. The walk over the code (`Walker`) names functions, classes and modules, and takes note of their code.

The encoder looks at numpy and pyopencl only where a module has imported them: none of their values exists before.
"""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kcl.errors import UnknownInput
from kcl.record.callables.classes import HEAP, SLOTS, attributes, enum_type, is_plain
from kcl.record.callables.plain import LONG, SIMPLE, in_bytes, name_of, rank
from kcl.record.callables.readings import digest
from kcl.record.callables.unkeyable import refuse

_LATER = 1 << 60
_NO_ORDER = ""  # stands for the text of an element that has no text

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)


class Walker(Protocol):
    """The walk over code: it names functions, classes and modules and takes note of their code."""

    directory: str

    def refer(self, value: Any) -> str:
        """Return the name of a function, class or module, after taking note of it."""

    def describe(self, value: Any) -> str | None:
        """Return the text of a value that the walk itself writes, else ``None``."""

    def foreign(self, module: str) -> bool:
        """Tell whether a module belongs to the standard library or to an installed distribution."""


class Encoder:
    """The maker of the texts of values at one moment; it remembers the values it has seen and its place in a cycle."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.depths: dict[int, int] = {}
        self.done: dict[int, tuple[object, str]] = {}
        self.lowest = _LATER
        self.long: dict[str, str] = {}  # digest -> the text that was too long
        self.inside = 0  # objects of libraries, sets without an order
        self.met: dict[int, tuple[object, int]] = {}  # objects that code can tell from equal objects, numbered
        self.shared: list[str] = []  # the places where the encoder met one of them again

    def encode(self, value: Any) -> str:
        """Return the text of ``value``; raise `UnknownInput` where its content cannot be known."""
        kind = type(value)
        simple = SIMPLE.get(kind)
        if simple is not None:
            return simple(value)
        if kind is str:
            return self.shorten(self.text(value))
        if isinstance(value, _FUNCTIONS):
            return self.walker.refer(value)
        return self.nested(value)

    def text(self, value: str) -> str:
        """Return the text of a string; a path below the recipe's root counts from there: copies of a tree are equal."""
        directory = self.walker.directory
        if directory and value.startswith(directory) and value[len(directory) : len(directory) + 1] in ("", os.sep):
            return f"<root>{value[len(directory) :]!r}"
        return repr(value)

    def shorten(self, text: str) -> str:
        if len(text) <= LONG:
            return text
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        self.long[digest] = text
        return f"sha256 {digest}"

    def nested(self, value: Any) -> str:
        """Encode a value that holds other values; a value that holds itself is named by the number of levels up."""
        if not self.inside and type(value) not in _LASTING:
            self.meet(value)
        known = self.done.get(id(value))
        if known is not None:
            return known[1]
        above = self.depths.get(id(value))
        if above is not None:
            self.lowest = min(self.lowest, above)
            return f"<{len(self.depths) - above} up>"
        depth = self.depths[id(value)] = len(self.depths)
        before, self.lowest = self.lowest, _LATER
        try:
            text = self.shorten(self.composed(value))
        except RecursionError:
            raise UnknownInput(
                f"a value of type {type(value).__qualname__} is nested too deeply to be compared"
            ) from None
        finally:
            del self.depths[id(value)]
        if self.lowest >= depth:
            self.done[id(value)] = (value, text)
            self.lowest = before
        else:
            self.lowest = min(before, self.lowest)
        return text

    def meet(self, value: Any) -> None:
        """Note an object that code may tell from an equal one; code may also change the object under both names."""
        kind = type(value)
        if (
            kind not in _TOLD_APART
            and kind.__name__ != "ndarray"
            and (
                not kind.__flags__ & HEAP
                or _is_numpy(kind)
                or isinstance(kind, enum_type())
                or self.walker.foreign(kind.__module__)
            )
        ):
            return
        number = len(self.met)
        first = self.met.setdefault(id(value), (value, number))[1]
        if first != number:
            self.shared.append(f"{number}.{len(self.shared)} is {first}")

    def each(self, values: Iterable[Any]) -> str:
        return ", ".join([self.encode(value) for value in values])

    def pairs(self, values: Iterable[tuple[Any, Any]]) -> str:
        return ", ".join([f"{self.encode(key)}: {self.encode(value)}" for key, value in values])

    def composed(self, value: Any) -> str:
        """Encode a value that is neither simple nor a function, class or module."""
        kind = type(value)
        writer = _COMPOSED.get(kind)
        if writer is not None:
            return writer(self, value)
        own = self.walker.describe(value)
        if own is not None:
            return own
        word = getattr(type(value), "__kcl_key__", None)
        if word is not None:
            return f"{self.encode(type(value))} says {self.encode(word(value))}"
        for special in (_of_numpy, _enum, _callable, _path):
            text = special(self, value)
            if text is not None:
                return text
        self.inside += (theirs := not kind.__flags__ & HEAP or self.walker.foreign(kind.__module__))
        try:
            return self.instance(value)
        finally:
            self.inside -= theirs

    def sorted(self, values: Iterable[Any]) -> str:
        """Encode the elements of a set in the order of their texts; walk them in an order that no address decides."""
        ranked = [(self.rank(value), value) for value in values]
        ranked.sort(key=lambda pair: pair[0])
        unordered = any(rank[1] is _NO_ORDER for rank, _value in ranked)
        self.inside += unordered
        try:
            return ", ".join(sorted([self.encode(value) for _rank, value in ranked]))
        finally:
            self.inside -= unordered

    def rank(self, value: Any) -> tuple[str, str, int]:
        """Return the rank of an element of a set: its value, else its text without code; known objects come first."""
        kind = type(value).__name__
        try:
            return (*rank(value), 0)
        except UnknownInput:
            pass
        known = self.met.get(id(value))
        try:
            return kind, Encoder(_Names(self.walker)).encode(value), known[1] if known else _LATER
        except UnknownInput:
            return kind, _NO_ORDER, 0

    def instance(self, value: Any) -> str:
        """Encode any other object: its class, its content as a builtin type, its attributes."""
        kind = type(value)
        module = kind.__module__
        if self.walker.foreign(module):
            text = self.library(value, module)
            if text is not None:
                return text
        elif hasattr(kind, "__next__") or not is_plain(kind):
            refuse(value)
        held = [
            f"{name_of(name)}={self.encode(attribute)}"
            for name, attribute in attributes(value, self.walker.foreign(module))
        ]
        for base, held_as in _BUILTIN.items():
            if isinstance(value, base):
                held.insert(0, held_as(self, value))
                break
        return f"{self.encode(kind)}({', '.join(held)})"

    def library(self, value: Any, module: str) -> str | None:
        """Encode an object of a library: by its fields where the class lists them, else by its pickled state."""
        kind = type(value)
        if (module, kind.__name__) in _OPAQUE:
            return f"{module}.{kind.__qualname__}"
        fields = getattr(kind, "__dataclass_fields__", None)
        if fields is not None:
            held = []
            for name in fields:
                field = getattr(value, name, None)
                if module.startswith("loopy."):  # loopy fills dictionaries in the order of sets
                    field = _ordered(field)
                held.append(f"{name_of(name)}={self.encode(field)}")
            return f"{self.encode(kind)}({', '.join(held)})"
        if hasattr(kind, "__next__") or module in _STATEFUL:
            refuse(value)
        if isinstance(getattr(value, "__dict__", None), dict) and not _pickled_its_way(kind):
            return None
        registered = sys.modules["copyreg"].dispatch_table.get(kind)
        try:
            reduced = registered(value) if registered is not None else value.__reduce_ex__(2)
        except Exception:
            refuse(value)
        if isinstance(reduced, str):
            return f"{module}.{reduced}"
        state = [_ordered(item) for item in reduced]
        return f"{self.encode(kind)} from {self.each(state)}"


def _ordered(item: Any) -> Any:
    """Put a piece of pickled state in order: attributes by name, iterators as lists."""
    if type(item) is dict and all(type(key) is str for key in item):
        return dict(sorted(item.items()))
    if type(item) is tuple:  # attributes, slots
        return tuple(_ordered(piece) for piece in item)
    return list(item) if hasattr(item, "__next__") else item


def _pickled_its_way(kind: type) -> bool:
    """Tell whether a class defines how its instances are pickled."""
    return any(
        name in base.__dict__ for base in kind.__mro__[:-1] for name in ("__reduce_ex__", "__reduce__", "__getstate__")
    )


# the content of an instance as the builtin type that its class extends; overriding methods are not called
_BUILTIN: dict[type, Callable[[Encoder, Any], str]] = {
    dict: lambda encoder, value: f"{{{encoder.pairs(dict.items(value))}}}",
    list: lambda encoder, value: f"[{encoder.each(list.__iter__(value))}]",
    tuple: lambda encoder, value: f"[{encoder.each(tuple.__iter__(value))}]",
    str: lambda encoder, value: encoder.encode(str.__str__(value)),
    int: lambda encoder, value: encoder.encode(int.__int__(value)),
    float: lambda encoder, value: encoder.encode(float.__float__(value)),
    bytes: lambda encoder, value: encoder.encode(bytes.__getitem__(value, slice(None))),
    set: lambda encoder, value: f"{{{encoder.sorted(set.__iter__(value))}}}",
    frozenset: lambda encoder, value: f"{{{encoder.sorted(frozenset.__iter__(value))}}}",
    complex: lambda encoder, value: encoder.encode(complex(complex.real.__get__(value), complex.imag.__get__(value))),
    bytearray: lambda encoder, value: encoder.encode(bytearray.__getitem__(value, slice(None))),
}
# objects of the standard library; no outcome of a recipe depends on their content
_OPAQUE = frozenset(
    {
        ("_thread", "lock"),
        ("_thread", "RLock"),
        ("logging", "Logger"),
        ("logging", "RootLogger"),
        ("os", "_Environ"),  # observed while the recipe runs
        ("builtins", "object"),
    }
)
# modules of the standard library with objects that no text can hold: files, connections, references, contexts
_STATEFUL = frozenset(
    (
        *("_io", "io", "mmap", "select", "socket", "_socket", "_asyncio", "sqlite3"),
        *("weakref", "contextvars", "_contextvars"),
    )
)


def _cell(encoder: Encoder, value: types.CellType) -> str:
    try:
        return encoder.encode(value.cell_contents)
    except ValueError:
        return "<empty>"


_COMPOSED: dict[type, Callable[[Encoder, Any], str]] = {
    tuple: lambda encoder, value: f"({encoder.each(value)},)",
    list: lambda encoder, value: f"[{encoder.each(value)}]",
    dict: lambda encoder, value: f"{{{encoder.pairs(value.items())}}}",
    set: lambda encoder, value: f"set({encoder.sorted(value)})",
    frozenset: lambda encoder, value: f"frozenset({encoder.sorted(value)})",
    slice: lambda encoder, value: f"slice({encoder.each((value.start, value.stop, value.step))})",
    bytearray: lambda _, value: f"bytearray({in_bytes(bytes(value))})",
    memoryview: lambda _, value: f"memoryview({value.format!r}, {value.shape!r}, {in_bytes(value.tobytes())})",
    types.MappingProxyType: lambda encoder, value: f"mappingproxy({encoder.pairs(value.items())})",
    types.SimpleNamespace: lambda encoder, value: f"namespace({encoder.pairs(sorted(vars(value).items()))})",
    property: lambda encoder, value: f"property({encoder.each((value.fget, value.fset, value.fdel))})",
    staticmethod: lambda encoder, value: f"staticmethod({encoder.encode(value.__func__)})",
    classmethod: lambda encoder, value: f"classmethod({encoder.encode(value.__func__)})",
    types.MethodType: lambda encoder, value: f"method({encoder.each((value.__func__, value.__self__))})",
    types.CodeType: lambda _, value: f"code {digest(value)}",
    types.CellType: _cell,
}


# types of objects without a name that code may tell from equal ones
_TOLD_APART = frozenset({list, dict, set, bytearray, object})
# types of objects that cannot change in place except through the values that they hold
_LASTING = frozenset({tuple, frozenset, slice, types.MethodType, types.CodeType})


def _is_numpy(kind: type) -> bool:
    return kind.__module__ in ("numpy", "numpy.dtypes")


def _of_numpy(encoder: Encoder, value: Any) -> str | None:
    """Encode a value of numpy or pyopencl."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "ndarray"):
        return None
    own = isinstance(value, (numpy.dtype, numpy.ndarray, numpy.generic, numpy.ufunc))
    if not own and not (type(value).__module__.startswith("pyopencl") and "pyopencl" in sys.modules):
        return None
    from kcl.record.callables import arrays

    return arrays.numpy_object(encoder.encode, numpy, value) if own else arrays.opencl_object(encoder.encode, value)


def _enum(encoder: Encoder, value: Any) -> str | None:
    kind = type(value)
    if isinstance(kind, enum_type()):
        return f"{encoder.walker.refer(kind)}.{name_of(value.name)}={encoder.encode(value.value)}"
    return None


def _callable(encoder: Encoder, value: Any) -> str | None:
    """Encode a value that wraps a function, or a method of a builtin object."""
    kind = type(value)
    if isinstance(value, _DESCRIPTORS):
        owner = getattr(value, "__objclass__", None) or type(getattr(value, "__self__", None))
        return f"{owner.__module__}.{value.__qualname__}"
    if isinstance(value, SLOTS):
        return "slot"
    if kind.__module__ == "_struct" and kind.__name__ == "Struct":
        return f"Struct({value.format!r})"
    if kind.__module__ != "functools":
        return None
    if kind.__name__ == "partial":
        return f"partial({encoder.each((value.func, value.args, value.keywords))})"
    if kind.__name__ in ("partialmethod", "_lru_cache_wrapper", "cached_property", "singledispatchmethod"):
        held = (
            ("func", "args", "keywords") if kind.__name__ == "partialmethod" else ("func", "__wrapped__", "dispatcher")
        )
        return f"{kind.__name__}({encoder.each([getattr(value, name, None) for name in held])})"
    return None


def _path(encoder: Encoder, value: Any) -> str | None:
    module = sys.modules.get("pathlib")
    if module is None or not isinstance(value, module.PurePath):
        return None
    return f"{type(value).__name__}({encoder.text(str(value))})"


class _Alone:
    """A walker for values without code."""

    directory = ""

    def refer(self, value: Any) -> str:
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, (type, types.ModuleType)):
            return f"method {value.__name__} of {encode(owner)}"
        return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else str(value.__name__)

    def describe(self, value: Any) -> str | None:  # noqa: ARG002
        return None

    def foreign(self, module: str) -> bool:
        return module.partition(".")[0] in sys.stdlib_module_names


class _Names(_Alone):
    """A walker that knows the owners of modules as another walker does, and takes note of nothing."""

    def __init__(self, walker: Walker) -> None:
        self.directory = walker.directory
        self.foreign = walker.foreign  # type: ignore[method-assign]


def encode(value: Any) -> str:
    """Return the text of ``value``; raise `UnknownInput` where its content cannot be known.

    Functions, classes and modules count by their names only.
    """
    return Encoder(_Alone()).encode(value)
