"""Recipes of many kinds, launched in many ways: tests change what must not matter.

python driver.py FILE [GROUP]      writes what was computed to FILE; group: "sources", "loops" or "all"
"""

import json
import os
import sys

if os.environ.get("NOISE_FORBIDS"):
    import forbid

    forbid.compilation()
    forbid.loopy()

if os.environ.get("NOISE_IMPORTS"):
    for name in os.environ["NOISE_IMPORTS"].split():
        __import__(name)

import numpy as np
import pyopencl as cl
from helpers import ARGUMENTS, scaled

import kcl

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(HERE, "kernels")
NAMES = {"alpha", "beta", "gamma", "delta"}


@kcl.kernel
def coded(block: int = 4):
    """Depend on code."""
    return scaled(block + sum(len(name) for name in NAMES))  # in any order


@kcl.kernel
def filed():
    with open(os.path.join(HERE, "factor.txt")) as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def included():
    return kcl.Source.from_file(
        os.path.join(KERNELS, "included.cl"),
        entry="scaled",
        arguments=ARGUMENTS,
        global_size="(n,)",
        include_dirs=[KERNELS],
        build_options=["-cl-mad-enable", "-cl-fast-relaxed-math"],
    )


@kcl.kernel
def tiled(block=8):
    """Multiply in tiles."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "y[i] = 5*x[i]",
        [
            lp.GlobalArg("x", np.float32, shape="n"),
            lp.GlobalArg("y", np.float32, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
        name="tiled",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel
def opened():
    """Leave every dtype open."""
    lp = kcl.lazy("loopy")
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 6*x[i]", name="opened", lang_version=(2018, 2))


def arguments(x):
    """Return the arguments of a launch as this run is told to give them."""
    given = {"x": x}
    number = os.environ.get("NOISE_N")
    if number:
        given["n"] = {"int": int, "int32": np.int32, "int64": np.int64}[number](len(x))
    if os.environ.get("NOISE_OUT"):
        given["y"] = np.empty_like(x)
    return given


def main(file, group="all"):
    """Launch, and write the numbers."""
    (platform,) = [one for one in cl.get_platforms() if one.name == "Portable Computing Language"]
    devices = platform.get_devices()
    kept = os.environ.get("NOISE_DEVICE", devices[0].name)  # the beginning of its name
    devices = [device for device in devices if device.name.startswith(kept)][:1]
    context = cl.Context(devices)
    if os.environ.get("NOISE_CONTEXTS"):
        context = cl.Context(devices, properties=[(cl.context_properties.PLATFORM, platform)])
    queue = cl.CommandQueue(context, properties=int(os.environ.get("NOISE_QUEUE", "0")))
    x = np.arange(1, 101, dtype=np.float32)
    recipes = {"sources": [coded, filed, included], "loops": [tiled, opened]}
    recipes |= {"all": recipes["sources"] + recipes["loops"], "code": [coded, tiled]}
    numbers = {}
    for recipe in recipes[group]:
        _event, (y,) = recipe()(queue, **arguments(x))
        numbers[recipe.__name__] = float(y.astype(np.float64).sum())
    with open(file, "w") as stream:
        json.dump({"numbers": numbers, "stats": kcl.stats()}, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
