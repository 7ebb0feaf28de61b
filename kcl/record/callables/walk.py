"""The walk over what a recipe reaches: functions, classes, modules and libraries, each taken note of once.

Functions and classes of the user count by their code, and lead on through `kcl.record.callables.chains`; libraries
count by the distribution that they belong to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.record.callables import classes, distributions, source_modules, unkeyable, values
from kcl.record.callables.chains import MISSING, Chains, held
from kcl.record.callables.distributions import ABSENT, DISTRIBUTION, KCL, USER, Owner
from kcl.record.callables.plain import label_of, name_of
from kcl.record.callables.readings import digest, references
from kcl.record.callables.references import UNKNOWN, Reference

# what Cython, nanobind and pybind11 make of functions
_FOREIGN_FUNCTIONS = {"cython_function_or_method", "fused_cython_function", "nb_func", "nb_method", "instancemethod"}
# modules that classes name that are made at run time, by `exec`, `types.new_class` or `dataclasses.make_dataclass`
_MAKERS = frozenset({"builtins", "types"})
# classes of the face's objects: a function, a class and a member of an enumeration of loopy
_STAND_INS = frozenset({"kcl.record.face.Function", "kcl.record.unmade.Kind", "kcl.record.unmade.Member"})
_LANGUAGE_VERSION = "LOOPY_USE_LANGUAGE_VERSION_"


def _is_stand_in(value: Any) -> bool:
    """Return True if a value stands for an object of loopy."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}" in _STAND_INS


class LenientEncoder(values.Encoder):
    """Names the type alone of what cannot be known and is excused; not while it is strict."""

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
    """One walk at one moment; ``directory`` is the root of the user's code, from which paths are counted."""

    def __init__(self, name: str, directory: str, excused: Callable[[str], bool] | None = None) -> None:
        self.directory = directory
        self.excused = excused  # tells of a reason against the key whether a declaration cures it
        self.parts: list[Part] = []
        self.front_ends: set[str] = set()
        self.reached: set[str] = set()  # distributions
        self.sources: list[tuple[str, object]] = []  # names of parts and what they were made of
        self.mentions: set[str] = set()
        self.encoder = values.Encoder(self) if excused is None else LenientEncoder(self, excused)
        self.chains = Chains(self)
        self.static = source_modules.Modules(self)
        self.labels: dict[str, int] = {}
        self.names: dict[int, tuple[object, str]] = {}  # id of a function, class or module -> itself, its text
        self.owners: dict[str, Owner] = {}
        self.noted: set[str] = set()  # dotted names in libraries
        self.versions: set[int] = set()  # globals searched for loopy's language version
        self.skipped: tuple[FunctionType, frozenset[str]] | None = None
        self.subject: ModuleType | None = None  # the module that this walk takes a fact of
        self.facts: dict[tuple[int, str], str] = {}  # what `fact` has found, by module and name
        self.place: tuple[str, Reference | None] = (name, None)
        self.located = False

    def add(self, name: str, value: str) -> None:
        self.parts.append(Part(name, value))

    def recipe(self, function: FunctionType, arguments: frozenset[str]) -> None:
        """Take note of a recipe that is called with these parameters."""
        self.skipped = (function, arguments)
        self.function(function, skip=arguments)
        self.place = (function.__qualname__, None)

    def fact(self, module: ModuleType, name: str) -> str:
        """Digest what a name in a loaded module leads to now, in a walk of its own; empty where it is being found.

        A reason why that cannot be known comes after an asterisk.
        """
        place = (id(module), name)
        if place in self.facts:
            return self.facts[place]
        value: Any = module.__dict__.get(name, MISSING)
        if value is MISSING:
            return ABSENT
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        self.facts[place] = ""
        walk = Walk(module.__name__, "")
        walk.subject, walk.facts = module, self.facts
        try:
            walk.chains.bare("global", value, name, "")
            found = Key(walk.parts).digest
        except (UnknownInput, RecursionError) as error:
            found = f"{UNKNOWN}{module.__name__}.{name}: {error}"
        self.facts[place] = found
        return found

    @staticmethod
    def holds(module: ModuleType) -> dict[str, str]:
        """Return the facts of all names in a module that was imported just now."""
        walk = Walk(module.__name__, "")
        return {name: walk.fact(module, name) for name in held(module)}

    # Names

    def unique(self, name: str) -> str:
        """Number the second and later of things that bear the same name."""
        name = label_of(name)
        count = self.labels[name] = self.labels.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def remember(self, thing: object, text: str) -> str:
        self.names[id(thing)] = thing, text
        return text

    def where(self) -> str:
        """Name the function and, where it is known, the line that the walk has come to."""
        label, reference = self.place
        line = reference.line if reference is not None else None
        if reference is None or line is None:
            return label
        return f"{label} ({os.path.basename(reference.code.co_filename)}:{line})"

    def refuse(self, reason: str) -> None:
        """Raise UnknownInput, unless a declaration cures the reason."""
        if self.excused is not None and self.excused(reason):
            return
        self.located = True
        raise UnknownInput(f"{self.where()}: {reason}")

    # What values.Walker asks for

    def refer(self, value: Any) -> str:
        """Return the name of a function, class or module, after taking note of what it does."""
        known = self.names.get(id(value))
        if known is not None:
            if self.skipped is not None and value is self.skipped[0]:
                self.call_itself()
            return known[1]
        if _is_stand_in(value):
            return self.remember(value, self.stand_in(value))
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
        if _is_stand_in(value):
            return self.stand_in(value)
        if kind.__name__ in _FOREIGN_FUNCTIONS and isinstance(getattr(value, "__module__", None), str):
            return self.builtin(value)
        return None

    def stand_in(self, value: Any) -> str:
        """Take note of an object of the face, which counts as loopy's own."""
        return self.library("loopy", tuple(value.text().split(".")[1:]), self.owner("loopy"))

    def foreign(self, module: str) -> bool:
        return self.owner(module).kind not in (USER, ABSENT)

    def owner(self, module: str) -> Owner:
        """Tell whose a module is; the same for the whole walk."""
        whose = self.owners.get(module)
        if whose is None:
            whose = self.owners[module] = distributions.owner(module)
        return whose

    # Functions

    def function(self, function: FunctionType, skip: frozenset[str] = frozenset()) -> str:
        """Take note of a function's code and of all it refers to; ``skip`` names parameters that are given."""
        module = function.__globals__.get("__name__")
        loaded = sys.modules.get(module) if isinstance(module, str) else None
        if isinstance(loaded, ModuleType) and loaded.__dict__ is function.__globals__:
            whose = self.owner(str(module))
            if whose.kind not in (USER, ABSENT):
                return self.library_function(function, str(module), whose)
        label = self.unique(function.__qualname__)
        text = self.remember(function, f"function {label}")
        before, self.place = self.place, (label, None)
        self.add(f"code {label}", digest(function.__code__))
        self.sources.append((f"code {label}", function))
        self.defaults(function, label, skip)
        self.version(function.__globals__, label)
        found = references(function.__code__)
        self.mentions |= found.mentions
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for reference in found.chains:
            self.place = (label, reference)
            self.chains.follow(reference, function.__globals__, cells, label)
        self.attributes(function, label)
        self.place = before
        return text

    def call_itself(self) -> None:
        """Count the defaults that the recipe's parameters made unimportant: what it reaches calls it again."""
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
                self.add(f"default {name} in {label}", self.encoder.encode(value))

    def attributes(self, function: FunctionType, label: str) -> None:
        """Count what was stored on a function, the function that it wraps included."""
        for name, value in sorted(function.__dict__.items()):
            if not name.startswith(("_memoize", "_pytools")):
                self.add(f"attribute {name_of(name)} of {label}", self.encoder.encode(value))

    def version(self, names: dict[str, Any], label: str) -> None:
        """Count the globals by which a module chooses a version of loopy's language; their presence decides."""
        if id(names) in self.versions:
            return
        self.versions.add(id(names))
        chosen = _language_version(names)
        if chosen:
            self.add(f"language version in {label}", chosen)

    def library_function(self, function: FunctionType, module: str, whose: Owner) -> str:
        """Take note of a library's function; what of the user's it holds in its closure counts too."""
        text = self.library(module, (function.__qualname__,), whose)
        if function.__closure__ is None and not function.__dict__:
            return self.remember(function, text)
        label = self.unique(function.__qualname__)
        text = self.remember(function, f"{text} as {label}")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if "cache" not in name and "memo" not in name:
                self.held(f"closure {name} in {label}", cell)
        wrapped = function.__dict__.get("__wrapped__")
        if wrapped is not None:
            self.add(f"attribute __wrapped__ of {label}", self.encoder.encode(wrapped))
        return text

    def held(self, name: str, cell: Any) -> None:
        """Count a cell of a library's function where it holds something that can be known."""
        try:
            value = cell.cell_contents
        except ValueError:
            return
        self.add(name, self.encoder.encode(value))

    def builtin(self, function: Any) -> str:
        """Take note of a function that was not written in Python."""
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            module = function.__module__ or (owner.__name__ if owner is not None else "builtins")
            return self.library(module, (function.__qualname__,), self.owner(module))
        if isinstance(owner, type):
            return f"{self.refer(owner)}.{function.__name__}"
        self.judge(f"{type(owner).__module__}.{function.__name__}")
        return f"method {function.__name__} of {self.encoder.encode(owner)}"

    # Classes

    def kind(self, kind: type) -> str:
        """Take note of a class: its bases and everything in its body."""
        module = kind.__module__
        whose = self.owner(module)
        made = module in _MAKERS and kind.__flags__ & classes.HEAP and not self.holds_class(module, kind)
        if (whose.kind not in (USER, ABSENT) and not made) or not kind.__flags__ & classes.HEAP:
            return self.remember(kind, self.library(module, (kind.__qualname__,), whose))
        label = self.unique(kind.__qualname__)
        text = self.remember(kind, f"class {label}")
        before, self.place = self.place, (label, None)
        index = len(self.parts)
        self.parts.append(Part("", ""))
        self.sources.append((f"class {label}", kind))
        body = [f"bases {' '.join([self.refer(base) for base in kind.__bases__])}"]
        if type(kind) is not type:
            body.append(f"metaclass {self.refer(type(kind))}")
        listed = classes.class_attributes(kind)
        listed.sort(key=lambda pair: pair[0] if callable(pair[1]) or hasattr(pair[1], "__get__") else "")
        body += [f"{name_of(name)}: {self.encoder.encode(value)}" for name, value in listed]
        body += self.virtual(kind)
        self.parts[index] = Part(f"class {label}", self.encoder.shorten("; ".join(body)))
        self.place = before
        return text

    def holds_class(self, module: str, kind: type) -> bool:
        """Tell whether a module holds a class under its name; one that was made at run time it does not hold."""
        loaded = sys.modules.get(module)
        return isinstance(loaded, ModuleType) and loaded.__dict__.get(kind.__name__) is kind

    def virtual(self, kind: type) -> list[str]:
        """Count the classes that were registered with an abstract class; instances of them pass for its own."""
        if "_abc_impl" not in kind.__dict__:
            return []
        return [f"registered {self.refer(other)}" for other in classes.registered(kind)]

    # Modules

    def module(self, module: ModuleType) -> str:
        """Take note of a module that is used as a whole."""
        lazy = module.__dict__.get("__kcl_lazy_module__")
        name = lazy if isinstance(lazy, str) else module.__name__
        whose = self.owner(name)
        if whose.kind == USER:
            loaded = sys.modules.get(name) if lazy else module
            text = self.remember(module, self.static.whole(name, loaded))
            if loaded is not None and self.chains.covers(name, loaded):
                self.chains.changed(name, (), name, self.place[0])
            elif loaded is not None:
                self.contents(loaded)
            return text
        return self.remember(module, self.library(name, (), whose))

    def contents(self, module: ModuleType) -> None:
        """Count what a module of the user holds now, as far as it can be known; its source counts anyway."""
        for name, value in sorted(module.__dict__.items()):
            if name[:2] == "__" or isinstance(value, ModuleType):
                continue
            self.chains.knowable("global", value, f"{module.__name__.rpartition('.')[2]}.{name}", "all")

    def library(self, module: str, attributes: tuple[str, ...], whose: Owner) -> str:
        """Take note of something in a library or in kcl; return its name."""
        dotted = ".".join((module, *attributes)) if attributes else module
        if dotted in self.noted:
            return dotted
        if whose.kind == USER:
            self.static.whole(module, sys.modules.get(module))
        if whose.kind == KCL:
            if "Source" in attributes:
                self.front_ends.add("opencl")
            return f"kcl.{attributes[0]}" if attributes else "kcl"
        self.judge(dotted)
        if whose.kind == DISTRIBUTION:
            self.reached.add(whose.name)
            if whose.name == "loopy":
                self.front_ends.add("loopy")
        self.noted.add(dotted)
        return dotted

    def judge(self, dotted: str) -> None:
        reason = unkeyable.verdict(dotted)
        if reason is not None:
            self.refuse(reason)


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
