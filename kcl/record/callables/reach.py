"""The direct key: everything that decides the result of a recipe, found without running it.

From the recipe the walk goes to whatever its code refers to: helpers in this and other modules of the user, closures,
defaults, classes, values. Code counts by `kcl.record.callables.code.digest`, values by
`kcl.record.callables.values.encode`, both at the moment of the call; the standard library counts by the
Python version, installed distributions by version and record.
What cannot be known before the recipe runs raises UnknownInput.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import NamedTuple

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.record.callables import distributions
from kcl.record.callables.distributions import GENERATORS
from kcl.record.callables.references import POSITIONS, READERS
from kcl.record.callables.walk import LenientEncoder, Walk, distribution
from kcl.record.evidence import PARAMETER

FORMAT = "2"  # of the direct key; it changes when the meaning of the key changes

_HEAD = (
    Part("kcl", FORMAT),
    Part("python", distributions.INTERPRETER),
    Part("optimize", str(sys.flags.optimize)),  # for loopy's invokers only
)
_FIELDS = frozenset({"dataclasses", "dataclasses.fields"})
_GENERATORS = frozenset(GENERATORS)


class Reach(NamedTuple):
    """The inputs that decide a recipe's outcome."""

    parts: tuple[Part, ...]
    texts: Callable[[], dict[str, str]]  # name of a part -> source text, or the value where the part holds a digest
    front_ends: frozenset[str]  # of "loopy", "opencl"; empty where the walk sees neither
    directory: str  # of the recipe's module, "" where it has none
    placed: bool  # the code asks for its own place
    origins: Callable[[], dict[str, tuple[str, int]]] = dict  # name of a part of code -> module, first line or 0


def reach(
    function: Callable[..., object],
    arguments: Mapping[str, object],
    excused: Callable[[str], bool] | None = None,
) -> Reach:
    """Find the inputs that decide the outcome of ``function(**arguments)`` at this moment, without calling it.

    Raises UnknownInput, naming function, line and cure, where that cannot be known, unless ``excused`` returns true
    for the reason: a declaration of the user cures it. What a parameter holds is never excused.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"a recipe is a function, not {type(function).__name__}")
    directory, root = _directories(function)
    walk = Walk(function.__qualname__, root, excused)
    try:
        walk.recipe(function, frozenset(arguments))
        if isinstance(walk.encoder, LenientEncoder):
            walk.encoder.strict = True
        for name, value in arguments.items():
            walk.add(PARAMETER + name, walk.encoder.encode(value))
        if walk.encoder.shared:
            walk.add("shared objects", walk.encoder.shorten("; ".join(walk.encoder.shared)))
        _mentioned(walk)
    except UnknownInput as error:
        if walk.located:
            raise
        raise UnknownInput(f"{walk.where()}: {error}") from None
    except RecursionError:
        raise UnknownInput(f"{walk.where()}: what it reaches is nested too deeply; pass plain values") from None
    return _reached(walk, directory)


def _can_use_loopy(front_ends: frozenset[str]) -> bool:
    return "loopy" in front_ends or "opencl" not in front_ends


def _reached(walk: Walk, directory: str) -> Reach:
    front_ends = frozenset(walk.front_ends)
    can_use_loopy = _can_use_loopy(front_ends)
    head = _HEAD if can_use_loopy else _HEAD[:2]
    tail = [distribution(name) for name in sorted(walk.reached | _GENERATORS if can_use_loopy else walk.reached)]
    return Reach(
        (*head, *walk.parts, *tail),
        lambda: _texts(walk),
        front_ends,
        directory,
        walk.chains.placed,
        lambda: _origins(walk),
    )


def _mentioned(walk: Walk) -> None:
    """Count docstrings and annotations where reached code reads them."""
    sources = [*walk.sources]
    for name in sorted(walk.mentions & POSITIONS):
        _refuse_position(walk, name)
    for attribute, names in READERS.items():
        if names & walk.mentions or (attribute == "__annotations__" and _reads_types(walk)):
            for name, source in sources:
                text = walk.encoder.encode(getattr(source, attribute, None))
                if text not in ("None", "{}"):
                    walk.add(f"{attribute} of {name}", text)


def _reads_types(walk: Walk) -> bool:
    """Tell whether code may read the types of a dataclass's fields."""
    return "type" in walk.mentions and not walk.noted.isdisjoint(_FIELDS)


def _refuse_position(walk: Walk, name: str) -> None:
    from kcl.record.callables.scan import mention

    for label, source in walk.sources:
        reference = mention(source.__code__, name) if isinstance(source, FunctionType) else None
        if reference is not None:
            walk.place = label.removeprefix("code "), reference
    walk.refuse(f"{name} reads where code stands; pass a value, or vouch for it with @kcl.kernel(version=...)")


def _texts(walk: Walk) -> dict[str, str]:
    """Return the source of every code part that has one, and the long values in full; slow."""
    import inspect

    found: dict[str, str] = {}
    for name, source in walk.sources:
        try:
            found[name] = inspect.getsource(source)  # type: ignore[arg-type]
        except (OSError, TypeError):
            continue
    long = {f"sha256 {digest}": text for digest, text in walk.encoder.long.items()}
    found.update({part.name: long[part.value] for part in walk.parts if part.value in long and part.name not in found})
    return found


def _origins(walk: Walk) -> dict[str, tuple[str, int]]:
    """Return the place of each part of code: its module, and for functions the first line there."""
    found = {}
    for name, source in walk.sources:
        line = source.__code__.co_firstlineno if isinstance(source, FunctionType) else 0
        found[name] = str(getattr(source, "__module__", None) or ""), line
    return found


def _directories(function: FunctionType) -> tuple[str, str]:
    """Return the directory of a function's module, and the directory that holds its outermost package."""
    names = function.__globals__
    file = names.get("__file__")
    if not isinstance(file, str):
        file = function.__code__.co_filename
        if file.startswith("<"):
            return "", ""
    package = names.get("__package__")
    depth = package.count(".") + 1 if isinstance(package, str) and package else 0
    directory = os.path.dirname(os.path.abspath(file))
    root = directory
    for _ in range(depth):
        root = os.path.dirname(root)
    return directory, root if len(root) > 1 else ""
