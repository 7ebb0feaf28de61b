"""The direct key: everything that decides what a recipe returns, found without running it.

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
from kcl.record.callables import distributions, memo
from kcl.record.callables.distributions import GENERATORS
from kcl.record.callables.references import POSITIONS, READERS
from kcl.record.callables.walk import Excusing, Walk, distribution
from kcl.record.evidence import PARAMETER

FORMAT = "2"  # of the direct key: a change of its meaning changes this

_HEAD = (
    Part("kcl", FORMAT),
    Part("python", distributions.INTERPRETER),
    Part("optimize", str(sys.flags.optimize)),  # for loopy's invokers only
)
_FIELDS = frozenset({"dataclasses", "dataclasses.fields"})
_GENERATORS = frozenset(GENERATORS)
_READING = frozenset().union(*READERS.values())


class Reached(NamedTuple):
    """What decides a recipe's outcome."""

    parts: tuple[Part, ...]
    texts: Callable[[], dict[str, str]]  # name of a part -> source text, or the value where the part holds a digest
    front_ends: frozenset[str]  # of "loopy", "opencl"; empty where neither is seen
    directory: str  # of the recipe's module, "" where it has none
    placed: bool  # the code asks where it lies
    origins: Callable[[], dict[str, tuple[str, int]]] = dict  # name of a part of code -> module, first line or 0


def reach(
    function: Callable[..., object],
    arguments: Mapping[str, object],
    excused: Callable[[str], bool] | None = None,
) -> Reached:
    """Find what decides the outcome of ``function(**arguments)`` at this moment, without calling it.

    Raises UnknownInput, naming function, line and cure, where that cannot be known, unless ``excused`` returns true
    for the reason: a declaration of the user cures it. What a parameter holds is never excused.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"a recipe is a function, not {type(function).__name__}")
    if excused is None:
        known = memo.find(function, arguments)
        if known is not None:
            return _again(*known)
    directory, root = _directories(function)
    walk = Walk(function.__qualname__, root, excused)
    try:
        walk.recipe(function, frozenset(arguments))
        alone = _Alone(walk)
        if isinstance(walk.encoder, Excusing):
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
    found = _reached(walk, directory)
    if excused is None and root and alone.steady and alone.led_to_nothing_else(walk, len(arguments)):
        _keep(function, tuple(arguments), alone, found, root)
    return found


class _Alone:
    """What a walk had found when it had taken note of the recipe without its parameters."""

    def __init__(self, walk: Walk) -> None:
        self.steady = walk.guards.steady and walk.encoder.steady
        self.guards, walk.guards = walk.guards, memo.Guards()
        self.guards.attributes += walk.encoder.members
        self.count = len(walk.parts)
        self.front_ends, self.reached = frozenset(walk.front_ends), frozenset(walk.reached)

    def led_to_nothing_else(self, walk: Walk, parameters: int) -> bool:
        """Tell whether each parameter is one part, and no text was looked at that may change."""
        new = walk.reached - self.reached
        return (
            len(walk.parts) == self.count + parameters
            and self.front_ends == walk.front_ends
            and (not new or (_can_use_loopy(self.front_ends) and new <= _GENERATORS))
            and walk.mentions.isdisjoint(_READING)
            and not _reads_types(walk)
        )


def _can_use_loopy(front_ends: frozenset[str]) -> bool:
    return "loopy" in front_ends or "opencl" not in front_ends


def _reached(walk: Walk, directory: str) -> Reached:
    front_ends = frozenset(walk.front_ends)
    can_use_loopy = _can_use_loopy(front_ends)
    head = _HEAD if can_use_loopy else _HEAD[:2]
    tail = [distribution(name) for name in sorted(walk.reached | _GENERATORS if can_use_loopy else walk.reached)]
    return Reached(
        (*head, *walk.parts, *tail),
        lambda: _texts(walk),
        front_ends,
        directory,
        walk.chains.placed,
        lambda: _origins(walk),
    )


def _keep(function: FunctionType, names: tuple[str, ...], alone: _Alone, found: Reached, root: str) -> None:
    """Remember what the recipe alone led to."""
    for name in ("__file__", "__package__"):
        alone.guards.binding(function.__globals__, name)
    parts = found.parts
    begin = (len(_HEAD) if _HEAD[-1] in parts else len(_HEAD) - 1) + alone.count
    end = begin + len(names)
    before, after = parts[:begin], parts[end:]
    distributions = frozenset([part.name.removeprefix("distribution ") for part in after])
    memo.keep(memo.Found(function, alone.guards, names, distributions, root, before, after, found))


def _again(known: memo.Found, parameters: list[Part], long: dict[str, str]) -> Reached:
    """Return what a recipe reaches that was seen before, with other parameters."""
    first: Reached = known.reached

    def texts() -> dict[str, str]:
        found = {name: text for name, text in first.texts().items() if not name.startswith(PARAMETER)}
        whole = {f"sha256 {digest}": text for digest, text in long.items()}
        return {**found, **{part.name: whole[part.value] for part in parameters if part.value in whole}}

    parts = (*known.before, *parameters, *known.after)
    return first._replace(parts=parts, texts=texts)


def _mentioned(walk: Walk) -> None:
    """Count docstrings and annotations where reached code reads such."""
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
    """Return where code is written: its module, and of functions the first line there."""
    found = {}
    for name, source in walk.sources:
        line = source.__code__.co_firstlineno if isinstance(source, FunctionType) else 0
        found[name] = str(getattr(source, "__module__", None) or ""), line
    return found


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
    directory = os.path.dirname(os.path.abspath(file))
    root = directory
    for _ in range(depth):
        root = os.path.dirname(root)
    return directory, root if len(root) > 1 else ""
