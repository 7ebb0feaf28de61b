"""Restless: recipes that are new in every run, because a time or a random number reaches what they ask of loopy.

For each recipe, by its file and name, one file holds the rows that its misses left, in how many runs in a row none of
them was a hit, and its last record. It is read and written on a miss only. A recipe that was new in `TOLERATED` runs in
a row is told, once; from then on few of its rows that never hit are kept.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kcl.cache import layers, places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import Remembered
from kcl.cache.stores.base import digest_of
from kcl.generate import advice
from kcl.inspect.history import journal

TOLERATED = 5  # runs
KEPT = 8  # rows that never hit

_STARTED = time.time_ns()


def missed(recipe: str, kernel: str, rows: Sequence[str], texts: Mapping[str, str], record: Mapping[str, Any]) -> None:
    """Note that a recipe's code was made in this run and lies at `rows`; raises nothing.

    `texts` are those of the recipe's own code: a recipe that was edited is new, and not restless.
    """
    try:
        _missed(recipe, kernel, rows, hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest(), record)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass  # another kcl has left something else


def _missed(recipe: str, kernel: str, rows: Sequence[str], text: str, record: Mapping[str, Any]) -> None:
    remembered = Remembered(places.RESTLESS, Key([Part("recipe", recipe)]))
    process = f"{os.getpid()} {_STARTED}"
    left = remembered.read()
    if left.get("text") != text:
        left = {"runs": 0, "process": "", "rows": []}
    runs, listed = int(left["runs"]), [[*map(str, row)] for row in left["rows"]]
    if left["process"] != process:
        used = journal.uses() if listed else {}
        idle = [row for row in listed if not any(digest_of(place)[: journal.DIGITS] in used for place in row)]
        runs = runs + 1 if len(idle) == len(listed) else 1
        listed = idle
        if runs == TOLERATED:
            advice.on_restless_recipe(kernel, runs, _differences(left["record"], record))
    listed.append([*rows])
    if runs >= TOLERATED:
        for row in listed[:-KEPT]:
            for place in row:
                layers.generator().delete(place)
        listed = listed[-KEPT:]
    remembered.write({"text": text, "process": process, "runs": runs, "rows": listed, "record": record})


def _differences(before: Any, after: Mapping[str, Any]) -> list[str]:
    from kcl.inspect.explain import calls

    return calls.differences(before, after)
