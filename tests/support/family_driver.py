"""Drive the cases of a group in this process, and say of each what it computed, looked up and raised; see family.py.

python family_driver.py JOB     a job is JSON: platform, site, cases (name -> folder), what is forbidden
"""

import importlib
import json
import os
import site
import sys
import traceback

import forbid
import numpy as np
import pyopencl as cl

import kcl

X = np.arange(1, 101, dtype=np.float32)


def main(job):
    """Do a job."""
    site.addsitedir(job["site"])
    for name in job["forbids"]:
        getattr(forbid, name)()
    (platform,) = [one for one in cl.get_platforms() if one.name == job["platform"]]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    events = []
    kcl.add_hook(lambda event: events.append([event.layer, event.kernel, event.outcome, event.reason]))

    def launch(kernel, queue=queue):
        _event, (y,) = kernel(queue, x=X)
        return float(y.sum() / X.sum())

    launch.queue = queue

    folder = os.getcwd()
    said = {}
    for name, place in job["cases"].items():
        sys.path.insert(0, place)
        numbers, error = None, ""
        events.clear()
        try:
            numbers = importlib.import_module(name).drive(launch)
        except BaseException:  # what is forbidden is one
            error = traceback.format_exc()
        os.chdir(folder)
        sys.path.remove(place)
        said[name] = [numbers, [*events], error]
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
