"""Launch recipes of this project and say what happened.

python -m truth.driver JOB       a job is JSON: see `main`
"""

import cProfile
import importlib
import json
import os
import sys

if os.environ.get("TRUTH_FORBIDS"):
    import forbid

    forbid.compilation()
    forbid.loopy()

import numpy as np
import pyopencl as cl

import kcl

PLATFORM = "Portable Computing Language"


class Watch:
    """Counts without kcl's help: which recipes ran, and how many programs were made from source."""

    def __init__(self):
        self.ran = []
        self.built = 0
        watch = self

        class Counted(cl._cl._Program):
            def __init__(self, context, devices=None, binaries=None):
                if binaries is None:
                    watch.built += 1
                    super().__init__(context, devices)
                else:
                    super().__init__(context, devices, binaries)

        if not os.environ.get("TRUTH_FORBIDS"):
            cl._cl._Program = Counted

    def launch(self, recipe, kernel, queue, x):
        """Launch, and note whether the recipe's body was entered."""
        profile = cProfile.Profile()
        profile.enable()
        try:
            _event, outputs = kernel(queue, x=x)
        finally:
            profile.disable()
        if any(entry.code is recipe.function.__code__ for entry in profile.getstats()):
            self.ran.append(recipe.__name__)
        (output,) = outputs.values() if isinstance(outputs, dict) else outputs
        return float(output.astype(np.float64).sum())


def main(job):
    """Do a job.

    `recipes` lists [module, name, arguments, before, after]: `arguments` is Python for the recipe's arguments,
    `before` is run before its first launch, and `after` before a second one of a new Kernel.
    """
    events = []
    kcl.add_hook(lambda event: events.append([event.layer, event.kernel, event.outcome, event.reason]))
    (platform,) = [one for one in cl.get_platforms() if one.name == PLATFORM]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    x = np.arange(1, 101, dtype=np.float32)
    watch = Watch()
    numbers, errors = {}, {}
    for module, name, arguments, before, after in job["recipes"]:
        home = importlib.import_module(f"truth.{module}")
        scope = {**vars(home), "home": home, "np": np}
        exec(before, scope)
        recipe = getattr(home, name)
        given = eval(f"dict({arguments})", scope)
        try:
            numbers[name] = [watch.launch(recipe, recipe(**given), queue, x)]
            if after:
                exec(after, scope)
                numbers[name].append(watch.launch(recipe, recipe(**given), queue, x))
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {error}"
    said = {"numbers": numbers, "errors": errors, "ran": watch.ran, "built": watch.built, "events": events}
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
