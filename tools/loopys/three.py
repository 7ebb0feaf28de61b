"""Three kernels of loopy as people write them, and with the word `memoized` one of them behind loopy's own decorator.

Numpy has checked the numbers that the last line prints as JSON, beside the number of look-ups of the generator layer by
outcome. tools/compat_loopy.py runs this with each loopy.
"""

from __future__ import annotations

import collections
import json
import sys
import warnings
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl

warnings.simplefilter("ignore")
PLATFORM = "Portable Computing Language"
VERSION = {"lang_version": (2018, 2)}
N = 64


def main() -> None:
    looks: collections.Counter[str] = collections.Counter()
    if "kcl" in sys.modules:
        import kcl

        kcl.add_hook(lambda event: looks.update(outcome(event)))
    (platform,) = [one for one in cl.get_platforms() if one.name == PLATFORM]
    queue = cl.CommandQueue(cl.Context(platform.get_devices()[:1]))
    split = lp.memoize_on_disk(in_groups) if "memoized" in sys.argv else in_groups
    x = np.arange(float(N))
    matrix = np.arange(float(N * N)).reshape(N, N)
    cases = [
        (split(scaled()), {"a": x}, 2 * x + 1),
        (in_groups(shifted()), {"a": x}, x + np.roll(x, 1) * (x > 0)),
        (product(), {"a": matrix, "x": x}, matrix @ x),
    ]
    numbers = []
    for unit, arguments, right in cases:
        _event, (out,) = unit.executor(queue.context)(queue, **arguments, out_host=True)
        assert np.allclose(out, right)
        numbers.append(float(out.sum()))
    print(json.dumps({"numbers": numbers, "looks": looks}))


def outcome(event: Any) -> list[str]:
    """Return the outcome of a look-up of the generator layer."""
    is_look = event.outcome in ("hit", "miss", "bypassed", "error")
    return [event.outcome] if event.layer == "generator" and is_look else []


def scaled() -> Any:
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = 2*a[i] + 1",
        [lp.GlobalArg("a", np.float64, shape=("n",)), ...],
        name="scaled",
        **VERSION,
    )


def shifted() -> Any:
    return lp.make_kernel(
        f"{{[i]: 0<=i<{N}}}",
        "out[i] = a[i] + if(i > 0, a[i-1], 0)",
        [lp.GlobalArg("a", np.float64, shape=(N,)), ...],
        name="shifted",
        **VERSION,
    )


def product() -> Any:
    unit = lp.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        "out[i] = sum(j, a[i,j]*x[j])",
        [
            lp.GlobalArg("a", np.float64, shape=("n", "n")),
            lp.GlobalArg("x", np.float64, shape=("n",)),
            ...,
        ],
        name="product",
        **VERSION,
    )
    return lp.tag_inames(lp.assume(unit, "n >= 1"), {"i": "g.0"})


def in_groups(unit: Any) -> Any:
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


if __name__ == "__main__":
    main()
