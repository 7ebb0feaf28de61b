"""Tune one recipe, or let choices of it race, and print the figures as JSON.

python drive_tuning.py CASE tune LEVEL SECONDS
python drive_tuning.py CASE race ROUNDS CHOICE...     of device times; a choice is JSON
python drive_tuning.py CASE numpy ROUNDS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

GRID, BATCH, ORDER = 96, 4096, 12  # rows of the stencil's grid; small products, and their rows


class Case(NamedTuple):
    """A recipe, the shapes and dtype of its arrays (the first is the output), and what numpy does for it."""

    recipe: Any
    shapes: dict[str, tuple[int, ...]]
    dtype: Any
    in_numpy: Callable[[dict[str, Any]], Any] | None = None


def _unit(domain: str, statement: str, case: str) -> Any:
    import loopy as lp

    arguments = [lp.GlobalArg(name, CASES[case].dtype, shape=lp.auto) for name in CASES[case].shapes]
    return lp.make_kernel(domain, statement, [*arguments, ...], name="tuned", lang_version=(2018, 2))


@kcl.kernel(
    sizes={"n": "x.shape[0]"},
    space=kcl.space(group=[1, 4, 16, 64, 256], unroll=[1, 2, 4, 8, 16], loop=[1, 8, 64], exact=[False, True]).where(
        lambda group, unroll, loop, exact, n: not exact or n % (group * unroll * loop) == 0
    ),
)
def axpy(group=64, unroll=1, loop=1, exact=False):
    """Add vectors: work-items of a group, elements of a work-item in a row, and blocks of them."""
    import loopy as lp

    knl = _unit("{[i]: 0<=i<n}", "z[i] = 2*x[i] + y[i]", "axpy")
    if exact:
        knl = lp.assume(knl, f"n mod {group * unroll * loop} = 0")
    knl = lp.split_iname(knl, "i", group * unroll * loop, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", group * unroll)
    return lp.split_iname(knl, "i_inner_inner", unroll, outer_tag="l.0", inner_tag="unr")


@kcl.kernel(
    sizes={"n": "a.shape[0]"},
    space=kcl.space(
        rows=[1, 2, 4, 8, 16, 32, 64, 128], columns=[1, 2, 4, 8, 16, 32, 64, 128], along=["i", "j"], exact=[False, True]
    )
    .where(lambda rows, columns: 4 <= rows * columns <= 1024)
    .where(lambda rows, columns, exact, n: not exact or n % max(rows, columns) == 0),
)
def transposed(rows=16, columns=16, along="i", exact=False):
    """Copy a matrix transposed, in tiles."""
    import loopy as lp

    knl = _unit("{[i,j]: 0<=i,j<n}", "b[i,j] = a[j,i]", "transposed copy")
    if exact:
        knl = lp.assume(knl, f"n mod {max(rows, columns)} = 0")
    tags = {"i": "l.1", "j": "l.1", along: "l.0"}
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag=tags["i"])
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag=tags["j"])


@kcl.kernel(
    sizes={"n": "z.shape[0]"},
    space=kcl.space(bi=[1, 2, 4, 8], bj=[1, 4, 16], bk=[4, 8, 16, 32, 96], along=["i", "k"]).where(
        lambda bi, bj, bk: bi * bj * bk <= 1024
    ),
)
def stencil(bi=4, bj=4, bk=16, along="k"):
    """Apply the 7-point stencil in blocks."""
    import loopy as lp

    knl = _unit(
        "{[i,j,k]: 0<=i,j,k<n}",
        "z[i,j,k] = x[i,j+1,k+1] + x[i+2,j+1,k+1] + x[i+1,j,k+1] + x[i+1,j+2,k+1] + x[i+1,j+1,k] + x[i+1,j+1,k+2]"
        " - 6*x[i+1,j+1,k+1]",
        "stencil",
    )
    tags = {"i": "l.2", "j": "l.1", "k": "l.0"} if along == "k" else {"i": "l.0", "j": "l.1", "k": "l.2"}
    knl = lp.split_iname(knl, "i", bi, outer_tag="g.2", inner_tag=tags["i"])
    knl = lp.split_iname(knl, "j", bj, outer_tag="g.1", inner_tag=tags["j"])
    return lp.split_iname(knl, "k", bk, outer_tag="g.0", inner_tag=tags["k"])


@kcl.kernel(
    sizes={"n": "a.shape[0]"},
    space=kcl.space(batch=[1, 4, 16, 64], rows=[1, 2, 4, 12], unroll=[1, 3, 12], along=["e", "i"]),
)
def products(batch=16, rows=12, unroll=1, along="e"):
    """Multiply many small matrices."""
    import loopy as lp

    knl = _unit(f"{{[e,i,j,k]: 0<=e<n and 0<=i,j,k<{ORDER}}}", "z[e,i,j] = sum(k, a[e,i,k]*b[e,k,j])", "small products")
    tags = {"e": "l.1", "i": "l.1", along: "l.0"}
    knl = lp.split_iname(knl, "e", batch, outer_tag="g.0", inner_tag=tags["e"])
    knl = lp.split_iname(knl, "i", rows, inner_tag=tags["i"])
    return lp.split_iname(knl, "k", unroll, inner_tag="unr")


@kcl.kernel(
    sizes={"n": "a.shape[0]"},
    space=kcl.space(bi=[1, 4, 8, 16], bj=[4, 8, 16, 32], bk=[1, 4, 16], tile=[False, True]).where(
        lambda bi, bj, bk, tile: bi * bj <= 256 and (not tile or bk > 1)
    ),
)
def matmul(bi=16, bj=16, bk=1, tile=False):
    """Multiply two matrices; a tile of the first one may lie in local memory."""
    import loopy as lp

    knl = _unit("{[i,j,k]: 0<=i,j,k<n}", "c[i,j] = sum(k, a[i,k]*b[k,j])", "matmul 256")
    knl = lp.split_iname(knl, "i", bi, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", bj, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", bk)
    return lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto") if tile else knl


def _square(n: int, names: str) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(names, (n, n))


CASES = {
    "axpy": Case(axpy, dict.fromkeys("zxy", (1 << 20,)), np.float32),
    "transposed copy": Case(
        transposed, _square(2048, "ba"), np.float32, lambda given: np.ascontiguousarray(given["a"].T)
    ),
    "stencil": Case(stencil, {"z": (GRID,) * 3, "x": (GRID + 2,) * 3}, np.float64),
    "small products": Case(products, dict.fromkeys("zab", (BATCH, ORDER, ORDER)), np.float64),
    "matmul 256": Case(matmul, _square(256, "cab"), np.float32, lambda given: given["a"] @ given["b"]),
    "matmul 1000": Case(matmul, _square(1000, "cab"), np.float32, lambda given: given["a"] @ given["b"]),
}


def _given(case: str) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {name: random.random(shape).astype(CASES[case].dtype) for name, shape in CASES[case].shapes.items()}


def tuned(case: str, level: int, seconds: float) -> dict[str, Any]:
    """Return what a tuning found, and how long it took."""
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    began = time.monotonic()
    found = CASES[case].recipe().tune(queue, level=level, seconds=seconds, again=True, **_given(case))
    assert found.row is not None, found.why
    ratios = [(one.choice, one.ratio) for one in found.tried if one.ratio is not None]
    outcomes = sorted({one.verdict.outcome for one in found.tried})
    best = min(ratios, key=lambda one: one[1])[0] if ratios else found.row.choice
    row = {name: getattr(found.row, name) for name in ("choice", "ratio", "noise", "tried", "of")}
    return {**row, "best": best, "outcomes": outcomes, "seconds": time.monotonic() - began}


def race(case: str, rounds: int, choices: list[dict[str, Any]]) -> list[list[float]]:
    """Return the device times of the defaults and of choices, launched in turns."""
    queue = cl.CommandQueue(
        cl.create_some_context(interactive=False), properties=cl.command_queue_properties.PROFILING_ENABLE
    )
    given = {name: cl_array.to_device(queue, array) for name, array in _given(case).items()}
    handle = CASES[case].recipe()
    kernels = [handle.made(choice) for choice in ({}, *choices)]
    for kernel in kernels:
        kernel(queue, **given)
    queue.finish()
    times: list[list[float]] = [[] for _kernel in kernels]
    for _round in range(rounds):
        for seconds, kernel in zip(times, kernels, strict=True):
            event, _outputs = kernel(queue, **given)
            event.wait()
            seconds.append((event.profile.end - event.profile.start) * 1e-9)
    return times


def in_numpy(case: str, rounds: int) -> list[float]:
    """Return the wall-clock times of numpy."""
    given, compute = _given(case), CASES[case].in_numpy
    assert compute is not None
    times = []
    for _round in range(rounds):
        began = time.perf_counter()
        compute(given)
        times.append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    _script, _case, _verb, *_rest = sys.argv
    if _verb == "tune":
        print(json.dumps(tuned(_case, int(_rest[0]), float(_rest[1]))))
    elif _verb == "race":
        print(json.dumps(race(_case, int(_rest[0]), list(map(json.loads, _rest[1:])))))
    else:
        print(json.dumps(in_numpy(_case, int(_rest[0]))))
