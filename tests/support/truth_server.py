"""Start children of tests quickly: a process that has imported numpy and pyopencl forks for each.

    python truth_server.py [MODULE...]

It also imports the modules named. It reads orders from stdin, a line of JSON each, and answers each with the child's
exit status. The child has the environment, working directory and arguments of its order; neither OpenCL nor kcl was
touched before it was forked.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback

STARTED_WITH = dict(os.environ)

import numpy  # noqa: E402
import pyopencl  # noqa: E402
import pyopencl.array  # noqa: E402


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            be_child(**json.loads(line))
        _pid, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def be_child(module: str, argument: str, environment: dict[str, str], folder: str, out: str, err: str) -> None:
    """Run a module as a script would be run, and end."""
    code = 1
    try:
        for descriptor, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        # Imports may have set variables of their own, and libraries keep pointers to what need not change.
        for name in STARTED_WITH.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment.items() - STARTED_WITH.items())
        os.chdir(folder)
        sys.path[0] = folder
        sys.argv = [module, argument]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    assert numpy
    assert pyopencl.array
    main()
