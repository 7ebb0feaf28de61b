"""Writes a value as an exact text with types: the same in every process, and readable if it is short.

Two values with the same text are interchangeable for code. So texts have types (``1``, ``True`` and ``1.0`` differ),
dictionaries keep their order, and sets are sorted. A value that contains itself has no text.

Code is not written out. A function or class of Python or of a generator is written as its name. One of another installed
package is written as its name, and the files of its distribution and what was changed in its modules become key parts. A
function's closure, defaults and attributes are written as values. Code of the user's program is refused, unless the user
vouches for it: then its files become key parts. An object of a user's class is written as its class name and its
attributes, if the class has no code that loopy may run.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from kcl.errors import UnknownInput
from kcl.frontends.loopy import held
from kcl.frontends.loopy.callables import sources
from kcl.frontends.loopy.callables.classes import (
    attributes,
    brought,
    class_attributes,
    enum_type,
    is_found,
    is_library,
    is_plain,
    overrides,
)
from kcl.frontends.loopy.plain import (
    CONTAINERS,
    SIMPLE,
    ContainerKind,
    StandIn,
    in_bytes,
    name_of,
    package_of,
    refuse,
    shorten,
)
from kcl.generate import GENERATORS, ONLY_RUN, Modes, distributions, requirements
from kcl.generate.evidence import site_of

CURE = "move it into an installed package, or give its class a method __kcl_key__() that returns what counts"
# The packages whose code is in each key already, and whose objects store results on themselves.
_GENERATORS = frozenset(GENERATORS) - ONLY_RUN
_BY_ATTRIBUTES = _GENERATORS - {"islpy", "namedisl"}
# The types of values that are written as a name.
_NAMED = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)
# The names of types of functions in C code: Cython, nanobind, pybind11, numpy, and `functools.lru_cache`.
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
_CACHE = type(functools.lru_cache(len))
_OF_PARTS: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords", "__dict__"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.cached_property: ("func",),
}


class Encoder(Modes):
    """Writes the texts of values at one moment."""

    def __init__(self) -> None:
        # id of a value -> (value, text). The value is kept, so that its id is not used again.
        self.done: dict[int, tuple[object, str]] = {}
        # Key parts for the code that the values refer to.
        self.parts: dict[str, str] = {}
        # True once a dtype with fields was written.
        self.structured = False
        # True while the user vouches for the program's code: in a pure recipe, or inside `__kcl_key__`.
        self.promised = False
        # True for values that code of a package has: it may call any of their methods.
        self.called = False
        # The memo of `_is_generators`, since a unit has many objects of few classes.
        self._generators = dict[type, bool]()

    def encode(self, value: Any) -> str:
        """Return the text of ``value``; raise `UnknownInput` if its content cannot be known."""
        kind = type(value)
        simple = SIMPLE.get(kind)
        if simple is not None:
            return simple(value)
        if kind is str:
            return shorten(repr(value))
        done = self.done.get(id(value))
        if done is not None:
            return done[1]
        is_named = isinstance(value, _NAMED)
        text = self.reference(value) if is_named else shorten(self._composed(value))
        self.done[id(value)] = value, text
        return text

    # Code

    def reference(self, value: Any) -> str:
        """Return the name of a function, class or module, and add key parts for its code."""
        if issubclass(type(value), StandIn):
            return str(value.text())
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            lazy = vars(value).get("__kcl_lazy_module__")
            name = str(lazy or value.__name__)
            # Another module may be registered under the name.
            if lazy is None and sys.modules.get(name) is not value:
                refuse(value)
            self._count(name, f"module {name}")
            return f"module {name}"
        if not isinstance(value, type):
            return self._builtin(value)
        return _name(value) if is_library(value) else self._class(value)

    def _class(self, kind: type) -> str:
        """Return the name of a class; for one that was made inside a function also its bases and its body."""
        name = _name(kind)
        self._count(kind.__module__, name)
        if is_found(kind):
            return name
        # The body may refer to the class itself, which is written as the name there.
        self.done[id(kind)] = kind, name
        body = self.encode((kind.__mro__[1:], class_attributes(kind)))
        return f"{name} of {shorten(body)}"

    def _function(self, function: types.FunctionType) -> str:
        code, module = function.__code__, function.__globals__.get("__name__")
        label = f"{module}.{function.__qualname__}"
        loaded = sys.modules.get(module) if isinstance(module, str) else None
        is_of_module = loaded is not None and vars(loaded) is function.__globals__
        self._count(module if is_of_module else None, f"{label} ({site_of(function)})")
        text = shorten(f"{label} {_text_of(code)}")
        # Its closure may refer to the function itself, which is written as this text there.
        self.done[id(function)] = function, text
        contents = (
            function.__closure__ or (),
            function.__defaults__,
            function.__kwdefaults__,
            sorted(vars(function).items()),
        )
        return f"{text} with {self.handed(contents)}" if any(contents) else text

    def _builtin(self, function: Any) -> str:
        """Return the name of a function that was not written in Python."""
        if type(function) is _CACHE:
            return f"cache of {self.encode(function.__wrapped__)}"
        owner = getattr(function, "__self__", None)
        if isinstance(owner, type):
            return f"{self.reference(owner)}.{function.__name__}"
        if owner is not None and not isinstance(owner, types.ModuleType):
            return f"method {function.__name__} of {self.encode(owner)}"
        name = getattr(function, "__qualname__", function.__name__)
        module = getattr(function, "__module__", None) or type(function).__module__
        # Checked, since code can give a function any name.
        target = sys.modules.get(module)
        for part in name.split("."):
            target = getattr(target, part, None)
        if target is not function:
            refuse(function)
        self._count(module, f"{module}.{name}")
        return f"{module}.{name}"

    def _count(self, module: Any, label: str) -> None:
        """Add key parts for code of a module: its distribution's files, and what was changed in its modules.

        Raise UnknownInput for code of the program that the user does not vouch for.
        """
        whose = distributions.owner(module) if isinstance(module, str) else None
        if whose is not None and whose.kind == distributions.DISTRIBUTION:
            # Generators are in each key already.
            if whose.name not in GENERATORS:
                if f"distribution {whose.name}" not in self.parts:
                    self.parts[f"distribution {whose.name}"] = distributions.counted(whose.name)
                    self.parts[f"requirements {whose.name}"] = requirements.required(whose.name)
                name = held.compared(whose.name)
                if not self.promised and f"held by {name}" not in self.parts:
                    # Set before it is computed, since the package may refer to itself.
                    self.parts[f"held by {name}"] = ""
                    self.parts[f"held by {name}"] = held.text(name, self)
        elif self.promised:
            self.parts |= sources.parts(str(module))
        elif whose is None or whose.kind not in (distributions.PYTHON, distributions.KCL):
            raise UnknownInput(f"{label} is code of the program, which no key holds; {CURE}")

    # Values

    def handed(self, value: Any) -> str:
        """Return the text of a value that code of a package has, and whose methods it may call.

        Such a value may have another text than elsewhere, so earlier texts are not reused.
        """
        with self.having(called=True, done=self.done if self.called else dict[int, Any]()):
            return self.encode(value)

    def each(self, values: Iterable[Any]) -> str:
        """Return the texts of several values, joined by commas."""
        return ", ".join([self.encode(value) for value in values])

    def pairs(self, values: Iterable[tuple[Any, Any]]) -> str:
        """Return the texts of key-value pairs, joined by commas."""
        return ", ".join([f"{self.encode(key)}: {self.encode(value)}" for key, value in values])

    def unordered(self, value: Any) -> str:
        """Return the text of a dictionary whose order does not count; of any other value the usual text."""
        if not isinstance(value, dict):
            return self.encode(value)
        return f"{type(value).__name__}{{{', '.join(sorted([self.pairs([item]) for item in value.items()]))}}}"

    def _composed(self, value: Any) -> str:
        kind = type(value)
        # The first rule that fits gives the text: the user's `__kcl_key__`, a writer for exactly this class, the rules for
        # kinds of objects, and last the attributes.
        word = getattr(kind, "__kcl_key__", None)
        if word is not None:
            # With this method the user vouches for the code of the class.
            with self.having(promised=True):
                bases = [base for base in kind.__mro__ if not is_library(base)]
                for base in bases:
                    self._count(base.__module__, "")
                pairs = [pair for base in bases for pair in class_attributes(base)]
                code = self.each([member for _name, member in pairs if callable(member)])
            return f"{_name(kind)} says {self.encode(word(value))} by {shorten(code)}"
        writer = _COMPOSED.get(kind)
        if writer is not None:
            return writer(self, value)
        if kind not in self._generators:
            self._generators[kind] = _is_generators(kind)
        if self._generators[kind]:
            return self._attributes(value, kind, [], theirs=True, is_code=False)
        for special in (_by_name, _of_numpy, _enum, _callable):
            text = special(self, value)
            if text is not None:
                return text
        return self._instance(value, kind)

    def _instance(self, value: Any, kind: type) -> str:
        """Encode any other object by its class, its content as a builtin type, and its attributes."""
        is_known = is_library(kind)
        if is_known:
            text = self._of_library(value, kind)
            if text is not None:
                return text
        if hasattr(kind, "__next__") or not is_plain(kind):
            refuse(value)
        is_code = not is_known and (callable(value) or overrides(kind))
        for base in kind.__mro__ if is_code else ():
            self.reference(base)
        theirs = is_known and package_of(kind) in _GENERATORS
        return self._attributes(value, kind, self._brought(kind), theirs, is_code)

    def _attributes(
        self, value: Any, kind: type, texts: list[str], theirs: bool, is_code: bool
    ) -> str:
        """Encode an object by its content as a builtin type, the given texts on its class, and its attributes."""
        for name, attribute in attributes(value, theirs):
            encode = self.unordered if theirs and name in _UNORDERED else self.encode
            encode = self.handed if is_code else encode
            texts.append(f"{name_of(name)}={encode(attribute)}")
        for base, write in _BUILTIN.items():
            if isinstance(value, base):
                texts.insert(0, write(self, value))
                break
        return f"{_name(kind)}({', '.join(texts)})"

    def _brought(self, kind: type) -> list[str]:
        """Return texts for what loopy may read or call in the bodies of an object's classes."""
        texts = list[str]()
        for base in kind.__mro__:
            # Methods of a class that was made inside a function may refer to that function's arguments.
            is_called = self.called or (self.promised and not is_found(base))
            mine = [] if is_library(base) else brought(base, is_called)
            if mine and _is_packages(base) and is_found(base):
                self._count(base.__module__, "")
            else:
                texts += [f"{_name(base)}.{name}={self.encode(value)}" for name, value in mine]
        return texts

    def _of_library(self, value: Any, kind: type) -> str | None:
        """Encode an object of Python or of a generator by a special rule, or by its pickled state.

        Return None if it is to be encoded by its attributes.
        """
        if kind is object:
            return "builtins.object"
        if package_of(kind) in _GENERATORS:
            is_named = package_of(kind) == "namedisl" and hasattr(value, "_obj")
            special = _of_namedisl if is_named else _OF_GENERATORS.get(kind.__name__)
            if special is not None:
                return special(self, value)
            if is_plain(kind) and package_of(kind) != "islpy":
                return None
        if hasattr(kind, "__next__") or package_of(kind) == "pyopencl":
            refuse(value)
        registered = sys.modules["copyreg"].dispatch_table.get(kind)
        try:
            reduced = registered(value) if registered is not None else value.__reduce_ex__(2)
        except Exception:
            # An object that cannot be pickled may raise anything.
            refuse(value)
        if isinstance(reduced, str):
            return f"{kind.__module__}.{reduced}"
        head = (
            "" if reduced[0] is kind else f" by {getattr(reduced[0], '__qualname__', reduced[0])}"
        )
        return f"{_name(kind)}{head} from {self.each([_ordered(item) for item in reduced[1:]])}"


@functools.lru_cache(maxsize=1 << 14)
def _text_of(code: types.CodeType) -> str:
    return shorten(ascii(_own(code)))


def _own(code: types.CodeType) -> tuple[Any, ...]:
    """Return what distinguishes code objects of the same name in a file, as a tuple of texts and numbers."""
    constants = [
        _own(constant)
        if isinstance(constant, types.CodeType)
        else sorted(map(ascii, constant))
        if type(constant) is frozenset
        else constant
        for constant in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_code.hex(), getattr(code, "co_exceptiontable", b""), names, counts, constants


def _is_generators(kind: type) -> bool:
    """Return True if a class belongs to a generator and its objects are encoded by their attributes."""
    special = kind.__name__ in _OF_GENERATORS or isinstance(kind, enum_type())
    return (
        package_of(kind) in _BY_ATTRIBUTES
        and not (special or hasattr(kind, "__next__") or issubclass(kind, StandIn))
        and is_plain(kind)
        and all(map(is_library, kind.__mro__))
    )


def _is_packages(kind: type) -> bool:
    return distributions.owner(str(kind.__module__)).kind == distributions.DISTRIBUTION


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _ordered(item: Any) -> Any:
    """Sort the attributes in a pickled state by name, since loopy fills dictionaries in the order of sets."""
    if type(item) is dict and all(type(key) is str for key in item):
        return dict(sorted(item.items()))
    # With slots the state is a pair: attributes and slots.
    if type(item) is tuple:
        return tuple(_ordered(piece) for piece in item)
    return list(item) if hasattr(item, "__next__") else item


def _contained(row: ContainerKind) -> Callable[[Encoder, Any], str]:
    return lambda encoder, value: row.text(value, [*map(encoder.encode, row.items(value))])


# Containers, and instances of classes that extend them.
_CONTAINERS: dict[type, Callable[[Encoder, Any], str]] = {
    **{kind: _contained(row) for kind, row in CONTAINERS.items()},
    bytearray: lambda _, value: (
        f"bytearray({in_bytes(bytes(bytearray.__getitem__(value, slice(None))))})"
    ),
}
# The content of an instance as the builtin type that its class extends.
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
# Attributes with dictionaries whose order does not count: loopy fills them in the order of sets, which depends on the
# hash seed, and then looks entries up by name or sorts them. The order of any other dictionary counts.
_UNORDERED = frozenset({"callables_table", "happens_after", "iname_slab_increments", "inames"})


def _isl(encoder: Encoder, value: Any) -> str:
    """Encode an isl set or map by its names and its printed text, with its parameters sorted by name."""
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


def _of_namedisl(encoder: Encoder, value: Any) -> str:
    """Encode an object of namedisl by its own names, since the isl object inside may have others."""
    names = value.space.dimtype_to_names
    return f"{_name(type(value))}({encoder.encode((str(value), names))})"


# Special rules for objects of generators, by the name of the class.
_OF_GENERATORS: dict[str, Callable[[Encoder, Any], str]] = {
    **dict.fromkeys(("BasicMap", "BasicSet", "Map", "Set"), _isl),
    "constantdict": lambda encoder, value: f"constantdict{{{encoder.pairs(value.items())}}}",
    # Pickled, these are lists.
    "LazilyUnpicklingList": lambda encoder, value: f"[{encoder.each(value)}]",
    "LazilyUnpicklingListWithEqAndPersistentHashing": lambda encoder, value: (
        f"[{encoder.each(value)}]"
    ),
}


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
        f"method{encoder.handed((value.__func__, value.__self__))}"
    ),
    types.CellType: _cell,
    # Some packages keep the match of their version number.
    re.Match: lambda encoder, value: (
        f"match({encoder.each((value.re, value.string, value.pos, value.endpos, value.regs))})"
    ),
}


def _by_name(encoder: Encoder, value: Any) -> str | None:
    """Encode a stand-in for an object of loopy, or a function of C code, by its name."""
    kind = type(value)
    is_function = kind.__name__ in _FUNCTION_LIKE and isinstance(
        getattr(value, "__name__", None), str
    )
    return encoder.reference(value) if is_function or issubclass(kind, StandIn) else None


def _of_numpy(encoder: Encoder, value: Any) -> str | None:
    """Encode a dtype, array or scalar of numpy. The layout of an array counts too, since code may ask for it."""
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
    # A subclass of a numpy scalar belongs to the program.
    if type(value) is not dtype.type:
        refuse(value)
    if dtype.fields or dtype.hasobject:
        return f"numpy {_content(encode, numpy, numpy.asarray(value))} of {_dtype(encode, dtype)}"
    # A NaN, which is not equal to itself, is written as bytes, since NaNs may differ.
    text = (
        value.tobytes().hex()
        if value != value
        else repr(value.item() if dtype.kind in "biu" else value)
    )
    return f"numpy.{dtype.str[1:] if dtype.kind in 'mM' else dtype.name}({text})"


# The attributes that Python gives the members of an enumeration.
_OF_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})


def _enum(encoder: Encoder, value: Any) -> str | None:
    kind = type(value)
    if not isinstance(kind, enum_type()):
        return None
    pairs = [pair for pair in attributes(value, theirs=True) if pair[0] not in _OF_MEMBERS]
    more = [*encoder._brought(kind), *([encoder.pairs(pairs)] if pairs else [])]
    text = f"{_name(kind)}.{name_of(value.name)}={encoder.encode(value.value)}"
    return f"{text} with {', '.join(more)}" if more else text


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
    parts = _OF_PARTS.get(kind)
    if parts is None:
        return None
    return f"{kind.__name__}{encoder.handed([getattr(value, name, None) for name in parts])}"


def _laid(array: Any) -> str:
    """Return the strides of an array unless it is contiguous, and whether it is read-only."""
    strides = "" if array.flags.c_contiguous else f", strides {array.strides!r}"
    return strides if array.flags.writeable else f"{strides}, read-only"


def _dtype(encode: Callable[[Any], str], dtype: Any) -> str:
    """Encode a dtype; one with fields, a subarray or metadata by the state that numpy pickles."""
    if dtype.fields is None and dtype.subdtype is None and dtype.metadata is None:
        return f"dtype({dtype.str!r}, {dtype.char!r})"
    state = [
        tuple(item.items()) if hasattr(item, "items") else item for item in dtype.__reduce__()[2]
    ]
    return f"dtype({encode((dtype.str, dtype.char, *state))})"


def _content(encode: Callable[[Any], str], numpy: Any, array: Any) -> str:
    """Return a text or digest of an array's elements in C order; the gaps between fields do not count."""
    if array.dtype.fields:
        return ", ".join(_content(encode, numpy, array[name]) for name in array.dtype.names)
    if array.dtype.hasobject:
        return encode(array.ravel().tolist())
    # A long double has padding with undefined content, so it is written as a number.
    if array.dtype.char in "gG":
        return encode([*map(repr, array.ravel())])
    if array.size <= 4 and array.dtype.kind in "biu":
        return repr(array.ravel().tolist())
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()
