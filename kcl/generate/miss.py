"""A miss of the generator layer: code is generated and written as rows. No hit needs a word of this."""

from __future__ import annotations

import json
import marshal
import os
import time
from typing import TYPE_CHECKING, Any

from kcl.base import events, port
from kcl.cache.entry import Entry
from kcl.code import dtype_text, file_name
from kcl.generate.evidence import PARAMETER, Evidence
from kcl.generate.rows import code_version, special_keys

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.cache.layer import Layer
    from kcl.cache.lookup import Look
    from kcl.code import Code
    from kcl.generate.protocol import OpenArguments, Result, Unit
    from kcl.generate.rows import Dtypes

_LONGEST = 80  # characters of a parameter in a listing


def deciding(made: Unit, base: OpenArguments, dtypes: Dtypes, has_key: bool) -> Dtypes:
    """Return the dtypes of a call that decide the code. The front end infers dtypes only if some are not needed."""
    used = {name: dtype for name, dtype in dtypes.items() if name in base.names}
    needed = {name: dtype for name, dtype in used.items() if name in base.needed}
    return (
        needed if has_key and len(needed) < len(used) and made.follows(used, base.needed) else used
    )


def generated(
    result: Result,
    made: Unit,
    layer: Layer,
    direct: Key | None,
    base: OpenArguments,
    used: Dtypes,
    look: Look,
    started: float,
) -> tuple[Code, list[tuple[str, Entry]], Look]:
    """Generate code: the code, the rows that are stored, and the look, which tells why there are none.

    `direct` is the key of the result, None if it has none. The work `started` at a time of `time.perf_counter`.
    """
    if look.outcome == "miss":
        made.missed(result.name)
    code, refused = result.generate(used)
    why = layer.off(frozenset({made.front_end}))
    off = look.reason if look.reason.startswith("off: ") else why and f"off: {why}"
    refused = refused or off
    if refused and look.outcome == "miss":
        look = look._replace(outcome="bypass", reason=refused)
    key, stored = look.key, list[tuple[str, Entry]]()
    if not refused and look.outcome != "bypass" and direct is not None:
        result.prove()
        seconds = time.perf_counter() - started
        key, stored = entries(direct, result.evidence(), base, code, used, seconds)
    if layer.options.dump:
        port("dump").note_code(code)
    return code, stored, look._replace(key=key)


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
    # No dtype was chosen: the row of the recipe holds the code.
    if key.digest == direct.digest:
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


def described(result: Result) -> dict[str, bytes]:
    """Return the texts of a recipe and of its calls; none where they cannot be described."""
    try:
        return texts(result.evidence())
    except Exception as error:
        events.logger().info("the miss of %s cannot be described: %r", result.name, error)
        return {}


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
        "warned": [list(fields) for fields in generated.invoker.warned],
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
