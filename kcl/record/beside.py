"""The inputs beside a record that decide how loopy carries it out and generates code.

The distributions that generate code count by version and installed files. The state of loopy that a program may have
changed counts as of the call.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from kcl.base import process, settings
from kcl.base.dtypes import dtype_text
from kcl.base.dtypes import structures as registered_structures
from kcl.cache.key import Part
from kcl.record import texts
from kcl.record.callables import distributions

FORMAT = "2"  # of the generator key; it stands beside the version and the files of kcl
_FOR_SOURCE = ("numpy", "pyopencl")  # the distributions that the invoker of a kcl.Source depends on


class State:
    """The parts that were found, and the known structures: the number of their names, and their text."""

    def __init__(self) -> None:
        self.parts: dict[bool, tuple[Part, ...]] = {}
        self.structures: tuple[int, str] = (0, "")


_state = process.own(State)


def parts(with_loopy: bool) -> tuple[Part, ...]:
    """Return the parts that every key of the generator layer has; memoised."""
    known = _state().parts
    found = known.get(with_loopy)
    if found is None:
        found = known[with_loopy] = tuple(_find(with_loopy))
    return found


def own() -> list[Part]:
    """Return the part that names kcl itself."""
    return [parts(False)[0]]


def switches() -> list[Part]:
    """Return the switches that loopy itself reads from the environment while it generates."""
    return [Part("argument checks", "skipped")] if settings.variable("_LOOPY_SKIP_ARG_CHECKS") else []


def _find(with_loopy: bool) -> list[Part]:
    head = [Part("kcl", f"{FORMAT} {distributions.own()}"), Part("python", distributions.INTERPRETER)]
    if not with_loopy:
        return head + [_distribution(name) for name in _FOR_SOURCE]
    head.append(Part("optimize", str(sys.flags.optimize)))  # the asserts of loopy's invokers
    return head + _generators()


def _generators() -> list[Part]:
    """Return the parts of the generators: one for each distribution that counts alone, and one for the others."""
    names = sorted(distributions.required("loopy").difference(distributions.GENERATORS))
    others = [(name, distributions.counted(name).split(" ")) for name in names]
    digest = hashlib.sha256(repr(others).encode()).hexdigest()
    named = ", ".join([f"{name} {found[0]}" for name, found in others])
    parts = [_distribution(name) for name in sorted(distributions.GENERATORS)]
    return [*parts, Part("other distributions", f"{named} {digest}")]


def _distribution(name: str) -> Part:
    return Part(f"distribution {name}", distributions.counted(name))


def state() -> str:
    """Return the program's changes in loopy and in the registry of structures, as of now; empty where it made none."""
    registered = _registered()
    loopy: Any = sys.modules.get("loopy")
    if loopy is None or not hasattr(loopy, "untag_inames"):  # a thread is importing it
        return registered
    return "; ".join(filter(None, (_default_target(loopy), _reductions(), registered)))


def _default_target(loopy: Any) -> str:
    target = loopy._DEFAULT_TARGET
    module = sys.modules.get("loopy.target.pyopencl")
    return "" if target is getattr(module, "PyOpenCLTarget", None) else f"default target {texts.walked(target)}"


def _reductions() -> str:
    """Return the reductions that a program registered."""
    module: Any = sys.modules["loopy.library.reduction"]
    operations = module._REDUCTION_OPS
    own = {name: kind for name, kind in operations.items() if kind.__module__ != module.__name__}
    parsers = module._REDUCTION_OP_PARSERS
    return f"reductions {texts.walked([sorted(own.items()), parsers])}" if own or parsers else ""


def _registered() -> str:
    """Return the structures that a program registered with a name in C that no dtype holds."""
    module: Any = sys.modules.get("pyopencl.compyte.dtypes")
    if module is None:
        return ""
    named = module.TYPE_REGISTRY.dtype_to_name
    state = _state()
    if state.structures[0] != len(named):
        found = sorted([(name, dtype_text(dtype)) for name, dtype in registered_structures()])
        state.structures = len(named), f"structures {found}" if found else ""
    return state.structures[1]
