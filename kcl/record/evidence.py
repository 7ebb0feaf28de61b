"""Evidence: the texts that explain a later miss, and the directories that stored code may name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

PARAMETER = "parameter "


class Evidence(NamedTuple):
    """The evidence for a later miss of a recipe: the texts of its key.

    Made of the record of a recipe; ends in the row, or in the journal. The texts may name other places.

    `origins` has module and line of the code in the key. `record` has the recipe's questions to its front end, as JSON
    holds them (see `kcl.inspect.explain.listing`); None if the recipe is not recorded.
    """

    texts: Mapping[str, str]
    origins: Mapping[str, tuple[str, int]] = {}
    record: Mapping[str, Any] | None = None
    site: str = ""  # file and line of the recipe, or of the first call outside of a recipe

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The texts of the recipe's parameters by name, as far as the record has them."""
        named = [part for part in (self.record or {}).get("beside", ()) if part[0].startswith(PARAMETER)]
        return [(name[len(PARAMETER) :], text) for name, text in named]


def site_of(function: Any) -> str:
    """Return the file of a function, without its folder, and its first line."""
    code = function.__code__
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
