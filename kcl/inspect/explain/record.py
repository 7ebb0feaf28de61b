"""Records of calls, as entries hold them in the part `record.json`.

record    = {"calls": [call...], "result": number, "beside": [[name, text]...], "reached": {digest: reached...},
             "shown": {text: notation...}}
call      = {"function": name, "place": "driver.py:31", "arguments": [[name, text]...], "positional": number}
reached   = [[name, text]...]     the targets of an object, by the digest that ends its text; older records have none
notation  = "u[i] + 2*u[i + 1]"   an expression in an argument, whose text is for machines; older records have none
reference = "call N"              in an argument, outside of quotes: the N-th call of the list, counted from 1
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from kcl.cache.key import Difference, Key

PART = "record.json"

_CALL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\bcall ([1-9][0-9]*)\b""", re.DOTALL)
_PIECES = re.compile(r"\\n|\n|, ")
_LONG = 40  # characters: the pieces of a longer argument are compared one by one


class RecordedCall(NamedTuple):
    """One call of a record; `number` counts from 1, `place` is the file and the line of the user's code.

    The first `positional` arguments are passed by position.
    """

    number: int
    function: str
    place: str
    arguments: tuple[tuple[str, str], ...]
    positional: int = 0


class _Fields(NamedTuple):
    calls: list[RecordedCall]
    result: int
    beside: dict[str, str]
    reached: dict[str, Key]
    shown: dict[str, str]


class ParsedRecord(_Fields):
    """A record: its calls, the index of the call whose result the recipe returns, -1 where it names none, and the rest.

    `beside` holds the facts beside the calls. `reached` holds the things to which objects lead, by the digests in their
    texts. `shown` holds expressions in ordinary notation, by their texts.
    """

    @cached_property
    def facts(self) -> Counter[tuple[str, ...]]:
        """The functions, the arguments in pieces, and the facts beside: a record is compared with many others."""
        found: Counter[tuple[str, ...]] = Counter(self.beside.items())
        for call in self.calls:
            found[call.function,] += 1
            for name, text in call.arguments:
                found.update((call.function, *piece) for piece in pieces(name, blanked(text, call.number)))
        return found

    @property
    def files(self) -> set[str]:
        """The files in which the calls stand."""
        return {call.place.rpartition(":")[0] for call in self.calls}


def read(part: bytes | None) -> ParsedRecord | None:
    """Return the record in the part of an entry; None where the part is missing or unreadable."""
    try:
        return parsed(json.loads((part or b"").decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def parsed(described: Mapping[str, Any]) -> ParsedRecord:
    """Return a record; raise KeyError, TypeError, ValueError or AttributeError for anything else."""
    calls = [_call(number, call) for number, call in enumerate(described["calls"], 1)]
    number, reached = described.get("result"), described.get("reached", {})
    result = number - 1 if isinstance(number, int) and 0 < number <= len(calls) else -1
    keys = {digest: Key([(str(name), str(text)) for name, text in parts]) for digest, parts in reached.items()}
    facts = {str(name): str(text) for name, text in described.get("beside", ())}
    return ParsedRecord(calls, result, facts, keys, dict(described.get("shown", {})))


def named(record: ParsedRecord, other: ParsedRecord) -> ParsedRecord:
    """Rename the arguments that a record numbers, by the names in the calls of the same function in another record.

    Without loopy the names of its parameters are unknown, so positional arguments have numbers. A position keeps its
    number where the calls of the other record do not agree on its name.
    """
    if not any(name.isdigit() for call in record.calls for name, _text in call.arguments):
        return record
    labels: dict[tuple[str, int], set[str]] = {}
    for call in other.calls:
        for place, (name, _text) in enumerate(call.arguments, 1):
            labels.setdefault((call.function, place), set()).add(name)

    def label(call: RecordedCall, number: str) -> str:
        found = labels.get((call.function, int(number)), set()) if number.isdigit() else set[str]()
        taken = {name for name, _text in call.arguments}
        return next(iter(found)) if len(found) == 1 and not found & taken else number

    def relabelled(call: RecordedCall) -> RecordedCall:
        return call._replace(arguments=tuple((label(call, name), text) for name, text in call.arguments))

    return ParsedRecord(list(map(relabelled, record.calls)), *record[1:])


def beside(before: ParsedRecord, after: ParsedRecord) -> list[Difference]:
    """Return the differences beside the calls, by name."""
    one, other = before.beside, after.beside
    return [
        Difference(name, one.get(name), other.get(name))
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def unlike(before: ParsedRecord, after: ParsedRecord) -> int:
    """Count the functions, arguments and facts that only one of two records has: a measure of distance, fast."""
    return (before.facts - after.facts).total() + (after.facts - before.facts).total()


def is_elsewhere(before: ParsedRecord, after: ParsedRecord) -> bool:
    """Tell whether the calls of two records stand in different files, most likely those of two programs."""
    return before.files.isdisjoint(after.files) and bool(before.calls and after.calls)


def is_akin(before: ParsedRecord, after: ParsedRecord) -> bool:
    """Tell whether most contents of two records are the same, and stand in the same files."""
    size = before.facts.total() + after.facts.total()
    return not is_elsewhere(before, after) and 2 * unlike(before, after) < size


def _call(number: int, call: Mapping[str, Any]) -> RecordedCall:
    place, positional = str(call.get("place", "")), int(call.get("positional", 0))
    arguments = tuple((str(name), str(text)) for name, text in call["arguments"])
    return RecordedCall(number, str(call["function"]), place, arguments, positional)


def referenced(text: str, number: int) -> tuple[int, ...]:
    """Return the indices of the calls that an argument of call `number` refers to; quoted text refers to none."""
    if "call " not in text:
        return ()
    found = (int(match[1]) for match in _CALL.finditer(text) if match[1])
    return tuple(target - 1 for target in found if target < number)


def in_notation(record: ParsedRecord, text: str) -> str:
    """Write an argument with its expressions in ordinary notation."""
    for exact, notation in record.shown.items():
        text = text.replace(exact, notation)
    return text


def written(text: str, number: int, name: Callable[[int], str]) -> str:
    """Write an argument of call `number` with `name(index)` in the place of each reference."""

    def replaced(match: re.Match[str]) -> str:
        return name(int(match[1]) - 1) if match[1] and int(match[1]) < number else match[0]

    return _CALL.sub(replaced, text) if "call " in text else text


def blanked(text: str, number: int) -> str:
    """Write an argument of call `number` without the targets of its references."""
    return written(text, number, lambda _index: "call")


def pieces(name: str, text: str) -> Iterable[tuple[str, str]]:
    """Return an argument in the pieces to compare: a long one by its lines and items."""
    return ((name, piece) for piece in (_PIECES.split(text) if len(text) > _LONG else (text,)))
