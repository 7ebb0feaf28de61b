"""Launch COUNT kernels whose recipes declare a space, or the same without, and print what happened as JSON.

python drive_tuned.py spaces COUNT            what a table says, else the defaults
python drive_tuned.py plain COUNT [BLOCK ...] the choices that are given, else the defaults
python drive_tuned.py tune COUNT              tunes, and prints the choices
python drive_tuned.py calls ROUNDS BATCH      microseconds of calls by round, and the function calls within one
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

SIZE, NEW_SIZES, WARM_UP = 1 << 14, 64, 500
_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"}
_started: list[str] = []
sys.addaudithook(lambda event, _given: _started.append(event) if event in _STARTS else None)


def vector(variant=0, block=1):
    """Add two vectors, one of them scaled."""
    import loopy as lp

    arguments = [
        lp.GlobalArg("x,y", np.float32, shape="n"),
        lp.GlobalArg("out", np.float32, shape="n", is_input=False),
        lp.ValueArg("n", np.int32),
    ]
    text = f"out[i] = {variant + 2}*x[i] + y[i]"
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", text, arguments, name=f"vector_{variant}", lang_version=(2018, 2)
    )
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


def spaces() -> Any:
    """Return the recipe with a space."""
    return kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(block=[1, 64]))(vector)


def arrays(queue: cl.CommandQueue, size: int = SIZE) -> dict[str, cl_array.Array]:
    """Return the arrays of a call."""
    found = {
        name: cl_array.to_device(queue, np.ones(size, np.float32)) for name in ("x", "y", "out")
    }
    queue.finish()
    return found


def launch(kernels: list[Any]) -> dict[str, Any]:
    """Launch kernels; return how many look-ups missed, and how many processes were started."""
    queue = _queue()
    given = arrays(queue)
    for kernel in kernels:
        kernel(queue, **given)
    queue.finish()
    missed = sum(kcl.stats()[name]["misses"] for name in ("generator", "binary"))
    return {
        "missed": missed,
        "processes": len(_started),
        "tuner": "kcl.choices.tuning.tuner" in sys.modules,
    }


def tune(count: int) -> list[int]:
    """Tune, and return the winners."""
    queue = _queue()
    found = [
        spaces()(variant).tune(queue, level=2, seconds=5, **arrays(queue))
        for variant in range(count)
    ]
    return [one.row.choice["block"] for one in found]


def calls(rounds: int, batch: int) -> dict[str, Any]:
    """Return microseconds by round of a tuned kernel, of its winner alone, of pyopencl's typed call, of new sizes."""
    queue, plain = _queue(), kcl.kernel(vector)(block=64)
    given = arrays(queue)
    counts = [_counted(lambda: plain(queue, **given))]
    tuned = spaces()()
    tuned.tune(queue, level=2, seconds=5, **given)
    winner = kcl.kernel(vector)(**_choice(tuned, queue, given))
    typed = cl.Kernel(cl.Program(queue.context, plain.source(queue)).build(), "vector_0")
    typed.set_scalar_arg_dtypes([None, None, None, np.int32])
    x, y, out = given.values()
    sides: dict[str, Callable[[], Any]] = {
        "tuned": lambda: tuned(queue, x=x, y=y, out=out),
        "plain": lambda: winner(queue, x=x, y=y, out=out),
        "typed": lambda: typed(queue, (SIZE,), (64,), x.data, y.data, out.data, SIZE),
    }
    found: dict[str, list[float]] = {side: [] for side in sides}
    gc.disable()
    for one in range(rounds + 1):
        for side in random.Random(one).sample(list(sides), len(sides)):
            found[side] += [_microseconds(queue, sides[side], batch)] if one else []
            _microseconds(queue, sides[side], batch)
    news = [arrays(queue, SIZE + 64 * one) for one in range(1, NEW_SIZES + 1)]
    found["new size"] = [
        _microseconds(queue, lambda new=new: tuned(queue, **new), 1) for new in news
    ]
    counts.append(_counted(lambda: plain(queue, **given)))
    return {"microseconds": found, "counted": counts}


def _choice(kernel: Any, queue: cl.CommandQueue, given: dict[str, Any]) -> dict[str, Any]:
    return dict(
        kernel.tune(queue, level=1, **given).row.choice
    )  # a result of a higher level serves


def _microseconds(queue: cl.CommandQueue, call: Callable[[], Any], batch: int) -> float:
    began = time.perf_counter()
    for _call in range(batch):
        call()
    took = time.perf_counter() - began
    queue.finish()
    return 1e6 * took / batch


def _counted(call: Callable[[], Any]) -> int:
    """Return how many functions a hot call calls, of Python and of C."""
    for _call in range(WARM_UP):
        call()
    found: list[str] = []
    sys.setprofile(
        lambda _frame, event, _argument: (
            found.append(event) if event in ("call", "c_call") else None
        )
    )
    call()
    sys.setprofile(None)
    return len(found)


def _queue() -> cl.CommandQueue:
    return cl.CommandQueue(cl.create_some_context(interactive=False))


def main() -> None:
    side, count, *rest = sys.argv[1], *map(int, sys.argv[2:])
    if side == "calls":
        found: Any = calls(count, rest[0])
    elif side == "tune":
        found = tune(count)
    elif side == "spaces":
        recipe = spaces()
        found = launch([recipe(variant) for variant in range(count)])
    else:
        recipe = kcl.kernel(vector)
        given = [{"block": block} for block in rest] or [{}] * count
        found = launch(
            [recipe(variant, **one) for variant, one in zip(range(count), given, strict=True)]
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
