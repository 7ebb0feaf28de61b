"""Variants: kernels of one name that no parameter tells apart, by the arguments of their calls into loopy that differ.

A tile in a loop makes variants without a recipe. `split_iname 8` and `split_iname 16` name them.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcl.cache.phrases import value
from kcl.inspect import inventory
from kcl.inspect.explain import listing as listings
from kcl.inspect.inventory import ListedEntry

_SHORT = 24  # characters of an argument that tells variants apart


def parameters(codes: Iterable[ListedEntry]) -> dict[str, dict[str, str]]:
    """Return what tells apart code of one name without parameters, as a name without a text, by its program."""
    alike: dict[str, dict[str, ListedEntry]] = {}
    for one in codes:
        if one.kind == inventory.CODE and not one.recipe.parameters:
            alike.setdefault(one.kernel, {})[one.program] = one
    found: dict[str, dict[str, str]] = {}
    for programs in alike.values():
        if len(programs) == 1:  # nothing is read for it
            continue
        given = {program: _arguments(one) for program, one in programs.items()}
        shared = set.intersection(*map(set, given.values()))
        for program, arguments in given.items():
            own = [f"{one[0]} {value(one[2])}" for one in arguments if one not in shared]
            found[program] = {", ".join(own): ""} if own else {}
    return found


def _arguments(one: ListedEntry) -> list[tuple[str, str, str]]:
    """Return the short arguments in the calls of code: function, name, text."""
    entry = inventory.read(one, [], with_texts=True)
    listing = listings.read(entry.parts.get(listings.PART) if entry else None)
    given = [
        (call.name, *pair) for call in (listing.calls if listing else ()) for pair in call.arguments
    ]
    return [one for one in dict.fromkeys(given) if len(one[2]) <= _SHORT]
