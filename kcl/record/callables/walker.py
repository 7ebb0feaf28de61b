"""The walk over code: the text of a value that a program gives to loopy, with everything that its code reaches.

A function or class of the user, or of an installed package, counts by its code; what its code reads is walked in turn.
What the library of Python, numpy and the generators define counts by name, if the name is on the list of
`kcl.record.callables.pure`. Anything else is refused: no key holds it.

A lenient walk refuses nothing. There a name that is not on the list counts by itself and by its distribution, and so
does everything in installed packages. A module of the user that a body imports counts by its files. An object without a
text counts by its class.
"""

from __future__ import annotations

import _locale
import glob
import hashlib
import operator
import os
import sys
from collections import deque
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn

from kcl.base.dtypes import structures
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.record import Modes, distributions
from kcl.record.callables import classes, pure
from kcl.record.callables.encoder import Encoder
from kcl.record.callables.facts import CURE, facts, follow, real_module
from kcl.record.declarations import PARAMETER, RecipeCall, site_of
from kcl.record.distributions import ABSENT, DISTRIBUTION, USER
from kcl.record.files import content
from kcl.record.plain import StandIn, label_of, name_of, shorten


class WalkResult(NamedTuple):
    """A value as it is now: its text, the parts that its code leads to, and the digest of both."""

    text: str
    parts: tuple[Part, ...]
    digest: str
    structured: bool  # a dtype in it is a structure


class Walk(Encoder, Modes):
    """One walk at one moment. `encode` gives texts and notes code; `finish` reads the code that was noted."""

    def __init__(self, lenient: bool = False) -> None:
        super().__init__()
        self.lenient = lenient
        self.recipe: Any = None  # its parameters stand in the place of its defaults
        self.parts: list[Part] = []
        self.reached: set[str] = set()  # distributions that count
        self.modules: set[str] = set()  # modules of the user that code names, in a lenient walk
        self.waiting: deque[tuple[Callable[..., None], Any, str, bool]] = deque()
        # id of a thing, mode -> itself, its text
        self._names: dict[tuple[int, bool], tuple[object, str]] = {}
        # labels of classes, and what nobody has named so far
        self.partly: list[tuple[str, dict[str, Any]]] = []
        self.named: set[str] = set()  # attributes that reached code names
        self._labels: dict[str, int] = {}
        self.where = ""  # the function or class, with the place of a function
        # id of an element of a set -> itself, its digest
        self.ranks: dict[int, tuple[object, str]] = {}

    def add(self, name: str, value: str) -> None:
        """Note a part."""
        self.parts.append(Part(name, value))

    def finish(self) -> None:
        """Reference the noted code until nothing new is reached."""
        had = bool(self.waiting)
        while self.waiting or classes.read_named(self):
            read, thing, label, lenient = self.waiting.popleft()
            with self.having(lenient=lenient, in_code=True):
                read(self, thing, label)
        if had:
            self._add_state()

    def _add_state(self) -> None:
        """Note the state of the process that names on the list read: how numbers are written, and numpy's errors."""
        state: list[Any] = [
            _locale.setlocale(_locale.LC_NUMERIC),
            getattr(sys, "get_int_max_str_digits", int)(),
        ]
        numpy: Any = sys.modules.get("numpy")
        if hasattr(numpy, "geterrcall"):
            state += [numpy.get_printoptions(), numpy.geterr(), numpy.geterrcall()]
            state.append(getattr(numpy, "_get_promotion_state", str)())
        with self.having(in_code=False):
            self.add("state", self.encode(state))

    # Refusals

    def refuse(self, reason: str) -> NoReturn:
        raise UnknownInput(f"{self.where}: {reason}" if self.where else reason)

    def judge(self, dotted: str) -> str:
        """Return a name of a library; raise UnknownInput if it is not on the list."""
        if self.lenient:
            self.note(dotted)
        elif not pure.has(dotted):
            self.refuse(f"uses {dotted}, which is not on kcl's list of what is pure; {CURE}")
        return dotted

    def note(self, module: str) -> None:
        owner = distributions.owner(module)
        if owner.kind == DISTRIBUTION:
            self.reached.add(owner.name)

    def _composed(self, value: Any) -> str:
        try:
            word = getattr(type(value), "__kcl_key__", None)
            if word is None:
                return super()._composed(value)
            with self.having(lenient=True):  # the user vouches for the class
                named = self.encode(type(value))
            return f"{named} says {self.encode(word(value))}"
        except UnknownInput:
            if not self.lenient:
                raise
            return f"<{type(value).__module__}.{type(value).__qualname__}>"

    # What the encoder asks for

    def is_library(self, kind: type) -> bool:
        """Return True if a class counts by its name; raise UnknownInput if code may not use its instances."""
        if classes.is_own(self, kind):
            return False
        if self.in_code or any("__call__" in vars(base) for base in kind.__mro__):
            self.judge(f"{kind.__module__}.{kind.__qualname__}")
        return True

    def alone(self, value: Any) -> str:
        """Return the text of a value, with the code that it leads to, for an order."""
        known = self.ranks.get(id(value))
        if known is None:
            found = _result(*_walked(value, self.lenient, self.ranks))
            known = self.ranks[id(value)] = value, found.digest
        return known[1]

    def reference(self, value: Any) -> str:
        """Return the name of a function, class or module, after taking note of its code."""
        kind = type(value)
        if issubclass(kind, StandIn):
            text = str(value.text())
            return self.judge(text) if text.startswith("loopy.") else text
        known = self._names.get((id(value), self.lenient))
        if known is not None:
            return known[1]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        return self._module(value) if isinstance(value, ModuleType) else self._builtin(value)

    def is_walked(self, module: Any) -> bool:
        """Return True if the code of a module counts, and not its name."""
        if not isinstance(module, str):
            return True
        kind = distributions.owner(module).kind
        if kind == DISTRIBUTION and not self.lenient:
            return module.partition(".")[0] not in (*pure.GENERATORS, "numpy", "pyopencl")
        return kind in (USER, ABSENT)

    def _unique(self, name: str) -> str:
        name = label_of(name)
        count = self._labels[name] = self._labels.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def _remember(self, thing: object, text: str) -> str:
        self._names[id(thing), self.lenient] = thing, text
        return text

    def _wait(self, read: Callable[..., None], thing: Any, label: str) -> None:
        self.waiting.append((read, thing, label, self.lenient))

    # Functions

    def _function(self, function: FunctionType) -> str:
        module = function.__globals__.get("__name__")
        loaded = sys.modules.get(module) if isinstance(module, str) else None
        is_of_module = isinstance(loaded, ModuleType) and vars(loaded) is function.__globals__
        if not is_of_module or self.is_walked(module):
            label = self._unique(function.__qualname__)
            self._wait(Walk._read_function, function, label)
            return self._remember(function, f"function {label}")
        own, top = str(function.__module__), str(module).partition(".")[0]
        code = function.__code__
        named = (
            (own, function.__qualname__) if own.partition(".")[0] == top else (module, code.co_name)
        )
        text = self.judge(".".join(map(str, named)))
        if function.__closure__ is None and not vars(function):
            return self._remember(function, text)
        label = self._unique(function.__qualname__)
        text = self._remember(function, f"{text} as {label}")
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.add(f"closure {name} in {label}", self.encode(cell))
        self._add_attributes(function, label)
        return text

    def _read_function(self, function: FunctionType, label: str) -> None:
        code = function.__code__
        found = facts(code)
        self.add(f"code {label}", found.digest)
        self.where = f"{label} ({site_of(function)})"
        for name, value in _defaults(function) if function is not self.recipe else ():
            self.add(f"default {name} in {label}", self.encode(value))
        self._add_attributes(function, label)
        named = found.attributes | {read.name for read in found.reads}
        taken = (
            found.attributes if classes.ANY.isdisjoint(named) else found.attributes | found.texts
        )
        unlisted = sorted(name for name in taken if not pure.takes(name))
        if unlisted and not self.lenient:
            self.refuse(
                f"takes the attribute {unlisted[0]}, which is not on kcl's list of what is pure; {CURE}"
            )
        self.named |= named | found.texts
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for read in found.reads:
            follow(self, read, function, cells, label)
        self.where = ""

    def _add_attributes(self, function: FunctionType, label: str) -> None:
        """Count what was stored on a function, the function that it wraps included."""
        for name, value in sorted(vars(function).items()):
            self.add(f"attribute {name_of(name)} of {label}", self.encode(value))

    def _builtin(self, function: Any) -> str:
        """Return the name of a function that was not written in Python."""
        if type(function).__name__ == "_lru_cache_wrapper":
            if not self.lenient:
                self.refuse(
                    f"uses functools.cache of {function.__qualname__}, which remembers results; {CURE}"
                )
            return f"cache of {self.encode(function.__wrapped__)}"
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            name = getattr(function, "__qualname__", function.__name__)
            module = (
                function.__module__
                if isinstance(getattr(function, "__module__", None), str)
                else None
            )
            if module is None and type(function).__name__ == "ufunc":
                numpy: Any = sys.modules["numpy"]
                module = "numpy" if getattr(numpy, name, None) is function else "a ufunc"
            return self.judge(f"{module or getattr(owner, '__name__', 'builtins')}.{name}")
        if isinstance(owner, type):
            return f"{self.reference(owner)}.{function.__name__}"
        return f"method {function.__name__} of {self.encode(owner)}"

    # Classes

    def _class(self, kind: type) -> str:
        if classes.is_own(self, kind):
            label = self._unique(kind.__qualname__)
            self._wait(classes.read_class, kind, label)
            return self._remember(kind, f"class {label}")
        dotted = f"{kind.__module__}.{kind.__qualname__}"
        if self.lenient:
            self.note(kind.__module__)
        if not self.in_code:  # a class that code uses is judged there
            return dotted
        is_generators = dotted.partition(".")[0] in pure.GENERATORS and classes.is_found(kind)
        if kind.__flags__ & classes.HEAP and not is_generators:
            self._wait(classes.read_listed, kind, dotted)
        return self._remember(kind, self.judge(dotted))

    # Modules and names

    def _module(self, module: ModuleType) -> str:
        """Return the name of a module that is used as a value: it hands on everything in it."""
        name, _ = real_module(module)
        if self.lenient:
            self.note_module(name)
        elif name.partition(".")[0] not in pure.GENERATORS and not pure.is_whole(name):
            self.refuse(f"uses module {name} as a value; name what it takes of the module")
        return f"module {name}"

    def note_module(self, name: str) -> None:
        """Count a module in a lenient walk: by its files, or by its distribution."""
        if self.is_walked(name):
            self.modules.add(name)
        else:
            self.note(name)


def walked(value: Any, lenient: bool = False) -> WalkResult:
    """Return what a value counts by at this moment; raise UnknownInput, with the reason, if no key can hold it."""
    try:
        return _result(*_walked(value, lenient))
    except RecursionError:
        raise UnknownInput("a value is nested too deeply to be compared") from None


def exact(value: Any) -> str:
    """Return the text of any value, with a digest of the code and the distributions that it leads to."""
    found = walked(value)
    return f"{found.text} with {found.digest}" if found.parts else found.text


def content_key(unit: Any) -> str:
    """Return the SHA-256 over the content that decides the code of a unit, in hex; raise UnknownInput with the reason.

    loopy's own digest names functions instead of reading their code. It leaves out preamble generators, manglers,
    fields of structures and attributes of targets. It is kept on objects that can change. This one also covers the
    structures that are registered with pyopencl, if code of the user, or a dtype of the unit, may ask for one. It is
    the same in every process, and each call reads the unit again.
    """
    found = walked((unit,))  # a unit alone is a callable, whose class loopy would run
    if found.structured or found.parts:
        found = walked((unit, sorted(structures(), key=operator.itemgetter(0))))
    return hashlib.sha256(found.digest.encode()).hexdigest()


def _walked(value: Any, lenient: bool, ranks: Any = None) -> tuple[Walk, str]:
    walk = Walk(lenient)
    walk.ranks = {} if ranks is None else ranks
    with walk.having(in_code=callable(value) and not isinstance(value, type)):
        text = walk.encode(value)
    walk.finish()
    return walk, text


def _result(walk: Walk, text: str) -> WalkResult:
    parts = sorted([*walk.parts, *map(distribution, sorted(walk.reached))])
    return WalkResult(text, tuple(parts), Key([Part("text", text), *parts]).digest, walk.structured)


def distribution(name: str) -> Part:
    """Return the part of a distribution that code leads to."""
    return Part(f"distribution {name}", distributions.counted(name))


def _defaults(function: FunctionType) -> list[tuple[str, Any]]:
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return [*given, *(function.__kwdefaults__ or {}).items()]


def reach(task: RecipeCall) -> tuple[list[Part], frozenset[str]]:
    """Find the parts of a pure recipe's key without running it, and the front ends that its code leads to, if any.

    Raises UnknownInput if a parameter has no exact text.
    """
    walk, declared = Walk(lenient=True), task.declared
    walk.recipe = task.function
    try:
        given = [Part(f"{PARAMETER}{name}", exact(value)) for name, value in task.arguments.items()]
        given += [Part(name, exact(value)) for name, value in declared.values.items()]
        walk.encode(task.function)
        walk.finish()
    except (UnknownInput, RecursionError) as error:
        reason = str(error) if isinstance(error, UnknownInput) else "a value is nested too deeply"
        raise UnknownInput(
            f"a parameter of {task.name} ({site_of(task.written)}): {reason}"
        ) from None
    version = [] if declared.version is None else [Part("declared version", declared.version)]
    ends = {"loopy"} if "loopy" in walk.reached else set()
    ends |= {"opencl"} if "Source" in walk.named else set()
    # Each key of code that loopy generates has its distributions.
    reached = (
        walk.reached if ends == {"opencl"} else walk.reached.difference(distributions.GENERATORS)
    )
    parts = [
        *version,
        *given,
        *walk.parts,
        *_files(walk.modules),
        *map(distribution, sorted(reached)),
    ]
    return parts, frozenset(ends)


def _files(modules: set[str]) -> list[Part]:
    """Return the parts of modules of the user, loaded or not: a cold run has loaded them at the second recipe.

    A package counts by its files, a module of no package by those in its folder, which it may import.
    """
    found: dict[str, set[str]] = {}
    for module in sorted(modules):
        place = distributions.locate(module)
        if place is not None:
            beside = (
                []
                if os.path.isdir(place.path)
                else glob.glob(f"{glob.escape(place.directory)}/*.py")
            )
            found.setdefault(module.partition(".")[0], {place.path}).update([place.path, *beside])
    texts = {name: " ".join(map(content, sorted(files))) for name, files in found.items()}
    return [Part(f"module {name}", shorten(text)) for name, text in texts.items()]
