"""What tuning gains and how much of a space it builds: six recipes, each with a short search and with a whole one.

python benchmarks/tuning.py [--quick]

The winners race in one process against the defaults and against the best of the whole space. Kernel Tuner
(`pip install kernel-tuner`) and CLBlast (`apt install clblast-utils`) are extras, left out where they are absent.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from drive_tuning import CASES
from measure import Effort

ROUNDS = 15
SECONDS = 900.0  # of one tuning: enough for a whole space
SIDES = ("default", "level 1", "level 2", "best")


def measured(effort: Effort) -> dict[str, Any]:
    """Return, by recipe, what each search found and the device times of the winners."""
    names = list(CASES) if effort.calls > 3 else ["axpy"]
    extras = {"Kernel Tuner": importlib.util.find_spec("kernel_tuner"), "CLBlast": shutil.which("clblast_tuner_xgemm")}
    absent = [name for name, found in extras.items() if not found]
    return {"count": len(names), "cases": {name: _case(name) for name in names}, "absent": absent}


def _case(name: str) -> dict[str, Any]:
    found = {f"level {level}": _driven(name, "tune", str(level), str(SECONDS)) for level in (1, 2)}
    best = found["level 2"]["best"]
    choices = [found["level 1"]["choice"], found["level 2"]["choice"], best]
    times = _driven(name, "race", str(ROUNDS), *map(json.dumps, choices))
    numpy = _driven(name, "numpy", str(ROUNDS)) if CASES[name].in_numpy else []
    return {**found, "times": dict(zip(SIDES, times, strict=True)), "numpy": numpy}


def _driven(name: str, *words: str) -> Any:
    """Run the driver on empty caches."""
    with tempfile.TemporaryDirectory(prefix="kcl-tuning-", ignore_cleanup_errors=True) as folder:
        child = measure.run("drive_tuning.py", name, *words, cache=pathlib.Path(folder) / "cache")
        measure.settle(pathlib.Path(folder) / "cache")
    return json.loads(child.output.splitlines()[-1])


def ratio(one: dict[str, Any], side: str, other: str) -> tuple[float, float, float]:
    """Return the ratio of the smallest times of two sides, and the interval of the ratios by round."""
    mine, others = one["times"][side], one["times"][other]
    ratios = sorted(a / b for a, b in zip(mine, others, strict=True))
    return min(mine) / min(others), ratios[3], ratios[-4]


def ordered(figures: dict[str, Any], side: str, other: str) -> list[tuple[float, float, float]]:
    """Return the ratios of two sides for all recipes, the smallest first."""
    return sorted(ratio(one, side, other) for one in figures["cases"].values())


def share(one: dict[str, Any]) -> float:
    """Return the share of a space that the short search tried."""
    return float(one["level 1"]["tried"] / one["level 1"]["of"])


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print ratios and shares."""
    yield f"device times, minima of {ROUNDS} rounds (interval of the ratios by round)"
    yield f"  {'':<18}{'tuned / default':<22}{'level 1 / best':<22}{'level 2 / best':<22}{'built':<12}seconds"
    for name, one in figures["cases"].items():
        pairs = (("level 2", "default"), ("level 1", "best"), ("level 2", "best"))
        cells = ["{:.2f} ({:.2f}-{:.2f})".format(*ratio(one, *pair)) for pair in pairs]
        tried = f"{one['level 1']['tried']}/{one['level 1']['of']}"
        seconds = f"{one['level 1']['seconds']:.0f}, {one['level 2']['seconds']:.0f}"
        yield f"  {name:<18}{''.join(f'{cell:<22}' for cell in cells)}{tried:<12}{seconds}"
        if one["numpy"]:
            yield f"    numpy / tuned: {min(one['numpy']) / min(one['times']['level 2']):.2f}"
    for name in figures["absent"]:
        yield f"  {name} is not installed: left out"


if __name__ == "__main__":
    measure.part(measured, lines)
