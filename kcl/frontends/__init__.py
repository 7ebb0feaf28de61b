"""Front ends: each makes code from what recipes of its kind return. A new one is a new folder and a new row.

A front end is loaded when the program first imports the front end's library. To notice that, kcl replaces
`builtins.__import__` and adds a finder. A program that imports no such library loads no front end.
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
    """A front end: its name, its module, and the packages or modules whose objects recipes return (`returned`).

    `face` is the module that stands for the library in recipes, if there is one.
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
    """Load and return the front end of this name."""
    module = importlib.import_module(next(row.module for row in TABLE if row.name == name))
    front_end: FrontEnd = module.FRONT_END
    return front_end


def _loaded() -> list[FrontEnd]:
    """List the front ends whose library, or whose own module, is imported."""
    return [
        of(row.name)
        for row in TABLE
        if row.module in sys.modules or any(name in sys.modules for name in row.returned)
    ]


def _row_of(value: object) -> FrontEndRow | None:
    """Return the row of the front end that a recipe's return value belongs to; None if there is none."""
    # The dot keeps a package apart from another whose name begins with the same letters.
    module = f"{type(value).__module__}."
    return next(
        (row for row in TABLE if any(module.startswith(f"{name}.") for name in row.returned)), None
    )


@contextmanager
def recording(call: RecipeCall) -> Iterator[None]:
    """Record the library calls of a recipe that runs in the block."""
    # Listed again at the end, since the recipe may import a library.
    for front_end in _loaded():
        front_end.begin()
    try:
        with thread.having(call=call, carrying=False, asked=False):
            yield
    finally:
        for front_end in _loaded():
            front_end.end(call)


def accept(value: object, call: RecipeCall) -> Result:
    """Return a recipe's return value as a Result, made by its front end; raises RecipeError if there is none."""
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
    """Return advice for an error message if a recipe returned an executor in place of its unit; else empty."""
    return "; leave `.executor(context)` out" if type(value).__name__.endswith("Executor") else ""


def face(library: str) -> ModuleType | None:
    """Return the face of a library; None if no front end has one."""
    row = next((row for row in TABLE if row.face and row.name == library), None)
    module: ModuleType | None = None if row is None else importlib.import_module(row.face).face
    return module


class RecipeResult:
    """The Result of a recipe that is not pure. The recipe runs once in a process, at the first look-up.

    The front end of its return value makes the key.
    """

    def __init__(self, call: RecipeCall) -> None:
        self.name = call.name
        self.remark = ""
        self._call = call
        self._result: Result | None = None
        # True if the recipe ran unrecorded, since its layer was off.
        self._is_plain = False

    @property
    def front_ends(self) -> frozenset[str]:
        """The front end of the recipe's return value; empty before the recipe has run."""
        return frozenset() if self._result is None else self._result.front_ends

    def renew(self) -> bool:
        """Forget the key if the program may have changed the content it describes; return True if it was forgotten."""
        return self._result is not None and self._result.renew()

    def key(self) -> Key:
        """Run the recipe, with its calls recorded, and return the key of the result; raises the errors of both."""
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
        """Return the unit; if the recipe has not run yet, run it unrecorded."""
        if self._result is None:
            with carrying():
                value = self._call.run()
            self._result, self._is_plain = accept(value, self._call), True
        return self._result.unit()

    def generate(self, dtypes: Dtypes) -> Generated:
        """Generate code; return it, and why it must not be stored (empty if it may)."""
        return self._ran.generate(dtypes)

    def prove(self) -> None:
        """Write what later runs need beside the row, just before the row is stored."""
        self._ran.prove()

    def evidence(self) -> Evidence:
        """Return the texts that explain a later miss; slow."""
        if self._result is None:
            from kcl.generate import evidence

            return evidence.of_recipe(self._call)
        return self._result.evidence()

    def options(self) -> tuple[str, ...] | None:
        """Return the build options of this run, whose paths are in no key."""
        return self._ran.options()

    @property
    def _ran(self) -> Result:
        assert self._result is not None
        return self._result


# The global variable of a user's module that says whether its imports get the face of a library.
FACED = "__kcl_faced__"

# The top-level modules of the generators, of which no warm start imports one. The import of one brings a front end.
GENERATING = {"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"}
# The module that takes over then, and whether it has.
_IMPORTS = "kcl.frontends.loopy.imports"
_has_come = False
# The original `builtins.__import__`. A global and no state, since every import reads it.
_import: Callable[..., Any] | None = None


class RecipeModules(process.LockedState):
    """The names of the modules with recipes, and what the front end that has come does with one."""

    def __init__(self) -> None:
        super().__init__()
        self.named: dict[str, None] = {}
        self.receiver: Callable[[str], None] = lambda _module: None


_state = process.shared(RecipeModules)


def recipe_in(names: dict[str, Any], is_recorded: bool) -> None:
    """Note that the module with these globals defines a recipe. If it is recorded, the module's imports get faces."""
    state, module = _state(), str(names.get("__name__"))
    if is_recorded:
        names[FACED] = True
    with state.lock:
        if module in state.named:
            return
        state.named[module] = None
        _wait()
    # Outside of the lock, since a front end may wait for its own lock, or for an import of another thread.
    if not sys.modules.keys().isdisjoint(GENERATING):
        _bring()
    state.receiver(module)


def receive(named: Callable[[str], None]) -> None:
    """Call `named` with the name of each module that defines recipes: those so far, and later ones. Thread-safe."""
    state = _state()
    with state.lock:
        state.receiver = named
        before = [*state.named]
    for module in before:
        named(module)


def beneath(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that kcl's waiting `__import__` has replaced; a front end's own function calls it."""
    return _import if function is _waiting_import and _import is not None else function


def _wait() -> None:
    global _import
    if _import is None:
        _import = builtins.__import__
        builtins.__import__ = _waiting_import
        _Waiting().install()


class _Waiting(Listener):
    """A finder that loads front ends, for imports by `importlib`, which do not call `builtins.__import__`."""

    def __init__(self) -> None:
        super().__init__(lambda name: name if name in GENERATING and not _has_come else "")

    def hear(self, spec: ModuleSpec, begins: bool) -> None:
        """Load a front end when the import of a library begins.

        Not in `find_spec`: while Python asks a finder it holds a lock that importing the front end needs.
        """
        if begins:
            _bring().attend(spec)


def _bring() -> Any:
    global _has_come
    front_end = importlib.import_module(_IMPORTS)
    front_end.install()
    # Only now, since from here on imports of other threads pass, and must get the face.
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
    # The front end has replaced `__import__` by its own function, which must handle this import.
    return builtins.__import__(name, globals, locals, fromlist, level)


hide_from_warnings(_waiting_import)
