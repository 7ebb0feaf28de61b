"""The digest of a graph of arrays: the same in every process, in linear time, without recursion over nodes.

Each node gets a number, in the order in which nodes are met, and a line with its class and fields, in which other nodes
are written as their numbers. All other values are written by content, long texts as digests; the elements of a set are
sorted by their texts. Scalars are written with type and value, tags and axes with class and values. Data arrays are not
read: they are written with shape, dtype and strides, and with which of them are the same object or share memory.
"""

from __future__ import annotations

import functools
import gc
import operator
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, chain, compress, zip_longest
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.cache.key import PLACE, Part
from kcl.errors import RecipeError, UnknownInput
from kcl.frontends.loopy.callables import classes
from kcl.frontends.loopy.callables.content import content, content_key
from kcl.frontends.loopy.plain import CONTAINERS, SIMPLE, hashed, loaded, package_of, table
from kcl.generate.distributions import GRAPHS

Write = Callable[[Any], str]  # writes the text of a value
_COUNTED = {*GRAPHS, "pymbolic", "pytools"}  # packages whose objects are written by their fields
_MAPPINGS = {
    "builtins",
    "collections",
    "constantdict",
    "immutabledict",
}
_NODES = (
    ("pytato.array", "Array"),
    ("pytato.array", "AbstractResultWithNamedArrays"),
    ("pytato.function", "FunctionDefinition"),
    ("pytato.array", "DataWrapper"),
)
_LEFT = "non_equality_tags"  # a field that equal graphs may differ in
_BUILTIN = (
    *(str, bytes, int, float, complex),
    *(tuple, frozenset, list, set, dict, type),
)
_CLASS, _REFERENCE = (
    re.compile(r"(?:\b(?:tuple|list|set|frozenset))? [0-9a-f]{12}\b"),
    re.compile(r"#[0-9a-f]+"),
)
_LONG = 240  # characters from which a text is replaced by its digest
_MOST_OF_ALL, _MOST_OF_ONE = 30_000, 1_000  # characters of the parts in a row


class Graph(NamedTuple):
    """A graph with its digest.

    `root` is the value from which all nodes are reached. `form` is a digest of everything but the floating-point numbers,
    whose texts are in `numbers`, so graphs of one form differ only in these. `data` are the arrays of the data wrappers, in
    the order of `nodes`, and `data_texts` their texts.
    """

    root: Any
    form: str
    numbers: list[str]
    data: list[Any]
    data_texts: list[str]
    nodes: list[Any]

    @property
    def digest(self) -> str:
        """A digest of the form and the numbers."""
        return hashed("\n".join([self.form, *self.numbers]))

    def exact(self) -> str:
        """Return the text of the graph in records."""
        return f"graph with {self.digest}"

    def place_of(self, number: int) -> str:
        """Describe the node that contains a number, and where the program made it; slow."""
        texts = _Texts()
        for line, (node, _write) in zip(texts.lines(self.root)[1:], texts.nodes, strict=True):
            if re.search(rf"\?{number}\b", line):
                place = _place(node)
                return f" in {type(node).__name__}" + (f" (made at {place})" if place else "")
        return ""

    def without_data(self) -> Graph:
        """Return a copy that does not keep the data alive, for a unit that is made later; itself if there are no data."""
        if not self.data:
            return self
        try:
            of = _Copies(self).of
            return self._replace(root=of(self.root), data=[*map(of, self.data)], nodes=[])
        except Exception:
            # An object that cannot be copied: then the data live as long as the unit.
            return self

    @property
    def parts(self) -> tuple[Part, ...]:
        """The distinct nodes and long values as key parts without node numbers, to explain a later miss; slow."""
        texts = _Texts(numbers_apart=False)
        lines = [*texts.lines(self.root), *texts.long]
        nodes: list[Any] = [None, *[node for node, _write in texts.nodes]]
        parts = dict[Part, None]()
        for line, node in zip_longest(lines, nodes):
            name, _, fields = _CLASS.sub("", line).partition("(")
            fields = _REFERENCE.sub("#", fields)
            if len(fields) > _MOST_OF_ONE:
                fields = f"{fields[:_MOST_OF_ONE]}... {hashed(fields)}"
            part = Part(name, f"({fields}")
            parts[part] = None
            if place := _place(node):
                parts[Part(f"{PLACE}{name}{part.value}", place)] = None
        sizes = accumulate([len(part.name) + len(part.value) for part in parts])
        return tuple(compress(parts, [size <= _MOST_OF_ALL for size in sizes]))


def digest(root: Any) -> Graph:
    """Return the graph that is reached from a value; raise UnknownInput, with the reason, if it has no digest."""
    texts = _Texts()
    with _collector_held():
        form = hashed("\n".join(texts.lines(root)))
    nodes = [node for node, _write in texts.nodes]
    return Graph(root, form, texts.numbers, texts.data, texts.data_texts, nodes)


def _place(node: Any) -> str:
    """Return the line of the program that made a node, if pytato has noted it; else empty."""
    packages = [sys.modules[name] for name in GRAPHS if name in sys.modules]
    theirs = tuple([f"{path}{os.sep}" for package in packages for path in package.__path__])
    for tag in getattr(node, _LEFT, ()):
        frames = getattr(getattr(tag, "traceback", None), "frames", ())
        for frame in reversed(frames):
            if not frame.filename.startswith(theirs):
                return settings.place_of(frame.filename, frame.lineno)
    return ""


class _Form(NamedTuple):
    """How objects of a class are written: the function that lists their values, without the data of wrappers."""

    name: str
    values: Callable[[Any], Iterable[Any]] | None  # None: the object has a text of its own
    make: Callable[[Any, list[Any]], Any] | None = None  # another container of other values
    is_set: bool = False
    is_node: bool = False
    is_wrapper: bool = False


class _Texts(dict[type, Write]):
    """Class -> the function that writes its values' texts. A new class is added when its first value is met."""

    def __init__(self, numbers_apart: bool = True) -> None:
        super().__init__(SIMPLE)
        self[str] = repr
        self._numbers_apart = numbers_apart
        for kind in (float, complex):
            self[kind] = self._number(self[kind])
        self.numbers: list[str] = []
        self.data: list[Any] = []
        self.data_texts: list[str] = []
        self.long: dict[str, None] = {}
        self.nodes: list[tuple[Any, Write]] = []
        self._names: dict[int, str] = {}  # of nodes by id
        self._kept: dict[int, tuple[Any, str]] = {}  # by id; the value stays, so its id does
        self._places: dict[Any, int] = {}
        self._sets = 0  # around the present value

    def lines(self, root: Any) -> list[str]:
        """Return the texts of a value and of all nodes that are reached from it."""
        lines = [self[type(root)](root)]
        for node, write in self.nodes:  # grows
            lines.append(write(node))
        return lines

    def __missing__(self, kind: type) -> Write:
        form = _form(kind)
        write = self._set(form) if form.is_set else self._plain(form)
        if issubclass(kind, sys.modules["numpy"].inexact):
            write = self._number(write)
        if form.is_wrapper:
            write = self._wrapper(write)
        self[kind] = self._node(form, write) if form.is_node else write
        return self[kind]

    def _plain(self, form: _Form) -> Write:
        name, values, kept = form.name, form.values, self._kept

        def write(value: Any) -> str:
            before = kept.get(id(value))
            if before is not None:
                return before[1]
            if values is None:
                text = f"{name}({_content(value)})"
            else:
                text = f"{name}({', '.join([self[type(part)](part) for part in values(value)])})"
                if len(text) < _LONG:
                    return text
                self.long[text] = None
                text = f"#{hashed(text)[:32]}"
            kept[id(value)] = value, text
            return text

        return write

    def _number(self, write: Write) -> Write:
        """Return a function that moves a number to `numbers` and writes its index; inside a set the number is written."""

        def place(value: Any) -> str:
            text = write(value)
            if self._sets or not self._numbers_apart:
                return text
            self.numbers.append(text)
            return f"?{len(self.numbers) - 1}"

        return place

    def _set(self, form: _Form) -> Write:
        def write(value: Any) -> str:
            self._sets += 1
            texts = sorted([self[type(element)](element) for element in value])
            self._sets -= 1
            return f"{form.name}({', '.join(texts)})"

        return write

    def _node(self, form: _Form, write: Write) -> Write:
        def name(value: Any) -> str:
            if self._sets:
                raise UnknownInput(f"a set holds a node of class {form.name}")
            text = self._names.get(id(value))
            if text is None:
                text = self._names[id(value)] = f"#{len(self.nodes)}"
                self.nodes.append((value, write))
            return text

        return name

    def _wrapper(self, fields: Write) -> Write:
        def write(value: Any) -> str:
            text, number = self._of_data(value.data), len(self.data)
            self.data.append(value.data)
            self.data_texts.append(text)
            return f"{fields(value)} data {number} {text}"

        return write

    def _of_data(self, data: Any) -> str:
        """Return the text of a data array, without its content."""
        kind, array = type(data), sys.modules.get("pyopencl.array")
        if kind is AbsentData:
            return str(data.counted)
        if kind is sys.modules["numpy"].ndarray:
            memory, offset = data.__array_interface__["data"][0], 0
        elif array is not None and isinstance(data, array.Array) and is_counted(kind, "pyopencl"):
            base, offset = data.base_data, data.offset
            memory = getattr(base, "int_ptr", None) or getattr(base, "svm_ptr", None) or id(base)
        else:
            raise UnknownInput(f"data of class {class_text(kind)}")
        same = [
            self._places.setdefault(place, len(self._places)) for place in (id(data), f"{memory}")
        ]
        facts = data.shape, _content(data.dtype), data.strides, offset
        return f"{class_text(kind)} {facts} {same}"


class AbsentData:
    """A stand-in for a data array in a graph, which does not keep it alive. pytato asks data only for shape and dtype."""

    def __init__(self, data: Any, counted: str) -> None:
        self.shape, self.dtype = data.shape, data.dtype
        self.counted = counted
        self._data, self._kind = weakref.ref(data), type(data)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._kind

    def __getattr__(self, name: str) -> Any:
        data = self._data()
        if data is None:
            raise RecipeError(
                f"the unit of a graph is made only now, and asks for {name!r} of data that the program has let go: "
                "run with KCL_NO_CACHE=graph, or ask for the unit before that"
            )
        return getattr(data, name)


class _Copies:
    """Copies of the nodes of a graph, with AbsentData in place of its data."""

    def __init__(self, graph: Graph) -> None:
        self._made: dict[int, Any] = {
            id(array): AbsentData(array, text)
            for array, text in zip(graph.data, graph.data_texts, strict=True)
        }
        self._made |= {id(node): object.__new__(type(node)) for node in graph.nodes}
        for node in graph.nodes:
            self._fill(node, self._made[id(node)])

    def of(self, value: Any) -> Any:
        """Return the copy of a value; itself if no node is reached from it."""
        kind: Any = type(value)
        if kind in SIMPLE or kind is str:
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._copied(value, kind, _form(kind))
        return self._made[id(value)]

    def _copied(self, value: Any, kind: Any, form: _Form) -> Any:
        if form.is_set or form.values is None:
            return value
        before = [*form.values(value)]
        parts = [*map(self.of, before)]
        if all(map(operator.is_, before, parts)):
            return value
        return form.make(value, parts) if form.make else self._fill(value, object.__new__(kind))

    def _fill(self, value: Any, copied: Any) -> Any:
        fields = getattr(value, "__dataclass_fields__", None)
        pairs = classes.attributes(value, theirs=True)
        if fields:
            pairs = [(name, getattr(value, name)) for name in fields]
        for name, part in pairs:
            object.__setattr__(copied, name, self.of(part))
        return copied


@functools.lru_cache(maxsize=1024)
def _form(kind: type) -> _Form:
    """Return how objects of a class are written; raise UnknownInput for an unknown class of nodes."""
    top = package_of(kind)
    name = f"{kind.__name__} {hashed(class_text(kind))[:12]}"
    row = CONTAINERS.get(kind)
    if row is None and top in _MAPPINGS and hasattr(kind, "keys"):
        row = table(kind)
    if row is not None:
        return _Form(name, row.items, row.make, is_set=kind in (set, frozenset))
    is_known = is_counted(kind) and classes.is_plain(kind) and not issubclass(kind, _BUILTIN)
    *nodes, wrapper = [loaded(module, one, ()) for module, one in _NODES]
    is_node, fields = issubclass(kind, (*nodes,)), getattr(kind, "__dataclass_fields__", ())
    if is_node and not (is_known and fields):
        raise UnknownInput(f"a node of class {class_text(kind)}")
    if not is_known:
        return _Form(name, None)
    if not fields:
        return _Form(name, lambda value: [*chain(*classes.attributes(value, theirs=True))])
    is_wrapper = issubclass(kind, wrapper)
    counted = [field for field in fields if field != _LEFT and not (is_wrapper and field == "data")]
    return _Form(
        name,
        lambda value: [getattr(value, field) for field in counted],
        is_node=is_node,
        is_wrapper=is_wrapper,
    )


def is_counted(kind: type, *more: str) -> bool:
    """Return True if a class and all its base classes belong to Python or to packages whose files are in the key."""
    packages, tops = _COUNTED.union(more), [*map(package_of, kind.__mro__)]
    return tops[0] in packages and all(
        top in packages or top in sys.stdlib_module_names for top in tops
    )


def class_text(kind: type) -> str:
    """Return the names of a class and its base classes."""
    return " < ".join([f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[:-1]])


def _content(value: Any) -> str:
    """Return the text of any other value, as for an argument of loopy."""
    if isinstance(value, loaded("loopy", "TranslationUnit", ())):
        return content_key(value)
    counted = content(value, called=True)
    if counted.structured:
        raise UnknownInput("a dtype of the graph has fields")
    return f"{counted.text} {counted.digest}"


@contextmanager
def _collector_held() -> Iterator[None]:
    """Switch the garbage collector off in the block, which makes many objects and no garbage."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
