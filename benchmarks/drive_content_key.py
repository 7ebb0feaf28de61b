"""Measure the content key of units of COUNT statements in this process: processor seconds, as JSON.

python drive_content_key.py COUNT

Each round makes the unit anew, so nothing is memoised on it. The yardstick is loopy's own digest of the same unit.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from drive_large import large
from loopy.tools import LoopyKeyBuilder

from kcl.frontends.loopy.callables.content import content_key

SMALL = 4  # statements of the unit whose key pays for what a process does once
ROUNDS = 5


def main() -> None:
    count = int(sys.argv[1])
    found: dict[str, Any] = {
        "count": count,
        "process": timed(content_key, large(SMALL)),
        "kcl": [],
        "loopy": [],
    }
    timed(LoopyKeyBuilder(), large(SMALL))
    for _ in range(ROUNDS):
        unit = large(count)
        found["kcl"].append(timed(content_key, unit))
        found["loopy"].append(timed(LoopyKeyBuilder(), unit))
    print(json.dumps(found))


def timed(digest: Callable[[Any], Any], unit: Any) -> float:
    """Return the processor seconds of one digest."""
    begin = time.process_time()
    assert digest(unit)
    return time.process_time() - begin


if __name__ == "__main__":
    main()
