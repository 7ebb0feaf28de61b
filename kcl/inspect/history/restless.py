"""Restless: kernels that are new in every run, because a time or a random number reaches the calls of their recipe.

A kernel is a recipe with its parameters. For each kernel that missed last, one file holds the number of runs in a row
in which it was new, the rows of its last runs, and its last record. The file is read and written on a miss only. A
kernel that was new in `TOLERATED` runs in a row is reported, once. Processes that run at the same time are one run. The
row of runs ends where one of the rows is a hit, or where the user edits the recipe or another module that is loaded.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcl.base import process
from kcl.cache import places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo
from kcl.cache.stores.base import digest_of
from kcl.generate import advice
from kcl.inspect.history import journal

if TYPE_CHECKING:
    from kcl.generate.stage import NewRow

TOLERATED = 5  # runs
_ROWS = 32


def missed(stored: NewRow) -> None:
    """Note that the code of a kernel was made in this run; raises nothing."""
    try:
        _missed(stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass  # another kcl has left other contents


def _missed(stored: NewRow) -> None:
    parts = [Part("recipe", stored.recipe), *(Part(f"parameter {name}", text) for name, text in stored.parameters)]
    remembered = RunMemo(places.RESTLESS, Key(parts))
    left = remembered.read()
    text = hashlib.sha256(repr(sorted(stored.texts.items())).encode()).hexdigest()
    runs, rows = 1, [*left.get("rows", ()), *stored.places][-_ROWS:]
    if left and left["time"] > process.STARTED / 1e9:  # other dtypes of the kernel, or another process of a crowd
        runs = int(left["runs"])
    elif left.get("text") == text and not _was_hit_since(left["time"], rows) and not _edited_since(left["time"]):
        runs = int(left["runs"]) + 1
        if runs == TOLERATED:
            from kcl.inspect.explain import calls, record

            said = calls.differences(record.parsed(left["record"]), record.parsed(stored.record))
            advice.on_restless_recipe(stored.kernel, runs, said)
    now = {"text": text, "time": time.time(), "runs": runs, "rows": rows, "record": stored.record}
    remembered.write(now)


def _was_hit_since(moment: float, rows: Sequence[str]) -> bool:
    uses = journal.uses()
    return any(journal.use(uses, digest_of(row)).last > moment for row in rows)


def _edited_since(moment: float) -> bool:
    """Tell whether the file of a loaded module was written after a moment."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        try:
            if isinstance(file, str) and os.stat(file).st_mtime > moment:
                return True
        except (OSError, ValueError):
            continue
    return False
