"""Direct keys: the first time in a process, seen again, and what observing a cold recipe costs.

    python benchmarks/direct_key.py [--quick]

42 recipes: those of examples/driver.py and of the benchmarks' kernels in three copies, each a module of its own. The
yardstick beside the keys is `dis` over the same functions, in the same process: reading their code once and no more.
Observation is measured in pairs, a recipe run and its code generated with and without it, in processor time.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import measure
from measure import spread

if TYPE_CHECKING:
    from measure import Effort

RECIPES = 42
_COPIES = 3


def measured(effort: Effort) -> dict[str, Any]:
    """Return microseconds a recipe of each process, and the ratios of the pairs."""
    with tempfile.TemporaryDirectory(prefix="kcl-bench-") as name:
        root = pathlib.Path(name)
        copied(root / "project")

        def run() -> dict[str, float]:
            child = measure.run("drive_direct_key.py", "keys", str(root / "project"), cache=root / "cache")
            return dict(json.loads(child.output))

        keys = [run() for _ in range(effort.series * 3)]
        child = measure.run("drive_direct_key.py", "observed", str(10 * effort.series), cache=root / "cache")
    return {"keys": keys, "observed": json.loads(child.output)}


def copied(directory: pathlib.Path) -> None:
    """Copy the modules of the recipes, so that no two copies share code."""
    directory.mkdir()
    examples = measure.HERE.parent / "examples"
    for number in range(_COPIES):
        shutil.copyfile(examples / "driver.py", directory / f"driver_{number}.py")
        shutil.copyfile(measure.HERE / "kernels.py", directory / f"kernels_{number}.py")
    shutil.copytree(examples / "kernels", directory / "kernels")


def best(found: dict[str, Any], name: str) -> tuple[float, float, float]:
    """Return the microseconds of the quickest process, twice, and of the slowest."""
    column = [process[name] for process in found["keys"]]
    return min(column), min(column), max(column)


def observation(found: dict[str, Any]) -> float:
    """Divide the processor time of all cold recipes that were observed by that of the same ones that were not."""
    total = [sum(column) for column in zip(*found["observed"], strict=True)]
    return float(total[0] / total[1])


def lines(found: dict[str, Any]) -> Iterable[str]:
    """Say what was measured."""
    columns = {name: [process[name] for process in found["keys"]] for name in found["keys"][0]}
    yield f"direct keys of {RECIPES} recipes, microseconds a recipe: median (smallest..largest) of processes"
    for name, label in (
        ("first", "first time in a process"),
        ("other", "  all but the process's first key"),
        ("again", "seen again, another parameter"),
        ("dis", "yardstick: dis of the same code"),
    ):
        yield f"  {label:<36}{spread(columns[name], 1)}"
    for name in ("first", "again"):
        ratios = [key / yardstick for key, yardstick in zip(columns[name], columns["dis"], strict=True)]
        yield f"  {f'{name} / dis':<36}{statistics.median(ratios):.2f}"
    pairs = [with_it / without for with_it, without in found["observed"]]
    yield f"observation of a cold recipe, {len(pairs)} pairs: sums {observation(found):.3f}, ratio {spread(pairs, 2)}"


if __name__ == "__main__":
    measure.part(measured, lines)
