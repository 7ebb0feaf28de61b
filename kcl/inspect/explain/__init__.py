"""Why a look-up missed: the nearest earlier entry, and the differences between its key and the missed one, in words.

The nearest entry is one of the same kernel, else of another kernel that makes most of the same calls. An entry of an
earlier run is preferred, then one with equal parameters, dtypes, build options and device, then the one whose listing
of calls differs in the fewest lines. Without listings it is the entry whose key differs in the fewest parts. Among
equals the youngest entry is taken. Listings and texts come from the entries themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

from kcl.base.text.layout import alike
from kcl.cache.key import Difference, Key
from kcl.cache.phrases import About, Origin, sentence
from kcl.generate import files
from kcl.generate.declarations import PARAMETER
from kcl.inspect.explain import listing as listings
from kcl.inspect.explain.listing import Change, Listing
from kcl.inspect.inventory import led_by

_FORMATS = ("kcl", "format")  # of keys: where these differ, other digests say nothing
_CODE = ("code ", "class ")
_CONTENT = frozenset({"record", "source"})  # of keys: the digests of what a listing shows
_NAMED = 8  # files of a distribution
_READ = 32  # the number of listings that are read to find the nearest
# The parts that tell one variant of a kernel from another: a change of the program seldom changes them.
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
    """The texts behind the digests in a key: by the name of the part, with the places of code, and the calls."""

    sources: Mapping[str, str] = {}
    origins: Mapping[str, Origin] = {}
    listing: Listing | None = None


class Candidate(NamedTuple):
    """An entry to compare a missed key with; `texts` reads the entry, and is called for a few of them."""

    key: Key
    written: float
    metadata: Mapping[str, Any]
    texts: Callable[[], Texts]


class Explanation(NamedTuple):
    """Why a key was not found; `nearest` is None if no entry of this kernel was stored before."""

    nearest: Candidate | None
    changes: tuple[Change, ...]


FIRST_TIME = Explanation(None, ())


def explain(
    key: Key,
    texts: Texts,
    known: Iterable[Candidate],
    begun: float = float("inf"),
    others: Callable[[], Iterable[Candidate]] = tuple,
) -> Explanation:
    """Compare a missed key with the entries of the same kernel in the same layer, except its own entry.

    `begun` is the moment at which the run that missed began, in seconds since the epoch. If no entry of the kernel is
    older, `others` gives those of other kernels: recipes that make the same calls share their entries. Entries of the
    same run count last, and not for other build options: a program is often built with several sets of them.
    """
    known = list(known)
    found = nearest(key, texts, [one for one in known if one.written < begun])
    if found is None and texts.listing is not None:
        found = nearest(key, texts, [one for one in others() if one.written < begun])
        shared = None if found is None else found.texts().listing
        found = found if shared is not None and listings.is_akin(shared, texts.listing) else None
    if found is None:
        found = nearest(key, texts, known)
        if found is not None and "options" in _names(
            [*found.key.diff(key), *listings.beside(found.texts().listing, texts.listing)]
        ):
            found = None
    return FIRST_TIME if found is None else Explanation(found, tuple(changes(found, key, texts)))


def nearest(key: Key, texts: Texts, known: Iterable[Candidate]) -> Candidate | None:
    """Return the entry of the same kind of key that differs least, the youngest among equals.

    Variants count first, then the parts that differ. If the missed key has a listing, the nearest entries with
    listings are compared by these. A base row has no dtypes: among equally near rows a row with code is taken. The
    entry under the key itself and its base row do not count.
    """
    parts = set(key.parts)

    def far(one: Candidate, other: Listing | None = None) -> tuple[int, int, bool, float]:
        names = {part.name for part in parts.symmetric_difference(one.key.parts)}
        variants, distance = 0, max(1, len(names))  # at least the order of the parts differs
        if other is not None and texts.listing is not None:
            names |= _names(listings.beside(other, texts.listing))
            variants += listings.is_elsewhere(other, texts.listing)
            distance += listings.distance(other, texts.listing)
        variants += sum(name.startswith(_VARIANT) for name in names)
        return variants, distance, "function" not in one.metadata, -one.written

    own = led_by(key)
    near = sorted(
        (one for one in known if one.key.digest not in own and _kind(one.key) == _kind(key)),
        key=far,
    )
    recorded = [
        (one, other)
        for one in near[:_READ]
        if texts.listing is not None and (other := one.texts().listing) is not None
    ]
    return min(recorded, key=lambda pair: far(*pair))[0] if recorded else next(iter(near), None)


def changes(earlier: Candidate, key: Key, texts: Texts) -> list[Change]:
    """Say how the key of an earlier entry and a later key differ, the recipe's own code first.

    If both have a listing, the calls that differ come first, in the place of the digest of the record, then the texts
    of code. Another kcl is named alone: it may name other parts, and may compute another digest of the same thing.
    """
    formats = [one for one in earlier.key.diff(key) if one.name in _FORMATS]
    if formats:
        return [Change(one.name, sentence(one)) for one in formats]
    before = earlier.texts()
    diffs = {
        name: tuple(listings.of_code(old, text))
        for name, text in texts.sources.items()
        if (old := before.sources.get(name, text)) != text
    }
    calls, facts = [], listings.beside(before.listing, texts.listing)
    if before.listing is not None and texts.listing is not None:
        calls = listings.differences(before.listing, texts.listing)
    differences = [
        one for one in earlier.key.diff(key) if not (calls or facts) or one.name not in _CONTENT
    ]
    differences += [one for one in facts if one.name not in _names(differences)]
    differences = _without_echoes(differences, diffs)
    about = About(
        recipe=next((part.name for part in key.parts if part.name.startswith("code ")), ""),
        origins={**before.origins, **texts.origins},
        binary=_kind(key) == "program",
        line=lambda name: _line(name, before, texts),
    )
    differences.sort(key=lambda one: one.name != about.recipe)
    code = [
        Change(name, "{} of `{}` changed".format(*name.split(" ", 1)), diff)
        for name, diff in diffs.items()
        if calls and name not in _names(differences)
    ]
    said = [
        Change(one.name, sentence(one, about), diffs.get(one.name) or _files(one))
        for one in differences
    ]
    return [*calls, *code, *(one for one in said if one.sentence)]


def _files(difference: Difference) -> tuple[str, ...]:
    """Name the files that differ between two texts of a distribution; none if this machine never read one of them."""
    tables = [files.contents((side or "").rpartition(" ")[2]) for side in difference[1:]]
    one, other = tables if difference.name.startswith("distribution ") else ({}, {})
    changed = [name for name in sorted({**one, **other}) if one.get(name) != other.get(name)]
    more = [f"... {len(changed) - _NAMED} more files"] if len(changed) > _NAMED else []
    return (*changed[:_NAMED], *more) if one and other else ()


def _names(differences: Iterable[Difference]) -> set[str]:
    return {one.name for one in differences}


def texts_in(parts: Mapping[str, bytes]) -> Texts:
    """Return the texts beside the digests of an entry, or of a miss that stored none; leave out unreadable ones."""
    listing = listings.read(parts.get(listings.PART))
    if "reached.json" in parts:
        try:
            reached = json.loads(parts["reached.json"].decode("utf-8", "surrogatepass"))
            origins = json.loads(parts.get("origins.json", b"{}"))
            return Texts(
                reached, {name: Origin(*place) for name, place in origins.items()}, listing
            )
        except (ValueError, TypeError, AttributeError):
            return Texts(listing=listing)
    source = parts.get("source.cl")
    return Texts(
        {} if source is None else {"source": source.decode("utf-8", "replace")}, {}, listing
    )


def _kind(key: Key) -> str:
    """Tell keys of programs, of results and of recipes apart."""
    names = {part.name for part in key.parts}
    return (
        "program" if {"format", "source"} <= names else "result" if "result" in names else "recipe"
    )


def _line(name: str, before: Texts, texts: Texts) -> int:
    origin = texts.origins.get(name)
    one, other = before.sources.get(name), texts.sources.get(name)
    if origin is None or not origin.line or one is None or other is None or one == other:
        return 0
    return origin.line + alike(one.splitlines(), other.splitlines())


def _without_echoes(differences: list[Difference], diffs: Container[str]) -> list[Difference]:
    """Leave out the differences that follow from another one.

    Another device has another driver. Another Python compiles code to another digest: its text may be the same.
    """
    names = _names(differences)
    if names & {"platform", "device"}:
        differences = [one for one in differences if one.name not in _FOLLOWING]
    return [
        one
        for one in differences
        if not ("python" in names and one.name.startswith(_CODE)) or one.name in diffs
    ]
