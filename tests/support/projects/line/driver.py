"""A driver of which every recipe depends on one thing of its own; tests copy this folder and change that thing.

python driver.py <platform> [<group>]       group: "loopy", "inputs", "pair", "warned", "unknowable" or "all"

With DRIVER_PURE=1 in the environment every recipe is declared pure; `unknowable` always is. DRIVER_N, DRIVER_OUT,
DRIVER_CONTEXT, DRIVER_QUEUE and DRIVER_DEVICE say how the kernels are launched.
"""

import json
import os
import sys

if os.environ.get("DRIVER_FORBIDS"):
    import forbid

    forbid.compilation()
    forbid.loopy()

import factors
import numpy as np
import pyopencl as cl

import kcl

HERE = os.path.dirname(os.path.abspath(__file__))
decorated = kcl.kernel(pure=True, version="1") if os.environ.get("DRIVER_PURE") else kcl.kernel
GLOBAL = 7


def helper():
    return 3


class Settings:
    factor = 8


@decorated
def typed(block=16):
    import loopy as lp

    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "y[i] = 2*x[i] + 1",
        [
            lp.GlobalArg("x", np.float32, "n"),
            lp.GlobalArg("y", np.float32, "n", is_input=False),
            ...,
        ],
        name="typed",
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", block, outer_tag="g.0", inner_tag="l.0")


@decorated
def untyped():
    lp = kcl.lazy("loopy")
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", name="untyped", lang_version=(2018, 2))
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


@decorated
def included():
    return kcl.Source.from_file(
        os.path.join(HERE, "kernels", "included.cl"),
        entry="included",
        arguments=factors.ARGUMENTS,
        global_size="(n,)",
        include_dirs=[os.path.join(HERE, "kernels")],
    )


@decorated
def control():
    return factors.scaled("control", 1)


@decorated
def body():
    return factors.scaled("body", 2)


@decorated
def helped():
    return factors.scaled("helped", helper())


@decorated
def elsewhere():
    return factors.scaled("elsewhere", factors.four())


def closing(factor):
    @decorated
    def closed():
        return factors.scaled("closed", factor)

    return closed


@decorated
def defaulted(factor=6):
    return factors.scaled("defaulted", factor)


@decorated
def from_global():
    return factors.scaled("from_global", GLOBAL)


@decorated
def from_class():
    return factors.scaled("from_class", Settings.factor)


@decorated
def parameter(factor):
    return factors.scaled("parameter", factor)


@decorated
def from_file():
    with open(os.path.join(HERE, "factor.txt")) as stream:
        return factors.scaled("from_file", int(stream.read()))


@decorated
def optioned():
    return factors.scaled("optioned", "FACTOR", ["-DFACTOR=11"])


@decorated
def warned():
    source = factors.scaled("warned", 1)
    return kcl.Source(
        '#warning "look here"\n' + source.code,
        entry="warned",
        arguments=factors.ARGUMENTS,
        global_size="(n,)",
    )


@kcl.kernel(pure=True, version="1")
def unknowable(stream=sys.stdin):
    return factors.scaled("unknowable", 1 if stream else 2)


def given(x):
    """Return the arguments of a launch as this run is told to give them."""
    found = {"x": x}
    if "DRIVER_N" in os.environ:
        found["n"] = {"int": int, "int32": np.int32}[os.environ["DRIVER_N"]](len(x))
    return found | ({"y": np.empty_like(x)} if "DRIVER_OUT" in os.environ else {})


def launches(queue, group):
    """Yield the name and the outputs of every launch."""
    x = np.arange(1, 101, dtype=np.float32)
    if group in ("loopy", "all"):
        yield "typed", typed(block=16)(queue, **given(x))
        kernel = untyped()
        yield "untyped", kernel(queue, a=np.float32(3), **given(x))
        yield "untyped float64", kernel(queue, a=np.float64(4), **given(x.astype(np.float64)))
        yield "untyped once more", kernel(queue, a=np.float32(3), **given(2 * x))
        yield "included", included()(queue, **given(x))
    if group == "pair":
        yield "typed", typed(block=16)(queue, x=x)
        yield "control", control()(queue, x=x)
    if group in ("warned", "unknowable"):
        yield group, {"warned": warned, "unknowable": unknowable}[group]()(queue, x=x)
    if group in ("inputs", "all"):
        recipes = [control, body, helped, elsewhere, closing(5), defaulted, from_global]
        for recipe in [*recipes, from_class, from_file, optioned]:
            yield recipe.__name__, recipe()(queue, x=x)
        yield "parameter", parameter(9)(queue, x=x)
        if group == "inputs":
            yield "included", included()(queue, x=x)


def main(platform, group="all"):
    """Launch everything, and print numbers, look-ups and imported modules."""
    events = []
    kcl.add_hook(lambda one: events.append([one.layer, one.kernel, one.outcome, one.reason]))
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    name = os.environ.get("DRIVER_DEVICE", "")
    devices = [one for one in found.get_devices() if one.name.startswith(name)]
    by_platform = [(cl.context_properties.PLATFORM, found)]
    properties = by_platform if "DRIVER_CONTEXT" in os.environ else None
    # Kept: not every driver's queue keeps it alive.
    context = cl.Context(devices[:1], properties=properties)
    queue = cl.CommandQueue(context, properties=int(os.environ.get("DRIVER_QUEUE", "0")))
    numbers = {
        name: float(outputs[0].astype(np.float64).sum())
        for name, (_, outputs) in launches(queue, group)
    }
    said = {"numbers": numbers, "events": events, "modules": sorted(sys.modules)}
    print(json.dumps({**said, "stats": kcl.stats()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
