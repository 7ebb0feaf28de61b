"""Compare what a command prints with `--json` with what the reference says of it. A helper of tests."""

import sys
from typing import Any

from harness import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from schema import SCHEMA, Printed

_TYPES = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def differs(command: str, value: Any, form: int = 0) -> list[str]:
    """Return what of a value is not as the reference says; `form` is the number of the form that is printed."""
    said = SCHEMA[command][form]
    return list(_differs(said, said.type, value, command))


def _differs(said: Printed, type_: str, value: Any, place: str):
    kind, _, rest = type_.partition("list of ")
    if not kind and rest:
        if not isinstance(value, list):
            yield f"{place} is no list: {value!r}"
            return
        for number, one in enumerate(value):
            yield from _differs(said, rest, one, f"{place}[{number}]")
    elif type_.startswith("<"):
        yield from _members(said, said.tables[type_[1:-1]], value, place)
    elif not any(_TYPES[one](value) for one in type_.split(" or ")):
        yield f"{place} is no {type_}: {value!r}"


def _members(said: Printed, fields, value: Any, place: str):
    if not isinstance(value, dict):
        yield f"{place} is no object: {value!r}"
        return
    known = {field.name: field for field in fields}
    yield from (f"{place}.{name} is not documented" for name in value.keys() - known.keys())
    for name, field in known.items():
        if name in value:
            yield from _differs(said, field.type, value[name], f"{place}.{name}")
        elif field.always:
            yield f"{place}.{name} is missing"
