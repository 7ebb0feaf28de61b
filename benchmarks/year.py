"""A year of use within a bound: real kernels among made-up ones of the same sizes, published until old ones have to go.

    python benchmarks/year.py [--kernels 36500] [--real 200] [--bound 256M]

Real programs are built first. Then made-up kernels, a code row and a binary each, of the real ones' sizes, are
published by one process after the other, with the real ones used again at each quarter. It prints, as JSON, the most
bytes that there were over the bound, the look-ups of the last run of the real ones by outcome, the time of the last
look-ups over that of the first ones, and how many kernels were not there right after they were made.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

import kcl
from kcl.base import settings
from kcl.base.settings import parsers
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.inspect import inventory, space

QUARTERS = 4
A_RUN = 100  # made-up kernels that one process publishes
LOOK_UPS = 1000
CONTENT = os.urandom(1 << 20)


def real(count: int) -> dict[str, Any]:
    """Launch real programs in this process; returns the look-ups by outcome."""
    import pyopencl as cl

    @kcl.kernel
    def real_kernel(number: int) -> kcl.Source:
        text = f"__kernel void f(__global int *out) {{ out[0] = {number}; }}"
        arguments = [kcl.Array("out", "int32", "(1,)", "out")]
        return kcl.Source(text, entry="f", arguments=arguments, global_size="(1,)")

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    for number in range(count):
        real_kernel(number)(queue)
    kcl.flush()
    found = kcl.stats()
    return {
        layer: {what: found[layer][what] for what in ("hits", "misses", "errors")}
        for layer in settings.LAYERS
    }


def publish(first: int, count: int, sizes: dict[str, list[int]]) -> dict[str, Any]:
    """Publish made-up kernels as a run does, and look for the one before; returns seconds of a look-up and bytes."""
    drawn = random.Random(first)
    most, lost, seconds = 0, 0, []
    for number in range(first, first + count):
        for name in settings.LAYERS:
            key, where = _place(name, number)
            size = drawn.choice(sizes[name])
            start = drawn.randrange(len(CONTENT) - size)
            about = {
                "kernel": f"made_up_{number}",
                "created": int(time.time()),
                "seconds": drawn.random(),
                "function": "f",
            }
            layers.layer(name).publish(
                where, Entry(key, about, {"binary": CONTENT[start : start + size]})
            )
        if number > first:
            started = time.perf_counter()
            lost += not _is_there(number - 1)
            seconds.append(time.perf_counter() - started)
        if number % 20 == 0:
            most = max(most, space.measure())
    space.keep_bound()
    return {"seconds": seconds, "most": max(most, space.measure()), "lost": lost}


def _place(layer: str, number: int) -> tuple[Key, str]:
    key = Key([Part("made up", f"{layer} {number}")])
    return key, address(
        key.digest, *(("device", f"made_up_{number}") if layer == settings.BINARY else ())
    )


def _is_there(number: int) -> bool:
    """Read the entries of a kernel from the disk."""
    found = []
    for name in settings.LAYERS:
        key, where = _place(name, number)
        layer = layers.layer(name)
        layer.memory.pop(where, None)
        found.append(layer.look_up(where, key).entry)
    return None not in found


def main() -> None:
    """Live through a year."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=36_500)
    parser.add_argument("--real", type=int, default=200)
    parser.add_argument("--bound", default="256M")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        what, *numbers = json.loads(options.step)
        print(json.dumps({"real": real, "publish": publish}[what](*numbers)))
        return
    with tempfile.TemporaryDirectory(prefix="kcl-year-", ignore_cleanup_errors=True) as name:
        os.environ |= {"KCL_CACHE_DIR": name, "KCL_MAX_SIZE": options.bound}
        print(
            json.dumps(_year(options.kernels, options.real, parsers.size(options.bound)), indent=1)
        )


def _year(kernels: int, count: int, bound: int) -> dict[str, Any]:
    _step("real", count)
    sizes = {name: [one.size for one in inventory.entries(name)] for name in settings.LAYERS}
    seconds: list[float] = []
    most, lost, started = 0, 0, time.monotonic()
    for first in range(0, kernels, A_RUN):
        found = _step("publish", first, min(A_RUN, kernels - first), sizes)
        seconds += found["seconds"]
        most = max(most, found["most"])
        lost += found["lost"]
        if first % (kernels // QUARTERS // A_RUN * A_RUN or A_RUN) == 0:
            _step("real", count)
    _step("real", count)
    first, last = (
        sorted(some)[len(some) // 2] for some in (seconds[:LOOK_UPS], seconds[-LOOK_UPS:])
    )
    return {
        "kernels": kernels,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "most bytes / bound": round(most / bound, 3),
        "bytes / bound at the end": round(space.measure() / bound, 3),
        "the real kernels, run once more": _step("real", count),
        "last look-ups / first": round(last / first, 2),
        "not there when made": lost,
    }


def _step(*what: Any) -> Any:
    command = [sys.executable, str(pathlib.Path(__file__)), "--step", json.dumps(what)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{what[0]} failed")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
