"""Names for variants: kernels of one name and without parameters are told apart by arguments of their calls into loopy.

For example, a program that tries tile sizes in a loop gets kernels that are shown as `split_iname 8` and
`split_iname 16`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcl.cache.phrases import value
from kcl.inspect import inventory
from kcl.inspect.explain import listing as listings
from kcl.inspect.inventory import ListedEntry

_SHORT = 24  # characters of an argument that tells variants apart


def find_parameters(codes: Iterable[ListedEntry]) -> dict[str, dict[str, str]]:
    """Return names for code of one kernel name without parameters: program -> {name: ""}, as `{"split_iname 8": ""}`.

    They are shown in place of parameters, which is why they have this form.
    """
    alike: dict[str, dict[str, ListedEntry]] = {}
    for code in codes:
        if code.kind == inventory.CODE and not code.recipe.parameters:
            alike.setdefault(code.kernel, {})[code.program] = code
    told: dict[str, dict[str, str]] = {}
    for programs in alike.values():
        # A single program needs no further name, so no entry is read.
        if len(programs) == 1:
            continue
        arguments_of = {program: _read_arguments(code) for program, code in programs.items()}
        shared = set.intersection(*map(set, arguments_of.values()))
        for program, arguments in arguments_of.items():
            own = [f"{item[0]} {value(item[2])}" for item in arguments if item not in shared]
            told[program] = {", ".join(own): ""} if own else {}
    return told


def _read_arguments(code: ListedEntry) -> list[tuple[str, str, str]]:
    """Return the short arguments in the calls of code: function, name, text."""
    entry = code.read([], with_texts=True)
    listing = listings.read(entry.parts.get(listings.PART) if entry else None)
    calls = listing.calls if listing else ()
    arguments = [(call.name, *pair) for call in calls for pair in call.arguments.items()]
    return [item for item in dict.fromkeys(arguments) if len(item[2]) <= _SHORT]
