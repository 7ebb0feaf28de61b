"""Tune a recipe of choices.py, or let choices of it race, and print the figures as JSON.

python drive_tuning.py CASE tune LEVEL SECONDS
python drive_tuning.py CASE race MOST {NAME: CHOICE}    seconds by round: named choices, and the best of MOST others
python drive_tuning.py CASE kernel_tuner                the same space by brute force; CASE is one in OpenCL C
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from choices import CASES, FURTHER, WRITTEN

Choice = dict[str, Any]
Sample = Callable[[], float]  # seconds of a launch
ROUNDS = 15
_SHORT = 5  # rounds of the race of all
_BEHIND = 1.3  # the best time: who is slower is out
_SECONDS, _LAUNCHES = 5e-3, 10  # of a sample, whose smallest time counts
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # of CLBlast


def tuned(case: str, level: int, seconds: float) -> dict[str, Any]:
    """Return what a tuning found, and how long it took."""
    queue, given = _queue(), (CASES | FURTHER)[case].arrays()
    began = time.monotonic()
    found = (CASES | FURTHER)[case].recipe().tune(queue, level=level, seconds=seconds, **given)
    took = time.monotonic() - began
    assert found.row is not None, found.why
    outcomes = sorted({one.verdict.outcome for one in found.tried})
    row = {name: getattr(found.row, name) for name in ("choice", "ratio", "noise", "tried", "of")}
    return {**row, "outcomes": outcomes, "seconds": took}


def race(case: str, most: int, named: dict[str, Choice]) -> dict[str, Any]:
    """Let `most` choices race, or all; then the best three, and named ones, against each other. {} is the default.

    Returns the seconds of the latter by round, and the best choice of them. Beside a matrix product and a transposed
    copy numpy and CLBlast run, timed by the clock.
    """
    queue = _queue()
    recipe, arrays = (CASES | FURTHER)[case].recipe, (CASES | FURTHER)[case].arrays()
    given = {name: cl_array.to_device(queue, array) for name, array in arrays.items()}
    sizes = recipe().sizes_of(given)
    every = list(recipe().space.choices({}, sizes))
    others = every if len(every) <= most else random.Random(1).sample(every, most)
    samples = {}
    for one in others:
        with suppress(Exception):  # a tuning says which, and why
            samples[json.dumps(one)] = _sample(queue, recipe(**one), given)
    leading = dict(sorted(_raced(samples, _SHORT, _BEHIND).items(), key=lambda one: min(one[1]))[:3])
    final = {name: samples.get(json.dumps(one)) or _sample(queue, recipe(**one), given) for name, one in named.items()}
    beside = {**_of_numpy(arrays), **_of_clblast(queue, given)} if most else {}
    times = _raced({**{name: samples[name] for name in leading}, **final, **beside}, ROUNDS)
    best = min([*leading, *final], key=lambda name: min(times[name]))
    return {"best": best, "times": {**{name: times[name] for name in (*final, *beside)}, "best": times[best]}}


def _raced(samples: dict[str, Sample], rounds: int, behind: float = float("inf")) -> dict[str, list[float]]:
    """Return the seconds by round of those who are still in after the last one; the order changes with each round."""
    drawing, found = random.Random(2), {name: list[float]() for name in samples}
    for _round in range(rounds):
        for name in drawing.sample(sorted(found), len(found)):
            found[name].append(samples[name]())
        bound = behind * min(map(min, found.values()), default=0.0)
        found = {name: seconds for name, seconds in found.items() if min(seconds) <= bound}
    return found


def _sample(queue: cl.CommandQueue, kernel: Any, given: dict[str, cl_array.Array]) -> Sample:
    def once() -> float:
        event, _outputs = kernel(queue, **given)
        event.wait()
        return float(event.profile.end - event.profile.start) * 1e-9

    return _repeated(once)


def _repeated(once: Sample) -> Sample:
    """Return what gives the smallest of some times: one launch of a long kernel, ten of a short one."""
    once()
    launches = max(1, min(_LAUNCHES, int(_SECONDS / once())))
    return lambda: min(once() for _launch in range(launches))


def _timed(work: Callable[[], Any]) -> Sample:
    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return _repeated(once)


def _of_numpy(arrays: dict[str, Any]) -> dict[str, Sample]:
    if "c" in arrays:
        return {"numpy": _timed(lambda: np.matmul(arrays["a"], arrays["b"], out=arrays["c"]))}
    return {"numpy": _timed(lambda: np.copyto(arrays["b"], arrays["a"].T))} if arrays.keys() == {"a", "b"} else {}


def _of_clblast(queue: cl.CommandQueue, given: dict[str, cl_array.Array]) -> dict[str, Sample]:
    """Return the same by CLBlast on the same queue: its objects are the driver's, whichever loader called it."""
    with suppress(OSError, KeyError):
        library = ctypes.CDLL("libclblast.so.1")
        n, one, none = ctypes.c_size_t(len(given["a"])), ctypes.c_float(1), ctypes.c_float(0)
        memory = {name: (ctypes.c_void_p(array.data.int_ptr), ctypes.c_size_t(0), n) for name, array in given.items()}
        place = ctypes.byref(ctypes.c_void_p(queue.int_ptr))

        def multiplied() -> int:
            operands = *memory["a"], *memory["b"], none, *memory["c"]
            return int(library.CLBlastSgemm(ROW_MAJOR, PLAIN, PLAIN, n, n, n, one, *operands, place, None))

        def copied() -> int:
            operands = *memory["a"], *memory["b"]
            return int(library.CLBlastSomatcopy(ROW_MAJOR, TRANSPOSED, n, n, one, *operands, place, None))

        routine = multiplied if "c" in given else copied
        output = given["c" if "c" in given else "b"]
        output.fill(0)
        wanted = given["a"].get() @ given["b"].get() if "c" in given else given["a"].get().T
        status = routine()
        assert not status, f"CLBlast answers {status}"
        assert np.allclose(output.get(), wanted, rtol=1e-3)
        return {"CLBlast": _timed(lambda: (routine(), queue.finish()))}
    return {}


def kernel_tuner(case: str) -> dict[str, Any]:
    """Return what Kernel Tuner's brute force finds in the space of a case in OpenCL C, and how long it takes."""
    import kernel_tuner as tuner

    recipe, arrays = FURTHER[case].recipe, FURTHER[case].arrays()
    n = len(arrays["a"])
    began = time.monotonic()
    results, _environment = tuner.tune_kernel(
        "copied",
        "#define UNROLL\n" + WRITTEN,
        (n, n),
        [arrays["b"], arrays["a"], np.int32(n)],
        {name: list(values) for name, values in recipe().space.lists.items()},
        grid_div_x=["X", "WIDE"],
        grid_div_y=["Y", "HIGH"],
        block_size_names=["X", "Y"],
        restrictions=["X*Y <= 1024"],
        lang="OpenCL",
        strategy="brute_force",
        quiet=True,
    )
    return {"seconds": time.monotonic() - began, "tried": len(results)}


def _queue() -> cl.CommandQueue:
    context = cl.create_some_context(interactive=False)
    return cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)


if __name__ == "__main__":
    _script, _case, _verb, *_rest = sys.argv
    if _verb == "tune":
        print(json.dumps(tuned(_case, int(_rest[0]), float(_rest[1]))))
    elif _verb == "race":
        print(json.dumps(race(_case, int(_rest[0]), json.loads(_rest[1]))))
    else:
        print(json.dumps(kernel_tuner(_case)))
