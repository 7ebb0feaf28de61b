"""Evidence: the texts that an entry holds so that a later miss can be explained. No key depends on them."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import settings
from kcl.generate import shown

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.generate.declarations import RecipeCall

PARAMETER = "parameter "
TEXTS, ORIGINS, RECORD = "reached.json", "origins.json", "record.json"
# The key parts that are left out here, since the record describes the same in full.
_CONTENT = {"record", "unit", "source"}
_LONGEST = 1000  # characters of a parameter


class Evidence(NamedTuple):
    """The texts behind the digests in a recipe's key, which explain a later miss.

    Made of a recipe and of its record; ends in the row, or in the journal.

    `parts` are those of the entry, by their names there: the text of the recipe's function, its module and line, and for
    a recorded recipe its calls of the front end, as JSON holds them (see `kcl.inspect.explain.listing`).
    """

    parts: dict[str, Any]
    # The file and line of the recipe, or of the first call outside of a recipe.
    site: str = ""

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The texts of the recipe's parameters by name, as far as the record has them."""
        beside = self.parts.get(RECORD, {}).get("beside", ())
        named = [part for part in beside if part[0].startswith(PARAMETER)]
        return [(name[len(PARAMETER) :], text) for name, text in named]


def site_of(function: Any) -> str:
    """Return `file:line` of a function; in a notebook the cell stands for the file."""
    code = function.__code__
    return settings.place_of(code.co_filename, code.co_firstlineno)


def of_recipe(call: RecipeCall) -> Evidence:
    """Return the evidence of a recipe: its source and its place."""
    function = call.written
    name = f"code {function.__qualname__}"
    origin, text = (function.__module__, function.__code__.co_firstlineno), ""
    with suppress(OSError, TypeError):
        text = inspect.getsource(function)
    return Evidence({TEXTS: {name: text}, ORIGINS: {name: origin}}, site_of(function))


def of_result(described: dict[str, Any], call: RecipeCall | None, key: Key | None) -> Evidence:
    """Return the evidence of a recipe's result, with the source of the recipe and its parameters."""
    parts = key.parts if key is not None else ()
    beside = [list(part) for part in parts if part.name not in _CONTENT]
    if call is None:
        site = next((record["place"] for record in described["calls"]), "")
        recipe = Evidence({TEXTS: {}, ORIGINS: {}}, site)
    else:
        beside += [[f"{PARAMETER}{name}", _text(value)] for name, value in call.arguments.items()]
        recipe = of_recipe(call)
    recipe.parts[RECORD] = {**described, "beside": beside}
    return recipe


def _text(value: Any) -> str:
    try:
        return shown(value)[:_LONGEST]
    except Exception:
        # The user's own `__repr__` may raise anything.
        return f"<{type(value).__qualname__}>"


def of_one_call(function: str, arguments: list[list[str]]) -> dict[str, Any]:
    """Return a record, in the form of JSON, that has one call."""
    return {"calls": [{"function": function, "place": "", "arguments": arguments}], "result": 1}
