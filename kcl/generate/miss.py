"""A miss of the generator layer: generates code and makes its rows. Imported only on a miss."""

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


def deciding(unit: Unit, base: OpenArguments, dtypes: Dtypes, has_key: bool) -> Dtypes:
    """Return those dtypes of a call that decide the code: the needed ones, if the others can be inferred from them."""
    chosen = {name: dtype for name, dtype in dtypes.items() if name in base.names}
    needed = {name: dtype for name, dtype in chosen.items() if name in base.needed}
    is_enough = has_key and len(needed) < len(chosen) and unit.follows(chosen, base.needed)
    return needed if is_enough else chosen


def generate(
    result: Result,
    unit: Unit,
    layer: Layer,
    generator_key: Key | None,
    base: OpenArguments,
    dtypes: Dtypes,
    look: Look,
    started: float,
) -> tuple[Code, list[tuple[str, Entry]], Look]:
    """Generate code for the deciding dtypes; return it, the rows to store, and the look.

    If nothing may be stored there are no rows, and the look is a bypass with the reason. `started` is the time of
    `time.perf_counter` at which the work began.
    """
    if look.outcome == "miss":
        unit.refuse_if_forbidden(result.name)
    code, refusal = result.generate(dtypes)
    if not refusal and (off := layer.off(frozenset({unit.front_end}))):
        # A pure recipe's front end is only known now that it has run.
        refusal = f"off: {off}"
    if refusal and look.outcome == "miss":
        look = look._replace(outcome="bypass", reason=refusal)
    key, stored = look.key, list[tuple[str, Entry]]()
    if not refusal and look.outcome != "bypass" and generator_key is not None:
        result.prove()
        seconds = time.perf_counter() - started
        key, stored = entries(generator_key, result.evidence(), base, code, dtypes, seconds)
    if layer.options.dump:
        port("dump").note_code(code)
    return code, stored, look._replace(key=key)


def entries(
    generator_key: Key,
    evidence: Evidence,
    base: OpenArguments,
    code: Code,
    dtypes: Dtypes,
    seconds: float = 0.0,
) -> tuple[Key, list[tuple[str, Entry]]]:
    """Return the key of the code for one choice of dtypes, and (address, row) for each row to store.

    `seconds` is the time that making the code took.
    """
    metadata = {
        "base": repr(tuple(base)),
        "chosen": {name: dtype_text(dtype) for name, dtype in dtypes.items()},
        "created": int(time.time()),
        "seconds": seconds,
        "options": [_placed(option, evidence) for option in code.text.options],
    }
    explaining = texts(evidence)
    recipe = {"site": evidence.site, "parameters": _parameters(generator_key, evidence)}
    key = special_keys(generator_key, base, dtypes)[-1]
    entry = to_entry(code, key, {**metadata, "recipe": recipe})
    # No dtype was open, so the row under the generator key holds the code.
    if key.digest == generator_key.digest:
        entry.parts.update(explaining)
        return key, [(key.digest, entry)]
    about = {"kernel": code.text.kernel, "front_end": code.invoker.front_end, **metadata}
    base_row = Entry(generator_key, about, explaining)
    return key, [(generator_key.digest, base_row), (key.digest, entry)]


def _parameters(generator_key: Key, evidence: Evidence) -> list[list[str]]:
    """Return the recipe's parameters with shortened texts, for listings; from a pure recipe's key, or from the record."""
    named = [
        (part.name[len(PARAMETER) :], part.value)
        for part in generator_key.parts
        if part.name.startswith(PARAMETER)
    ]
    return [[name, text[:_LONGEST]] for name, text in [*named, *evidence.parameters]]


def texts(evidence: Evidence) -> dict[str, bytes]:
    """Return the parts that explain a later miss: the text of the recipe, its place, and the record."""
    # `kcl.inspect.explain` reads the parts by these names.
    explaining: dict[str, object] = {
        "reached.json": dict(evidence.texts),
        "origins.json": dict(evidence.origins),
    }
    if evidence.record is not None:
        explaining["record.json"] = evidence.record
    return {
        name: json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")
        for name, value in explaining.items()
    }


def described(result: Result) -> dict[str, bytes]:
    """Return the texts that explain a miss; empty if they cannot be made."""
    try:
        return texts(result.evidence())
    except Exception as error:
        events.logger().info("the miss of %s cannot be described: %r", result.name, error)
        return {}


def _placed(option: str, evidence: Evidence) -> str | list[str]:
    """Return a build option for a row. A recorded recipe gives its include directories anew: only their names are kept."""
    if option[:2] != "-I" or evidence.record is None:
        return option
    return ["-I", os.path.basename(option[2:].strip())]


def to_entry(generated: Code, key: Key, metadata: dict[str, Any]) -> Entry:
    """Return the entry of code under `key`; `metadata` is added to the entry's own."""
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
