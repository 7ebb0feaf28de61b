"""A notebook: cells of this file are run again and again in one process and in others, under ever new file names."""

import json
import linecache
import os
import sys

if os.environ.get("NOISE_FORBIDS"):
    import forbid

    forbid.compilation()
    forbid.loopy()

import numpy as np
import pyopencl as cl

CELL = '''
import kcl
from helpers import scaled

SHIFT = 4

def helper(n):
    """Help."""
    return n + SHIFT

@kcl.kernel
def celled(n=3):
    return scaled(helper(n))
'''


def run(text, scope):
    """Run a cell as a notebook does."""
    name = f"/nowhere/ipykernel_{os.getpid()}/{len(scope)}{len(linecache.cache)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)


def main(file):
    (platform,) = [one for one in cl.get_platforms() if one.name == "Portable Computing Language"]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    x = np.arange(1, 101, dtype=np.float32)
    numbers, scope = {}, sys.modules["__main__"].__dict__
    for number in range(2):
        run(CELL, scope)
        _event, (y,) = scope["celled"]()(queue, x=x)
        numbers[f"celled {number}"] = float(y.astype(np.float64).sum())
    with open(file, "w") as stream:
        json.dump({"numbers": numbers, "stats": scope["kcl"].stats()}, stream)


main(sys.argv[1])
