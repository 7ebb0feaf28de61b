"""What a kernel gains that is fitted to its sizes: device times of recipes with `sizes=` and of general kernels.

python benchmarks/sizes.py [--quick]
"""

from __future__ import annotations

import json
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort

PAIRS = 15


def measured(_effort: Effort) -> dict[str, Any]:
    """Return the smallest device time of each side by kernel, of interleaved launches."""
    with tempfile.TemporaryDirectory(prefix="kcl-sizes-", ignore_cleanup_errors=True) as name:
        child = measure.run("drive_sizes.py", str(PAIRS), cache=pathlib.Path(name))
        measure.settle(pathlib.Path(name))
    return {"kernels": json.loads(child.output.splitlines()[-1])}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print ratios."""
    yield f"device times, minima of {PAIRS} interleaved launches: sizes / general"
    for name, seconds in figures["kernels"].items():
        yield f"  {name:<32}{ratio(figures, name):.2f}   ({seconds['general'] * 1e6:.0f} us)"


def ratio(figures: dict[str, Any], name: str) -> float:
    """Return the time with sizes by that of the general kernel."""
    seconds = figures["kernels"][name]
    return float(seconds["sizes"] / seconds["general"])


if __name__ == "__main__":
    measure.part(measured, lines)
