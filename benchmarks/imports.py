"""Time `import kcl` beside `import pyopencl`, each in new processes, by Python's own import clock.

python benchmarks/imports.py [--quick]
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

MODULES = ("kcl", "pyopencl")


def measured(effort: Effort) -> dict[str, Any]:
    """Return the seconds of each import by module."""
    seconds: dict[str, list[float]] = {module: [] for module in MODULES}
    with tempfile.TemporaryDirectory(prefix="kcl-imports-") as name:
        cache = pathlib.Path(name) / "cache"
        for module in MODULES:
            measure.import_seconds(module, cache)  # compiles byte code where there is none
        for _ in range(effort.imports):
            for module in MODULES:
                seconds[module].append(measure.import_seconds(module, cache))
    return {"seconds": seconds}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print milliseconds and the ratio."""
    yield "import, milliseconds: median (smallest..largest)"
    for module, seconds in figures["seconds"].items():
        yield f"  {module:<10} {spread([1e3 * second for second in seconds], 1)}"
    yield f"  kcl / pyopencl: {ratio(figures):.2f}"


def ratio(figures: dict[str, Any]) -> float:
    """Return the ratio of the medians."""
    kcl, pyopencl = (statistics.median(figures["seconds"][module]) for module in MODULES)
    return float(kcl / pyopencl)


if __name__ == "__main__":
    measure.part(measured, lines)
