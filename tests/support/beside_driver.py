"""Run the programs of a group in this process, and say what each printed, its status and its last line; see beside.py.

python [-m kcl run] beside_driver.py JOB    a job is JSON: platform, site, programs, installed, early

A program has the names `context`, `queue`, `cl`, `np` and `warnings`, and those of the functions and texts below.
"""

import contextlib
import importlib
import io
import json
import os
import re
import runpy
import site
import sys
import traceback
import warnings

COUNT = """
int counter = 5;
kernel void tick(global int *out) { counter += 1; out[0] = counter; }
kernel void look(global int *out) { out[0] = counter; }
"""
LOUD = """
#warning look here
kernel void tick(global int *out) { out[0] = N; }
"""
# addresses, the files of a compiler, and the number that a compiler gives to a text
PASSING = re.compile(r"0x[0-9a-f]+|(?:/\S*?)?(?:tempfile_|tmp)\S*?\.cl|\b\d+(?=:\d+:\d+:)")


def plain(text):
    """Return a text without what differs from run to run."""
    return PASSING.sub("#", str(text))


class Run:
    """What the programs that are functions launch with."""

    def __init__(self, queue, x):
        self.queue, self.context, self.x = queue, queue.context, x

    def __call__(self, kernel, **arguments):
        """Launch a Kernel, a unit or an executor, and return the sum of all outputs."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _event, outputs = kernel(self.queue, **{"x": self.x, **arguments})
        found = outputs.values() if isinstance(outputs, dict) else outputs
        return float(sum(one.astype("float64").sum() for one in found))


def quiet(function):
    """Mark a program that is a function, and whose later runs do without loopy."""
    return function


def launched(queue, kernel, *arguments):
    """Launch a kernel on an array of one zero, and return what it makes of it."""
    import numpy as np
    import pyopencl as cl

    out = np.zeros(1, np.int32)
    flags = cl.mem_flags
    buffer = cl.Buffer(queue.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=out)
    kernel(queue, (1,), None, buffer, *arguments)
    cl.enqueue_copy(queue, out, buffer)
    return int(out[0])


def ran(name, names):
    """Run a program; returns its output, its status and the last line of its error."""
    vars(names["cl"]).pop("__warningregistry__", None)  # as in a process of its own
    printed, status, last = io.StringIO(), 0, ""
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(f"{name}.py", names, name)
        except SystemExit as end:
            status = int(end.code or 0)
        except Exception as error:
            status, last = 1, traceback.format_exception_only(error)[-1].strip().splitlines()[-1]
            sys.stderr.write(traceback.format_exc())
    return [plain(printed.getvalue()), status, plain(last)]


def main(job):
    """Do a job."""
    site.addsitedir(job["site"])
    sys.path.insert(0, os.getcwd())
    for name in job["early"]:
        importlib.import_module(name)
    if job["installed"]:
        import kcl

        kcl.install()
    import numpy as np
    import pyopencl as cl

    (platform,) = [one for one in cl.get_platforms() if one.name == job["platform"]]
    context = cl.Context(platform.get_devices()[:1])  # Intel's queue does not keep it
    names = {
        "context": context,
        "queue": cl.CommandQueue(context),
        "cl": cl,
        "np": np,
        "warnings": warnings,
    }
    names |= {"launched": launched, "plain": plain, "COUNT": COUNT, "LOUD": LOUD}
    looks = []
    if "kcl" in sys.modules:
        from kcl.base import events

        events.add_hook(lambda event: looks.append([event.layer, event.outcome, event.reason]))
    said = {}
    for name in job["programs"]:
        looks.clear()
        found = ran(name, names)
        said[name] = [*found, [*looks], "loopy" in sys.modules]
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
