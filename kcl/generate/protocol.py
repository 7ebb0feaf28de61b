"""The interfaces of front ends (`FrontEnd`, `Result`, `Unit`), and the parts that all generator keys share.

Something *counts* if a key depends on it. It counts *by* the text that stands for it in the key: a distribution that
generates code counts by its version and the contents of its files.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kcl.base import is_being_imported, process, settings, spans
from kcl.cache.key import Key, Part
from kcl.code import dtype_text, structures
from kcl.generate import distributions

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Argument, Code
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.evidence import Evidence

# The format of the generator key. The key also has kcl's version and the digest of its files.
FORMAT = "5"


class StructureMemo:
    """The memo of `registered`: its answer, and the content of pyopencl's registry for which it is valid."""

    def __init__(self) -> None:
        self.registry: tuple[list[Any], list[str]] = ([], [])
        self.structures: tuple[tuple[str, str], ...] = ()
        self.digest = ""


_state = process.own(StructureMemo)


@functools.cache
def common_parts(generators: tuple[str, ...], also: tuple[Part, ...] = ()) -> tuple[Part, ...]:
    """Return the parts that all keys of code from these distributions share; memoised."""
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


def structure_parts(registry: tuple[tuple[str, str], ...] | None = None) -> list[Part]:
    """Return the key part for structures, by default for those that are registered now; none if there are none."""
    pairs = registered()[0] if registry is None else registry
    return [Part("state", f"structures {pairs}")] if pairs else []


def registered() -> tuple[tuple[tuple[str, str], ...], str]:
    """Return what counts of pyopencl's registry, which maps dtypes to names in C: (structures, digest of the rest).

    A structure is a dtype with fields, as (name in C, text of the dtype). The rest is pyopencl's own, but a program may
    have edited it.
    """
    module: Any = sys.modules.get("pyopencl.compyte.dtypes")
    # Nothing can be registered before the module's import has ended.
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
    """What a recipe returned, or a library asked for: it has a key and can generate code.

    The caller makes sure that one thread at a time uses it. If it has no key its code is not stored, and the library
    generates with its own disk caches as the user set them.
    """

    name: str
    # The reason that the event of the next hit gives.
    remark: str = ""

    @property
    def front_ends(self) -> frozenset[str]:
        """The front ends that the result may belong to; empty if that is not known yet."""

    def renew(self) -> bool:
        """Forget the key if the program may have changed the content it describes; return True if it was forgotten."""
        return False

    def key(self) -> Key:
        """Return the key; raises the recipe's own error, RecipeError, or UnknownInput if no key can describe the result."""

    def unit(self) -> Unit:
        """Return what generates the code."""

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code; return it, and why it must not be stored (empty if it may)."""

    def prove(self) -> None:
        """Write what later runs need beside the row, just before the row is stored."""
        return

    def evidence(self) -> Evidence:
        """Return the texts that explain a later miss; slow."""

    def options(self) -> tuple[str, ...] | None:
        """Return the build options of this run, with paths that are in no key; None if those of the code are right."""
        return None


class OpenArguments(NamedTuple):
    """The arguments whose dtypes a unit leaves open (`names`), and those among them that decide the others (`needed`).

    Made by a front end, or of the base that each row has; ends in the choice of a row.

    `required` names the arrays that every call must give; `packed` is that of `Invoker`.
    """

    names: tuple[str, ...]
    needed: tuple[str, ...]
    required: tuple[str, ...]
    packed: dict[str, list[tuple[Any, str]]]


class Unit:
    """A front end's object that generates code, such as a loopy kernel. By default it leaves no dtype open.

    The stage calls `code`, which calls `generate`: a front end defines that.
    """

    front_end = ""
    # What explanations call the unit.
    label = "a unit"
    # The build options of this run; None if those of the code are right.
    options: tuple[str, ...] | None = None

    @property
    def packed(self) -> dict[str, list[tuple[Any, str]]]:
        """Arguments that are given as one object array, as in `Invoker`."""
        return {}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of a call, with their dtypes as far as these are known."""
        raise NotImplementedError

    def open(self, _dtypes: Mapping[str, np.dtype[Any]]) -> OpenArguments:
        """Return the open arguments, given the dtypes of the arguments of one call."""
        return OpenArguments((), (), (), {})

    def follows(self, _dtypes: Mapping[str, np.dtype[Any]], _needed: tuple[str, ...]) -> bool:
        """Return True if the front end would infer the same dtypes from the needed ones alone."""
        return True

    def identity(self) -> str:
        """Return a digest of what decides the code, apart from the parts of every key; raise UnknownInput without one."""
        raise NotImplementedError

    def described(self) -> list[list[str]]:
        """Return [name, text] pairs that describe what decides the code, to explain a later miss."""
        return []

    def refuse_if_forbidden(self, kernel: str) -> None:
        """Raise the library's own error if the user has forbidden it to generate code."""

    def code(
        self, kernel: str, dtypes: Mapping[str, np.dtype[Any]], _has_key: bool = True
    ) -> tuple[Code, str]:
        """Generate code for one choice of the open dtypes; return it, and why it must not be stored (empty if it may).

        Without a key nothing is stored, and the library uses its own caches as the user set them.
        """
        with spans.span("generate", kernel, settings.GENERATOR):
            return self.generate(kernel, dtypes), ""

    def generate(self, kernel: str, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Generate code for one choice of the open dtypes."""
        raise NotImplementedError


class FixedResult(Result):
    """The Result for a unit that stays the same after the recipe has returned it."""

    def __init__(self, unit: Unit, call: RecipeCall, generators: tuple[str, ...]) -> None:
        self.name = call.name
        self._unit = unit
        self._call = call
        self._generators = generators
        self._key: Key | None = None

    @property
    def front_ends(self) -> frozenset[str]:
        """The front end of the unit."""
        return frozenset({self._unit.front_end})

    def key(self) -> Key:
        """Return the key: the generating distributions, the declared version, and the identity of the unit."""
        if self._key is None:
            source = Part("source", self._unit.identity())
            declared = self._call.declared.parts
            self._key = Key((*common_parts(self._generators), *declared, source))
        return self._key

    def unit(self) -> Unit:
        """Return the unit."""
        return self._unit

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code, which may always be stored."""
        return self._unit.code(self.name, dtypes)

    def evidence(self) -> Evidence:
        """Return texts on the recipe and the unit, which explain a later miss; slow."""
        from kcl.generate import evidence

        described = evidence.of_one_call(self._unit.label, self._unit.described())
        return evidence.of_result(described, self._call, self._key)

    def options(self) -> tuple[str, ...] | None:
        """Return the build options of this run."""
        return self._unit.options


class FrontEnd:
    """A front end. `kcl.frontends` has a row for it, which names the module with the object `FRONT_END`.

    The defaults are for a front end that records no calls and whose units stay the same.
    """

    # The distributions that decide its code.
    generators: tuple[str, ...] = ()

    def hold(self, value: object, recipe: str) -> Unit | None:
        """Return a recipe's return value as a Unit; None if it is not one of this front end."""
        raise NotImplementedError

    def accept(self, value: object, call: RecipeCall) -> Result | None:
        """Return a recipe's return value as a Result; None if it is not one of this front end."""
        unit = self.hold(value, call.name)
        return FixedResult(unit, call, self.generators) if unit is not None else None

    def begin(self) -> None:
        """Begin to record the calls of the recipe that this thread runs next."""

    def end(self, call: RecipeCall) -> None:
        """After the recipe has run in this thread, write what later runs need of it."""

    def missing(self, kernel: str, names: list[str]) -> Exception:
        """Return the error for a launch that lacks arrays."""
        listed = ", ".join(names)
        return RuntimeError(f"kernel {kernel!r}: input argument(s) {listed} must be supplied")

    def warn_again(self, facts: tuple[tuple[str, str, str, str, int], ...]) -> None:
        """On a hit, repeat the warnings of the code generation at the line of the launch; the user's filters apply."""
