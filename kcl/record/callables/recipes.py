"""The parts of the key of a pure recipe, found without running it.

The walk refuses no name: what is not on the list of what is pure counts by its name and distribution, and the promise
of the user covers it. A module of the user that the body imports counts by its code, with the modules that it imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType
from typing import NamedTuple

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.record import distributions
from kcl.record.callables.facts import IMPORT, UNKNOWN, facts
from kcl.record.callables.names import absolute
from kcl.record.callables.walker import Walk, distribution
from kcl.record.declarations import PARAMETER, RecipeCall, site_of


class Reach(NamedTuple):
    """The parts of a recipe's key, and the front ends that its code leads to: empty if it shows none.

    `texts` gives the source of the parts of code, and long values in full; `origins` gives module and first line.
    """

    parts: tuple[Part, ...]
    front_ends: frozenset[str]
    texts: Callable[[], dict[str, str]]
    origins: Callable[[], dict[str, tuple[str, int]]]


def reach(task: RecipeCall) -> Reach:
    """Find the parts of a pure recipe's key; raises UnknownInput if a parameter has no exact text."""
    walk = Walk(lenient=True)
    walk.recipe = task.function
    try:
        with walk.having(excuses=True):
            walk.encode(task.function)
        for name, value in (*task.arguments.items(), *task.declared.values.items()):
            with walk.having(excuses=False):
                walk.add(f"{'' if name in task.declared.values else PARAMETER}{name}", walk.encode(value))
        walk.finish()
    except (UnknownInput, RecursionError) as error:
        reason = str(error) if isinstance(error, UnknownInput) else "a value is nested too deeply"
        raise UnknownInput(f"a parameter of {task.name} ({site_of(task.written)}): {reason}") from None
    static = _Static(walk.modules)
    reached = walk.reached | static.reached
    version = [] if task.declared.version is None else [Part("declared version", task.declared.version)]
    ends = {"loopy"} if "loopy" in reached else set()
    ends |= {"opencl"} if "Source" in walk.named or static.names_source else set()
    if ends != {"opencl"}:
        reached -= set(distributions.GENERATORS)  # each key of code that loopy generates has them
    parts = [*version, *walk.parts, *static.parts, *map(distribution, sorted(reached))]
    return Reach(tuple(parts), frozenset(ends), lambda: _texts(walk), lambda: _origins(walk))


class _Static:
    """Modules of the user as their code is, loaded or not: a cold run has loaded them at the second recipe."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.parts: list[Part] = []
        self.reached: set[str] = set()
        self.names_source = False
        self._seen: set[str] = set()
        for module in sorted(modules):
            self._count(module)

    def _count(self, module: str) -> None:
        if module in self._seen:
            return
        self._seen.add(module)
        parent = module.rpartition(".")[0]
        if parent:
            self._count(parent)
        owner = distributions.owner(module)
        if owner.kind == distributions.DISTRIBUTION:
            self.reached.add(owner.name)
        spec = distributions.find(module) if owner.kind in (distributions.USER, distributions.ABSENT) else None
        code = None if spec is None else _code(spec, module)
        if spec is None or code is None:
            if spec is not None and spec.has_location and spec.origin is not None:
                self.parts.append(Part(f"module {module}", distributions.content(spec.origin)))
            return
        found = facts(code)
        self.parts.append(Part(f"module {module}", found.digest))
        self.names_source |= "Source" in found.attributes
        package = module if spec.submodule_search_locations is not None else parent
        for read in found.reads:
            if read.root == IMPORT and read.name != UNKNOWN:
                name = absolute(read, {"__name__": module, "__package__": package})
                for inner in (name, *(f"{name}.{one}" for one in read.attributes)):
                    self._count(inner)


def _code(spec: ModuleSpec, module: str) -> CodeType | None:
    try:
        found: CodeType | None = spec.loader.get_code(module)  # type: ignore[union-attr]
    except Exception:  # no code of Python, or no right code
        return None
    return found


def _texts(walk: Walk) -> dict[str, str]:
    """Return the source of every part of code that has one, and the long values in full; slow."""
    import inspect

    found: dict[str, str] = {}
    for name, source in walk.sources:
        try:
            found[name] = inspect.getsource(source)
        except (OSError, TypeError):
            continue
    long = {f"sha256 {digest}": text for digest, text in walk.long.items()}
    found.update({part.name: long[part.value] for part in walk.parts if part.value in long and part.name not in found})
    return found


def _origins(walk: Walk) -> dict[str, tuple[str, int]]:
    """Return the place of each part of code: its module, and for functions the first line there."""
    found = {}
    for name, source in walk.sources:
        line = source.__code__.co_firstlineno if isinstance(source, FunctionType) else 0
        found[name] = str(getattr(source, "__module__", None) or ""), line
    return found
