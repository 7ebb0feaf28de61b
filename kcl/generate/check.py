"""Verification: run the recipe although the cache has its code, and compare the generated with the stored code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.base import process
from kcl.base.text.layout import alike
from kcl.code import Code, file_name
from kcl.errors import WrongEntry
from kcl.generate import rows

if TYPE_CHECKING:
    import numpy as np

    from kcl.base.settings import Settings
    from kcl.cache.lookup import Look
    from kcl.generate.protocol import Result

_VERIFIED = "verified"
_DUMPED = "generated again for KCL_DUMP"

# The fields of a program text and of an invoker in the words of a report; the kernel's name decides nothing.
_TEXT = {"source": "OpenCL C", "options": "build options", "kernels": "device kernels"}
_INVOKER = {
    "source": "invoker",
    "function": "invoker's name",
    "arguments": "arguments",
    "inferred": "dtypes that were inferred",
    "packed": "packed arguments",
    "dtypes": "structure dtypes",
}


def is_drawn(fraction: float, digest: str, started: int = process.STARTED) -> bool:
    """Return True if a process that began at `started` verifies the look-up of a key; all its threads agree."""
    if fraction in (0.0, 1.0):
        return fraction == 1.0
    drawn = hashlib.sha256(f"{digest} {started}".encode()).digest()[:8]
    return int.from_bytes(drawn, "little") < fraction * 2**64


def difference(stored: Code, fresh: Code) -> str:
    """Describe the first part of generated code that differs, and where; empty where all parts agree."""
    for before, now, parts in (
        (stored.text, fresh.text, _TEXT),
        (stored.invoker, fresh.invoker, _INVOKER),
    ):
        for field, words in parts.items():
            one, other = getattr(before, field), getattr(now, field)
            if one != other:
                return f"{words}: {_first(one, other)}"
    return ""


def checked(
    asked: Result, chosen: Settings, look: Look, dtypes: Mapping[str, np.dtype[Any]]
) -> Look:
    """Compare a hit with code that is generated anew, or only generate that for a dump; raise WrongEntry."""
    (entry,) = look.entries
    used = {name: dtypes[name] for name in entry.metadata["chosen"]}
    if not is_drawn(chosen.verify, look.digest):
        if chosen.dump:
            _anew(asked, used)  # the dump has the stages of it
            look = look._replace(reason=_DUMPED, spared=0.0)
        return look
    stored, code = look.value.code, rows.from_entry(entry)[1]
    said = difference(stored, _anew(asked, used))
    if not said and code not in (None, compile(stored.invoker.source, file_name(stored), "exec")):
        said = "invoker's code object"
    if not said:
        # a verified hit generates, so it spares nothing
        return look._replace(reason=_VERIFIED, spared=0.0)
    cause = "something decides it that is in no key: declare it with @kcl.kernel(...), or make it the same in each run"
    raise WrongEntry(f"kernel {asked.name!r}: what the recipe generates differs in {said}; {cause}")


def _anew(asked: Result, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
    """Generate code again; a pure recipe runs for that."""
    asked.unit()
    return asked.generate(dtypes)[0]


def _first(before: Any, now: Any) -> str:
    if not (isinstance(before, str) and isinstance(now, str)):
        return f"{before!r} -> {now!r}"
    one, other = before.splitlines(), now.splitlines()
    number = alike(one, other)
    lines = [lines[number].strip() if number < len(lines) else "" for lines in (one, other)]
    return f"line {number + 1}: {lines[0]!r} -> {lines[1]!r}"
