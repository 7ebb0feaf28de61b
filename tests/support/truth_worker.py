"""Look the recipe of a made-up program up, in a process of its own, and say what happened and what is right.

python truth_worker.py HOW      the program lies in the working directory; HOW has the words

    launch      launch it on PoCL
    warm        forbid loopy and compilation
    loopy       the recipe is one of loopy: what it returns when it just runs is no text
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

import kcl
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.generate.stage import CallValues, Generate
from kcl.handle import origin_of
from kcl.record.declarations import RecipeCall


def main(how: str) -> None:
    sys.path.insert(0, os.getcwd())
    if "warm" in how:
        import forbid

        forbid.compilation()
        forbid.loopy()
    outcomes: list[list[str]] = []
    kcl.add_hook(lambda event: outcomes.append([event.layer, event.outcome, event.reason]))
    import main as program

    kernel = program.build()
    answer: dict[str, object] = {}
    if "launch" in how:
        import pyopencl as cl

        (platform,) = [one for one in cl.get_platforms() if one.name == "Portable Computing Language"]
        context = cl.Context(platform.get_devices()[:1])
        x = np.arange(1, 101, dtype=np.float32)
        _event, (y,) = kernel(cl.CommandQueue(context), x=x)
        answer["number"] = float(y[0])
        answer["text"] = kernel.source(context)
        kcl.flush()
    else:
        task = RecipeCall(kernel.name, program.build.function, {}, program.build.declared)
        ready = obtain(Generate(origin_of(task)), CallValues({}), Lead(kernel.name))
        answer["text"] = ready.code.text.source
    answer["outcomes"] = outcomes
    answer["ran"] = len(program.RAN)
    answer["loopy"] = "loopy" in sys.modules
    if "loopy" not in how:
        answer["right"] = program.build.function().code
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
