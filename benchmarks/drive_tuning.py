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
from choices import CASES, WRITTEN

Choice = dict[str, Any]
Sample = Callable[[], float]  # seconds of a launch
ROUNDS = 15
_SHORT = 5  # rounds of the race of all
_BEHIND = 1.3  # the best time: who is slower is out
_SECONDS, _LAUNCHES = 5e-3, 10  # of a sample, whose smallest time counts
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # of CLBlast


def tuned(case: str, level: int, seconds: float) -> dict[str, Any]:
    """Return what a tuning found, and how long it took."""
    queue, given = _queue(), CASES[case].arrays()
    began = time.monotonic()
    found = CASES[case].recipe().tune(queue, level=level, seconds=seconds, **given)
    took = time.monotonic() - began
    assert found.row is not None, found.why
    outcomes = sorted({one.outcome for one in found.tried})
    row = {name: getattr(found.row, name) for name in ("choice", "ratio", "noise", "tried", "of")}
    return {**row, "outcomes": outcomes, "seconds": took}


def race(case: str, most: int, named: dict[str, Choice]) -> dict[str, Any]:
    """Let `most` choices race, or all; then the best three, and named ones, against each other. {} is the default.

    Returns the seconds of the latter by round, and the best choice of them. Beside a matrix product and a transposed
    copy numpy and CLBlast run, timed by the clock.
    """
    queue = _queue()
    recipe = CASES[case].recipe
    given = {name: cl_array.to_device(queue, array) for name, array in CASES[case].arrays().items()}
    every = list(recipe().space.choices({}, {"n": CASES[case].n}))
    others = every if len(every) <= most else random.Random(1).sample(every, most)
    samples = {}
    for one in others:
        with suppress(Exception):  # a tuning says which, and why
            samples[json.dumps(one)] = _sample(queue, recipe(**one), given)
    leading = dict(
        sorted(_raced(samples, _SHORT, _BEHIND).items(), key=lambda one: min(one[1]))[:3]
    )
    final = {
        name: samples.get(json.dumps(one)) or _sample(queue, recipe(**one), given)
        for name, one in named.items()
    }
    beside = _beside(queue, given) if most else {}
    times = _raced({**{name: samples[name] for name in leading}, **final, **beside}, ROUNDS)
    best = min([*leading, *final], key=lambda name: min(times[name]))
    return {
        "best": best,
        "times": {**{name: times[name] for name in (*final, *beside)}, "best": times[best]},
    }


def _raced(
    samples: dict[str, Sample], rounds: int, behind: float = float("inf")
) -> dict[str, list[float]]:
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
    launches = 1 if once() > _SECONDS else min(_LAUNCHES, 1 + int(_SECONDS / once()))
    return lambda: min(once() for _launch in range(launches))


def _timed(work: Callable[[], Any]) -> Sample:
    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return _repeated(once)


def _beside(queue: cl.CommandQueue, given: dict[str, cl_array.Array]) -> dict[str, Sample]:
    """Return a matrix product, or a transposed copy, by numpy and by CLBlast: its objects are those of the driver."""
    is_product = given.keys() == {"a", "b", "c"}
    if not is_product and given.keys() != {"a", "b"}:
        return {}
    a, b, *_c = (given[name].get() for name in sorted(given))
    wanted, n, one, none = (
        np.empty_like(a),
        ctypes.c_size_t(len(a)),
        ctypes.c_float(1),
        ctypes.c_float(0),
    )
    found = {
        "numpy": _timed(
            lambda: np.matmul(a, b, out=wanted) if is_product else np.copyto(wanted, a.T)
        )
    }
    with suppress(OSError):
        library, place = (
            ctypes.CDLL("libclblast.so.1"),
            ctypes.byref(ctypes.c_void_p(queue.int_ptr)),
        )
        memory = [
            (ctypes.c_void_p(given[name].data.int_ptr), ctypes.c_size_t(0), n)
            for name in sorted(given)
        ]

        def routine() -> None:
            if is_product:
                operands = *memory[0], *memory[1], none, *memory[2]
                status = library.CLBlastSgemm(
                    ROW_MAJOR, PLAIN, PLAIN, n, n, n, one, *operands, place, None
                )
            else:
                operands = *memory[0], *memory[1]
                status = library.CLBlastSomatcopy(
                    ROW_MAJOR, TRANSPOSED, n, n, one, *operands, place, None
                )
            assert not status, f"CLBlast answers {status}"
            queue.finish()

        routine()  # it builds
        assert np.allclose(given[max(given)].get(), wanted, rtol=1e-3)
        found["CLBlast"] = _timed(routine)
    return found


def kernel_tuner(case: str) -> dict[str, Any]:
    """Return what Kernel Tuner's brute force finds in the space of a case in OpenCL C, and how long it takes."""
    import kernel_tuner as tuner

    arrays, n = CASES[case].arrays(), CASES[case].n
    began = time.monotonic()
    results, _environment = tuner.tune_kernel(
        "copied",
        "#define UNROLL\n" + WRITTEN,
        (n, n),
        [arrays["b"], arrays["a"], np.int32(n)],
        {name: list(values) for name, values in CASES[case].recipe().space.lists.items()},
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
