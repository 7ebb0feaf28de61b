"""A miss of the generator layer: code is generated from a recipe's result, and written as rows."""

from __future__ import annotations

import json
import marshal
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kcl import foreign
from kcl.base import settings, spans
from kcl.base.dtypes import dtype_text
from kcl.cache.entry import Entry
from kcl.code import file_name
from kcl.generate import frontends
from kcl.generate.rows import code_version, special_keys
from kcl.record import distributions, recorder
from kcl.record.declarations import PARAMETER, Evidence

if TYPE_CHECKING:
    import numpy as np

    from kcl.cache.key import Key
    from kcl.code import Code
    from kcl.generate.frontends import OpenArguments
    from kcl.generate.rows import Dtypes

_LONGEST = 80  # characters of a parameter in a listing
_CHANGED = "a callable changed what it reads while loopy ran it, which a hit would not do"


def generate(
    name: str,
    result: frontends.Result,
    dtypes: Mapping[str, np.dtype[Any]],
    has_key: bool = True,
) -> tuple[Code, str]:
    """Generate code for one choice of dtypes: (Code, why it must not be stored).

    Without a key nothing is stored: then loopy has its own disk caches, as the user set them.
    """
    with (
        spans.span("generate", name, settings.GENERATOR),
        recorder.carrying(),
        quiet(result.front_end if has_key else ""),
    ):
        before = result.state() if has_key else ""
        heard = (
            _heard(result, name, dtypes)
            if result.front_end == "loopy"
            else (result.generate(name, dtypes), "")
        )
        generated, unkept = heard
        if not has_key:
            return generated, ""
        why = result.volatile or (_CHANGED if result.state() != before else unkept)
        edited = "" if why or result.front_end != "loopy" else distributions.changed()
        return generated, why or (f"files of {edited} changed as the program ran" if edited else "")


def abort(name: str, front_end: str) -> None:
    """Raise the error of loopy's own caches if `LOOPY_ABORT_ON_CACHE_MISS` forbids loopy to generate."""
    loopy = sys.modules.get("loopy")
    if front_end == "loopy" and getattr(loopy, "ABORT_ON_CACHE_MISS", False):
        from pytools.persistent_dict import NoSuchEntryError

        raise NoSuchEntryError(
            f"no store has code for kernel {name!r}, and LOOPY_ABORT_ON_CACHE_MISS is set: "
            "run once without it to fill the cache"
        )


def _heard(
    result: frontends.Result, name: str, dtypes: Mapping[str, np.dtype[Any]]
) -> tuple[Code, str]:
    """Generate code, with the warnings that loopy gives for it: (Code, why these cannot be given again)."""
    from kcl.record import warned

    place = recorder.site()  # None in a thread of kcl's
    heard, facts = list[Any](), None
    try:
        with warned.hearing() as heard:
            generated = result.generate(name, dtypes)
        facts = warned.kept(heard)
    finally:
        if facts is None and place is not None:
            warned.give(heard, place)
    if facts is None:
        return generated, "loopy gave a warning that only the code behind it can give again"
    return generated._replace(invoker=generated.invoker._replace(warned=facts)), ""


@contextmanager
def quiet(front_end: str) -> Iterator[None]:
    """Keep loopy's disk caches off in a block, if loopy is installed and may be what runs there."""
    from importlib.util import find_spec

    if front_end != "loopy" or find_spec("loopy") is None:
        yield
        return
    foreign.import_anyway("loopy")
    foreign.import_anyway("pyopencl.invoker")
    with foreign.loopy_disk_caches_off():
        yield


def entries(
    direct: Key,
    evidence: Evidence,
    base: OpenArguments,
    code: Code,
    used: Dtypes,
    seconds: float = 0.0,
) -> tuple[Key, list[tuple[str, Entry]]]:
    """Return the rows of one choice of dtypes, made in `seconds`: the key of the code, and rows by their addresses."""
    metadata = {
        "base": repr(tuple(base)),
        "chosen": {name: dtype_text(dtype) for name, dtype in used.items()},
        "created": int(time.time()),
        "seconds": seconds,
        "options": [_placed(option, evidence) for option in code.text.options],
    }
    told = texts(evidence)
    recipe = {"site": evidence.site, "parameters": _parameters(direct, evidence)}
    key = special_keys(direct, base, used)[-1]
    entry = to_entry(code, key, {**metadata, "recipe": recipe})
    if key.digest == direct.digest:  # no dtype was chosen
        entry.parts.update(told)
        return key, [(key.digest, entry)]
    about = {"kernel": code.text.kernel, "front_end": code.invoker.front_end, **metadata}
    return key, [(direct.digest, Entry(direct, about, told)), (key.digest, entry)]


def _parameters(direct: Key, evidence: Evidence) -> list[list[str]]:
    """Return the starts of the texts of the parameters, for listings: from the record, or from the key of a walk."""
    named = [
        (part.name[len(PARAMETER) :], part.value)
        for part in direct.parts
        if part.name.startswith(PARAMETER)
    ]
    return [[name, text[:_LONGEST]] for name, text in [*named, *evidence.parameters]]


def texts(evidence: Evidence) -> dict[str, bytes]:
    """Return the parts that explain a later miss: the texts of the reached code, their places, and the record."""
    told: dict[str, object] = {
        "reached.json": dict(evidence.texts),
        "origins.json": dict(evidence.origins),
    }
    if evidence.record is not None:
        told["record.json"] = evidence.record
    return {
        name: json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")
        for name, value in told.items()
    }


def _placed(option: str, evidence: Evidence) -> str | list[str]:
    """Leave a path out of the options of a recipe that runs: it gives its own directories in each run."""
    if option[:2] != "-I" or evidence.record is None:
        return option
    return ["-I", os.path.basename(option[2:].strip())]


def to_entry(generated: Code, key: Key, metadata: dict[str, Any]) -> Entry:
    """Pack `generated` under `key`; `metadata` is added to the entry's own."""
    code = compile(generated.invoker.source, file_name(generated), "exec")
    described = {
        "kernel": generated.text.kernel,
        "front_end": generated.invoker.front_end,
        "options": list(generated.text.options),
        "kernels": list(generated.text.kernels),
        "function": generated.invoker.function,
        "arguments": [list(argument) for argument in generated.invoker.arguments],
        "inferred": generated.invoker.inferred,
        "packed": repr(generated.invoker.packed),
        "dtypes": [list(pair) for pair in generated.invoker.dtypes],
        "shown": generated.invoker.shown,
        "warned": [list(one) for one in generated.invoker.warned],
        "program": generated.text.source_digest,
        "code": code_version(),
    }
    return Entry(
        key,
        {**described, **metadata},
        {
            "source.cl": generated.text.source.encode("utf-8", "surrogatepass"),
            "invoker.py": generated.invoker.source.encode("utf-8", "surrogatepass"),
            "invoker.code": marshal.dumps(code),
        },
    )
