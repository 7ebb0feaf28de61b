"""Explains a miss: finds the most similar earlier entry, and says how its key differs from the missed one.

The nearest entry is one of the same kernel. An entry of an earlier run is preferred, then one with equal parameters,
dtypes, build options and device, then the one whose listing of calls differs in the fewest lines. Without listings it is
the entry whose key differs in the fewest parts. Among equals the youngest entry is taken. Listings and texts come from
the entries themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from kcl.base.text.layout import alike
from kcl.cache.key import Key
from kcl.cache.phrases import About, Difference, Origin, sentence
from kcl.generate import files
from kcl.generate.evidence import PARAMETER
from kcl.inspect.explain import listing as listings
from kcl.inspect.explain.listing import Change, Listing

# Parts for the format of a key: if one of these differs, all digests may differ, which says nothing.
_FORMATS = ("kcl", "format")
# The parts with digests of code begin so.
_CODE = ("code ", "class ")
# Parts that are digests of what a listing shows in detail, so they are left out if there is a listing.
_CONTENT = frozenset({"record", "source"})
# The files of a distribution that are named, at most.
_NAMED = 8
# The listings that are read to find the nearest, at most.
_READ = 32
# The parts that tell one variant of a kernel from another begin so: a change of the program seldom changes them.
_VARIANT = (PARAMETER, "argument ", "options", "platform", "device")
# The parts that change together with the device or the platform.
_FOLLOWING = {
    "platform vendor",
    "platform version",
    "device vendor",
    "device version",
    "driver",
    "OpenCL C",
    "extensions",
    "address bits",
    "driver library",
    "cpu features",
}


class Texts(NamedTuple):
    """The texts behind the digests in a key: part name -> text, the places of code: part name -> origin, and the calls."""

    sources: Mapping[str, str] = {}
    origins: Mapping[str, Origin] = {}
    listing: Listing | None = None


class Candidate(NamedTuple):
    """An entry to compare a missed key with; `texts` reads the entry, and is called for a few of them."""

    key: Key
    written: float
    texts: Callable[[], Texts]


# Why a key was not found: the nearest entry, None if no entry of this kernel was stored before, and the differences.
Explanation = tuple[Candidate | None, list[Change]]
FIRST_TIME: Explanation = (None, [])


def explain(
    key: Key, texts: Texts, candidates: Iterable[Candidate], begun: float = float("inf")
) -> Explanation:
    """Compare a missed key with the entries of the same kernel in the same layer, except its own entry.

    `begun` is the time at which the run with the miss began, in seconds since the epoch. Entries of that run are compared
    only if there are no earlier ones, and not if their build options differ: a program is often built with several.
    """
    candidates = list(candidates)
    near = find_nearest(key, texts, [entry for entry in candidates if entry.written < begun])
    if near is None:
        near = find_nearest(key, texts, candidates)
        # In one run different build options are chosen by the program, and do not explain the miss.
        if near is not None and "options" in _collect_names(
            [*near.key.diff(key), *listings.compare_facts(near.texts().listing, texts.listing)]
        ):
            near = None
    return FIRST_TIME if near is None else (near, find_changes(near, key, texts))


def find_nearest(key: Key, texts: Texts, candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the entry of the same kind of key that differs least, the youngest among equals.

    Variants count first, then the parts that differ. If the missed key has a listing, the nearest entries with
    listings are compared by these. The entry under the key itself does not count.
    """
    parts = set(key.parts)

    def measure(entry: Candidate, other: Listing | None = None) -> tuple[int, int, float]:
        names = {part.name for part in parts.symmetric_difference(entry.key.parts)}
        # Two keys with the same parts are not equal: at least the order of the parts differs.
        variants, distance = 0, max(1, len(names))
        if other is not None and texts.listing is not None:
            names |= _collect_names(listings.compare_facts(other, texts.listing))
            variants += listings.is_elsewhere(other, texts.listing)
            distance += listings.measure_distance(other, texts.listing)
        variants += sum(name.startswith(_VARIANT) for name in names)
        return variants, distance, -entry.written

    kind = _find_kind(key)
    alike = [
        entry
        for entry in candidates
        if entry.key.digest != key.digest and _find_kind(entry.key) == kind
    ]
    near = sorted(alike, key=measure)
    # A listing is read from its file, so only those of the nearest keys are.
    recorded = [
        (entry, other)
        for entry in near[:_READ]
        if texts.listing is not None and (other := entry.texts().listing) is not None
    ]
    return min(recorded, key=lambda pair: measure(*pair))[0] if recorded else next(iter(near), None)


def find_changes(earlier: Candidate, key: Key, texts: Texts) -> list[Change]:
    """Say how the key of an earlier entry and a later key differ, the recipe's own code first.

    If both have a listing, the calls that differ come first, in place of the digest of the record, then the texts of code.
    If the versions of kcl differ, only these are named, since the other parts may then differ for that reason.
    """
    differences = earlier.key.diff(key)
    formats = [part for part in differences if part.name in _FORMATS]
    if formats:
        return [Change(part.name, sentence(part)) for part in formats]
    before = earlier.texts()
    diffs = {
        name: tuple(listings.diff_code(old, text))
        for name, text in texts.sources.items()
        if (old := before.sources.get(name, text)) != text
    }
    calls, facts = list[Change](), listings.compare_facts(before.listing, texts.listing)
    if before.listing is not None and texts.listing is not None:
        calls = listings.find_differences(before.listing, texts.listing)
    if calls or facts:
        differences = [part for part in differences if part.name not in _CONTENT]
    named = _collect_names(differences)
    differences += [fact for fact in facts if fact.name not in named]
    differences = _drop_echoes(differences, diffs)
    about = About(
        recipe=next((part.name for part in key.parts if part.name.startswith("code ")), ""),
        origins={**before.origins, **texts.origins},
        binary=_find_kind(key) == "program",
        line=lambda name: _find_line(name, before, texts),
    )
    # The recipe's own code comes first: False sorts before True.
    differences.sort(key=lambda part: part.name != about.recipe)
    code = [
        Change(name, "{} of `{}` changed".format(*name.split(" ", 1)), diff)
        for name, diff in diffs.items()
        if calls and name not in _collect_names(differences)
    ]
    parts = [
        Change(part.name, sentence(part, about), diffs.get(part.name) or _list_files(part))
        for part in differences
    ]
    return [*calls, *code, *(part for part in parts if part.sentence)]


def _list_files(difference: Difference) -> tuple[str, ...]:
    """Name the files that differ between two texts of a distribution; none if this machine never read one of them."""
    tables = [files.contents((side or "").rpartition(" ")[2]) for side in difference[1:]]
    ours, theirs = tables if difference.name.startswith("distribution ") else ({}, {})
    changed = [name for name in sorted({**ours, **theirs}) if ours.get(name) != theirs.get(name)]
    more = [f"... {len(changed) - _NAMED} more files"] if len(changed) > _NAMED else []
    return (*changed[:_NAMED], *more) if ours and theirs else ()


def _collect_names(differences: Iterable[Difference]) -> set[str]:
    return {part.name for part in differences}


def read_texts(parts: Mapping[str, bytes]) -> Texts:
    """Return the texts beside the digests of an entry, or of a miss that stored none; leave out unreadable ones."""
    listing = listings.read(parts.get(listings.PART))
    if "reached.json" not in parts:
        source = parts.get("source.cl")
        sources = {} if source is None else {"source": source.decode("utf-8", "replace")}
        return Texts(sources, {}, listing)
    try:
        reached = json.loads(parts["reached.json"].decode("utf-8", "surrogatepass"))
        origins = json.loads(parts.get("origins.json", b"{}"))
        places = {name: Origin(*place) for name, place in origins.items()}
        return Texts(reached, places, listing)
    except (ValueError, TypeError, AttributeError):
        return Texts(listing=listing)


def _find_kind(key: Key) -> str:
    """Tell keys of programs, of results and of recipes apart."""
    names = {part.name for part in key.parts}
    if {"format", "source"} <= names:
        return "program"
    return "result" if "result" in names else "recipe"


def _find_line(name: str, before: Texts, texts: Texts) -> int:
    origin = texts.origins.get(name)
    earlier, later = before.sources.get(name), texts.sources.get(name)
    if origin is None or not origin.line or earlier is None or later is None or earlier == later:
        return 0
    return origin.line + alike(earlier.splitlines(), later.splitlines())


def _drop_echoes(differences: list[Difference], diffs: Container[str]) -> list[Difference]:
    """Leave out the differences that follow from another one.

    Another device has another driver. Another Python compiles code to another digest: its text may be the same.
    """
    names = _collect_names(differences)
    if names & {"platform", "device"}:
        differences = [part for part in differences if part.name not in _FOLLOWING]
    return [
        part
        for part in differences
        if not ("python" in names and part.name.startswith(_CODE)) or part.name in diffs
    ]
