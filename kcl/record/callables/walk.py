"""The walk over the code and values that a recipe reaches: functions, classes, modules and libraries, each noted once.

Functions and classes of the user count by their code, and lead on through `kcl.record.callables.chains`. Libraries
count by the distribution that they belong to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.record.callables import classes, distributions, values
from kcl.record.callables.chains import Chains
from kcl.record.callables.distributions import ABSENT, USER, Owner
from kcl.record.callables.notes import Notes
from kcl.record.callables.plain import name_of
from kcl.record.callables.readings import digest, references

# the types of functions that Cython, nanobind and pybind11 make
_FOREIGN_FUNCTIONS = {"cython_function_or_method", "fused_cython_function", "nb_func", "nb_method", "instancemethod"}
# modules that classes made at run time name, by `exec`, `types.new_class` or `dataclasses.make_dataclass`
_MAKERS = frozenset({"builtins", "types"})
_LANGUAGE_VERSION = "LOOPY_USE_LANGUAGE_VERSION_"


class LenientEncoder(values.Encoder):
    """An encoder that names only the type of a value that is unknowable and excused; not while it is strict."""

    def __init__(self, walker: values.Walker, excused: Callable[[str], bool]) -> None:
        super().__init__(walker)
        self.excused = excused
        self.strict = False

    def composed(self, value: Any) -> str:
        try:
            return super().composed(value)
        except UnknownInput as error:
            if self.strict or not self.excused(str(error)):
                raise
            return f"<{type(value).__module__}.{type(value).__qualname__}>"


class Walk:
    """One walk at one moment; paths count from ``directory``, the root of the user's code."""

    def __init__(self, name: str, directory: str, excused: Callable[[str], bool] | None = None) -> None:
        self.directory = directory
        self.notes = Notes(name, excused)
        self.encoder = values.Encoder(self) if excused is None else LenientEncoder(self, excused)
        self.chains = Chains(self.notes, self.encoder)
        self.sources: list[tuple[str, object]] = []  # names of parts, and the objects that they describe
        self.names: dict[int, tuple[object, str]] = {}  # id of a function, class or module -> itself, its text
        self.versions: set[int] = set()  # globals searched for loopy's language version
        self.skipped: tuple[FunctionType, frozenset[str]] | None = None

    def recipe(self, function: FunctionType, arguments: frozenset[str]) -> None:
        """Take note of a recipe that a caller calls with these parameters."""
        self.skipped = (function, arguments)
        self.function(function, skip=arguments)
        self.notes.place = (function.__qualname__, None)

    # Names

    def remember(self, thing: object, text: str) -> str:
        self.names[id(thing)] = thing, text
        return text

    # The methods of `values.Walker`

    def refer(self, value: Any) -> str:
        """Return the name of a function, class or module, after taking note of its code."""
        known = self.names.get(id(value))
        if known is not None:
            if self.skipped is not None and value is self.skipped[0]:
                self.call_itself()
            return known[1]
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, type):
            return self.kind(value)
        if isinstance(value, ModuleType):
            return self.module(value)
        return self.builtin(value)

    def describe(self, value: Any) -> str | None:
        """Return the text of kcl's own objects, a recipe as its function, and of functions of other languages."""
        kind = type(value)
        if kind.__module__ == "kcl.recipe" and hasattr(value, "function"):
            return f"recipe {self.refer(value.function)}"
        if kind.__module__ == "kcl.record.face":
            if kind.__name__ == "Either":
                return f"union of {self.encoder.each(value.members)}"
            return self.library("loopy", tuple(value.dotted.split(".")), self.notes.owner("loopy"))
        if kind.__name__ in _FOREIGN_FUNCTIONS and isinstance(getattr(value, "__module__", None), str):
            return self.builtin(value)
        return None

    def foreign(self, module: str) -> bool:
        return self.notes.owner(module).kind not in (USER, ABSENT)

    # Functions

    def function(self, function: FunctionType, skip: frozenset[str] = frozenset()) -> str:
        """Take note of a function's code and of all its references; ``skip`` names parameters that the caller gives."""
        module = function.__globals__.get("__name__")
        loaded = sys.modules.get(module) if isinstance(module, str) else None
        if isinstance(loaded, ModuleType) and loaded.__dict__ is function.__globals__:
            whose = self.notes.owner(str(module))
            if whose.kind not in (USER, ABSENT):
                return self.library_function(function, str(module), whose)
        label = self.notes.unique(function.__qualname__)
        text = self.remember(function, f"function {label}")
        before, self.notes.place = self.notes.place, (label, None)
        self.notes.add(f"code {label}", digest(function.__code__))
        self.sources.append((f"code {label}", function))
        self.defaults(function, label, skip)
        self.version(function.__globals__, label)
        found = references(function.__code__)
        self.notes.mentions |= found.mentions
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for reference in found.chains:
            self.notes.place = (label, reference)
            self.chains.follow(reference, function.__globals__, cells, label)
        self.attributes(function, label)
        self.notes.place = before
        return text

    def call_itself(self) -> None:
        """Count the defaults of the given parameters too: code that the recipe reaches calls the recipe again."""
        assert self.skipped is not None
        function, skipped = self.skipped
        self.skipped = None
        self.defaults(function, function.__qualname__, frozenset(_parameters(function)) - skipped)

    def defaults(self, function: FunctionType, label: str, skip: frozenset[str]) -> None:
        defaults = function.__defaults__ or ()
        names = _parameters(function)
        given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        given.update(function.__kwdefaults__ or {})
        for name, value in given.items():
            if name not in skip:
                self.notes.add(f"default {name} in {label}", self.encoder.encode(value))

    def attributes(self, function: FunctionType, label: str) -> None:
        """Count the attributes that are stored on a function; the function that it wraps is one of them."""
        for name, value in sorted(function.__dict__.items()):
            if not name.startswith(("_memoize", "_pytools")):
                self.notes.add(f"attribute {name_of(name)} of {label}", self.encoder.encode(value))

    def version(self, names: dict[str, Any], label: str) -> None:
        """Count the globals by which a module chooses a version of loopy's language; their presence decides."""
        if id(names) in self.versions:
            return
        self.versions.add(id(names))
        chosen = _language_version(names)
        if chosen:
            self.notes.add(f"language version in {label}", chosen)

    def library_function(self, function: FunctionType, module: str, whose: Owner) -> str:
        """Take note of a library's function; the user's objects in its closure count too."""
        text = self.library(module, (function.__qualname__,), whose)
        if function.__closure__ is None and not function.__dict__:
            return self.remember(function, text)
        label = self.notes.unique(function.__qualname__)
        text = self.remember(function, f"{text} as {label}")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if "cache" not in name and "memo" not in name:
                self.held(f"closure {name} in {label}", cell)
        wrapped = function.__dict__.get("__wrapped__")
        if wrapped is not None:
            self.notes.add(f"attribute __wrapped__ of {label}", self.encoder.encode(wrapped))
        return text

    def held(self, name: str, cell: Any) -> None:
        """Count a cell of a library's function where its content can be known."""
        try:
            value = cell.cell_contents
        except ValueError:
            return
        self.notes.add(name, self.encoder.encode(value))

    def builtin(self, function: Any) -> str:
        """Take note of a function that was not written in Python."""
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            module = function.__module__ or (owner.__name__ if owner is not None else "builtins")
            return self.library(module, (function.__qualname__,), self.notes.owner(module))
        if isinstance(owner, type):
            return f"{self.refer(owner)}.{function.__name__}"
        self.notes.judge(f"{type(owner).__module__}.{function.__name__}")
        return f"method {function.__name__} of {self.encoder.encode(owner)}"

    # Classes

    def kind(self, kind: type) -> str:
        """Take note of a class: its bases and everything in its body."""
        module = kind.__module__
        whose = self.notes.owner(module)
        made = module in _MAKERS and kind.__flags__ & classes.HEAP and not self.holds_class(module, kind)
        if (whose.kind not in (USER, ABSENT) and not made) or not kind.__flags__ & classes.HEAP:
            return self.remember(kind, self.library(module, (kind.__qualname__,), whose))
        label = self.notes.unique(kind.__qualname__)
        text = self.remember(kind, f"class {label}")
        before, self.notes.place = self.notes.place, (label, None)
        index = len(self.notes.parts)
        self.notes.parts.append(Part("", ""))
        self.sources.append((f"class {label}", kind))
        body = [f"bases {' '.join([self.refer(base) for base in kind.__bases__])}"]
        if type(kind) is not type:
            body.append(f"metaclass {self.refer(type(kind))}")
        listed = classes.class_attributes(kind)
        listed.sort(key=lambda pair: pair[0] if callable(pair[1]) or hasattr(pair[1], "__get__") else "")
        body += [f"{name_of(name)}: {self.encoder.encode(value)}" for name, value in listed]
        body += self.virtual(kind)
        self.notes.parts[index] = Part(f"class {label}", self.encoder.shorten("; ".join(body)))
        self.notes.place = before
        return text

    def holds_class(self, module: str, kind: type) -> bool:
        """Tell whether a module holds a class under its name; it does not hold a class that was made at run time."""
        loaded = sys.modules.get(module)
        return isinstance(loaded, ModuleType) and loaded.__dict__.get(kind.__name__) is kind

    def virtual(self, kind: type) -> list[str]:
        """Count the classes that were registered with an abstract class; their instances pass for its instances."""
        if "_abc_impl" not in kind.__dict__:
            return []
        return [f"registered {self.refer(other)}" for other in classes.registered(kind)]

    # Modules

    def module(self, module: ModuleType) -> str:
        """Take note of a module that is used as a whole."""
        lazy = module.__dict__.get("__kcl_lazy_module__")
        name = lazy if isinstance(lazy, str) else module.__name__
        whose = self.notes.owner(name)
        if whose.kind == USER:
            loaded = self.chains.modules.load(name) if lazy else module
            text = self.remember(module, self.chains.modules.whole(name))
            if loaded is not None:
                self.chains.contents(loaded)
            return text
        return self.remember(module, self.library(name, (), whose))

    def library(self, module: str, attributes: tuple[str, ...], whose: Owner) -> str:
        """Take note of an object of a library, of kcl, or of a module of the user that is not Python code."""
        if whose.kind == USER:
            self.chains.modules.whole(module)
        return self.notes.library(module, attributes, whose)


@cache
def distribution(name: str) -> Part:
    """Return the part of a distribution that code leads to; memoised."""
    return Part(f"distribution {name}", distributions.reached(name))


def _language_version(names: dict[str, Any]) -> str:
    if _LANGUAGE_VERSION not in " ".join(names):
        return ""
    return " ".join(sorted([name for name in names if name.startswith(_LANGUAGE_VERSION)]))


def _parameters(function: FunctionType) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]
