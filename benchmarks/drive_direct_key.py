"""Measure direct keys in this process.

python drive_direct_key.py keys DIRECTORY      keys of the recipes in DIRECTORY, as JSON: microseconds a recipe
python drive_direct_key.py observed COUNT      pairs of processor seconds of a cold recipe: observed, not observed
"""

from __future__ import annotations

import dis
import importlib
import inspect
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import kernels
import numpy as np

import kcl
from kcl.cache import layers
from kcl.cache.lookup import find
from kcl.generate import frontends, run
from kcl.generate.origins.walked import WalkedOrigin, reached
from kcl.generate.stage import CallValues, Generate
from kcl.record.declarations import PURE, RecipeCall

RECIPES = 42


def main() -> None:
    what, argument = sys.argv[1:]
    print(json.dumps(keys(pathlib.Path(argument)) if what == "keys" else observed(int(argument))))


def keys(directory: pathlib.Path) -> dict[str, float]:
    """Time the key of every recipe for the first time, and again with another value of a parameter."""
    functions = recipes(directory)
    assert all(type(function).__name__ == "function" for function in functions)
    layers.generator()  # is opened before a key is computed
    first = [timed(RecipeCall(f.__name__, f, arguments(f, 1), PURE)) for f in functions]
    again = [timed(RecipeCall(f.__name__, f, arguments(f, 2), PURE)) for f in functions]
    begin = time.perf_counter()
    for function in functions:
        for _instruction in dis.get_instructions(function):
            pass
    read = time.perf_counter() - begin
    count = len(functions)
    sums = {"first": sum(first), "again": sum(again), "dis": read}
    return {**{name: 1e6 * value / count for name, value in sums.items()}, "other": 1e6 * sum(first[1:]) / (count - 1)}


def recipes(directory: pathlib.Path) -> list[Callable[..., Any]]:
    """Return the functions of the recipes in a directory, their modules imported."""
    sys.path.insert(0, str(directory))
    found: list[Callable[..., Any]] = []
    for path in sorted(directory.glob("*.py")):
        module = importlib.import_module(path.stem)
        found += [recipe for recipe, _inputs, _shape in getattr(module, "FAMILY", ())]
        found += [value.function for value in vars(module).values() if type(value).__name__ == "Recipe"]
    assert len(found) >= RECIPES
    return found[:RECIPES]


def arguments(function: Callable[..., Any], step: int) -> dict[str, Any]:
    """Return a value for every parameter: the default, numbers moved by `step`."""
    chosen: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        value = 3 if parameter.default is parameter.empty else parameter.default
        chosen[name] = value + step if type(value) is int else value
    return chosen


def timed(task: RecipeCall) -> float:
    """Return the seconds that a key takes, its digest included."""
    generate = Generate(WalkedOrigin(task))
    begin = time.perf_counter()
    key = generate.key()
    assert key is not None, find(generate, CallValues({})).reason
    assert key.digest
    return time.perf_counter() - begin


def observed(count: int) -> list[tuple[float, float]]:
    """Run and generate cold recipes in pairs; the side that goes first changes from pair to pair."""
    for side in (with_observation, without_observation):  # imports, first calls
        for recipe, _, _ in kernels.FAMILY:
            side(RecipeCall(recipe.__name__, recipe, {"variant": 0}, PURE))
    pairs = []
    for number in range(count):
        recipe, variant = kernels.case(number)
        task = RecipeCall(recipe.__name__, recipe, {"variant": variant + 1}, PURE)
        took = {}
        for side in (with_observation, without_observation)[:: 1 if number // 5 % 2 else -1]:
            begin = time.process_time()
            side(task)
            took[side] = time.process_time() - begin
        pairs.append((took[with_observation], took[without_observation]))
    return pairs


def with_observation(task: RecipeCall) -> None:
    """Run a recipe as on a miss."""
    outcome = run.run(task, reached(task))
    run.generate(task.name, task.declared, outcome.result, dtypes(outcome.result))


def without_observation(task: RecipeCall) -> None:
    """Run a recipe and generate, loopy's disk caches off as on a miss, and nothing else."""
    from kcl.generate.frontends.loopy import quiet

    reached(task)
    with quiet():
        result = frontends.accept(task.function(**task.arguments), task.name)
        result.generate(task.name, dtypes(result))


def dtypes(result: frontends.Result) -> dict[str, np.dtype[Any]]:
    """Return a dtype for each argument that a recipe leaves open."""
    return dict.fromkeys(result.open({}).names, np.dtype(np.float32))


if __name__ == "__main__":
    assert kcl.__version__
    main()
