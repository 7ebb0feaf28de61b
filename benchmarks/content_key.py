"""Measure the content key of a unit that was really made, by its number of statements.

    python benchmarks/content_key.py [--quick]

The key has to be small beside the making of the unit, and to grow with the statements and no faster.
"""

from __future__ import annotations

import json
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

STATEMENTS = (10, 100, 1000)


def measured(effort: Effort) -> dict[str, Any]:
    """Return processor seconds of the keys of kcl and loopy for each number of statements."""
    units = []
    with tempfile.TemporaryDirectory(prefix="kcl-content-", ignore_cleanup_errors=True) as name:
        for count in [count for count in STATEMENTS if count <= max(effort.statements)]:
            child = measure.run(
                "drive_content_key.py", str(count), cache=pathlib.Path(name) / "cache"
            )
            units.append(json.loads(child.output.splitlines()[-1]))
    return {"units": units}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print milliseconds of processor time by statements, and per statement."""
    yield "content key of a unit, milliseconds: median (smallest..largest)"
    yield f"  {'statements':>10} {'kcl':<26}{'loopy':<26}{'us a statement':>14}"
    for unit in figures["units"]:
        columns = "".join(
            f"{spread([1e3 * second for second in unit[side]], 2):<26}" for side in ("kcl", "loopy")
        )
        yield f"  {unit['count']:>10} {columns}{1e6 * min(unit['kcl']) / unit['count']:>14.0f}"
    firsts = [1e3 * unit["process"] for unit in figures["units"]]
    yield f"  the first key of a process, of a small unit: {spread(firsts, 1)}"


if __name__ == "__main__":
    measure.part(measured, lines)
