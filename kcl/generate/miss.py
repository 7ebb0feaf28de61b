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
from kcl.generate.evidence import PARAMETER, RECORD, Evidence
from kcl.generate.rows import chosen_of, code_version, special_keys

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.cache.layer import Layer
    from kcl.cache.lookup import Look
    from kcl.code import Code, Dtypes
    from kcl.generate.protocol import OpenArguments, Result, Unit

_LONGEST = 80  # characters of a parameter in a listing


def deciding(unit: Unit, base: OpenArguments, dtypes: Dtypes, has_key: bool) -> Dtypes:
    """Return those dtypes of a call that decide the code: the needed ones, if the others can be inferred from them."""
    chosen, needed = chosen_of(base, dtypes)
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
) -> tuple[Code, Look]:
    """Generate code for the deciding dtypes: the code, and the look with the rows to store, or why there are none.

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
    if not refusal and look.outcome != "bypass" and generator_key is not None:
        result.prove()
        seconds = time.perf_counter() - started
        key, stored = entries(generator_key, result.evidence(), base, code, dtypes, seconds)
        look = look._replace(key=key, publish=stored)
    if layer.options.dump:
        port("dump").note_code(code)
    return code, look


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
    return {
        name: json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")
        for name, value in evidence.parts.items()
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
    if option[:2] != "-I" or RECORD not in evidence.parts:
        return option
    return ["-I", os.path.basename(option[2:].strip())]


def to_entry(generated: Code, key: Key, metadata: dict[str, Any]) -> Entry:
    """Return the entry of code under `key`; `metadata` is added to the entry's own."""
    text, invoker = generated.text._asdict(), generated.invoker._asdict()
    code = compile(invoker["source"], file_name(generated), "exec")
    parts = {
        "source.cl": text.pop("source").encode("utf-8", "surrogatepass"),
        "invoker.py": invoker.pop("source").encode("utf-8", "surrogatepass"),
        "invoker.code": marshal.dumps(code),
    }
    described = {
        "packed": repr(invoker.pop("packed")),
        "program": generated.text.source_digest,
        "code": code_version(),
    }
    return Entry(key, {**text, **invoker, **described, **metadata}, parts)
