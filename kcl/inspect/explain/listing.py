"""Listings: the record of an entry as lines, one a call, and the differences between two of them in words.

A line reads like the call in the user's code. The result of the call before is written `it`, so that an inserted call
moves nothing; an argument or variable of a kernel has its name, and any other result that of its function. An entry
holds the record in its part `record.json`:

record    = {"calls": [call...], "result": number, "beside": [[name, text]...], "reached": {digest: reached...},
             "shown": {text: notation...}}
call      = {"function": name, "place": "driver.py:31", "arguments": [[name, text]...], "positional": number}
reached   = [[name, text]...]     the targets of an object, by the digest that ends its text
notation  = "u[i] + 2*u[i + 1]"   an expression in an argument, whose text is for machines
reference = "call N"              in an argument, outside of quotes: the N-th call of the list, counted from 1
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcl.base.text.layout import alike, cut, shortened
from kcl.cache.key import PLACE, Key
from kcl.cache.phrases import WIDTH, Difference, arrow, sentence, telling, value
from kcl.frontends.loopy.table import CONSTRUCTORS

PART = "record.json"

_CALL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\bcall ([1-9][0-9]*)\b""", re.DOTALL)
# Behind the text of an object stands the digest of the things to which it leads.
_REACHED = re.compile(r" with ([0-9a-f]{64})\b")
# Two texts with fewer characters are shown whole.
_SHORT = 60
# The lines of a diff, at most, and their width.
_SHOWN = 8
_WIDTH = 110
# The characters of a long line that stay before the first that differs.
_BEFORE = 40
# In more lines or calls than these, frequent ones are no landmarks: the comparison would take too long.
_COMPARED = 400
# The calls that are listed one by one, at most.
_MOST = 20


class Change(NamedTuple):
    """One part or call that differs: its name in the key or record, the words, and the changed lines.

    `place` is the file and the line of a call in the later record; empty for a part, and for a call that is gone.
    """

    part: str
    sentence: str
    diff: tuple[str, ...] = ()
    place: str = ""


class Call(NamedTuple):
    """One call: its number, its name, the file and the line of the user's code, its arguments, and its line."""

    number: int
    name: str
    place: str
    arguments: Mapping[str, str]
    line: str


class Listing(NamedTuple):
    """The calls of a record and the facts beside them.

    `reached` holds the things to which objects lead, by the digests in their texts. `shown` holds expressions in
    ordinary notation, by their texts. `contents` counts the lines of the calls: a record is compared with many others.
    """

    calls: tuple[Call, ...]
    beside: Mapping[str, str]
    reached: Mapping[str, Key]
    shown: Mapping[str, str]
    contents: Counter[tuple[str, str]]


def read(part: bytes | None) -> Listing | None:
    """Return the listing of the record in the part of an entry; None if the part is missing or unreadable."""
    try:
        return list_calls(json.loads((part or b"").decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def list_calls(record: Mapping[str, Any]) -> Listing:
    """Return the listing of a record; raise KeyError, TypeError, ValueError or AttributeError for anything else."""
    # `it` is the index of the call whose result the next one calls `it`: the last one that is no constructor.
    calls, names, it = list[Call](), list[str](), -1
    beside = {str(name): str(text) for name, text in record.get("beside", ())}
    contents = Counter(beside.items())
    for index, call in enumerate(record["calls"]):
        arguments = {
            str(name): _resolve_references(str(text), names, it) for name, text in call["arguments"]
        }
        if call["function"] == "kcl.Source":
            beside["options"] = " ".join(ast.literal_eval(arguments.get("build_options", "()")))
        name = str(call["function"])
        if name in CONSTRUCTORS:
            name += f" {shortened(arguments['name'], WIDTH)}" if "name" in arguments else ""
        else:
            it = index
        by_position = int(call.get("positional", 0))
        texts = [
            text if place < by_position else f"{label}={text}"
            for place, (label, text) in enumerate(arguments.items())
        ]
        line = f"{name}({', '.join(texts)})"
        calls.append(Call(index + 1, name, str(call.get("place", "")), arguments, line))
        names.append(name)
        lines = (line for text in arguments.values() for line in re.split(r"\\n|\n|, ", text))
        contents.update((name, line) for line in lines)
    reached = {
        digest: Key([*map(tuple, parts)]) for digest, parts in record.get("reached", {}).items()
    }
    return Listing(tuple(calls), beside, reached, dict(record.get("shown", {})), contents)


def _resolve_references(text: str, names: Sequence[str], before: int) -> str:
    """Name the calls to which an argument refers, that of index `before` as `it`; quoted text refers to none."""

    def named(match: re.Match[str]) -> str:
        # Quoted text matches without a number, and stays. So does a number beyond the calls before.
        index = int(match[1]) - 1 if match[1] else len(names)
        return match[0] if index >= len(names) else "it" if index == before else names[index]

    return _CALL.sub(named, text) if "call " in text else text


def is_elsewhere(before: Listing, after: Listing) -> bool:
    """Return True if the calls stand in different files: most likely those of two programs."""
    ours, theirs = (
        {call.place.rpartition(":")[0] for call in listing.calls} for listing in (before, after)
    )
    return bool(ours and theirs) and ours.isdisjoint(theirs)


def measure_distance(before: Listing, after: Listing) -> int:
    """Count the lines and facts that only one of two records has."""
    return (before.contents - after.contents).total() + (after.contents - before.contents).total()


def compare_facts(before: Listing | None, after: Listing | None) -> list[Difference]:
    """Return the differences beside the calls, by name; none if one of two entries has no listing."""
    if before is None or after is None:
        return []
    ours, theirs = before.beside, after.beside
    return [
        Difference(name, ours.get(name), theirs.get(name))
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    ]


def _is_other_python(before: Listing, after: Listing) -> bool:
    return before.beside.get("python") != after.beside.get("python")


def find_differences(before: Listing, after: Listing) -> list[Change]:
    """Return the calls that differ, in the order of the later record; of very many the first.

    The numbers and the places are those of the later record; a call that is gone keeps its earlier number.
    """
    # Two listings of lines are compared. Matching the graphs of calls took 550 lines, and named no cause alone.
    changes: list[Change] = []
    for is_same, gone, added in _match(
        [call.line for call in before.calls], [call.line for call in after.calls]
    ):
        if not is_same:
            changes += _compare_blocks(before, after, before.calls[gone], after.calls[added])
    rest = len(changes) - _MOST
    more = [Change("record", f"and {rest} more calls differ")] if rest > 0 else []
    return [*changes[:_MOST], *more]


def _compare_blocks(
    before: Listing, after: Listing, ours: Sequence[Call], theirs: Sequence[Call]
) -> Iterator[Change]:
    """Compare neighbouring calls of which each differs; calls of one function stand for each other, in their order."""
    for is_same, gone, added in _match(
        [call.name for call in ours], [call.name for call in theirs]
    ):
        if is_same:
            pairs = zip(ours[gone], theirs[added], strict=True)
            yield from filter(None, (_compare_calls(before, after, *pair) for pair in pairs))
        else:
            for call in ours[gone]:
                yield Change(f"call {call.number}", f"call {call.number}, {call.name} is gone")
            for call in theirs[added]:
                yield _describe_call(call, " inserted")


def _describe_call(call: Call, words: str, diff: Sequence[str] = ()) -> Change:
    place = f" ({call.place})" if call.place else ""
    return Change(
        f"call {call.number}",
        f"call {call.number}{place}, {call.name}{words}",
        tuple(diff),
        call.place,
    )


def _compare_calls(before: Listing, after: Listing, earlier: Call, later: Call) -> Change | None:
    """Compare the arguments of two calls of one function; None if they differ as another Python makes them do."""
    words, diff = list[str](), list[str]()
    ours, theirs = _label_arguments(earlier, later), _label_arguments(later, earlier)
    for name in {**ours, **theirs}:
        old, new = ours.get(name), theirs.get(name)
        label = f"argument {name}" if name.isdigit() else name
        if new is None:
            words.append(f"{label} is gone")
        elif old is None:
            shown = _put_in_notation(after, new)
            text = f": {shortened(value(shown), WIDTH)}" if telling(shown) else ""
            words.append(f"{label} added{text}")
        elif old != new:
            sentences, lines = _compare_argument(before, after, old, new)
            words += [f"{label}{text}" for text in sentences]
            diff += lines
    if not words and not _is_other_python(before, after):
        words = ["arguments passed in another way"]
    return _describe_call(later, f": {', '.join(words)}", diff) if words else None


def _label_arguments(call: Call, other: Call) -> Mapping[str, str]:
    """Return the arguments of a call; one that has a number for a name gets the name that it has in another call.

    Without loopy the names of its parameters are unknown, and the arguments have numbers.
    """
    others = ["" if name in call.arguments else name for name in other.arguments]
    pairs = itertools.zip_longest(call.arguments.items(), others[: len(call.arguments)])
    return {label if label and name.isdigit() else name: text for (name, text), label in pairs}


def _compare_argument(
    before: Listing, after: Listing, old: str, new: str
) -> tuple[list[str], list[str]]:
    """Say how an argument differs: the words behind its name, and the lines of a diff."""
    led = [f": {text}" for text in _compare_targets(before, after, old, new)]
    pair = _put_in_notation(before, old), _put_in_notation(after, new)
    if pair[0] == pair[1]:
        pair = old, new
    earlier, later = (_REACHED.sub("", text) for text in pair)
    if earlier == later:
        return led if led or _is_other_python(before, after) else [" changed"], []
    if len(earlier) + len(later) > _SHORT:
        ours, theirs = _split_elements(earlier), _split_elements(later)
        if ours is not None and theirs is not None:
            lines = _diff_lines(ours, theirs, 0)
            words = " changed" if lines else ": the same lines, written in another way"
            return [words, *led], lines
    if not (telling(earlier) and telling(later)):
        return [" changed", *led], []
    short = [shortened(value(text), WIDTH) for text in (earlier, later)]
    is_enough = short[0] != short[1]
    words = " -> ".join(short) if is_enough else arrow(value(earlier), value(later))
    return [f" {words}", *led], []


def _compare_targets(before: Listing, after: Listing, old: str, new: str) -> list[str]:
    """Say how the objects of an argument differ in the things they lead to; leave out the facts beside the calls."""
    told = {fact.name for fact in compare_facts(before, after)}
    ours, theirs = _REACHED.findall(old), _REACHED.findall(new)
    words = list[str]()
    # If the numbers of objects differ, they cannot be paired; the texts themselves then differ.
    for pair in zip(ours, theirs, strict=True) if len(ours) == len(theirs) else ():
        earlier, later = before.reached.get(pair[0]), after.reached.get(pair[1])
        if earlier is None or later is None:
            continue
        places = dict(later.parts)
        for part in _diff_parts(earlier, later):
            # Another Python compiles code to other digests, which are no change of the program.
            is_shown = "python" not in told or (telling(part.before) and telling(part.after))
            if part.name not in told and not part.name.startswith(PLACE) and is_shown:
                place = places.get(f"{PLACE}{part.name}{part.after}")
                text = sentence(part)
                words += [f"{text} (made at {place})" if place else text] if text else []
    return words


def _diff_parts(before: Key, after: Key) -> list[Difference]:
    """List the differences between what only one of two keys has: a part more moves no other part."""
    both = {*before.parts} & {*after.parts}
    earlier, later = [
        Key([part for part in key.parts if part not in both]) for key in (before, after)
    ]
    # Keys with the same parts in another order differ in their order alone.
    return earlier.diff(later) or before.diff(after)


def _put_in_notation(listing: Listing, text: str) -> str:
    """Write an argument with its expressions in ordinary notation."""
    for exact, notation in listing.shown.items():
        text = text.replace(exact, notation)
    return text


def _split_elements(text: str) -> list[str] | None:
    """Return the elements of an argument that is a text of several lines or a list of texts; None for another one."""
    try:
        literal = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if isinstance(literal, str):
        return [line.rstrip() for line in textwrap.dedent(literal).splitlines() if line.strip()]
    if isinstance(literal, (list, tuple)) and any(isinstance(element, str) for element in literal):
        return [element if isinstance(element, str) else repr(element) for element in literal]
    return None


def diff_code(before: str, after: str) -> list[str]:
    """Return the first changed lines of a text, each behind "-", "+" or a blank, with one line around them."""
    earlier, later = (textwrap.dedent(text).splitlines() for text in (before, after))
    return _diff_lines(earlier, later, 1)


def _diff_lines(before: Sequence[str], after: Sequence[str], around: int) -> list[str]:
    """Return the first changed lines, each behind "-", "+" or a blank, with some lines around them."""
    lines, end = list[str](), 0
    for is_same, gone, added in _match(before, after):
        if not is_same:
            lines += [f" {line}" for line in before[max(end, gone.start - around) : gone.start]]
            ours, theirs = _skip_common_start(before[gone], after[added])
            lines += [*(f"-{line}" for line in ours), *(f"+{line}" for line in theirs)]
            end = gone.stop + around
            lines += [f" {line}" for line in before[gone.stop : end]]
    lines = [line for line in lines if line.strip()]
    more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return [*(cut(line, _WIDTH) for line in lines[:_SHOWN]), *more]


def _skip_common_start(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cut off the common beginning of long lines, else their difference is cut off."""
    earlier, later = list(ours), list(theirs)
    for place, pair in enumerate(zip(ours, theirs, strict=False)):
        start = alike(*pair) - _BEFORE
        if max(map(len, pair)) > _WIDTH < start + 2 * _BEFORE:
            earlier[place], later[place] = (f"...{line[start:]}" for line in pair)
    return earlier, later


def _match(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[bool, slice, slice]]:
    """Yield the parts of two lists in their order: True for equal ones, and the part of each list."""
    # Imported late: reading a listing does not need it.
    import difflib

    # In very long lists difflib ignores frequent lines, or it would take too long.
    is_long = max(len(before), len(after)) > _COMPARED
    for tag, i, j, k, m in difflib.SequenceMatcher(None, before, after, is_long).get_opcodes():
        yield tag == "equal", slice(i, j), slice(k, m)
