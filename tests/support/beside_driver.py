"""Run the programs of a group in this process, and say what each printed, its status and its last line; see beside.py.

python [-m kcl run] beside_driver.py JOB    a job is JSON: platform, site, programs, installed, journal
"""

import contextlib
import importlib
import io
import json
import os
import site
import sys
import traceback
import warnings


def main(job):
    """Do a job."""
    warnings.simplefilter("ignore")
    site.addsitedir(job["site"])
    sys.path.insert(0, os.getcwd())
    if job["installed"]:
        import kcl

        kcl.install()
    import pyopencl as cl

    (platform,) = [one for one in cl.get_platforms() if one.name == job["platform"]]
    context = cl.Context(platform.get_devices()[:1])  # Intel's queue does not keep it
    queue = cl.CommandQueue(context)
    looks = []
    if "kcl" in sys.modules:
        from kcl.base import events

        events.add_hook(lambda event: looks.append([event.layer, event.outcome, event.reason]))
    said = {}
    for name in job["programs"]:
        printed, status, last = io.StringIO(), 0, ""
        looks.clear()
        try:
            with contextlib.redirect_stdout(printed):
                importlib.import_module(name).main(queue)
        except Exception as error:
            status, last = 1, traceback.format_exception_only(error)[-1].strip()
            sys.stderr.write(traceback.format_exc())
        said[name] = [printed.getvalue(), status, last, [*looks]]
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
