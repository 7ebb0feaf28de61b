"""Records of calls: the differences between two of them, in words.

The numbers and the places in a line are those of the later record; a call that is gone keeps its earlier number.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcl.base.text.layout import shortened
from kcl.cache.key import by_occurrence
from kcl.cache.phrases import WIDTH, About, arrow, sentence, telling, value
from kcl.inspect.explain.lines import Hunk, hunks, in_turn
from kcl.inspect.explain.pairs import Graph, Match, matched
from kcl.inspect.explain.record import ParsedRecord, RecordedCall, beside, blanked, in_notation, referenced, written
from kcl.record.table import CONSTRUCTORS

# Arguments that hold a program: the name of one element of each.
_ELEMENTS = {"instructions": "statement", "domains": "domain", "code": "line"}
_WITH_BLANKS = frozenset({"code"})  # arguments whose lines a compiler numbers
_BRACKETS = frozenset({"[[", "[(", "([", "(("})
_PLACES = 3  # in a sentence
_SHORT = 60  # characters: shorter values are shown whole
_REACHED = re.compile(r" with ([0-9a-f]{64})\b")  # behind the text of an object: the things to which it leads


class Change(NamedTuple):
    """One part or call that differs: its name in the key or record, the words, and the changed lines.

    `place` is the file and the line of a call in the later record; empty for a part, and for a call that is gone.
    """

    part: str
    sentence: str
    diff: tuple[str, ...] = ()
    place: str = ""


def differences(before: ParsedRecord, after: ParsedRecord) -> list[str]:
    """Return the differences between an earlier record and a later one, as lines for the user.

    Lines of a diff are indented. Numbers that changed because other calls came or went are no difference.
    """
    lines = []
    for said in changes(before, after):
        lines += [said.sentence, *(f"  {line}" for line in said.diff)]
    found = beside(before, after)
    about = About(told=[one.name.partition(" ")[2] for one in found])
    return lines + [said for said in (sentence(one, about) for one in found) if said]


def changes(before: ParsedRecord, after: ParsedRecord) -> list[Change]:
    """Return the calls that differ, in the order of the later record; a call that is gone stands where it stood."""
    numbers: dict[object, int] = {}
    match = matched(Graph(before, numbers), Graph(after, numbers))
    found = [*_in_order(match), *_returned(match, before, after)]
    return found or _otherwise(match)


def _in_order(match: Match) -> Iterator[Change]:
    gone = [index for index in range(len(match.before.calls)) if not _stays(match, index)]
    for new, following in enumerate(_following(match)):
        while gone and gone[0] < following:
            yield _gone(match.before.calls[gone.pop(0)])
        if new in match.pairs:
            yield from _changed(match, match.pairs[new], new)
        else:
            yield _said(match.after.calls[new], _arrived(match, new))
    yield from (_gone(match.before.calls[index]) for index in gone)


def _following(match: Match) -> list[int]:
    """Return for each call the earlier index of the next pair, itself included."""
    found, following = [], len(match.before.calls)
    for new in reversed(range(len(match.after.calls))):
        following = match.pairs.get(new, following)
        found.append(following)
    return found[::-1]


def _stays(match: Match, old: int) -> bool:
    return old in match.partners or old in match.moved.values()


def _arrived(match: Match, new: int) -> str:
    old = match.moved.get(new)
    return " inserted" if old is None else f" moved: it was call {old + 1}"


def _said(call: RecordedCall, what: str, diff: Sequence[str] = ()) -> Change:
    place = f" ({call.place})" if call.place else ""
    return Change(f"call {call.number}", f"call {call.number}{place}, {_titled(call)}{what}", tuple(diff), call.place)


def _gone(call: RecordedCall) -> Change:
    return Change(f"call {call.number}", f"call {call.number}, {_titled(call)} is gone")


def _titled(call: RecordedCall) -> str:
    """Name the function of a call, and the argument or variable of a kernel that it makes."""
    names = [text for name, text in call.arguments if name == "name"] if call.function in CONSTRUCTORS else []
    return f"{call.function} {shortened(names[0], WIDTH)}" if names else call.function


def _returned(match: Match, before: ParsedRecord, after: ParsedRecord) -> list[Change]:
    """Say that another call makes the result, unless that follows from added or removed calls."""
    old, new = before.result, after.result
    if old < 0 or new < 0 or match.same(old, new) or match.follows(old, new):
        return []
    call = match.after.calls[new]
    result = f"the result is call {call.number}, {call.function}, no longer {_former(match, old)}"
    return [Change("result", result, (), call.place)]


def _otherwise(match: Match) -> list[Change]:
    """Say at least that records differ where their calls seem to be the same."""
    if sorted(match.before.meanings) == sorted(match.after.meanings):
        return []
    return [Change("result", "the calls are connected in another way")]


def _former(match: Match, old: int) -> str:
    """Name a call of the earlier record by its number in the later one, where it is there."""
    new = match.partners.get(old)
    if new is None:
        new = next((index for index, moved in match.moved.items() if moved == old), None)
    return f"call {new + 1}" if new is not None else f"a {match.before.calls[old].function} that is gone"


def _changed(match: Match, old: int, new: int) -> Iterator[Change]:
    """Compare the arguments of a pair."""
    ours, theirs = by_occurrence(match.before.calls[old].arguments), by_occurrence(match.after.calls[new].arguments)
    sentences, diffs = [], []
    for place in {**ours, **theirs}:
        said, diff = _argument(match, old, new, place[0], ours.get(place), theirs.get(place))
        sentences += said
        diffs += diff
    if not sentences:
        sentences = _passed(match.before.calls[old], match.after.calls[new])
    if not sentences and list(ours) != list(theirs):
        sentences = ["arguments in another order"]
    if sentences:
        yield _said(match.after.calls[new], f": {', '.join(sentences)}", diffs)


def _passed(before: RecordedCall, after: RecordedCall) -> list[str]:
    """Say which arguments are passed by position in one of two calls, and by name in the other."""
    more, by = (before, "name") if before.positional > after.positional else (after, "position")
    names = [name for name, _text in more.arguments[min(before.positional, after.positional) : more.positional]]
    return [f"{', '.join(map(_label, names))} passed by {by}"] if names else []


def _argument(
    match: Match, old: int, new: int, name: str, before: str | None, after: str | None
) -> tuple[list[str], list[str]]:
    """Say how an argument differs: sentences, and lines of a diff."""
    if before is None or after is None:
        return [_one_sided(name, after and in_notation(match.after.record, after))], []
    if _equal(match, old, new, before, after):
        return [], []
    one = written(before, old + 1, lambda index: _former(match, index))
    other = written(after, new + 1, lambda index: f"call {index + 1}")
    label, led = _label(name), _led(match, one, other)
    shown = in_notation(match.before.record, one), in_notation(match.after.record, other)
    bare, other_bare = (_REACHED.sub("", text) for text in (shown if shown[0] != shown[1] else (one, other)))
    if bare == other_bare:
        return [f"{label}: {led}" if led else f"{label} changed"], []
    sentences, diff = _elements(name, bare, other_bare) or ([_values(name, bare, other_bare)], [])
    return [*sentences, *([f"{label}: {led}"] if led else [])], diff


def _led(match: Match, before: str, after: str) -> str:
    """Say how the objects of an argument differ in the things they lead to; leave out the lines beside the calls."""
    told = {one.name for one in beside(match.before.record, match.after.record)}
    old, new = _REACHED.findall(before), _REACHED.findall(after)
    if "python" in told or len(old) != len(new):  # another Python has other digests for the same code
        return ""
    known, found = match.before.record.reached, match.after.record.reached
    pairs = [(known[one], found[other]) for one, other in zip(old, new, strict=True) if one in known and other in found]
    said = [sentence(one) for pair in pairs for one in pair[0].diff(pair[1]) if one.name not in told]
    more = [f"{len(said) - _PLACES} more"] if len(said) > _PLACES else []
    return ", ".join([*filter(None, said[:_PLACES]), *more])


def _one_sided(name: str, after: str | None) -> str:
    if after is None:
        return f"{_label(name)} is gone"
    return f"{_label(name)} added" + (f": {shortened(value(after), WIDTH)}" if telling(after) else "")


def _equal(match: Match, old: int, new: int, before: str, after: str) -> bool:
    """Tell whether two arguments are the same apart from numbers that other calls have changed."""
    ours, theirs = referenced(before, old + 1), referenced(after, new + 1)
    if len(ours) != len(theirs) or blanked(before, old + 1) != blanked(after, new + 1):
        return False
    return all(match.same(*pair) or match.follows(*pair) for pair in zip(ours, theirs, strict=True))


def _label(name: str) -> str:
    return f"argument {name}" if name.isdigit() else name


def _values(name: str, before: str, after: str) -> str:
    """Say how a value differs; of long values show both ends, or the place where they part."""
    if not (telling(before) and telling(after)):
        return f"{_label(name)} changed"
    one, other = shortened(value(before), WIDTH), shortened(value(after), WIDTH)
    return (
        f"{_label(name)} {one} -> {other}" if one != other else f"{_label(name)} {arrow(value(before), value(after))}"
    )


def _elements(name: str, before: str, after: str) -> tuple[list[str], list[str]] | None:
    """Compare the statements, domains or lines of two arguments; None for arguments without any."""
    if name not in _ELEMENTS and max(len(before), len(after)) <= _SHORT:
        return None
    one, other = _listed(name, before), _listed(name, after)
    if one is None or other is None:
        return None
    noun = _noun(name, before, after)
    if one == other:
        return [f"{_label(name)}: the same {noun}s, written in another way"], []
    found = hunks(one, other)
    return [_numbered(noun, found)], in_turn(found)


def _noun(name: str, before: str, after: str) -> str:
    if name in _ELEMENTS:
        return f"line of {name}" if name in _WITH_BLANKS else _ELEMENTS[name]
    return f"{'item' if before[:1] + after[:1] in _BRACKETS else 'line'} of {_label(name)}"


def _listed(name: str, text: str) -> list[str] | None:
    """Return the elements of an argument that is a text of several lines or a list of texts."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if isinstance(found, str) and (name in _ELEMENTS or "\n" in found):
        lines = textwrap.dedent(found).splitlines()
        return [line.rstrip() for line in lines if name in _WITH_BLANKS or line.strip()]
    if isinstance(found, (list, tuple)) and (name in _ELEMENTS or any(isinstance(one, str) for one in found)):
        return [one if isinstance(one, str) else repr(one) for one in found]
    return None


def _numbered(noun: str, found: Sequence[Hunk]) -> str:
    """Write "statement 3 changed, statements 7 to 9 inserted"."""
    said = [one for hunk in found for one in _of_hunk(noun, hunk)]
    more = [f"{len(said) - _PLACES} more places"] if len(said) > _PLACES else []
    return ", ".join([*said[:_PLACES], *more])


def _of_hunk(noun: str, hunk: Hunk) -> Iterator[str]:
    both = min(len(hunk.gone), len(hunk.added))
    if both:
        yield f"{_range(noun, hunk.new, both)} changed"
    if len(hunk.added) > both:
        yield f"{_range(noun, hunk.new + both, len(hunk.added) - both)} inserted"
    if len(hunk.gone) > both:
        count = len(hunk.gone) - both
        yield f"{_range(noun, hunk.old + both, count)} {'is' if count == 1 else 'are'} gone"


def _range(noun: str, first: int, count: int) -> str:
    """Write "statement 3", "statements 3 to 5", "line 3 of code"."""
    word, of, rest = noun.partition(" of ")
    return (f"{word} {first}" if count == 1 else f"{word}s {first} to {first + count - 1}") + of + rest
