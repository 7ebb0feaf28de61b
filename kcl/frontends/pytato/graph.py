"""The digest of a graph of arrays: the same in every process, linear, without recursion over nodes.

A node is a line: its class, and its fields, in which other values are numbers of lines. Nodes count by identity, all
else by content. The elements of a set are sorted by their texts. Scalars count by type and value, tags and axes by class
and values. Data count by shape, dtype and strides, and by which arrays are one object and one memory: nothing reads them.
"""

from __future__ import annotations

import gc
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables import classes
from kcl.frontends.loopy.callables.content import content, content_key
from kcl.frontends.loopy.plain import SIMPLE
from kcl.generate.distributions import GRAPHS

_COUNTED = frozenset(
    {*GRAPHS, "pymbolic", "pytools"}
)  # packages whose objects count by their fields
_MAPPINGS = frozenset({"builtins", "immutabledict", "constantdict"})
_LEFT = "non_equality_tags"  # equal graphs may differ in them
_BUILTIN = (str, bytes, int, float, complex, tuple, frozenset, list, set, dict, type)
_CLASS, _NUMBER = re.compile(r" [0-9a-f]{20}\b"), re.compile(r"#\d+")
_MOST = 400  # parts in a row
_SHORT = 24  # characters of a text that has no line
_SEQUENCE, _SET, _MAPPING, _FIELDS, _NAMES, _OTHER = range(6)  # how a value counts


class Graph(NamedTuple):
    """A graph by the value that leads to it, with its digest, and the data of its wrappers in the order of their nodes."""

    root: Any
    digest: str
    data: list[Any]

    def exact(self) -> str:
        """Return the text of the graph in records."""
        return f"graph with {self.digest}"

    @property
    def parts(self) -> tuple[Part, ...]:
        """The different nodes and values by class and fields, to explain a later miss: they have no numbers; slow."""
        made = _Lines()
        made.text(self.root)
        found = dict[Part, None]()
        for line in made.lines:
            name, _, fields = _CLASS.sub("", line.lstrip("0123456789 ")).partition("(")
            found[Part(name, f"({_NUMBER.sub('#', fields)}")] = None
        return tuple(found)[:_MOST]


class _Form(NamedTuple):
    """How the objects of a class count, by the text of the class; a node counts by identity, a wrapper has data."""

    how: int
    text: str
    fields: tuple[str, ...] = ()
    is_node: bool = False
    is_wrapper: bool = False


def digest(root: Any) -> Graph:
    """Return the digest of what a value leads to; raise UnknownInput with the reason where it has none."""
    made = _Lines()
    with _collector_held():
        text = made.text(root)
    lines = "\n".join([*made.lines, text]).encode("utf-8", "surrogatepass")
    return Graph(root, hashlib.sha256(lines).hexdigest(), made.data)


class _Lines:
    """The lines of a graph so far, each with its number."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self.data: list[Any] = []
        self._known: dict[
            int, tuple[Any, str]
        ] = {}  # id of a value -> itself, which keeps it, and its text
        self._elements: dict[int, tuple[Any, str]] = {}
        self._forms: dict[type, _Form] = {}
        self._places: dict[Any, int] = {}
        self._missing: list[Any] = []  # nodes without a line that the present value leads to

    def text(self, root: Any) -> str:
        """Return the text of a value, after the lines of all that it leads to."""
        waiting, opened = [root], set[int]()
        while waiting:
            value = waiting[-1]
            if id(value) in self._known:
                waiting.pop()
                continue
            form = self._form(type(value))
            self._missing = []
            text = self._inner(value, form)
            if self._missing:
                if id(value) in opened:
                    raise UnknownInput("a node leads to itself")
                opened.add(id(value))
                waiting += self._missing[::-1]
                continue
            if form.is_wrapper:
                text += self._of_data(value.data)
                self.data.append(value.data)
            own = f"{len(self.lines)} " if form.is_node else ""
            self._known[id(value)] = value, self._line(own + text)
        return self._known[id(root)][1]

    def _line(self, text: str) -> str:
        return self.lines.setdefault(text, f"#{len(self.lines)}")

    def _short(self, value: Any) -> str:
        """Return the text of a value: a short one as it is, a long one by the number of its line."""
        kind = type(value)
        if kind is str:
            return repr(value)
        writer = SIMPLE.get(kind)
        if writer is not None:
            return writer(value)
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        form, missing = self._forms.get(kind) or self._form(kind), len(self._missing)
        if form.is_node:
            self._missing.append(value)
            return ""
        text = self._inner(value, form)
        if len(self._missing) == missing:
            text = self._line(text) if len(text) > _SHORT else text
            self._known[id(value)] = value, text
        return text

    def _inner(self, value: Any, form: _Form) -> str:
        """Return what the line of a value holds."""
        if form.how == _SET:
            texts = sorted(map(self._element, value))
        elif form.how == _OTHER:
            texts = [_content(value)]
        else:
            texts = [*map(self._short, self._parts(value, form))]
        return f"{form.text}({', '.join(texts)})"

    def _parts(self, value: Any, form: _Form) -> list[Any]:
        """List the values that the text of a value names."""
        if form.how == _FIELDS:
            return [getattr(value, name) for name in form.fields]
        if form.how in (_SEQUENCE, _SET):
            return [*value]
        if form.how == _MAPPING:
            return [one for pair in value.items() for one in pair]
        held = classes.attributes(value, theirs=True) if form.how == _NAMES else ()
        return [one for pair in held for one in pair]

    def _element(self, value: Any) -> str:
        """Return a text without numbers of lines for a value in a set, which has no order; nodes have none."""
        if type(value) is str or type(value) in SIMPLE:
            return self._short(value)
        form, known = self._form(type(value)), self._elements.get(id(value))
        if form.is_node:
            raise UnknownInput(f"a set holds a node of class {form.text}")
        if known is None:
            found = [*map(self._element, self._parts(value, form))]
            found = [_content(value)] if form.how == _OTHER else found
            texts = sorted(found) if form.how == _SET else found
            known = self._elements[id(value)] = value, f"{form.text}({', '.join(texts)})"
        return known[1]

    def _form(self, kind: type) -> _Form:
        found = self._forms.get(kind)
        if found is None:
            found = self._forms[kind] = _form_of(kind)
        return found

    def _of_data(self, data: Any) -> str:
        """Return the text of an array of data, without its content."""
        kind, array = type(data), sys.modules.get("pyopencl.array")
        if kind is sys.modules["numpy"].ndarray:
            memory, offset = data.__array_interface__["data"][0], 0
        elif array is not None and isinstance(data, array.Array) and is_counted(kind, "pyopencl"):
            base, offset = data.base_data, data.offset
            memory = getattr(base, "int_ptr", None) or getattr(base, "svm_ptr", None) or id(base)
        else:
            raise UnknownInput(f"data of class {class_text(kind)}")
        same = [self._places.setdefault(one, len(self._places)) for one in (id(data), f"{memory}")]
        facts = data.shape, _content(data.dtype), data.strides, offset
        return f" data {len(self.data)} {class_text(kind)} {facts} {same}"


def _form_of(kind: type) -> _Form:
    """Return how the objects of a class count."""
    top = str(kind.__module__).partition(".")[0]
    text = f"{kind.__name__} {hashlib.sha256(class_text(kind).encode()).hexdigest()[:20]}"
    if kind in (tuple, list):
        return _Form(_SEQUENCE, text)
    if kind in (frozenset, set):
        return _Form(_SET, text)
    if top in _MAPPINGS and hasattr(kind, "keys"):
        return _Form(_MAPPING, text)
    is_known = is_counted(kind) and classes.is_plain(kind) and not issubclass(kind, _BUILTIN)
    arrays: Any = sys.modules.get("pytato.array")
    functions: Any = sys.modules.get("pytato.function")
    nodes = () if arrays is None else (arrays.Array, arrays.AbstractResultWithNamedArrays)
    nodes += () if functions is None else (functions.FunctionDefinition,)
    is_node, names = issubclass(kind, nodes), [*getattr(kind, "__dataclass_fields__", ())]
    if is_node and not (is_known and names):
        raise UnknownInput(f"a node of class {class_text(kind)}")
    if not (is_known and names):
        return _Form(_NAMES if is_known else _OTHER, text)
    is_wrapper = is_node and issubclass(kind, arrays.DataWrapper)
    left = {_LEFT, "data"} if is_wrapper else {_LEFT}
    names = [one for one in names if one not in left]
    return _Form(_FIELDS, text, tuple(names), is_node, is_wrapper)


def is_counted(kind: type, *more: str) -> bool:
    """Return True if a class, and each class that it extends, is Python's or of packages whose files are in the key."""
    known, tops = (
        _COUNTED.union(more),
        [str(base.__module__).partition(".")[0] for base in kind.__mro__],
    )
    return tops[0] in known and all(top in known or top in sys.stdlib_module_names for top in tops)


def class_text(kind: type) -> str:
    """Return the names of a class and of those that it extends."""
    return " < ".join([f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[:-1]])


def _content(value: Any) -> str:
    """Return the text of any other value, by what an argument of loopy counts by."""
    if isinstance(value, getattr(sys.modules.get("loopy"), "TranslationUnit", ())):
        return content_key(value)
    found = content(value)
    if found.structured:
        raise UnknownInput("a dtype of the graph has fields")
    return f"{found.text} {found.digest}"


@contextmanager
def _collector_held() -> Iterator[None]:
    """Let the garbage collector wait: the lines are many objects, and none of them is garbage."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
