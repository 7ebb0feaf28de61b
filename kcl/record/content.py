"""The content key of a loopy TranslationUnit: a digest of everything in the unit that decides the generated code.

loopy's own digest (`loopy.tools.LoopyKeyBuilder`) cannot serve. It names functions instead of reading their code, it
leaves out preamble generators, manglers, fields of structures and attributes of targets, and it is memoised on objects
that can change afterwards.

Here a unit becomes a text of bytes. The classes that units consist of (`_MODULES`) have their own writers. The walk
over the user's code (`kcl.record.callables.walker`) counts any other object, a user's callable for example, with its
class and all that its code reaches. The grammar of the text:

    value   = "N" | "T" | "F"                               None, True, False
            | "i" hexadecimal ";"                           int
            | "f" 8 bytes | "c" 16 bytes                    float, complex
            | "s" size ":" byte* | "b" size ":" byte*       str, bytes; the size is decimal
            | "(" value* ")" | "[" value* "]"               tuple, list
            | "{" (value value)* "}"                        dict
            | "k" (value value)* "}"                        constantdict
            | "<" value* ">" | "S" value* ">"               frozenset, set; in the order of the texts
            | "t" name                                      class
            | "e" name value                                member of an enumeration: its name
            | "o" count name text* value*                   object: class, names of attributes, their values
            | "?" | "v" value                               loopy's Optional without and with a value
            | "d" value | "n" value value | "a" value value dtype, scalar and array of numpy
            | "p" value                                     set or map of islpy
            | "#" 32 bytes                                  SHA-256 of a longer text of a value
            | "u"                                           the next object that the walk counts
            | "r" count value                               a value met before, when so many objects were counted
    name    = text text                                     module, qualified name
    text    = size ":" byte*
    count   = decimal ":"

No text of a value is the beginning of another one, so no two lists of values share a text.
"""

from __future__ import annotations

import hashlib
import operator
import sys
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from struct import pack
from types import MemberDescriptorType
from typing import Any

from kcl.base.dtypes import structures
from kcl.errors import UnknownInput
from kcl.record.callables.classes import HEAP, enum_type, is_remembered

_LONG = 512  # bytes; a longer text counts by its digest, which keeps the texts of nested values short

# modules with classes that keep all their content in `__dict__`; their subclasses in other modules are not known
_MODULES = frozenset(
    {
        "loopy.kernel",
        "loopy.kernel.array",
        "loopy.kernel.data",
        "loopy.kernel.function_interface",
        "loopy.kernel.instruction",
        "loopy.library.function",
        "loopy.library.random123",
        "loopy.library.reduction",
        "loopy.options",
        "loopy.schedule",
        "loopy.symbolic",
        "loopy.target.c",
        "loopy.target.opencl",
        "loopy.target.pyopencl",
        "loopy.translation_unit",
        "loopy.types",
        "loopy.typing",
        "pymbolic.primitives",
        "pytools.tag",
    }
)
# Attributes of LoopKernel in which loopy keeps results computed from the others, beside `is_remembered`.
_COMPUTED = frozenset({"_cache_manager", "_cached_written_variables"})
# Attributes that hold dictionaries; their order does not count. loopy fills them in the order of sets, which follows
# the hash seed. It looks their entries up by name or sorts them. The order of any other dictionary counts.
_UNORDERED = frozenset({"callables_table", "happens_after", "iname_slab_increments", "inames"})
_ISL = frozenset({"BasicMap", "BasicSet", "Map", "Set"})

_first = operator.itemgetter(0)
_BY_NAMES, _BY_CODE = 1, 2  # an object is ranked by the name of its class, or by the walk over it alone


def content_key(unit: Any) -> str | None:
    """Return the key of `exact_key`; None if it cannot be known."""
    try:
        return exact_key(unit)
    except UnknownInput:
        return None


def exact_key(unit: Any) -> str:
    """Return the SHA-256 over the content that decides the code of `unit`, in hex; raise UnknownInput with the reason.

    The key also covers the structures that are registered with pyopencl. It is the same in every process. Each call
    reads the unit again: kcl remembers nothing on the unit or about it.
    """
    from kcl.record.callables import walker

    try:
        content, text = _written(unit)
        if content.structured or content.strange:
            content, text = _written((unit, sorted(structures(), key=_first)))
        strange = walker.walked(content.strange)
    except RecursionError:
        raise UnknownInput("the unit is nested too deeply") from None
    return hashlib.sha256(hashlib.sha256(text).digest() + strange.digest.encode()).hexdigest()


def users(unit: Any) -> list[Any]:
    """Return the objects of the user in a unit: the callables that loopy runs are among them."""
    return _written(unit)[0].strange


def _written(value: Any) -> tuple[Content, bytes]:
    """Return the writer of a value, and its text."""
    content = Content()
    try:
        return content, content.text(value)
    except RecursionError:  # loopy generates from expressions that are nested too deeply for the calls of writers
        content = Content()
        content.prepare(value)
        return content, content.text(value)


class Content:
    """The writer of the texts of values at one moment; it collects the objects that the walk has to count."""

    def __init__(self) -> None:
        self.done: dict[int, bytes] = {}  # id of an object -> its text
        self.again: dict[tuple[int, int], bytes] = {}  # the same for objects that hold a strange object, by ranking
        self.alive: list[object] = []  # these objects keep their ids as long as they stand here
        self.strange: list[Any] = []  # in the order of their places in the text
        self.encounters = 0  # with strange objects
        self.structured = False  # a dtype in it is a structure
        self.ranking = 0  # while an order is sought, strange objects have their own texts

    def text(self, value: Any) -> bytes:
        """Return the text of `value`; raise `UnknownInput` where its content cannot be known."""
        return _writers[type(value)](self, value)

    def texts(self, items: Iterable[Any]) -> bytes:
        """Return the texts of several values, one after the other."""
        return b"".join([_writers[type(value)](self, value) for value in items])

    def prepare(self, value: Any) -> None:
        """Write all parts of a value from the innermost outwards, so that each text needs few calls."""
        entered: set[int] = set()
        waiting = [value]
        while waiting:
            part = waiting[-1]
            if id(part) in entered:
                self.text(waiting.pop())
            else:
                entered.add(id(part))
                waiting += _parts(part)
        self.strange.clear()
        self.again.clear()

    def sorted(self, members: Iterable[Any]) -> list[tuple[bytes, Any]]:
        """Pair values without an order with their texts, in the order of the texts."""
        listed = [*members]
        if len(listed) == 1 or self.ranking:
            return sorted([(self.text(value), value) for value in listed], key=_first)
        before = self.encounters
        ranked = self.ranked(listed, _BY_NAMES)
        if self.encounters == before:
            return ranked
        if any(one[0] == other[0] for one, other in pairwise(ranked)):
            ranked = self.ranked(listed, _BY_CODE)
        return [(self.text(value), value) for _rank, value in ranked]

    def ranked(self, members: Iterable[Any], ranking: int) -> list[tuple[bytes, Any]]:
        """Put values in an order that no hash and no address decides."""
        self.ranking = ranking
        try:
            return sorted([(self.text(value), value) for value in members], key=_first)
        finally:
            self.ranking = 0


def _parts(value: Any) -> Iterable[Any]:
    """List the values that a container or an object of a known class holds; cycles are not among them."""
    kind = type(value)
    if isinstance(value, (tuple, list, frozenset, set)):
        return value if kind in _writers else ()
    if isinstance(value, dict):
        return (*value, *value.values()) if kind in _writers else ()
    if isinstance(value, type) or _writers[kind] is _strange:
        return ()
    return getattr(value, "__dict__", {}).values()


Writer = Callable[[Content, Any], bytes]


def _keeping(write: Writer) -> Writer:
    """Shorten the text of an object and remember it until the end of the call.

    An object that holds a strange object refers to its first place wherever a writer meets it again.
    """

    def kept(content: Content, value: Any) -> bytes:
        known = content.done.get(id(value))
        if known is None and content.again:
            known = content.again.get((id(value), content.ranking))
            content.encounters += known is not None
        if known is not None:
            return known
        before, start = content.encounters, len(content.strange)
        text = write(content, value)
        if len(text) > _LONG:
            text = b"#" + hashlib.sha256(text).digest()
        content.alive.append(value)
        if content.encounters == before:
            content.done[id(value)] = text
        else:
            content.again[id(value), content.ranking] = text if content.ranking else b"r%d:%b" % (start, text)
        return text

    return kept


def _strange(content: Content, value: Any) -> bytes:
    """Leave an object to the walk; where an order is sought, give the object its own text."""
    content.encounters += 1
    if not content.ranking:
        content.strange.append(value)
        return b"u"
    from kcl.record.callables import walker

    if content.ranking == _BY_NAMES:
        kind = value if isinstance(value, type) else type(value)
        return f"{kind.__module__} {kind.__qualname__}".encode("utf-8", "surrogatepass")
    return walker.walked(value).digest.encode()


# Plain values and containers


def _sized(encoded: bytes) -> bytes:
    return b"%d:%b" % (len(encoded), encoded)


def _name(kind: type) -> bytes:
    return _sized(kind.__module__.encode()) + _sized(kind.__qualname__.encode())


def _string(_content: Content, value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return b"s%d:%b" % (len(encoded), encoded)


def _sequence(begin: bytes, end: bytes) -> Writer:
    return _keeping(lambda content, value: begin + content.texts(value) + end)


def _members(begin: bytes) -> Writer:
    return _keeping(lambda content, value: begin + b"".join([text for text, _member in content.sorted(value)]) + b">")


def _dictionary(begin: bytes) -> Writer:
    return _keeping(lambda content, value: begin + content.texts(chain.from_iterable(value.items())) + b"}")


def _unordered(content: Content, value: Any) -> bytes:
    """Write a dictionary in the order of the texts of its keys; write any other value as it is."""
    begin = _TABLES.get(_writers[type(value)])
    if begin is None:
        return content.text(value)
    pairs = [text + content.text(value[key]) for text, key in content.sorted(value)]
    return begin + b"".join(pairs) + b"}"


# Classes, enumerations, objects


def _is_found(kind: type) -> bool:
    """Tell whether a module holds a class under the name of the class."""
    module = sys.modules.get(kind.__module__)
    return module is not None and module.__dict__.get(kind.__qualname__) is kind


def _class(content: Content, value: type) -> bytes:
    module = value.__module__
    known = (module in _MODULES or module in ("builtins", "numpy")) and _is_found(value)
    return b"t" + _name(value) if known else _strange(content, value)


def _enumeration(content: Content, value: Any) -> bytes:
    return b"e" + _name(type(value)) + content.text(value.name)


def _is_open(kind: type) -> bool:
    """Tell whether instances of a class keep all their content in `__dict__`."""
    return bool(kind.__dictoffset__) and all(
        base is object
        or (base.__flags__ & HEAP and not any(type(value) is MemberDescriptorType for value in base.__dict__.values()))
        for base in kind.__mro__
    )


def _object(kind: type) -> Writer:
    """Make the writer of the instances of a class; the instances differ in their attributes."""
    plans: dict[tuple[str, ...], tuple[bytes, list[str], list[str]]] = {}

    def write(content: Content, value: Any) -> bytes:
        held = value.__dict__
        names = tuple(held)
        plan = plans.get(names)
        if plan is None:
            plan = plans[names] = _plan(kind, names)
        head, ordered, unordered = plan
        text = head + content.texts([held[name] for name in ordered])
        return b"".join([text, *[_unordered(content, held[name]) for name in unordered]]) if unordered else text

    return _keeping(write)


def _plan(kind: type, names: Iterable[str]) -> tuple[bytes, list[str], list[str]]:
    """Return the beginning of an object's text, and the attributes that count: the ordered ones, the unordered ones."""
    counted = [name for name in sorted(names) if not is_remembered(kind, name)]
    if kind.__name__ == "LoopKernel":
        counted = [name for name in counted if name not in _COMPUTED]
    ordered = [name for name in counted if name not in _UNORDERED]
    unordered = [name for name in counted if name in _UNORDERED]
    listed = b"".join([_sized(name.encode("utf-8", "surrogatepass")) for name in (*ordered, *unordered)])
    return b"o%b%d:%b" % (_name(kind), len(counted), listed), ordered, unordered


def _optional(content: Content, value: Any) -> bytes:
    return b"v" + content.text(value.value) if value.has_value else b"?"


# numpy


def _dtype(content: Content, dtype: Any) -> bytes:
    """Write a dtype with all that tells it from an equal dtype: character, metadata, layout, class of its scalars."""
    if dtype.kind not in "biufcmMSUV":
        return _strange(content, dtype)
    fields = dtype.fields and [(name, *dtype.fields[name]) for name in dtype.names]
    content.structured |= bool(fields)
    metadata = dtype.metadata and dict(dtype.metadata)
    parts = (dtype.str, dtype.char, dtype.type, metadata, dtype.subdtype, fields, dtype.itemsize, dtype.isalignedstruct)
    return b"d" + content.text(parts)


def _scalar(content: Content, value: Any) -> bytes:
    if value.dtype.hasobject or value.dtype.fields:
        return _strange(content, value)
    # the bytes of a long double have gaps with undefined content
    exact = repr(value) if value.dtype.char in "gG" else value.tobytes()
    return b"n" + content.text(value.dtype) + content.text(exact)


def _array(content: Content, array: Any) -> bytes:
    """Write an array by its elements in C order; loopy asks neither for their layout in memory nor for write access."""
    if array.dtype.hasobject:
        return _strange(content, array)
    return b"a" + content.text((array.dtype, array.shape)) + content.text(_elements(array))


def _elements(array: Any) -> Any:
    """Return the elements of an array, or their digest; the gaps of structures are undefined and do not count."""
    import numpy as np

    if array.dtype.fields:
        return [_elements(array[name]) for name in array.dtype.names]
    if array.dtype.char in "gG":
        return [*array.ravel()]
    if array.nbytes <= _LONG:
        return array.tobytes()
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).digest()  # type: ignore[arg-type]


# islpy


def _isl(content: Content, value: Any) -> bytes:
    """Write a set or map with its parameters in the order of their names; names count beside the printed text."""
    from islpy import dim_type

    is_map = type(value).__name__.endswith("Map")
    kinds = (dim_type.param, dim_type.in_, dim_type.out) if is_map else (dim_type.param, dim_type.set)
    names = [value.get_var_names(kind) for kind in kinds]
    if None not in names[0] and names[0] != sorted(names[0]):
        names[0] = sorted(names[0])
        value = _aligned(value, names[0])
    return b"p" + content.text((type(value).__name__, names, str(value)))


def _aligned(value: Any, names: list[str]) -> Any:
    from islpy import Space, dim_type

    space = Space.params_alloc(value.get_ctx(), len(names))
    for position, name in enumerate(names):
        space = space.set_dim_name(dim_type.param, position, name)
    return value.align_params(space)


# The writers of the classes

_list = _sequence(b"[", b"]")
_dict = _dictionary(b"{")
_constantdict = _dictionary(b"k")
_plain: dict[type, Writer] = {
    type(None): lambda _content, _value: b"N",
    bool: lambda _content, value: b"T" if value else b"F",
    int: lambda _content, value: b"i%x;" % value,
    float: lambda _content, value: b"f" + pack("<d", value),
    complex: lambda _content, value: b"c" + pack("<dd", value.real, value.imag),
    str: _string,
    bytes: lambda _content, value: b"b" + _sized(value),
    tuple: _sequence(b"(", b")"),
    list: _list,
    frozenset: _members(b"<"),
    set: _members(b"S"),
    dict: _dict,
    type: _class,
}
_TABLES = {_dict: b"{", _constantdict: b"k"}


class _Writers(dict[type, Writer]):
    """The writers by class; the writer of an unknown class is not kept."""

    def __missing__(self, kind: type) -> Writer:
        writer = _writer_of(kind)
        if writer is not _strange:
            self[kind] = writer
        return writer


_writers = _Writers(_plain)


def _writer_of(kind: type) -> Writer:
    module: Any = kind.__module__
    if issubclass(kind, type):
        return _class
    if not isinstance(module, str):
        return _strange
    if module.partition(".")[0] == "numpy":
        return _numpy_writer(kind)
    if not _is_found(kind):
        return _strange
    if module in _MODULES:
        return _enumeration if isinstance(kind, enum_type()) else _object(kind) if _is_open(kind) else _strange
    if module == "islpy._isl" and kind.__name__ in _ISL:
        return _keeping(_isl)
    if module == "loopy.tools" and kind.__name__.startswith("LazilyUnpicklingList"):  # a list after a pickle
        return _list
    if module == "loopy.tools" and kind.__name__ == "Optional":
        return _optional
    if module == "constantdict" and kind.__name__ == "constantdict":
        return _constantdict
    return _strange


def _numpy_writer(kind: type) -> Writer:
    import numpy as np

    if kind is np.ndarray:
        return _keeping(_array)
    if issubclass(kind, np.dtype):
        return _keeping(_dtype)
    return _keeping(_scalar) if issubclass(kind, np.generic) and _is_found(kind) else _strange
