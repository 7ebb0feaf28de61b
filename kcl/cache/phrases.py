"""The differences between two keys, and the sentences that tell a user of them.

`_WHOLE` and `_FIRST` map the name of a part to its description. A sentence names the part that changed, and shows the
change if it is short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcl.base.text.layout import alike, cut
from kcl.base.text.names import dtype, of_value

ABSENT = "absent"
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
WIDTH = 60  # of a value in a sentence


class Difference(NamedTuple):
    """A part that differs between two keys; ``None`` stands for a part that one of them lacks."""

    name: str
    before: str | None
    after: str | None


class Origin(NamedTuple):
    """The place of the code of a part: its module and the number of its first line, 0 if unknown."""

    module: str
    line: int


class About(NamedTuple):
    """Facts about a kernel that sentences need beside its two keys.

    `recipe` names the part with the code of the recipe. `origins` says where the code of a part is written. `line` returns
    the first line that differs in a part of code, 0 if it is unknown.
    """

    recipe: str = ""
    origins: Mapping[str, Origin] = {}
    binary: bool = False
    line: Callable[[str], int] = lambda _name: 0


def between(
    before: tuple[tuple[str, str], ...], after: tuple[tuple[str, str], ...]
) -> list[Difference]:
    """List the differences from the parts of one key to those of another; see `kcl.cache.key.Key.diff`."""
    here, there = by_occurrence(before), by_occurrence(after)
    places = [*here, *(place for place in there if place not in here)]
    differences = [
        Difference(place[0], here.get(place), there.get(place))
        for place in places
        if here.get(place) != there.get(place)
    ]
    if not differences and before != after:
        orders = [", ".join(name for name, _value in parts) for parts in (before, after)]
        differences.append(Difference("(order)", *orders))
    return differences


def by_occurrence(parts: Iterable[tuple[str, str]]) -> Mapping[tuple[str, int], str]:
    """Return the values of parts by (name, number of the occurrence of that name)."""
    seen: dict[str, int] = {}
    placed = {}
    for name, value in parts:
        occurrence = seen[name] = seen.get(name, 0) + 1
        placed[name, occurrence] = value
    return placed


def sentence(difference: Difference, about: About = About()) -> str:  # noqa: B008 (immutable)
    """Say how a part differs between an earlier key and a later one; empty if another part's sentence says it."""
    name, before, after = difference
    first, _, rest = name.partition(" ")
    write = _WHOLE.get(name) or (_FIRST.get(first) if rest else None)
    if write is not None and not isinstance(write, str):
        return write(rest, difference, about)
    thing, inside, label = name.rpartition(" in ")
    words = write or (f"{thing} in `{label}`" if inside else name)
    thing, _, label = rest.rpartition(" in ")
    return _changed(words.format(thing or rest, label) if write else words, before, after)


def value(text: str) -> str:
    """Write a value for the user: dtypes and classes by name, digests short."""
    return _DIGEST.sub(lambda match: match[0][:8], of_value(text))


def _changed(what: str, before: str | None, after: str | None) -> str:
    if before is None:
        return f"{what} is new" + (f": {cut(value(after or ''), WIDTH)}" if telling(after) else "")
    if after is None:
        return f"{what} is no longer there"
    if not (telling(before) and telling(after)):
        return f"{what} changed"
    return f"{what}{' ' if ': ' in what else ': '}{arrow(value(before), value(after))}"


def telling(text: str | None) -> bool:
    """Return True if a value is more than a digest."""
    return bool(text) and _DIGEST.sub("", text or "") not in ("", "sha256 ")


def arrow(before: str, after: str) -> str:
    """Write `before -> after`; of long values only the place where they begin to differ."""
    if before == after:
        return f"{cut(before, WIDTH)}, with other content"
    if max(len(before), len(after)) <= WIDTH:
        return f"{before} -> {after}"
    start = max(0, alike(before, after) - WIDTH // 3)
    return " -> ".join(
        cut(("..." if start else "") + text[start:], WIDTH) for text in (before, after)
    )


def _code(label: str, difference: Difference, about: About) -> str:
    """Describe a change of the recipe, a function or a class; its module is named unless it is the recipe's."""
    name, before, after = difference
    if name == about.recipe and before is not None:
        line = about.line(name)
        return f"recipe `{label.rpartition('.')[2]}`: body changed" + (
            f" at line {line}" if line else ""
        )
    origin, own = about.origins.get(name), about.origins.get(about.recipe)
    module = (
        f" in {origin.module}"
        if origin is not None and (own is None or own.module != origin.module)
        else ""
    )
    verb = (
        "is used now" if before is None else "is not used any more" if after is None else "changed"
    )
    return f"{'helper' if name.startswith('code ') else 'class'} `{label}`{module} {verb}"


def _distribution(name: str, difference: Difference, _about: About) -> str:
    """Describe a change of a package, whose part is "<version> <digest of the files>"."""
    before, after = (None if side == ABSENT else side for side in difference[1:])
    if before is None or after is None:
        reached = "is used now" if before is None else "is not used any more"
        version = (before or after or "").partition(" ")[0]
        return " ".join(filter(None, [name, version, reached]))
    old, new = (text.partition(" ")[0] for text in (before, after))
    return f"{name} {old} -> {new}" if old != new else f"{name} {old}: its files changed"


def _own(_name: str, difference: Difference, _about: About) -> str:
    """Describe a change of kcl, whose part is "<format> <version> <digest of the files>"."""
    before, after = ((side or "").split(" ")[1:2] for side in (difference.before, difference.after))
    return (
        "kcl itself changed" if before == after else f"kcl {' '.join(before)} -> {' '.join(after)}"
    )


def _argument(name: str, difference: Difference, _about: About) -> str:
    sides = ["not given" if text is None else dtype(text) for text in difference[1:]]
    return f"argument {name}: {arrow(*sides)}"


def _options(_rest: str, difference: Difference, _about: About) -> str:
    """List the build options that were added and removed."""
    before, after = ((text or "").split() for text in difference[1:])
    changes = [f"build option {flag} added" for flag in after if flag not in before]
    changes += [f"build option {flag} removed" for flag in before if flag not in after]
    return ", ".join(changes) or "build options: another order"


def _source(_rest: str, _difference: Difference, about: About) -> str:
    """Describe a change of the OpenCL C; in a generator key its digest covers a whole `kcl.Source`."""
    return "OpenCL C changed" if about.binary else "OpenCL C, declarations or build options changed"


# A function that writes a sentence. It gets the part's name without its first word.
Writer = Callable[[str, Difference, About], str]

# What a part is called in a sentence, by its whole name.
_WHOLE: dict[str, str | Writer] = {
    "kcl": _own,
    "unit": "the content of the translation unit",
    "state": "what the program changed in loopy or registered with it",
    "dtype names": "the names of dtypes in C",
    "proofs": "file with the calls",
    "row": "kind of the row",
    "python": "Python",
    "optimize": "python -O level",
    "result": "the result of the recipe",
    "record": "the record of the recipe's calls",
    "format": "kcl's format of binaries",
    "source": _source,
    "options": _options,
    "driver": "device: driver",
    "OpenCL C": "device: language",
    "extensions": "device: extensions",
    "address bits": "device: address width",
    "driver library": "device: build of the driver's library",
    "cpu features": "device: CPU features",
    "(order)": "order of the parts",
}

# What a part is called, by the first word of its name. {0} is the rest of the name up to " in ", {1} the text after it.
_FIRST: dict[str, str | Writer] = {
    "code": _code,
    "class": _code,
    "default": "default of {0} in `{1}`",
    "closure": "closure variable {0} of `{1}`",
    "depends": "declared dependency {0}",
    "distribution": _distribution,
    "platform": "platform: {0}",
    "device": "device: {0}",
    "argument": _argument,
    "header": "header {0}",
}
