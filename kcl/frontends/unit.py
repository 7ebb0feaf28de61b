"""The identity of a loopy TranslationUnit: a digest of everything in it that decides what is generated.

loopy has a digest of its own (`loopy.tools.LoopyKeyBuilder`), which cannot serve here: it takes functions by name,
leaves out preamble generators, manglers, fields of structures and attributes of targets, and keeps its result on the
object. Here a unit is taken apart as a recipe's parameters are: every field of every object by type and value,
functions and classes of the user by their code and what it reaches, those of libraries by name and release.
"""

from __future__ import annotations

import dataclasses
from types import FunctionType
from typing import Any

from kcl.direct.reach import reach
from kcl.errors import UnknownInput
from kcl.generated import dtype_text
from kcl.key import Key


def identity(unit: Any) -> str | None:
    """Return the SHA-256 over what decides the code of `unit`; None where that cannot be known."""
    described = _fields(unit)
    described["callables_table"] = {name: _callable(found) for name, found in sorted(unit.callables_table.items())}
    try:
        reached = reach(_NOWHERE, {"unit": described, "structures": _structures()})
    except UnknownInput:
        return None
    return Key(reached.parts).digest


def _take(unit: Any, structures: Any) -> None:
    """Have the parameters that a unit is taken for; never called."""


# A function without a place: texts in a unit that name a path count as they are.
_NOWHERE = FunctionType(_take.__code__.replace(co_filename="<kcl>"), {})


def _callable(found: Any) -> Any:
    """Take a kernel apart; what its names and assumptions are ordered by follows the hash seed and says nothing."""
    if type(found).__name__ != "CallableKernel":
        return found
    kernel = _fields(found.subkernel)
    kernel["inames"] = dict(sorted(kernel["inames"].items()))
    kernel["assumptions"] = _ordered(kernel["assumptions"])
    return {**_fields(found), "subkernel": kernel}


def _fields(thing: Any) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


def _ordered(domain: Any) -> Any:
    """Put the parameters of a set in the order of their names."""
    from islpy import Space, dim_type

    names = sorted(domain.get_var_names(dim_type.param))
    space = Space.params_alloc(domain.get_ctx(), len(names))
    for position, name in enumerate(names):
        space = space.set_dim_name(dim_type.param, position, name)
    return domain.align_params(space)


def _structures() -> list[tuple[str, str]]:
    """List the structures that were registered with a name in C, which no dtype holds, vectors left out."""
    from pyopencl.cltypes import vec_type_to_scalar_and_count
    from pyopencl.compyte.dtypes import TYPE_REGISTRY

    named = TYPE_REGISTRY.dtype_to_name.items()
    return sorted(
        (name, dtype_text(dtype))
        for dtype, name in named
        if getattr(dtype, "names", None) and dtype not in vec_type_to_scalar_and_count
    )
