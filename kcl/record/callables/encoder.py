"""The text of a value: typed, exact, the same in every process, readable where it is short.

Two values with one text mean the same to code. So the text holds types (``1`` is not ``True`` is not ``1.0``),
dictionaries keep their order, sets are sorted, and an object that may change in place and is met again is named by its
number. The walk over code (`kcl.record.callables.walker`) names functions, classes and modules.

A value that holds itself has no text. The encoder looks at numpy only if a module has imported it: none of its values
exists before.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from kcl.record.callables.classes import HEAP, content, enum_type, is_memo, is_plain
from kcl.record.callables.pure import GENERATORS
from kcl.record.plain import SIMPLE, StandIn, in_bytes, name_of, refuse, shorten

_REFERENCES = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)
_MUTABLE = frozenset({list, dict, set, bytearray, object})
# what C code makes of functions: Cython, nanobind, pybind11, numpy, and Python's memo of a function
_FUNCTION_LIKE = frozenset(
    (
        *(
            "cython_function_or_method",
            "fused_cython_function",
            "nb_func",
            "nb_method",
            "instancemethod",
        ),
        *("_ArrayFunctionDispatcher", "ufunc", "_lru_cache_wrapper"),
    )
)
_OF_PARTS = {
    "partial": ("func", "args", "keywords", "__dict__"),
    "partialmethod": ("func", "args", "keywords"),
    "cached_property": ("func",),
}


class Encoder:
    """The maker of the texts of values at one moment. A subclass has the walk over code."""

    reference: Callable[[Any], str]  # the name of a function, class or module
    # True if a class counts by its name; raises if its instances may not be used
    is_library: Callable[[type], bool]
    alone: Callable[[Any], str]  # the text of a value for an order; nothing is noted

    def __init__(self) -> None:
        self.done: dict[int, tuple[object, str]] = {}  # id of a value -> itself, its text
        # id of a value that can change -> itself, its number
        self.met: dict[int, tuple[object, int]] = {}
        self.in_code = (
            False  # the values are those that code reaches: it may change one under two names
        )
        self.structured = False  # a dtype among the values is a structure
        # class -> whether code may tell its objects from equal ones
        self.changes: dict[type, bool] = {}

    def encode(self, value: Any) -> str:
        """Return the text of ``value``; raise `UnknownInput` if its content cannot be known."""
        kind = type(value)
        # the hash of such a class is loopy's
        if type(kind) is not type and issubclass(kind, StandIn):
            return self.reference(value)
        simple = SIMPLE.get(kind)
        if simple is not None:
            return simple(value)
        if kind is str:
            return shorten(repr(value))
        if isinstance(value, _REFERENCES):
            return self.reference(value)
        changes = self.changes.get(kind)
        if changes is None:
            changes = self.changes[kind] = _can_change(kind)
        is_told = changes and (self.in_code or callable(value))  # from an equal one, by code
        if is_told:
            number = len(self.met)
            first = self.met.setdefault(id(value), (value, number))[1]
            return f"<again {first}>" if first != number else shorten(self._composed(value))
        known = self.done.get(id(value))
        if known is not None:
            return known[1]
        met = len(self.met)
        text = shorten(self._composed(value))
        # If an object in it counts by its number, the second text refers to the first.
        self.done[id(value)] = value, text if met == len(self.met) else f"<again {met}: {text}>"
        return text

    def each(self, values: Iterable[Any]) -> str:
        """Return the texts of several values."""
        return ", ".join([self.encode(value) for value in values])

    def pairs(self, values: Iterable[tuple[Any, Any]]) -> str:
        """Return the texts of keys and values."""
        return ", ".join([f"{self.encode(key)}: {self.encode(value)}" for key, value in values])

    def members(self, values: Iterable[Any]) -> str:
        """Return the texts of the elements of a set, met in an order that no hash and no address decides."""
        return ", ".join(sorted([self.encode(value) for value in sorted(values, key=self._rank)]))

    def unordered(self, value: Any) -> str:
        """Return the text of a dictionary whose order does not count; any other value counts as it is."""
        if not isinstance(value, dict):
            return self.encode(value)
        pairs = sorted(value.items(), key=lambda pair: self._rank(pair[0]))
        return f"{type(value).__name__}{{{self.pairs(pairs)}}}"

    def _rank(self, value: Any) -> str:
        kind = type(value)
        is_simple = type(kind) is type and (kind in SIMPLE or kind is str)
        return f"{kind.__name__} {repr(value) if is_simple else self.alone(value)}"

    def _composed(self, value: Any) -> str:
        kind = type(value)
        writer = _COMPOSED.get(kind)
        if writer is not None:
            return writer(self, value)
        for special in (_reference, _of_numpy, _enum, _callable):
            text = special(self, value)
            if text is not None:
                return text
        return self._instance(value, kind)

    def _instance(self, value: Any, kind: type) -> str:
        """Encode any other object: its class, its content as a builtin type, its attributes."""
        is_library = self.is_library(kind)
        if is_library:
            text = self._of_library(value, kind)
            if text is not None:
                return text
        if hasattr(kind, "__next__") or not is_plain(kind):
            refuse(value)
        held = []
        named = self.encode(kind)
        theirs = is_library and _package(kind) in GENERATORS
        for name, attribute in content(value):
            if not is_memo(kind, name, theirs):
                encode = self.unordered if theirs and name in _UNORDERED else self.encode
                held.append(f"{name_of(name)}={encode(attribute)}")
        for base, held_as in _BUILTIN.items():
            if isinstance(value, base):
                held.insert(0, held_as(self, value))
                break
        return f"{named}({', '.join(held)})"

    def _of_library(self, value: Any, kind: type) -> str | None:
        """Encode an object of a library by its pickled state; return None for one that counts by its attributes."""
        if kind is object:
            return "builtins.object"
        if _package(kind) in GENERATORS:
            special = _OF_GENERATORS.get(kind.__name__)
            if special is not None:
                return special(self, value)
            if is_plain(kind) and _package(kind) != "islpy":
                return None
        if hasattr(kind, "__next__") or _package(kind) == "pyopencl":
            refuse(value)
        registered = sys.modules["copyreg"].dispatch_table.get(kind)
        try:
            reduced = registered(value) if registered is not None else value.__reduce_ex__(2)
        except Exception:
            refuse(value)
        if isinstance(reduced, str):
            return f"{kind.__module__}.{reduced}"
        named = self.encode(kind)
        head = (
            "" if reduced[0] is kind else f" by {getattr(reduced[0], '__qualname__', reduced[0])}"
        )
        return f"{named}{head} from {self.each([_ordered(item) for item in reduced[1:]])}"


def _can_change(kind: type) -> bool:
    """Return True if code may tell an object of a class from an equal one: it may change one under two names."""
    if kind in _MUTABLE or kind.__name__ == "ndarray":
        return True
    is_own = kind.__flags__ & HEAP and not isinstance(kind, enum_type())
    return bool(is_own) and _package(kind) not in _SHARED and not issubclass(kind, tuple)


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _ordered(item: Any) -> Any:
    """Put a piece of state in order: attributes by name, for loopy fills dictionaries in the order of sets."""
    if type(item) is dict and all(type(key) is str for key in item):
        return dict(sorted(item.items()))
    if type(item) is tuple:  # attributes, slots
        return tuple(_ordered(piece) for piece in item)
    return list(item) if hasattr(item, "__next__") else item


# containers, and instances of classes that extend them; overriding methods are not called
_CONTAINERS: dict[type, Callable[[Encoder, Any], str]] = {
    dict: lambda encoder, value: f"{{{encoder.pairs(dict.items(value))}}}",
    list: lambda encoder, value: f"[{encoder.each(list.__iter__(value))}]",
    tuple: lambda encoder, value: f"({encoder.each(tuple.__iter__(value))},)",
    set: lambda encoder, value: f"set({encoder.members(set.__iter__(value))})",
    frozenset: lambda encoder, value: f"frozenset({encoder.members(frozenset.__iter__(value))})",
    bytearray: lambda _, value: (
        f"bytearray({in_bytes(bytes(bytearray.__getitem__(value, slice(None))))})"
    ),
}
# the content of an instance as the builtin type that its class extends
_BUILTIN: dict[type, Callable[[Encoder, Any], str]] = {
    **_CONTAINERS,
    str: lambda encoder, value: encoder.encode(str.__str__(value)),
    int: lambda encoder, value: encoder.encode(int.__int__(value)),
    float: lambda encoder, value: encoder.encode(float.__float__(value)),
    bytes: lambda encoder, value: encoder.encode(bytes.__getitem__(value, slice(None))),
    complex: lambda encoder, value: encoder.encode(
        complex(complex.real.__get__(value), complex.imag.__get__(value))
    ),
    BaseException: lambda encoder, value: encoder.encode(BaseException.args.__get__(value)),  # type: ignore[attr-defined]
}
# Attributes that hold dictionaries; their order does not count. loopy fills them in the order of sets, which follows
# the hash seed. It looks their entries up by name or sorts them. The order of any other dictionary counts.
_UNORDERED = frozenset({"callables_table", "happens_after", "iname_slab_increments", "inames"})


def _isl(encoder: Encoder, value: Any) -> str:
    """Encode a set or map with its parameters in the order of their names; names count beside the printed text."""
    from islpy import Space, dim_type

    is_map = type(value).__name__.endswith("Map")
    kinds = (
        (dim_type.param, dim_type.in_, dim_type.out) if is_map else (dim_type.param, dim_type.set)
    )
    names = [value.get_var_names(kind) for kind in kinds]
    if None not in names[0] and names[0] != sorted(names[0]):
        names[0] = sorted(names[0])
        space = Space.params_alloc(value.get_ctx(), len(names[0]))
        for position, name in enumerate(names[0]):
            space = space.set_dim_name(dim_type.param, position, name)
        value = value.align_params(space)
    return f"isl {type(value).__name__}({encoder.encode((names, str(value)))})"


# the objects of the generators that have texts of their own, by the name of the class
_OF_GENERATORS: dict[str, Callable[[Encoder, Any], str]] = {
    **dict.fromkeys(("BasicMap", "BasicSet", "Map", "Set"), _isl),
    "constantdict": lambda encoder, value: f"constantdict{{{encoder.pairs(value.items())}}}",
    # a list after a pickle
    "LazilyUnpicklingList": lambda encoder, value: f"[{encoder.each(value)}]",
    "LazilyUnpicklingListWithEqAndPersistentHashing": lambda encoder, value: (
        f"[{encoder.each(value)}]"
    ),
}
# packages with objects that do not change once they are made
_SHARED = GENERATORS | {"numpy", "typing"}


def _cell(encoder: Encoder, value: types.CellType) -> str:
    try:
        return encoder.encode(value.cell_contents)
    except ValueError:
        return "<empty>"


_COMPOSED: dict[type, Callable[[Encoder, Any], str]] = {
    **_CONTAINERS,
    slice: lambda encoder, value: f"slice({encoder.each((value.start, value.stop, value.step))})",
    types.MappingProxyType: lambda encoder, value: f"mappingproxy({encoder.pairs(value.items())})",
    property: lambda encoder, value: (
        f"property({encoder.each((value.fget, value.fset, value.fdel))})"
    ),
    staticmethod: lambda encoder, value: f"staticmethod({encoder.encode(value.__func__)})",
    classmethod: lambda encoder, value: f"classmethod({encoder.encode(value.__func__)})",
    types.MethodType: lambda encoder, value: (
        f"method({encoder.each((value.__func__, value.__self__))})"
    ),
    types.CellType: _cell,
}


def _reference(encoder: Encoder, value: Any) -> str | None:
    """Encode one of kcl's objects, or a function that C code made."""
    kind = type(value)
    if kind.__module__ == "kcl.recipe" and hasattr(value, "function"):
        return f"recipe {encoder.reference(value.function)}"
    is_function = kind.__name__ in _FUNCTION_LIKE and isinstance(
        getattr(value, "__name__", None), str
    )
    return encoder.reference(value) if is_function or issubclass(kind, StandIn) else None


def _of_numpy(encoder: Encoder, value: Any) -> str | None:
    """Encode a dtype, array or scalar of numpy; code may ask for the layout of an array."""
    numpy: Any = sys.modules.get("numpy")
    if not hasattr(numpy, "ndarray") or not isinstance(
        value, (numpy.dtype, numpy.ndarray, numpy.generic)
    ):
        return None
    encode, dtype = encoder.encode, value if isinstance(value, numpy.dtype) else value.dtype
    encoder.structured |= bool(dtype.fields)
    if value is dtype:
        return _dtype(encode, value)
    if isinstance(value, numpy.ndarray):
        if type(value) is not numpy.ndarray:
            refuse(value)
        return f"array({_dtype(encode, dtype)}, {value.shape!r}, {_content(encode, numpy, value)}{_laid(value)})"
    if dtype.fields or dtype.hasobject:
        return f"numpy {_content(encode, numpy, numpy.asarray(value))} of {_dtype(encode, dtype)}"
    text = (
        value.tobytes().hex()
        if value != value
        else repr(value.item() if dtype.kind in "biu" else value)
    )
    return f"numpy.{dtype.str[1:] if dtype.kind in 'mM' else dtype.name}({text})"


def _enum(encoder: Encoder, value: Any) -> str | None:
    kind = type(value)
    if isinstance(kind, enum_type()):
        return f"{encoder.reference(kind)}.{name_of(value.name)}={encoder.encode(value.value)}"
    return None


def _callable(encoder: Encoder, value: Any) -> str | None:
    """Encode a value that wraps a function, or a method of a builtin object."""
    kind = type(value)
    if isinstance(value, _DESCRIPTORS):
        owner = getattr(value, "__objclass__", None) or type(getattr(value, "__self__", None))
        bound = (
            f" of {encoder.encode(value.__self__)}"
            if isinstance(value, types.MethodWrapperType)
            else ""
        )
        return f"{owner.__module__}.{value.__qualname__}{bound}"
    parts = _OF_PARTS.get(kind.__name__) if kind.__module__ == "functools" else None
    if parts is None:
        return None
    return f"{kind.__name__}({encoder.each([getattr(value, name, None) for name in parts])})"


def _laid(array: Any) -> str:
    """Describe the layout of an array in memory if that is unusual."""
    strides = "" if array.flags.c_contiguous else f", strides {array.strides!r}"
    return strides if array.flags.writeable else f"{strides}, read-only"


def _dtype(encode: Callable[[Any], str], dtype: Any) -> str:
    """Encode a dtype; one with parts or metadata by the state that numpy pickles: fields, offsets, sizes, alignment."""
    if dtype.fields is None and dtype.subdtype is None and dtype.metadata is None:
        return f"dtype({dtype.str!r}, {dtype.char!r})"
    state = [tuple(one.items()) if hasattr(one, "items") else one for one in dtype.__reduce__()[2]]
    return f"dtype({encode((dtype.str, dtype.char, *state))})"


def _content(encode: Callable[[Any], str], numpy: Any, array: Any) -> str:
    """Digest the elements in C order; the gaps of structures hold nothing and do not count."""
    if array.dtype.fields:
        return ", ".join(_content(encode, numpy, array[name]) for name in array.dtype.names)
    if array.dtype.hasobject:
        return encode(array.ravel().tolist())
    if array.dtype.char in "gG":  # the bytes of a long double have gaps with undefined content
        return encode([*map(repr, array.ravel())])
    if array.size <= 4 and array.dtype.kind in "biu":
        return repr(array.ravel().tolist())
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()
