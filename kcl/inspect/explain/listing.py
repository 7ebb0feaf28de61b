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
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcl.base.text.layout import alike, cut, shortened
from kcl.cache.key import PLACE, Difference, Key, by_occurrence
from kcl.cache.phrases import WIDTH, arrow, sentence, telling, value
from kcl.frontends.loopy.table import CONSTRUCTORS

PART = "record.json"

_CALL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\bcall ([1-9][0-9]*)\b""", re.DOTALL)
# behind the text of an object: the things to which it leads
_REACHED = re.compile(r" with ([0-9a-f]{64})\b")
_SHORT = 60  # characters: two shorter texts are shown whole
_SHOWN = 8  # lines of a diff
_WIDTH = 110  # of a line
_BEFORE = 40  # characters of a long line before the first that differs
_COMPARED = 400  # lines or calls
_MOST = 20  # the number of calls that are listed one by one


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
    arguments: tuple[tuple[str, str], ...]
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

    @property
    def files(self) -> set[str]:
        """The files in which the calls stand."""
        return {call.place.rpartition(":")[0] for call in self.calls}


def read(part: bytes | None) -> Listing | None:
    """Return the listing of the record in the part of an entry; None if the part is missing or unreadable."""
    try:
        return of(json.loads((part or b"").decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def of(record: Mapping[str, Any]) -> Listing:
    """Return the listing of a record; raise KeyError, TypeError, ValueError or AttributeError for anything else."""
    calls, names, before = list[Call](), list[str](), -1
    beside = {str(name): str(text) for name, text in record.get("beside", ())}
    contents = Counter(beside.items())
    for number, call in enumerate(record["calls"], 1):
        arguments = tuple(
            (str(name), _referring(str(text), names, before)) for name, text in call["arguments"]
        )
        given = dict(arguments)
        if call["function"] == "kcl.Source":
            beside["options"] = " ".join(ast.literal_eval(given.get("build_options", "()")))
        name = str(call["function"])
        if name in CONSTRUCTORS:
            name += f" {shortened(given['name'], WIDTH)}" if "name" in given else ""
        else:
            before = number - 1
        by_position = int(call.get("positional", 0))
        texts = [
            text if place < by_position else f"{label}={text}"
            for place, (label, text) in enumerate(arguments)
        ]
        calls.append(
            Call(number, name, str(call.get("place", "")), arguments, f"{name}({', '.join(texts)})")
        )
        names.append(name)
        contents.update(
            (name, line) for _label, text in arguments for line in re.split(r"\\n|\n|, ", text)
        )
    return Listing(
        tuple(calls),
        beside,
        {digest: Key([*map(tuple, parts)]) for digest, parts in record.get("reached", {}).items()},
        dict(record.get("shown", {})),
        contents,
    )


def _referring(text: str, names: Sequence[str], before: int) -> str:
    """Name the calls to which an argument refers, that of index `before` as `it`; quoted text refers to none."""

    def named(match: re.Match[str]) -> str:
        index = int(match[1]) - 1 if match[1] else len(names)
        return match[0] if index >= len(names) else "it" if index == before else names[index]

    return _CALL.sub(named, text) if "call " in text else text


def is_elsewhere(before: Listing, after: Listing) -> bool:
    """Return True if the calls stand in different files: most likely those of two programs."""
    return before.files.isdisjoint(after.files) and bool(before.calls and after.calls)


def distance(before: Listing, after: Listing) -> int:
    """Count the lines and facts that only one of two records has."""
    return (before.contents - after.contents).total() + (after.contents - before.contents).total()


def is_akin(before: Listing, after: Listing) -> bool:
    """Return True if most contents of two records are the same, and stand in the same files."""
    return not is_elsewhere(before, after) and (
        2 * distance(before, after) < before.contents.total() + after.contents.total()
    )


def beside(before: Listing | None, after: Listing | None) -> list[Difference]:
    """Return the differences beside the calls, by name; none if one of two entries has no listing."""
    if before is None or after is None:
        return []
    one, other = before.beside, after.beside
    return [
        Difference(name, one.get(name), other.get(name))
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def _is_other_python(before: Listing, after: Listing) -> bool:
    return before.beside.get("python") != after.beside.get("python")


def differences(before: Listing, after: Listing) -> list[Change]:
    """Return the calls that differ, in the order of the later record; of very many the first.

    The numbers and the places are those of the later record; a call that is gone keeps its earlier number.
    """
    found: list[Change] = []
    for gone, added in _exchanged(
        [one.line for one in before.calls], [one.line for one in after.calls]
    ):
        ours, theirs = before.calls[gone], after.calls[added]
        apart = [*_exchanged([one.name for one in ours], [one.name for one in theirs])]
        old = new = 0
        for lost, more in [*apart, (slice(len(ours), len(ours)), slice(len(theirs), len(theirs)))]:
            pairs = zip(ours[old : lost.start], theirs[new : more.start], strict=True)
            found += filter(None, [_changed(before, after, *pair) for pair in pairs])
            found += [
                Change(f"call {one.number}", f"call {one.number}, {one.name} is gone")
                for one in ours[lost]
            ]
            found += [_of_call(one, " inserted") for one in theirs[more]]
            old, new = lost.stop, more.stop
    rest = (
        [Change("record", f"and {len(found) - _MOST} more calls differ")]
        if len(found) > _MOST
        else []
    )
    return [*found[:_MOST], *rest]


def _of_call(call: Call, words: str, diff: Sequence[str] = ()) -> Change:
    place = f" ({call.place})" if call.place else ""
    return Change(
        f"call {call.number}",
        f"call {call.number}{place}, {call.name}{words}",
        tuple(diff),
        call.place,
    )


def _changed(before: Listing, after: Listing, one: Call, other: Call) -> Change | None:
    """Compare the arguments of two calls of one function; None if they differ as another Python makes them do."""
    words, diff = list[str](), list[str]()
    labels = _labels(one, other), _labels(other, one)
    ours, theirs = (
        by_occurrence(zip(names, (text for _name, text in call.arguments), strict=True))
        for names, call in zip(labels, (one, other), strict=True)
    )
    for place in {**ours, **theirs}:
        old, new = ours.get(place), theirs.get(place)
        label = f"argument {place[0]}" if place[0].isdigit() else place[0]
        if new is None:
            words.append(f"{label} is gone")
        elif old is None:
            shown = _in_notation(after, new)
            words.append(
                f"{label} added" + (f": {shortened(value(shown), WIDTH)}" if telling(shown) else "")
            )
        elif old != new:
            said, lines = _argument(before, after, old, new)
            words += [f"{label}{text}" for text in said]
            diff += lines
    if not words and not _is_other_python(before, after):
        words = ["arguments passed in another way"]
    return _of_call(other, f": {', '.join(words)}", diff) if words else None


def _labels(call: Call, other: Call) -> list[str]:
    """Name the arguments of a call; without loopy the names of its parameters are unknown, so they have numbers."""
    names = [name for name, _text in call.arguments]
    known = ["" if name in names else name for name, _text in other.arguments]
    return [
        known[i] or name if name.isdigit() and i < len(known) else name
        for i, name in enumerate(names)
    ]


def _argument(before: Listing, after: Listing, old: str, new: str) -> tuple[list[str], list[str]]:
    """Say how an argument differs: the words behind its name, and the lines of a diff."""
    led = [f": {said}" for said in _led(before, after, old, new)]
    shown = _in_notation(before, old), _in_notation(after, new)
    one, other = (
        _REACHED.sub("", text) for text in (shown if shown[0] != shown[1] else (old, new))
    )
    if one == other:
        return led if led or _is_other_python(before, after) else [" changed"], []
    ours, theirs = (
        (_elements(one), _elements(other)) if len(one) + len(other) > _SHORT else (None, None)
    )
    if ours is not None and theirs is not None:
        lines = _changed_lines(ours, theirs, 0)
        return [" changed" if lines else ": the same lines, written in another way", *led], lines
    if not (telling(one) and telling(other)):
        return [" changed", *led], []
    short = [shortened(value(text), WIDTH) for text in (one, other)]
    return [
        f" {' -> '.join(short) if short[0] != short[1] else arrow(value(one), value(other))}",
        *led,
    ], []


def _led(before: Listing, after: Listing, old: str, new: str) -> list[str]:
    """Say how the objects of an argument differ in the things they lead to; leave out the facts beside the calls."""
    told = {one.name for one in beside(before, after)}
    ours, theirs = _REACHED.findall(old), _REACHED.findall(new)
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else ()
    known = [(before.reached.get(one), after.reached.get(two)) for one, two in pairs]
    found = [
        part
        for one, two in known
        if one and two
        for part in _apart(one, two)
        if part.name not in told and not part.name.startswith(PLACE)
    ]
    if "python" in told:
        found = [one for one in found if telling(one.before) and telling(one.after)]
    places = {part.name: part.value for _one, two in known if two for part in two.parts}
    return [
        said + (f" (made at {place})" if place else "")
        for one in found
        if (said := sentence(one))
        for place in [places.get(f"{PLACE}{one.name}{one.after}")]
    ]


def _apart(before: Key, after: Key) -> list[Difference]:
    """List the differences between what only one of two keys has: a part more moves no other part."""
    both = {*before.parts} & {*after.parts}
    one, other = [Key([part for part in key.parts if part not in both]) for key in (before, after)]
    return one.diff(other) or before.diff(after)


def _in_notation(listing: Listing, text: str) -> str:
    """Write an argument with its expressions in ordinary notation."""
    for exact, notation in listing.shown.items():
        text = text.replace(exact, notation)
    return text


def _elements(text: str) -> list[str] | None:
    """Return the elements of an argument that is a text of several lines or a list of texts; None for another one."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if isinstance(found, str):
        return [line.rstrip() for line in textwrap.dedent(found).splitlines() if line.strip()]
    if isinstance(found, (list, tuple)) and any(isinstance(one, str) for one in found):
        return [one if isinstance(one, str) else repr(one) for one in found]
    return None


def of_code(before: str, after: str) -> list[str]:
    """Return the first changed lines of a text, each behind "-", "+" or a blank, with one line around them."""
    one, other = (textwrap.dedent(text).splitlines() for text in (before, after))
    return _changed_lines(one, other, 1)


def _changed_lines(before: Sequence[str], after: Sequence[str], around: int) -> list[str]:
    """Return the first changed lines, each behind "-", "+" or a blank, with some lines around them."""
    lines, end = list[str](), 0
    for gone, added in _exchanged(before, after):
        ours, theirs = _parted(before[gone], after[added])
        lines += [f" {line}" for line in before[max(end, gone.start - around) : gone.start]]
        lines += [*(f"-{line}" for line in ours), *(f"+{line}" for line in theirs)]
        end = gone.stop + around
        lines += [f" {line}" for line in before[gone.stop : end]]
    lines = [line for line in lines if line.strip()]
    more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return [*(cut(line, _WIDTH) for line in lines[:_SHOWN]), *more]


def _parted(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cut off the common beginning of long lines, else their difference is cut off."""
    one, other = list(ours), list(theirs)
    for place, pair in enumerate(zip(ours, theirs, strict=False)):
        start = alike(*pair) - _BEFORE
        if max(map(len, pair)) > _WIDTH < start + 2 * _BEFORE:
            one[place], other[place] = (f"...{line[start:]}" for line in pair)
    return one, other


def _exchanged(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[slice, slice]]:
    """Yield the places that differ between two lists; in very long lists frequent lines are no landmarks."""
    import difflib

    for tag, i, j, k, m in difflib.SequenceMatcher(
        None, before, after, autojunk=max(len(before), len(after)) > _COMPARED
    ).get_opcodes():
        if tag != "equal":
            yield slice(i, j), slice(k, m)
