"""Evidence: the texts that explain a later miss, and the directories that stored code may name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kcl.namedtuple import NamedTuple


class Evidence(NamedTuple):
    """What explains a later miss of a recipe: the directory of its module, and the texts of its key.

    The texts may name other places.

    `asked` tells that its code asks where it stands: then it can name the directories above as well. `origins` has
    module and line of what the key holds of code. `record` is what the recipe asked of its front end, as JSON holds it
    (see `kcl.inspect.explain.calls`); None where the recipe is not recorded.
    """

    directory: str
    texts: Mapping[str, str]
    asked: bool
    origins: Mapping[str, tuple[str, int]] = {}
    values: tuple[str, ...] = ()  # those of all parts
    record: Mapping[str, Any] | None = None

    @property
    def written(self) -> list[str]:
        """Everything in the key in which a path may stand."""
        return [*self.texts.values(), *self.values]

    def names(self) -> list[str]:
        """Return the directories that generated code may name only if it belongs to this place."""
        found, path = [], self.directory
        while path != os.path.dirname(path):
            found.append(path)
            path = os.path.dirname(path) if self.asked else ""
        return found
