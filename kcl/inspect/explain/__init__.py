"""Why a look-up missed: the nearest earlier entry, and the differences between its key and the missed one, in words.

The nearest entry is one of the same kernel, else of another kernel that makes most of the same calls. An entry of an
earlier run is preferred, then one with equal parameters, dtypes and device, then the one whose record of calls differs
least from that of the missed key. Without records it is the entry whose key differs in the fewest parts. Among equals
the youngest entry is taken. Records and texts come from the entries themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kcl.base.text.layout import alike
from kcl.cache.key import Difference, Key
from kcl.cache.phrases import About, Origin, sentence, telling
from kcl.inspect.explain import calls
from kcl.inspect.explain import record as records
from kcl.inspect.explain.calls import Change
from kcl.inspect.explain.lines import short_diff
from kcl.inspect.explain.record import ParsedRecord
from kcl.record.evidence import PARAMETER

_FORMATS = ("kcl", "format")  # of keys: where these differ, other digests say nothing
_CODE = ("code ", "class ")
RECORD = "record"  # of keys: the part that holds the digest of the record
_NEVER = float("inf")
_READ = 32  # the number of records that are read to find the nearest
_MOST = 20  # the number of calls that are listed one by one
# The parts that tell one variant of a kernel from another: a change of the program seldom changes them.
_VARIANT = (PARAMETER, "argument ", "platform", "device")
# The parts that change together with the device or the platform.
_FOLLOWING = frozenset(
    ("platform vendor", "platform version", "device vendor", "device version", "driver", "OpenCL C", "extensions")
) | {"address bits", "driver library", "cpu features"}


class Texts(NamedTuple):
    """The texts behind the digests in a key: by the name of the part, with the places of code, and the record."""

    sources: Mapping[str, str] = {}
    origins: Mapping[str, Origin] = {}
    record: ParsedRecord | None = None


class Candidate(NamedTuple):
    """An entry to compare a missed key with; `texts` reads the entry, and is called for a few of them."""

    key: Key
    written: float
    metadata: Mapping[str, Any]
    texts: Callable[[], Texts]


class Explanation(NamedTuple):
    """Why a key was not found; `nearest` is None where no entry of this kernel was stored before."""

    nearest: Candidate | None
    changes: tuple[Change, ...]


FIRST_TIME = Explanation(None, ())


def explain(
    key: Key,
    texts: Texts,
    known: Iterable[Candidate],
    begun: float = _NEVER,
    others: Callable[[], Iterable[Candidate]] = tuple,
) -> Explanation:
    """Compare a missed key with the entries of the same kernel in the same layer, except its own entry.

    `begun` is the moment at which the run that missed began, in seconds since the epoch. Where no entry of the kernel
    is older, `others` gives those of other kernels: recipes that make the same calls share their entries. It does so
    too where the older ones have other parameters: the program may have launched the unit before it had the recipe.
    """
    known = list(known)
    found = nearest(key, [one for one in known if one.written < begun], texts.record)
    if texts.record is not None and (found is None or _is_other_variant(found, key, texts.record)):
        found = _shared(key, [one for one in others() if one.written < begun], texts.record, found)
    found = found or nearest(key, known, texts.record)
    if found is None:
        return FIRST_TIME
    return Explanation(found, tuple(changes(found, key, texts)))


def nearest(key: Key, known: Iterable[Candidate], record: ParsedRecord | None = None) -> Candidate | None:
    """Return the entry of the same kind of key that differs least, the youngest among equals.

    Variants count first, then the parts that differ. Where the missed key has a record, the nearest entries with
    records are compared by these. A base row has no dtypes: among equally near rows a row with code is taken.
    """
    parts = set(key.parts)

    def far(one: Candidate, other: ParsedRecord | None = None) -> tuple[int, int, bool, float]:
        names = {part.name for part in parts.symmetric_difference(one.key.parts)}
        variants, distance = 0, max(1, len(names))  # at least the order of the parts differs
        if other is not None and record is not None:
            names |= {fact.name for fact in _beside(one.texts(), record)}
            variants += records.is_elsewhere(other, record)
            distance += records.unlike(other, records.named(record, other))
        return (variants + _variants(names), distance, is_base(one.metadata), -one.written)

    near = sorted((one for one in known if _kind(one.key) == _kind(key) and not starts(one.key, key)), key=far)
    texts = [(one, one.texts().record) for one in near[:_READ]] if record is not None else []
    recorded = [(one, other) for one, other in texts if other is not None]
    return min(recorded, key=lambda pair: far(*pair))[0] if recorded else next(iter(near), None)


def _shared(key: Key, known: Iterable[Candidate], record: ParsedRecord, own: Candidate | None) -> Candidate | None:
    """Return the entry that the kernel shared with another one: most of its calls are the same, in the same file.

    Where the kernel has an `own` entry, only a nearer entry of a unit without a recipe replaces it.
    """
    found = nearest(key, known, record)
    other = found.texts() if found is not None else Texts()
    if found is None or other.record is None or not records.is_akin(other.record, records.named(record, other.record)):
        return own
    if own is None:
        return found
    return own if other.sources else nearest(key, [own, found], record)


def _is_other_variant(found: Candidate, key: Key, record: ParsedRecord) -> bool:
    """Tell whether an entry belongs to other parameters, other dtypes or another device."""
    unlike = [*found.key.diff(key), *_beside(found.texts(), record)]
    return _variants({one.name for one in unlike}) > 0


def _beside(before: Texts, record: ParsedRecord) -> list[Difference]:
    """Return the differences beside the calls of two records; a unit without a recipe has no parameters."""
    facts = records.beside(before.record, record) if before.record is not None else []
    return [one for one in facts if before.sources or not one.name.startswith(PARAMETER)]


def _variants(unlike: Iterable[str]) -> int:
    """Count the parameters, arguments and facts of the device among the names of parts that differ."""
    return sum(name.startswith(_VARIANT) for name in unlike)


def changes(earlier: Candidate, key: Key, texts: Texts) -> list[Change]:
    """Say how the key of an earlier entry and a later key differ, the recipe's own code first.

    Where both have a record, the calls that differ come first, in the place of the digest of the record. Another kcl is
    named before them. Between keys of different versions of kcl, only the parts that surely differ are named.
    """
    differences = earlier.key.diff(key)
    before = earlier.texts()
    if texts.record is not None and before.record is not None:
        texts = texts._replace(record=records.named(texts.record, before.record))
    formats = [one for one in differences if one.name in _FORMATS]
    diffs = _diffs(before.sources, texts.sources)
    told = _told_calls(before, texts, diffs)
    differences = _without_echoes(_recorded(differences, told, before, texts), before, texts)
    if formats:
        differences = [one for one in differences if one.name not in _FORMATS and _is_sure(one, before, texts)]
    about = _about(key, before, texts, differences)
    differences.sort(key=lambda one: one.name != about.recipe)

    def written(listed: Iterable[Difference]) -> list[Change]:
        said = [(one.name, sentence(one, about)) for one in listed]
        return [Change(name, words, tuple(diffs.get(name, ()))) for name, words in said if words]

    return [*written(formats), *told, *written(differences)]


def _is_sure(one: Difference, before: Texts, texts: Texts) -> bool:
    """Tell whether a part differs for another reason than a different version of kcl.

    Another kcl may name other parts, and may compute another digest of the same thing.
    """
    sides = before.sources.get(one.name), texts.sources.get(one.name)
    if None not in sides:
        return sides[0] != sides[1]
    return not one.name.startswith(_CODE) and telling(one.before) and telling(one.after)


def _recorded(differences: list[Difference], told: list[Change], before: Texts, texts: Texts) -> list[Difference]:
    """Replace the digest of the record, or of a kcl.Source, by the differences beside the calls.

    The digest stays where the list is otherwise empty.
    """
    if before.record is None or texts.record is None:
        return differences
    names = {one.name for one in differences}
    facts = _beside(before, texts.record)
    rest = [one for one in differences if one.name not in (RECORD, "source") or not (told or facts)]
    return rest + [one for one in facts if one.name not in names]


def _told_calls(before: Texts, texts: Texts, diffs: Mapping[str, list[str]]) -> list[Change]:
    """Say which calls differ, where both sides have a record, with the changed text beside them."""
    if before.record is None or texts.record is None:
        return []
    found = calls.changes(before.record, texts.record)
    shown, rest = _beside_calls(found, texts, diffs)
    told = [one._replace(diff=(*one.diff, *shown.get(one.part, ()))) for one in found[:_MOST]]
    more = [Change(RECORD, f"and {len(found) - _MOST} more calls differ", ())] if len(found) > _MOST else []
    return [*told, *more, *rest] if found else []


def _beside_calls(
    found: Iterable[Change], texts: Texts, diffs: Mapping[str, list[str]]
) -> tuple[dict[str, list[str]], list[Change]]:
    """Return the changed lines of the texts that contain calls, by the name of the call, and other changed texts."""
    shown: dict[str, list[str]] = {}
    left = {name: texts.sources[name] for name in diffs}
    for one in found:
        name = _text_of(one.place, left, texts.origins)
        if name is not None:
            shown[one.part] = _unsaid(one, diffs[name])
            del left[name]
    return shown, [Change(name, f"{_titled(name, texts.origins)} changed", tuple(diffs[name])) for name in left]


def _titled(name: str, origins: Mapping[str, Origin]) -> str:
    """Write "code of `four` in factors"."""
    kind, _, label = name.partition(" ")
    return f"{kind} of `{label}`" + (f" in {origins[name].module}" if name in origins else "")


def _text_of(place: str, sources: Mapping[str, str], origins: Mapping[str, Origin]) -> str | None:
    """Return the name of the text that contains a place such as "driver.py:31", the shortest of several."""
    file, _, number = place.rpartition(":")
    stem, line = file.rpartition(".")[0], int(number) if number.isdecimal() else 0
    holding = [
        name
        for name, text in sources.items()
        if name in origins
        and (origins[name].module.rpartition(".")[2] in (stem, "__main__") or stem == "__init__")
        and 0 < origins[name].line <= line
        and line - origins[name].line < len(text.splitlines())
    ]
    return min(holding, key=lambda name: len(sources[name]), default=None)


def _unsaid(said: Change, lines: list[str]) -> list[str]:
    """Leave out the diff of a text where it shows only the statements that the call shows already."""
    known = {line.replace(" ", "") for line in said.diff}
    changed = [line.replace(" ", "") for line in lines if line[:1] in ("-", "+")]
    return [] if all(line in known for line in changed) else lines


def texts_in(parts: Mapping[str, bytes]) -> Texts:
    """Return the texts beside the digests of an entry, or of a miss that stored none; leave out unreadable ones."""
    record = records.read(parts.get(records.PART))
    if "reached.json" in parts:
        try:
            reached = json.loads(parts["reached.json"].decode("utf-8", "surrogatepass"))
            origins = json.loads(parts.get("origins.json", b"{}"))
            return Texts(reached, {name: Origin(*place) for name, place in origins.items()}, record)
        except (ValueError, TypeError, AttributeError):
            return Texts(record=record)
    source = parts.get("source.cl")
    return Texts({} if source is None else {"source": source.decode("utf-8", "replace")}, {}, record)


def _kind(key: Key) -> str:
    """Tell keys of programs, of results and of recipes apart."""
    names = {part.name for part in key.parts}
    return "program" if {"format", "source"} <= names else "result" if "result" in names else "recipe"


def is_base(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a row of the generator layer is a base row: it holds no code, but the dependencies of other rows."""
    return "base" in metadata and "function" not in metadata


def starts(one: Key, key: Key) -> bool:
    """Tell whether a key equals the other one, or is the key of its base row."""
    return one.parts == key.parts[: len(one.parts)]


def _about(key: Key, before: Texts, texts: Texts, differences: list[Difference]) -> About:
    told = [one.name.partition(" ")[2] for one in differences if one.name.startswith("distribution ")]
    return About(
        recipe=next((part.name for part in key.parts if part.name.startswith("code ")), ""),
        origins={**before.origins, **texts.origins},
        binary=_kind(key) == "program",
        line=lambda name: _line(name, before, texts),
        told=told,
    )


def _line(name: str, before: Texts, texts: Texts) -> int:
    origin = texts.origins.get(name)
    one, other = before.sources.get(name), texts.sources.get(name)
    if origin is None or not origin.line or one is None or other is None or one == other:
        return 0
    return origin.line + alike(one.splitlines(), other.splitlines())


def _without_echoes(differences: list[Difference], before: Texts, texts: Texts) -> list[Difference]:
    """Leave out the differences that follow from another one.

    Another device has another driver. Another Python compiles code to another digest: its text may be the same.
    """
    names = {one.name for one in differences}
    if names & {"platform", "device"}:
        differences = [one for one in differences if one.name not in _FOLLOWING]
    if "python" not in names:
        return differences
    return [
        one
        for one in differences
        if not one.name.startswith(_CODE) or before.sources.get(one.name) != texts.sources.get(one.name)
    ]


def _diffs(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the first changed lines of each changed text, with one line around them."""
    return {name: short_diff(before[name], text) for name, text in after.items() if before.get(name, text) != text}
