"""What a front end is to the line, what a recipe or a library asked for, and what stands in each generator key.

Something *counts* if a key depends on it. It counts *by* the text that stands for it in the key: a distribution that
generates code counts by its version and the contents of its files.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kcl.base import computed_once, is_being_imported, process, settings, spans
from kcl.cache.key import Key, Part
from kcl.code import dtype_text, structures
from kcl.generate import distributions

if TYPE_CHECKING:
    from kcl.code import Argument, Code, Dtypes, Generated, Packed, WarningFact
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.evidence import Evidence

# The format of the generator key; it stands beside the version and the files of kcl.
FORMAT = "5"


# Pairs of the name in C and the text of the dtype.
Structures = tuple[tuple[str, str], ...]
Names = tuple[str, ...]


class StructureMemo:
    """The answer of `registered`, and the content of pyopencl's registry that it was read from."""

    def __init__(self) -> None:
        self.registry: tuple[list[Any], list[str]] = ([], [])
        self.structures: Structures = ()
        self.digest = ""


_state = process.own(StructureMemo)


@functools.cache
def common_parts(generators: Names, also: tuple[Part, ...] = ()) -> tuple[Part, ...]:
    """Return the parts of every key of code that some distributions generate; memoised."""
    names = sorted(generators)
    distributions.count([distributions.KCL, *names])
    head = [
        Part("kcl", f"{FORMAT} {distributions.counted(distributions.KCL)}"),
        Part("python", distributions.INTERPRETER),
        *also,
    ]
    return tuple(
        head + [Part(f"distribution {name}", distributions.counted(name)) for name in names]
    )


def structure_parts(registry: Structures | None = None) -> list[Part]:
    """Return the part of a key for structures, by default for those registered now; no part if there are none."""
    pairs = registered()[0] if registry is None else registry
    return [Part("state", f"structures {pairs}")] if pairs else []


def registered() -> tuple[Structures, str]:
    """Return what counts of pyopencl's registry of dtypes with their names in C: (structures, digest of the rest).

    A structure is a dtype with fields. Its dtype does not hold the name in C, so a structure counts by name and dtype:
    (name, text). The rest is pyopencl's own, and the program may have edited the registry.
    """
    module: Any = sys.modules.get("pyopencl.compyte.dtypes")
    # Nothing is registered before the import of the module has ended, in whatever thread.
    if module is None or is_being_imported(module):
        return (), ""
    named, state = module.TYPE_REGISTRY.dtype_to_name, _state()
    registry = [*named], [*named.values()]
    if state.registry != registry:
        state.registry = registry
        named_structures = structures()
        state.structures = tuple(
            sorted([(name, dtype_text(dtype)) for name, dtype in named_structures])
        )
        others = {dtype for dtype in named if not isinstance(dtype, str)}.difference(
            [dtype for _name, dtype in named_structures]
        )
        texts = sorted([f"{dtype.str} {len(dtype.names or ())} {named[dtype]}" for dtype in others])
        state.digest = hashlib.sha256("; ".join(texts).encode()).hexdigest()
    return state.structures, state.digest


class Result(Protocol):
    """What a recipe or a library asked for, with its key. The caller makes sure that one thread at a time uses it.

    A result without a key is generated with the library's own disk caches as the user set them, and is not stored.
    """

    name: str
    # The reason in the event of the next look-up, if that is a hit.
    remark: str = ""

    @property
    def front_ends(self) -> frozenset[str]:
        """The front ends that may have a part in it; empty if none is known yet."""

    def renew(self) -> bool:
        """Forget the key if a program can have changed what it stands for. Return True if the key was forgotten."""
        return False

    def key(self) -> Key:
        """Return the key; raises the recipe's own error, RecipeError, or UnknownInput if no key can hold it."""

    def unit(self) -> Unit:
        """Return what generates the code."""

    def generate(self, dtypes: Dtypes) -> Generated:
        """Generate code: (Code, why it must not be stored)."""

    def prove(self) -> None:
        """Write what later runs need beside the row that is stored next."""
        return

    def evidence(self) -> Evidence:
        """Return the texts that explain a later miss; slow."""

    def options(self) -> Names | None:
        """Return the build options of this run, with the paths that no key holds; None if the code has them all."""
        return None


class OpenArguments(NamedTuple):
    """The arguments whose dtypes a unit leaves open, and those `needed` among them, which decide all the others.

    Made by a front end, or of the base that each row has; ends in the choice of a row.

    `required` names the arrays that every call must give; `packed` is as in Code. Both are needed before the
    dtypes of a call can be looked at.
    """

    names: Names
    needed: Names
    required: Names
    packed: Packed


class Unit:
    """What generates code, held by its front end. The defaults are those of one that leaves nothing open.

    The stage asks for `code`; a front end defines `generate`, which that calls.
    """

    front_end = ""
    # What an explanation calls the unit.
    label = "a unit"
    # The build options as of this run; None if only the code has them.
    options: Names | None = None

    @property
    def packed(self) -> Packed:
        """Arguments that are given as one object array, as in Code."""
        return {}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a call gives, with the dtypes that are known."""
        raise NotImplementedError

    def open(self, _dtypes: Dtypes) -> OpenArguments:
        """Return the open arguments, given the dtypes of the arguments of one call."""
        return OpenArguments((), (), (), {})

    def follows(self, _dtypes: Dtypes, _needed: Names) -> bool:
        """Return True if the dtypes add nothing to those that are inferred from their needed part."""
        return True

    def identity(self) -> str:
        """Return a digest of all that decides the code, beside what each key has; UnknownInput if there is none."""
        raise NotImplementedError

    def described(self) -> list[list[str]]:
        """Return the names and texts of what decides the code, to explain a later miss."""
        return []

    def refuse_if_forbidden(self, kernel: str) -> None:
        """Raise the library's own error if the user forbids it to generate."""

    def code(self, kernel: str, dtypes: Dtypes, _has_key: bool = True) -> Generated:
        """Generate code for one choice of the open dtypes: (Code, why it must not be stored).

        Without a key nothing is stored: then the library has its own caches, as the user set them.
        """
        with spans.span("generate", kernel, settings.GENERATOR):
            return self.generate(kernel, dtypes), ""

    def generate(self, kernel: str, dtypes: Dtypes) -> Code:
        """Generate code for one choice of the open dtypes."""
        raise NotImplementedError


class FixedResult(Result):
    """A unit that nothing changes once a recipe has returned it; `generators` are the distributions that make its code."""

    def __init__(self, unit: Unit, call: RecipeCall, generators: Names) -> None:
        self.name = call.name
        self._unit = unit
        self._call = call
        self._generators = generators

    @property
    def front_ends(self) -> frozenset[str]:
        """The front end of the unit."""
        return frozenset({self._unit.front_end})

    def key(self) -> Key:
        """Return the key: what generates, the declared version, and the identity of the unit."""
        return self._key

    @computed_once
    def _key(self) -> Key:
        source = Part("source", self._unit.identity())
        return Key((*common_parts(self._generators), *self._call.version_parts, source))

    def unit(self) -> Unit:
        """Return the unit."""
        return self._unit

    def generate(self, dtypes: Dtypes) -> Generated:
        """Generate code, which may always be stored."""
        return self._unit.code(self.name, dtypes)

    def evidence(self) -> Evidence:
        """Return the recipe and the unit, which explain a later miss; slow."""
        from kcl.generate import evidence

        described = evidence.of_one_call(self._unit.label, self._unit.described())
        return evidence.of_result(described, self._call, self._key)

    def options(self) -> Names | None:
        """Return the build options of this run."""
        return self._unit.options


class FrontEnd:
    """A front end; its row in `kcl.frontends` names the module that has it as `FRONT_END`.

    The defaults are those of one whose units nothing changes, and which records nothing.
    """

    def accept(self, value: object, call: RecipeCall) -> Result | None:
        """Return what a recipe returned as a Result; None if it is not this front end's."""
        raise NotImplementedError

    def begin(self) -> None:
        """Record the calls of the recipe that runs next in this thread."""

    def end(self, call: RecipeCall) -> None:
        """Write what later runs need of the recipe that ran in this thread."""

    def missing(self, kernel: str, names: list[str]) -> Exception:
        """Return the error for a launch without some arrays."""
        listed = ", ".join(names)
        return RuntimeError(f"kernel {kernel!r}: input argument(s) {listed} must be supplied")

    def warn_again(self, facts: tuple[WarningFact, ...]) -> None:
        """Give the warnings of code generation at the program's launch, under the user's filters."""
