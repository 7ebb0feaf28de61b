"""Rows: the entries of the generator layer, and how a Kernel's code is stored in them.

A recipe that leaves no dtype open has one row, under its generator key. Any other recipe has a base row there, and a
further row for each choice of dtypes. Each row has the *base*, which says which arguments are open. There is no row under
a digest of the unit itself, by which recipes with equal units could share code: they would import the library anyway,
and each miss would have to compute the digest.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import marshal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.code import Argument, Code, Invoker, LaunchableCode, ProgramText, dtype_text, made_ready
from kcl.errors import DamagedEntry
from kcl.generate.protocol import OpenArguments, structure_parts

if TYPE_CHECKING:
    from types import CodeType

    import numpy as np

Dtypes = Mapping[str, "np.dtype[Any]"]

# Cached, since the rows of many kernels have the same few texts; no reader changes a value.
_value_of = functools.lru_cache(maxsize=256)(ast.literal_eval)


def base_of(entry: Entry) -> OpenArguments:
    """Return the base of a row; raises an error if the row has none."""
    return OpenArguments(*_value_of(entry.metadata["base"]))


def is_whole(entry: Entry) -> bool:
    """Return True if the row under the generator key holds the code itself."""
    return "function" in entry.metadata


def ready(entry: Entry) -> LaunchableCode:
    """Make the code of a row ready to launch. The caller treats any error as a miss."""
    # Kept in the entry: a program that makes the Kernel anew for each launch finds it in memory.
    if entry.ready is None:
        entry.ready = made_ready(*from_entry(entry))
    code: LaunchableCode = entry.ready
    return code


def special_keys(generator_key: Key, base: OpenArguments, dtypes: Dtypes) -> list[Key]:
    """Return the keys of the rows to look at: first by the needed dtypes, then by all open dtypes of the call.

    If nothing is open it is the generator key itself.
    """
    if not base.names:
        return [generator_key]
    common = [*generator_key.parts, Part("row", "special")]
    chosen = {name: dtype for name, dtype in dtypes.items() if name in base.names}
    needed = {name: dtype for name, dtype in chosen.items() if name in base.needed}
    keys = [Key([*common, *dtype_parts(needed)])]
    if len(chosen) > len(needed):
        keys.append(Key([*common, *dtype_parts(chosen)]))
    return keys


def fits(entry: Entry, base: OpenArguments, dtypes: Dtypes) -> bool:
    """Return True if the row was generated for the dtypes of a call."""
    chosen = {**entry.metadata["inferred"], **entry.metadata["chosen"]}
    return all(
        chosen.get(name) == dtype_text(dtypes[name]) for name in base.names if name in dtypes
    )


def difference(base: OpenArguments, dtypes: Dtypes) -> str:
    """Return the reason of a miss that has a base row but none for these dtypes."""
    choice = ", ".join(f"{name}: {dtypes[name]}" for name in base.names if name in dtypes)
    return f"new choice of dtypes: {choice}"


def dtype_parts(dtypes: Dtypes) -> list[Part]:
    """Return the key parts for the chosen dtypes; with structures also their names in C."""
    parts = [Part(f"argument {name}", dtype_text(dtypes[name])) for name in sorted(dtypes)]
    if any(dtype.names or dtype.subdtype for dtype in dtypes.values()):
        parts += structure_parts()
    return parts


def from_entry(entry: Entry) -> tuple[Code, CodeType | None]:
    """Return the Code of a row, and the compiled invoker; that is None if another version of Python wrote it.

    Raises DamagedEntry for any fault, such as a missing field or one of a wrong type.
    """
    metadata = entry.metadata
    try:
        text = ProgramText(
            kernel=metadata["kernel"],
            source=entry.parts["source.cl"].decode("utf-8", "surrogatepass"),
            options=tuple(
                [part if isinstance(part, str) else "".join(part) for part in metadata["options"]]
            ),
            kernels=tuple(metadata["kernels"]),
        )
        invoker = Invoker(
            front_end=metadata["front_end"],
            source=entry.parts["invoker.py"].decode("utf-8", "surrogatepass"),
            function=metadata["function"],
            arguments=tuple(Argument(*fields) for fields in metadata["arguments"]),
            inferred=metadata["inferred"],
            packed=_value_of(metadata["packed"]),
            dtypes=[(name, layout) for name, layout in metadata["dtypes"]],
            shown=metadata["shown"],
            warned=tuple([tuple(warning) for warning in metadata["warned"]]),
        )
        code = (
            marshal.loads(entry.parts["invoker.code"])
            if metadata["code"] == code_version()
            else None
        )
    except Exception as error:
        # An entry of an unknown form may raise any error, also in marshal.
        raise DamagedEntry(f"not an entry of the generator layer: {error!r}") from error
    return Code(text, invoker), code


def code_version() -> str:
    return f"{importlib.util.MAGIC_NUMBER.hex()}-{sys.flags.optimize}"
