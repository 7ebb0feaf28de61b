"""Launch the recipes of the example and of the benchmark, wherever their files lie.

python real.py FILE FOLDER
"""

import json
import os
import sys
import zlib

if os.environ.get("NOISE_FORBIDS"):
    import forbid

    forbid.compilation()
    forbid.loopy()

sys.path.insert(0, sys.argv[2])

import driver
import kernels
import numpy as np
import pyopencl as cl

import kcl

(platform,) = [one for one in cl.get_platforms() if one.name == "Portable Computing Language"]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
numbers = {}
for name, run in driver.RUNS.items():
    numbers[name] = driver.checksum(run(queue).computed)
decorated = {recipe: kcl.kernel(recipe) for recipe, _, _ in kernels.FAMILY}
arguments = kernels.Arguments(queue)
for number in range(len(kernels.FAMILY)):
    recipe, variant = kernels.case(number)
    given = arguments.of(number)
    decorated[recipe](variant)(queue, **given)
    numbers[recipe.__name__] = zlib.crc32(np.ascontiguousarray(given["out"].get()).tobytes())
with open(sys.argv[1], "w") as stream:
    json.dump({"numbers": numbers, "stats": kcl.stats()}, stream)
