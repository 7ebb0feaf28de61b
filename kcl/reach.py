"""The direct key: everything that decides what a recipe returns, found without running it.

From the recipe the walk goes to whatever its code refers to: helpers in this and other modules of the user, closures,
defaults, classes, values. Code counts by `kcl.code.digest`, values by `kcl.values.encode`, both at the moment of the
call; the standard library counts by the Python version, installed distributions by version and record. What cannot be
known before the recipe runs raises UnknownInput.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn

from kcl import code, distributions, unknown, unloaded, values
from kcl.distributions import ABSENT, DISTRIBUTION, GENERATORS, KCL, PYTHON, USER, Owner
from kcl.errors import UnknownInput
from kcl.key import Key, Part
from kcl.references import CELL, IMPORT, NAME, TOUCH, UNKNOWN, Reference, references

FORMAT = "1"  # of the direct key: a change of its meaning changes this

_PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor} {sys.implementation.cache_tag}"
_MISSING = object()
# what a module stores about its own place
_ABOUT_PLACE = frozenset(
    [
        "__file__",
        "__name__",
        "__path__",
        "__spec__",
        "__loader__",
        "__package__",
        "__cached__",
        "__builtins__",
        "__annotations__",
    ]
)
_READERS = {"__doc__": {"__doc__", "getdoc"}, "__annotations__": {"__annotations__", "get_type_hints"}}
# what Cython, nanobind and pybind11 make of functions
_FOREIGN_FUNCTIONS = {"cython_function_or_method", "fused_cython_function", "nb_func", "nb_method", "instancemethod"}
_LANGUAGE_VERSION = "LOOPY_USE_LANGUAGE_VERSION_"


_GENERATORS = frozenset(GENERATORS)
_distributions: dict[str, Part] = {}


class Reached(NamedTuple):
    """What decides a recipe's outcome."""

    parts: tuple[Part, ...]
    texts: Callable[[], dict[str, str]]  # name of a part -> source text, or the value where the part holds a digest
    front_ends: frozenset[str]  # of "loopy", "opencl"; empty where neither is seen
    directory: str  # of the recipe's module, "" where it has none
    placed: bool  # the code asks where it lies


def reach(function: Callable[..., object], arguments: Mapping[str, object]) -> Reached:
    """Find what decides the outcome of ``function(**arguments)`` at this moment, without calling it.

    Raises UnknownInput, naming function, line and cure, where that cannot be known.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"a recipe is a function, not {type(function).__name__}")
    walk = _Walk(function)
    try:
        walk.recipe(function, arguments)
    except UnknownInput as error:
        if walk.located:
            raise
        raise UnknownInput(f"{walk.where()}: {error}") from None
    except RecursionError:
        raise UnknownInput(f"{walk.where()}: what it reaches is nested too deeply; pass plain values") from None
    return Reached(walk.finish(), walk.texts, frozenset(walk.front_ends), walk.module_directory, walk.placed)


class _Walk:
    """One walk over what a recipe reaches."""

    def __init__(self, function: FunctionType) -> None:
        self.parts: list[Part] = []
        self.front_ends: set[str] = set()
        self.module_directory, self.directory = _directories(function)
        self.encoder = values.Encoder(self)
        self.labels: dict[str, int] = {}
        self.names: dict[int, str] = {}  # id of a function, class or module -> its text
        self.alive: list[object] = []  # what the ids in `names` belong to
        self.followed: set[tuple[int, str, tuple[str, ...]]] = set()
        self.reached: set[str] = set()  # distributions
        self.versions: set[int] = set()  # globals searched for loopy's language version
        self.sources: list[tuple[str, object]] = []
        self.mentions: set[str] = set()
        self.static: unloaded.Modules = unloaded.Modules(self)
        self.owners: dict[str, Owner] = {}
        self.noted: set[str] = set()  # dotted names in libraries
        self.unloaded: set[str] = set()  # libraries that are taken note of, and that nobody has imported
        self.place: tuple[str, Reference | None] = (function.__qualname__, None)
        self.located = False
        self.inner = False  # this walk is for the fact of one attribute
        self.placed = False  # code asks where it lies
        self.skipped: tuple[FunctionType, frozenset[str]] | None = None

    # The recipe

    def recipe(self, function: FunctionType, arguments: Mapping[str, object]) -> None:
        self.skipped = (function, frozenset(arguments))
        self.function(function, skip=frozenset(arguments))
        self.place = (function.__qualname__, None)
        for name, value in arguments.items():
            self.add(f"parameter {name}", self.encoder.encode(value))

    def finish(self) -> tuple[Part, ...]:
        """Put the parts of the interpreter, kcl and the distributions around those of the code."""
        head = [Part("kcl", FORMAT), Part("python", _PYTHON)]
        can_use_loopy = "loopy" in self.front_ends or "opencl" not in self.front_ends
        if can_use_loopy:
            head.append(Part("optimize", str(sys.flags.optimize)))
        if self.mentions:
            self.mentioned()
        tail = [_distribution(name) for name in sorted(self.reached | _GENERATORS if can_use_loopy else self.reached)]
        return (*head, *self.parts, *tail)

    def add(self, name: str, value: str) -> None:
        self.parts.append(Part(name, value))

    def mentioned(self) -> None:
        """Count what does not decide an outcome but where reached code reads it: docstrings, annotations, the place."""
        sources = [*self.sources]
        for attribute, names in _READERS.items():
            if names & self.mentions:
                for name, source in sources:
                    text = self.encoder.encode(getattr(source, attribute, None))
                    if text not in ("None", "{}"):
                        self.add(f"{attribute} of {name}", text)

    # Names

    def unique(self, name: str) -> str:
        """Number the second and later of things that bear the same name."""
        count = self.labels[name] = self.labels.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def remember(self, thing: object, text: str) -> str:
        self.alive.append(thing)
        self.names[id(thing)] = text
        return text

    def where(self) -> str:
        """Name the function and, where it is known, the line that the walk has come to."""
        label, reference = self.place
        line = reference.line if reference is not None else None
        if reference is None or line is None:
            return label
        return f"{label} ({os.path.basename(reference.code.co_filename)}:{line})"

    def refuse(self, reason: str) -> NoReturn:
        self.located = True
        raise UnknownInput(f"{self.where()}: {reason}")

    # What values.Walker asks for

    def refer(self, value: Any) -> str:
        """Return the name of a function, class or module, after taking note of what it does."""
        known = self.names.get(id(value))
        if known is not None:
            if self.skipped is not None and value is self.skipped[0]:
                self.call_itself()
            return known
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
        if kind.__name__ in _FOREIGN_FUNCTIONS and isinstance(getattr(value, "__module__", None), str):
            return self.builtin(value)
        return None

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
        if loaded is not None and loaded.__dict__ is function.__globals__:
            whose = self.owner(str(module))
            if whose.kind not in (USER, ABSENT):
                return self.library_function(function, str(module), whose)
        label = self.unique(function.__qualname__)
        text = self.remember(function, f"function {label}")
        before, self.place = self.place, (label, None)
        self.add(f"code {label}", code.digest(function.__code__))
        self.sources.append((f"code {label}", function))
        self.defaults(function, label, skip)
        self.version(function.__globals__, label)
        found = references(function.__code__)
        self.mentions |= found.mentions
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for reference in found.chains:
            self.place = (label, reference)
            self.follow(reference, function.__globals__, cells, label)
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
                self.add(f"attribute {name} of {label}", self.encoder.encode(value))

    def version(self, names: dict[str, Any], label: str) -> None:
        """Count the globals by which a module chooses a version of loopy's language; their presence decides."""
        if id(names) in self.versions:
            return
        self.versions.add(id(names))
        if _LANGUAGE_VERSION in " ".join(names):
            chosen = [name for name in names if name.startswith(_LANGUAGE_VERSION)]
            self.add(f"language version in {label}", " ".join(sorted(chosen)))

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
        if whose.kind not in (USER, ABSENT) or not kind.__flags__ & (1 << 9):
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
        listed = values.class_attributes(kind)
        listed.sort(key=lambda pair: pair[0] if callable(pair[1]) or hasattr(pair[1], "__get__") else "")
        body += [f"{name}: {self.encoder.encode(value)}" for name, value in listed]
        self.parts[index] = Part(f"class {label}", self.encoder.shorten("; ".join(body)))
        self.place = before
        return text

    # Modules

    def module(self, module: ModuleType) -> str:
        """Take note of a module that is used as a whole."""
        lazy = module.__dict__.get("__kcl_lazy_module__")
        name = lazy if isinstance(lazy, str) else module.__name__
        whose = self.owner(name)
        if whose.kind == USER:
            return self.remember(module, self.static.whole(name, None if lazy else module))
        return self.remember(module, self.library(name, (), whose))

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
        reason = unknown.verdict(dotted)
        if reason is not None:
            self.refuse(reason)

    # References

    def follow(self, reference: Reference, names: dict[str, Any], cells: dict[str, Any], label: str) -> None:
        """Take note of what one reference in a function leads to."""
        root, name = reference.root, reference.name
        if root in (TOUCH, IMPORT):
            self.imported(reference, names, label)
        elif root == CELL:
            if name in cells and (id(cells[name]), name, reference.attributes) not in self.followed:
                self.followed.add((id(cells[name]), name, reference.attributes))
                try:
                    value = cells[name].cell_contents
                except ValueError:
                    self.add(f"closure {name} in {label}", "<empty>")
                    return
                self.value("closure", value, name, reference.attributes, label)
        elif (id(names), name, reference.attributes) not in self.followed:
            self.followed.add((id(names), name, reference.attributes))
            value = names.get(name, _MISSING)
            if name in _ABOUT_PLACE:
                self.placed = True
            elif value is not _MISSING:
                self.value("global", value, name, reference.attributes, label)
            elif root != NAME or name in builtins.__dict__:
                self.builtin_name(reference, names, label)

    def builtin_name(self, reference: Reference, names: dict[str, Any], label: str) -> None:
        """Take note of a name that is not among the globals."""
        name = reference.name
        scope = names.get("__builtins__", builtins)
        value = (scope if isinstance(scope, dict) else scope.__dict__).get(name, _MISSING)
        if value is _MISSING:
            self.add(f"global {name} in {label}", ABSENT)
        elif isinstance(value, FunctionType):
            self.value("global", value, name, reference.attributes, label)
        elif isinstance(value, (BuiltinFunctionType, type)) and value.__module__ == "builtins":
            self.judge(f"builtins.{name}")
        elif not isinstance(value, bool) and type(value).__module__ not in ("_sitebuiltins", "builtins"):
            self.value("global", value, name, reference.attributes, label)

    def value(self, scope: str, value: Any, path: str, attributes: tuple[str, ...], label: str) -> None:
        """Take note of a variable, or of what a chain of attributes of modules leads to."""
        while attributes and isinstance(value, ModuleType):
            lazy = value.__dict__.get("__kcl_lazy_module__")
            if isinstance(lazy, str):
                self.through(lazy, attributes, scope, path, label)
                return
            if self.owner(value.__name__).kind != USER and not _is_namespace(value):
                self.through(value.__name__, attributes, scope, path, label)
                return
            first, attributes = attributes[0], attributes[1:]
            if first == UNKNOWN:
                self.refuse(
                    f"getattr takes a name of module {path} that is computed; write {path}.<name>, "
                    "or pass the value as a parameter of the recipe"
                )
            if first in _ABOUT_PLACE:
                self.placed = True
                return
            if first == "__dict__":
                break
            path = f"{path}.{first}"
            inner = value.__dict__.get(first, _MISSING)
            if inner is _MISSING:
                self.missing(value, first, attributes, scope, path, label)
                return
            value = inner
        if attributes and isinstance(value, type):
            self.judge(".".join((value.__module__, value.__qualname__, *attributes)))
        self.bare(scope, value, path, label)

    def bare(self, scope: str, value: Any, path: str, label: str) -> None:
        """Count a value that is used as it is; a function or class under its own name needs no part of its own."""
        text = self.encoder.encode(value)
        last = path.rpartition(".")[2]
        if text not in (f"function {last}", f"class {last}"):
            self.add(f"{scope} {path} in {label}", text)

    def missing(self, module: ModuleType, name: str, rest: tuple[str, ...], scope: str, path: str, label: str) -> None:
        """Take note of a name that a module of the user lacks: a submodule not yet imported, a hook, or nothing."""
        hook = module.__dict__.get("__getattr__")
        inner = f"{module.__name__}.{name}"
        if hasattr(module, "__path__") and (inner in sys.modules or unloaded.exists(inner)):
            self.through(inner, rest, scope, path, label)
        else:
            self.add(f"{scope} {path} in {label}", ABSENT if hook is None else self.encoder.encode(hook))

    def through(self, module: str, attributes: tuple[str, ...], scope: str, path: str, label: str) -> None:
        """Take note of attributes of a module that is named, loaded or not."""
        whose = self.owner(module)
        if whose.kind in (USER, ABSENT):
            loaded = sys.modules.get(module)
            if whose.kind == USER and loaded is not None and not self.static.covers(module):
                self.value(scope, loaded, path, attributes, label)
            else:
                self.add(f"{scope} {path} in {label}", self.static.whole(module, loaded))
                if whose.kind == USER and not self.inner:
                    self.changed(module, attributes, path, label)
            return
        dotted = self.library(module, attributes, whose)
        if scope != "import" and (0, path, (module,)) not in self.followed:
            self.followed.add((0, path, (module,)))
            if path != module:
                self.add(f"{scope} {path} in {label}", f"module {module}")
        if module == "sys" and attributes and attributes[0] in unknown.MACHINE:
            self.add(f"{dotted} in {label}", self.encoder.encode(getattr(sys, attributes[0])))
        elif whose.kind == DISTRIBUTION and attributes:
            self.patched(module, attributes[0], dotted, label)

    def changed(self, module: str, attributes: tuple[str, ...], path: str, label: str) -> None:
        """Take note of what was changed at run time in a module that counts by its source."""
        if module not in sys.modules:
            _waiting.add((module, attributes))
            return
        now = _fact(module, attributes)
        if _facts.setdefault((module, attributes), now) != now:
            self.add(f"changed {'.'.join((path, *attributes))} in {label}", now)

    def patched(self, module: str, name: str, dotted: str, label: str) -> None:
        """Take note of a function of the user's that was put into a library."""
        loaded = sys.modules.get(module)
        value = loaded.__dict__.get(name) if loaded is not None else None
        if isinstance(value, FunctionType):
            origin = value.__globals__.get("__name__")
            if isinstance(origin, str) and self.owner(origin).kind == USER:
                self.add(f"replaced {dotted} in {label}", self.encoder.encode(value))

    def imported(self, reference: Reference, names: dict[str, Any], label: str) -> None:
        """Take note of an import statement in a function, or of what is taken from the module it binds."""
        if reference.name in self.unloaded and not reference.level and unknown.verdict(reference.dotted) is None:
            return
        module = _absolute(reference, names) if reference.level else reference.name
        attributes = reference.attributes
        if reference.root == IMPORT and attributes and distributions.is_namespace(module):
            module, attributes = f"{module}.{attributes[0]}", attributes[1:]
        key = (reference.root, module, attributes)
        if key in self.followed:
            return
        self.followed.add(key)
        if reference.root == TOUCH:
            whose = self.owner(module)
            if whose.kind not in (USER, ABSENT):
                if whose.kind == PYTHON:
                    return
                for name in reference.attributes or ("",):
                    self.library(module, (name,) if name else (), whose)
                if whose.kind == DISTRIBUTION and module not in sys.modules:
                    self.unloaded.add(module)
            return
        self.through(module, attributes, "import", module, label)

    # Texts

    def texts(self) -> dict[str, str]:
        """Return the source of every code part that has one, and the long values in full; slow."""
        import inspect

        found: dict[str, str] = {}
        for name, source in self.sources:
            try:
                found[name] = inspect.getsource(source)  # type: ignore[arg-type]
            except (OSError, TypeError):
                continue
        long = {f"sha256 {digest}": text for digest, text in self.encoder.long.items()}
        found.update(
            {part.name: long[part.value] for part in self.parts if part.value in long and part.name not in found}
        )
        return found


# What a module that counts by its source held when it was first seen loaded, and what is to be looked at then.
_facts: dict[tuple[str, tuple[str, ...]], str] = {}
_waiting: set[tuple[str, tuple[str, ...]]] = set()


def settle() -> None:
    """Look at what a recipe has just imported, so that later changes of it are seen; call it after a miss."""
    for module, attributes in [*_waiting]:
        if module in sys.modules:
            _waiting.discard((module, attributes))
            _facts.setdefault((module, attributes), _fact(module, attributes))


def _fact(module: str, attributes: tuple[str, ...]) -> str:
    """Digest what an attribute of a loaded module is now."""
    walk = _Walk(_fact)  # type: ignore[arg-type]
    walk.inner = True
    try:
        walk.value("global", sys.modules[module], module, attributes, "")
    except (UnknownInput, RecursionError) as error:
        return f"unknown: {type(error).__name__}"
    return Key(walk.parts).digest


def _is_namespace(module: ModuleType) -> bool:
    """Tell whether a package only holds others, which several distributions may have brought."""
    return module.__dict__.get("__file__") is None and "__path__" in module.__dict__


def _distribution(name: str) -> Part:
    """Return the part of an installed distribution; memoised."""
    part = _distributions.get(name)
    if part is None:
        value = distributions.generator(name) if name in _GENERATORS else distributions.identity(name)
        part = _distributions[name] = Part(f"distribution {name}", value)
    return part


def _absolute(reference: Reference, names: dict[str, Any]) -> str:
    """Return the full name of a module that is imported relative to another."""
    package = names.get("__package__") or str(names.get("__name__", ""))
    if not names.get("__package__") and "__path__" not in names:
        package = package.rpartition(".")[0]
    base = package.rsplit(".", reference.level - 1)[0] if reference.level > 1 else package
    return f"{base}.{reference.name}" if reference.name else base


def _parameters(function: FunctionType) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _directories(function: FunctionType) -> tuple[str, str]:
    """Return the directory of a function's module, and the one that its outermost package lies in."""
    names = function.__globals__
    file = names.get("__file__")
    if not isinstance(file, str):
        file = function.__code__.co_filename
        if file.startswith("<"):
            return "", ""
    package = names.get("__package__")
    depth = package.count(".") + 1 if isinstance(package, str) and package else 0
    if not os.path.isabs(file):
        return _climb(os.path.abspath(file), depth)
    known = _climbed.get((file, depth))
    if known is None:
        known = _climbed[file, depth] = _climb(file, depth)
    return known


_climbed: dict[tuple[str, int], tuple[str, str]] = {}


def _climb(file: str, depth: int) -> tuple[str, str]:
    directory = os.path.dirname(os.path.abspath(file))
    root = directory
    for _ in range(depth):
        root = os.path.dirname(root)
    return directory, root if len(root) > 1 else ""
