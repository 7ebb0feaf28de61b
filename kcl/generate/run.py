"""Generating on a miss: code from a recipe's result, and the key of the result itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from kcl.base import settings, spans
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.generate import frontends
from kcl.generate.rows import dtype_parts
from kcl.record import beside, recorder

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Code


_CHANGED = "a callable changed what it reads while loopy ran it, which a hit would not do"


def generate(name: str, result: frontends.Result, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str, bool]:
    """Generate code for one choice of dtypes: (Code, why it must not be stored, whether the result decides it)."""
    with spans.span("generate", name, settings.GENERATOR), recorder.carrying(), quiet(result.front_end):
        before = result.state()
        heard = _heard(result, name, dtypes) if result.front_end == "loopy" else (result.generate(name, dtypes), "")
        generated, unkept = heard
        refused = result.volatile or (_CHANGED if result.state() != before else "")
    return generated, refused or unkept, not refused


def _heard(result: frontends.Result, name: str, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
    """Generate code, with the warnings that loopy gives for it: (Code, why these cannot be given again)."""
    from kcl.record import warned

    place = recorder.site()  # None in a thread of kcl's
    heard: list[Any] = []
    try:
        with warned.hearing() as heard:
            generated = result.generate(name, dtypes)
    except BaseException:
        if place is not None:
            warned.give(heard, place)
        raise
    facts = warned.kept(heard)
    if facts is None:
        if place is not None:
            warned.give(heard, place)
        return generated, "loopy gave a warning that only the code behind it can give again"
    return generated._replace(invoker=generated.invoker._replace(warned=facts)), ""


def unit_key(result: frontends.Result, dtypes: Mapping[str, np.dtype[Any]]) -> Key | None:
    """Return the key under which code of equal results is found; None where it cannot be known or must not be used."""
    if result.volatile:
        return None
    try:
        identity = result.identity()
    except UnknownInput:
        return None
    with_loopy = result.front_end != "opencl"
    beside_it = [*beside.parts(with_loopy)]
    try:
        beside_it += [*beside.switches(), *beside.state(beside.now())] if with_loopy else []
    except UnknownInput:
        return None
    return Key([*beside_it, Part("result", identity), *dtype_parts(dtypes)])


def quiet(front_end: str) -> AbstractContextManager[None]:
    """Keep loopy's disk caches off in a block, if loopy is installed and may be what runs there."""
    from importlib.util import find_spec

    if front_end != "loopy" or find_spec("loopy") is None:
        return nullcontext()
    from kcl.generate.frontends.loopy import quiet

    return quiet()
