"""How a Kernel's code lies in the generator layer.

A recipe that leaves nothing open has one row, under its generator key. Any other recipe has a base row there, which
holds the open arguments, and one row for each choice of dtypes.

A small row under the identity of the recipe's result (its unit) points to the row that holds the code. So another
recipe, or the same recipe after a change without effect, finds code without generating it. Without a generator key
this row holds the code itself.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.base import process
from kcl.base.dtypes import dtype_text
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.code import Argument, Code, Invoker, LaunchableCode, Packed, ProgramText, file_name, instantiate, made_ready
from kcl.errors import DamagedEntry
from kcl.generate.frontends import OpenArguments
from kcl.record import beside
from kcl.record.declarations import PARAMETER, Evidence

if TYPE_CHECKING:
    from types import CodeType

    import numpy as np

    from kcl.cache.layer import Layer

Dtypes = Mapping[str, "np.dtype[Any]"]


_KEPT = 256
_LONGEST = 80  # characters of a parameter in a listing


class State:
    """The launchable code of the entries in memory: a recipe that is called for every launch finds it again."""

    def __init__(self) -> None:
        self.readied: dict[str, tuple[Entry, LaunchableCode]] = {}


_state = process.own(State)


def base_of(entry: Entry) -> OpenArguments:
    """Read the base from any row; raises KeyError or TypeError where it is not there."""
    base = entry.metadata["base"]
    return OpenArguments(
        tuple(base["open"]), tuple(base["needed"]), tuple(base["required"]), _packed_of(base["packed"])
    )


def is_whole(entry: Entry) -> bool:
    """Tell whether the row under the generator key holds the code itself."""
    return "function" in entry.metadata


def ready(entry: Entry) -> LaunchableCode:
    """Make the code of a row ready to launch; the caller takes any error of stored code as a miss."""
    readied = _state().readied
    known = readied.get(entry.key.digest)
    if known is not None and known[0] is entry:
        return known[1]
    found = made_ready(*from_entry(entry))
    if len(readied) >= _KEPT:
        readied.clear()
    readied[entry.key.digest] = entry, found
    return found


def special_keys(direct: Key, base: OpenArguments, dtypes: Dtypes) -> list[Key]:
    """Return the keys of the rows to look at: by the deciding dtypes, then by all given dtypes.

    Without open arguments this is one row, that of the generator key itself.
    """
    if not base.names:
        return [direct]
    common = [*direct.parts, Part("row", "special")]
    given = {name: dtype for name, dtype in dtypes.items() if name in base.names}
    needed = {name: dtype for name, dtype in given.items() if name in base.needed}
    keys = [Key([*common, *dtype_parts(needed)])]
    if len(given) > len(needed):
        keys.append(Key([*common, *dtype_parts(given)]))
    return keys


def fits(entry: Entry, base: OpenArguments, dtypes: Dtypes) -> bool:
    """Tell whether the row was generated for the dtypes of a call."""
    chosen = {**entry.metadata["inferred"], **entry.metadata["chosen"]}
    return all(chosen.get(name) == dtype_text(dtypes[name]) for name in base.names if name in dtypes)


def difference(base: OpenArguments, dtypes: Dtypes) -> str:
    """Return why no row fits: these dtypes are new."""
    given = ", ".join(f"{name}: {dtypes[name]}" for name in base.names if name in dtypes)
    return f"new choice of dtypes: {given}"


def of_unit(layer: Layer, unit: Key) -> tuple[Code | None, str]:
    """Return the code generated from an equal result, None where none is usable, and the fault of the stored code.

    Code that cannot be made ready to launch is set aside.
    """
    entry = layer.look_up(unit.digest, unit).entry
    if entry is None:
        return None, ""
    try:
        row = _pointed(layer, unit, entry)
        if row is None:
            return None, ""
        entry = row
        if not all(isinstance(option, str) for option in entry.metadata["options"]):
            return None, ""  # an include directory belongs to the recipe of the row
        generated, code = from_entry(entry)
        instantiate(generated, code)
    except Exception as error:
        layer.set_aside(entry.key.digest, entry.pack(), error)
        return None, f"the stored code of an equal result could not be used: {error}"
    return generated, ""


def _pointed(layer: Layer, unit: Key, entry: Entry) -> Entry | None:
    """Return the row with the code: the row of the result itself, or the one that it points to."""
    if "row" not in entry.metadata:
        return entry
    pointed = Key(Part(*part) for part in entry.metadata["row"])
    row = layer.look_up(pointed.digest, pointed).entry
    # The row may hold the code of another result now.
    return row if row is not None and row.metadata.get("unit") == unit.digest else None


def unit_entry(unit: Key, code: Code, seconds: float) -> tuple[str, Entry]:
    """Return the row of code under the identity of the result alone, with its address."""
    return unit.digest, to_entry(code, unit, {"created": int(time.time()), "seconds": seconds})


def entries(
    direct: Key,
    evidence: Evidence,
    base: OpenArguments,
    code: Code,
    used: Dtypes,
    unit: Key | None,
    seconds: float = 0.0,
) -> tuple[Key, list[tuple[str, Entry]]]:
    """Return the rows of one choice of dtypes, made in `seconds`: the key of the code, and rows by their addresses."""
    metadata = {
        "base": _described(base),
        "chosen": {name: dtype_text(dtype) for name, dtype in used.items()},
        "created": int(time.time()),
        "seconds": seconds,
        "options": [_placed(option, evidence) for option in code.text.options],
        "unit": unit.digest if unit is not None else "",
    }
    told = texts(evidence)
    recipe = {"site": evidence.site, "parameters": _parameters(direct, evidence)}
    key = special_keys(direct, base, used)[-1]
    found: list[tuple[str, Entry]] = []
    entry = to_entry(code, key, {**metadata, "recipe": recipe})
    if key.digest == direct.digest:  # no dtype was chosen
        entry.parts.update(told)
    else:
        about = {"kernel": code.text.kernel, "front_end": code.invoker.front_end, **metadata}
        found.append((direct.digest, Entry(direct, about, told)))
    if unit is not None:
        pointer = {"kernel": code.text.kernel, "created": metadata["created"]}
        pointer["row"] = [list(part) for part in key.parts]
        found.append((unit.digest, Entry(unit, pointer, {})))
    return key, [*found, (key.digest, entry)]


def _parameters(direct: Key, evidence: Evidence) -> list[list[str]]:
    """Return the starts of the texts of the parameters, for listings: from the record, or from the key of a walk."""
    named = [(part.name[len(PARAMETER) :], part.value) for part in direct.parts if part.name.startswith(PARAMETER)]
    return [[name, text[:_LONGEST]] for name, text in [*named, *evidence.parameters]]


def _described(base: OpenArguments) -> dict[str, Any]:
    return {
        "open": list(base.names),
        "needed": list(base.needed),
        "required": list(base.required),
        "packed": _packed_as_json(base.packed),
    }


def texts(evidence: Evidence) -> dict[str, bytes]:
    """Return the parts that explain a later miss: the texts of the reached code, their places, and the record."""
    import json

    told: dict[str, object] = {"reached.json": dict(evidence.texts), "origins.json": dict(evidence.origins)}
    if evidence.record is not None:
        told["record.json"] = evidence.record
    return {name: json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass") for name, value in told.items()}


def dtype_parts(dtypes: Dtypes) -> list[Part]:
    """Return the parts of a key for the chosen dtypes; structures count with their names in C."""
    parts = [Part(f"argument {name}", dtype_text(dtypes[name])) for name in sorted(dtypes)]
    if any(dtype.names or dtype.subdtype for dtype in dtypes.values()):
        parts += beside.state(beside.Moment(structures=beside.structures()), with_structures=True)
    return parts


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
        "packed": _packed_as_json(generated.invoker.packed),
        "dtypes": [list(pair) for pair in generated.invoker.dtypes],
        "shown": list(generated.invoker.shown),
        "warned": [list(one) for one in generated.invoker.warned],
        "program": generated.text.source_digest,
        "code": _code_version(),
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


def from_entry(entry: Entry) -> tuple[Code, CodeType | None]:
    """Unpack an entry of the generator layer; the code object is None where another Python wrote it.

    Raises DamagedEntry for any fault, for example where a field is missing or of another type.
    """
    metadata = entry.metadata
    try:
        text = ProgramText(
            kernel=metadata["kernel"],
            source=entry.parts["source.cl"].decode("utf-8", "surrogatepass"),
            options=tuple([one if isinstance(one, str) else "".join(one) for one in metadata["options"]]),
            kernels=tuple(metadata["kernels"]),
        )
        invoker = Invoker(
            front_end=metadata["front_end"],
            source=entry.parts["invoker.py"].decode("utf-8", "surrogatepass"),
            function=metadata["function"],
            arguments=tuple(Argument(*fields) for fields in metadata["arguments"]),
            inferred=metadata["inferred"],
            packed=_packed_of(metadata["packed"]),
            dtypes=[(name, layout) for name, layout in metadata["dtypes"]],
            shown=tuple(metadata["shown"]),
            warned=tuple([tuple(one) for one in metadata["warned"]]),
        )
        code = marshal.loads(entry.parts["invoker.code"]) if metadata["code"] == _code_version() else None
    except Exception as error:  # any error of marshal or of an unknown form of an entry
        raise DamagedEntry(f"not an entry of the generator layer: {error!r}") from error
    return Code(text, invoker), code


def _code_version() -> str:
    return f"{importlib.util.MAGIC_NUMBER.hex()}-{sys.flags.optimize}"


def _packed_as_json(packed: Packed) -> list[Any]:
    """Return packed arguments as JSON holds them: an index of an array is a list there."""
    return [
        [name, [[list(i) if isinstance(i, tuple) else i, part] for i, part in pairs]] for name, pairs in packed.items()
    ]


def _packed_of(described: list[Any]) -> Packed:
    """Return the packed arguments that JSON holds."""
    return {
        name: [(tuple(index) if isinstance(index, list) else index, part) for index, part in pairs]
        for name, pairs in described
    }
