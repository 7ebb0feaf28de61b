"""Front ends: each turns what a recipe returns into code. Another front end is one more folder and one more row.

The first import of a front end's library brings the front end. Until then a function stands in front of
`builtins.__import__`, and a finder in front of the others: a program that imports no such library pays for no front end.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import hide_from_warnings, process, settings
from kcl.base.attended import Listener
from kcl.errors import RecipeError
from kcl.generate import carrying, thread

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.code import Dtypes, Generated
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.evidence import Evidence
    from kcl.generate.protocol import FrontEnd, Result, Unit


class FrontEndRow(NamedTuple):
    """A front end: its name, its module, and the top-level packages or modules whose objects recipes return to it.

    A `face` is a module in the place of the library of that name.
    """

    name: str
    module: str
    returned: tuple[str, ...]
    face: str = ""


TABLE = [
    FrontEndRow(
        "loopy",
        "kcl.frontends.loopy.result",
        returned=("loopy", "kcl.frontends.loopy"),
        face="kcl.frontends.loopy.face",
    ),
    FrontEndRow("opencl", "kcl.frontends.source.result", returned=("kcl.frontends.source",)),
]


def of(name: str) -> FrontEnd:
    """Return the front end of a name, loaded now."""
    module = importlib.import_module(next(row.module for row in TABLE if row.name == name))
    front_end: FrontEnd = module.FRONT_END
    return front_end


def _loaded() -> list[FrontEnd]:
    """List the front ends that a recipe can call: their library is imported, or they stand for it."""
    return [
        of(row.name)
        for row in TABLE
        if row.module in sys.modules or any(name in sys.modules for name in row.returned)
    ]


def _row_of(value: object) -> FrontEndRow | None:
    """Return the row of the front end that knows the result of a recipe, None where none does."""
    # With the dot a package does not stand for another whose name begins alike.
    module = f"{type(value).__module__}."
    return next(
        (row for row in TABLE if any(module.startswith(f"{name}.") for name in row.returned)), None
    )


@contextmanager
def recording(call: RecipeCall) -> Iterator[None]:
    """Record the calls of a recipe that runs in the block."""
    # A recipe may import a library itself, so the front ends are listed again at the end.
    for front_end in _loaded():
        front_end.begin()
    try:
        with thread.having(call=call, carrying=False, asked=False):
            yield
    finally:
        for front_end in _loaded():
            front_end.end(call)


def accept(value: object, call: RecipeCall) -> Result:
    """Give what a recipe returned to the front end that knows it; raises RecipeError where none does."""
    row = _row_of(value)
    return (row and of(row.name).accept(value, call)) or _refuse(value, call.name)


def _refuse(value: object, recipe: str) -> Any:
    if value is None:
        end = "end it with `return` and a loopy TranslationUnit or a kcl.Source"
        raise RecipeError(f"recipe {recipe!r} returned nothing: {end}")
    raise RecipeError(
        f"recipe {recipe!r} returned {type(value).__module__}.{type(value).__qualname__}; "
        f"return a loopy TranslationUnit for the PyOpenCL target, or a kcl.Source{leave_out(value)}"
    )


def leave_out(value: object) -> str:
    """Return advice against the executor of a unit, loopy's own or a recorded one; empty for any other result."""
    return "; leave `.executor(context)` out" if type(value).__name__.endswith("Executor") else ""


def face(library: str) -> ModuleType | None:
    """Return the face of a library; None if no front end has one."""
    row = next((row for row in TABLE if row.face and row.name == library), None)
    module: ModuleType | None = None if row is None else importlib.import_module(row.face).face
    return module


class RecipeResult:
    """The result of a recipe that runs in every process: it runs once, at the first look-up.

    The front end of what the recipe returned makes the key.
    """

    def __init__(self, call: RecipeCall) -> None:
        self.name = call.name
        self.remark = ""
        self._call = call
        self._result: Result | None = None
        # True if the recipe ran unrecorded, with the library's own caches.
        self._is_plain = False

    @property
    def front_ends(self) -> frozenset[str]:
        """The front end of what the recipe returned; empty before the recipe ran."""
        return frozenset() if self._result is None else self._result.front_ends

    def renew(self) -> bool:
        """Forget the key if a program can have changed what it stands for; return True if it did."""
        return self._result is not None and self._result.renew()

    def key(self) -> Key:
        """Run the recipe, recorded, and return the key of what it returned; raises what both raise."""
        if self._result is None or self._is_plain:
            from kcl.base import spans

            before = thread.carried
            with (
                spans.span("record", self.name, settings.GENERATOR),
                recording(self._call),
            ):
                value = self._call.run()
            carried = thread.carried - before
            self._result, self._is_plain = accept(value, self._call), False
            if carried:
                (library,) = self._result.front_ends
                self.remark = (
                    f"{carried} call(s) of {library} carried out: no earlier run proved them"
                )
        return self._result.key()

    def unit(self) -> Unit:
        """Return what generates the code; run the recipe unrecorded if it did not run."""
        if self._result is None:
            with carrying():
                value = self._call.run()
            self._result, self._is_plain = accept(value, self._call), True
        return self._result.unit()

    def generate(self, dtypes: Dtypes) -> Generated:
        """Generate code: (Code, why it must not be stored)."""
        return self._ran.generate(dtypes)

    def prove(self) -> None:
        """Write what later runs need beside the row that is stored next."""
        self._ran.prove()

    def evidence(self) -> Evidence:
        """Return the texts that explain a later miss; slow."""
        if self._result is None:
            from kcl.generate import evidence

            return evidence.of_recipe(self._call)
        return self._result.evidence()

    def options(self) -> tuple[str, ...] | None:
        """Return the build options of this run: no key holds the paths in them."""
        return self._ran.options()

    @property
    def _ran(self) -> Result:
        assert self._result is not None
        return self._result


# A global of a module: whether the module gets the face of a library.
FACED = "__kcl_faced__"

# The top-level modules of the generators, of which no warm start imports one. The import of one brings a front end.
GENERATING = {"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"}
# The module that takes over then, and whether it has.
_IMPORTS = "kcl.frontends.loopy.imports"
_has_come = False
# The former `builtins.__import__`. Every import reads it, so it stands here and in no state.
_import: Callable[..., Any] | None = None


class RecipeModules(process.LockedState):
    """The names of the modules with recipes, and what the front end that has come does with one."""

    def __init__(self) -> None:
        super().__init__()
        self.named: dict[str, None] = {}
        self.receiver: Callable[[str], None] = lambda _module: None


_state = process.shared(RecipeModules)


def recipe_in(names: dict[str, Any], is_recorded: bool) -> None:
    """Note that a recipe stands in the module with these globals; the module gets faces if the recipe is recorded."""
    state, module = _state(), str(names.get("__name__"))
    if is_recorded:
        names[FACED] = True
    with state.lock:
        if module in state.named:
            return
        state.named[module] = None
        _wait()
    # This runs without the lock: a front end has one of its own, and may wait for an import of another thread.
    if not sys.modules.keys().isdisjoint(GENERATING):
        _bring()
    state.receiver(module)


def receive(named: Callable[[str], None]) -> None:
    """Hand a front end the names of the modules with recipes: those so far, and each later one. Thread-safe."""
    state = _state()
    with state.lock:
        state.receiver = named
        before = [*state.named]
    for module in before:
        named(module)


def beneath(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the import function below the one that waits, whose work a front end takes over."""
    return _import if function is _waiting_import and _import is not None else function


def _wait() -> None:
    global _import
    if _import is None:
        _import = builtins.__import__
        builtins.__import__ = _waiting_import
        _Waiting().install()


class _Waiting(Listener):
    """A finder that brings front ends: an import by `importlib` passes no function."""

    def __init__(self) -> None:
        super().__init__(lambda name: name if name in GENERATING and not _has_come else "")

    def hear(self, spec: ModuleSpec, begins: bool) -> None:
        """Bring a front end as the import of a library begins.

        Python has asked all finders by now. While it asks one, it holds the lock that the import of the front end needs.
        """
        if begins:
            _bring().attend(spec)


def _bring() -> Any:
    global _has_come
    front_end = importlib.import_module(_IMPORTS)
    front_end.install()
    # Only now may the import of another thread pass: before, it would get no face.
    _has_come = True
    return front_end


# The parameters are those of `builtins.__import__`.
def _waiting_import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    assert _import is not None
    if level or _has_come or name.partition(".")[0] not in GENERATING:
        return _import(name, globals, locals, fromlist, level)
    _bring()
    # The front end has put its own function in the place by now.
    return builtins.__import__(name, globals, locals, fromlist, level)


hide_from_warnings(_waiting_import)
