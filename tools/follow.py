"""Follow two things through the files of kcl, and count the files and the returns to a file visited before.

    python tools/with_pocl.py python tools/follow.py          # with PYTHONPATH=<checkout> for another checkout

The dtypes of the arguments go from `Kernel.__call__` to the launch; generated code goes from the front end to the
program that is made of a binary. A profiler looks at the arguments of each call inside of kcl: a file is on the way
where another file hands it the thing, alone or inside of what holds it. A return is such a call into a file that the
thing has visited, counted once for a pair of files. doc/design/architecture.md shows the ways.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

DEPTH = 3  # containers inside of containers
# What stands in the place of __import__, and what makes texts of the values in a unit, which have dtypes of their own.
ASIDE = ("kcl.record.imports", "kcl.record.callables", "kcl.record.plain")
ENDS = {("of_binaries", "code")}
DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
import numpy as np, pyopencl as cl, kcl, follow

@kcl.kernel
def doubled():
    import loopy as lp
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")

context = cl.create_some_context(interactive=False)  # kept: a queue of Intel's runtime does not keep it
queue = cl.CommandQueue(context)
follow.follow(sys.argv[1], lambda: doubled()(queue, x=np.ones(4, np.float32)))
kcl.flush()
"""


class Follower:
    """The calls from one file into another one that hand a thing on: (from, to), each pair once, in their order."""

    def __init__(self, what: str) -> None:
        self.handed: dict[tuple[str, str], None] = {}
        self._what = what
        self._seen: list[Any] = []  # frames, so that none is taken for another one
        self._ended = False

    def __call__(self, frame: Any, event: str, _argument: Any) -> None:
        """Look at the arguments of a call inside of kcl; a generator that goes on was called before."""
        name = frame.f_globals.get("__name__", "")
        if event != "call" or self._ended or not _counts(name) or frame in self._seen:
            return
        self._seen.append(frame)
        code = frame.f_code
        given = [frame.f_locals.get(one) for one in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        if code.co_flags & 8:  # **keywords
            given.append(frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]))
        if any(self._holds(one, DEPTH) for one in given):
            caller = frame.f_back
            while caller is not None and not _counts(caller.f_globals.get("__name__", "")):
                caller = caller.f_back
            before = caller.f_globals["__name__"] if caller is not None else ""
            if before != name:
                self.handed[before, name] = None
        self._ended = (code.co_name, self._what) in ENDS

    def _holds(self, value: Any, depth: int) -> bool:
        if self._what == "dtypes":
            if type(value).__module__ == "numpy" and (hasattr(value, "dtype") or hasattr(value, "itemsize")):
                return True
        elif type(value) is str:
            return "__kernel" in value
        if not depth:
            return False
        if isinstance(value, dict):
            return any(self._holds(one, depth - 1) for one in list(value.values()))
        if isinstance(value, (list, tuple)):
            return any(self._holds(one, depth - 1) for one in value)
        return False


def follow(what: str, launch: Any) -> None:
    """Launch under the profiler, and print the way of the dtypes or of the code."""
    follower = Follower(what)
    sys.setprofile(follower)
    launch()
    sys.setprofile(None)
    visited: list[str] = []
    returns = 0
    for before, name in follower.handed:
        returns += name in visited
        visited += [one for one in (before, name) if one and one not in visited]
    ways = ", ".join(f"{before.removeprefix('kcl.')} > {name.removeprefix('kcl.')}" for before, name in follower.handed)
    print(f"{what}: {len(visited)} files, {returns} returns: {ways}")


def _counts(name: str) -> bool:
    return name.startswith("kcl.") and not name.startswith(ASIDE)


def main() -> None:
    """Follow the dtypes in a cold run and in a warm one, and the code in one that generates and finds its program."""
    with tempfile.TemporaryDirectory() as home:
        here = os.path.dirname(os.path.abspath(__file__))
        for run, what, off in (("cold", "dtypes", ""), ("warm", "dtypes", ""), ("warm", "code", "generator")):
            environment = {
                **os.environ,
                "XDG_CACHE_HOME": f"{home}/.cache",
                "HOME": home,
                "KCL_NO_CACHE": off,
            }
            command = [sys.executable, "-c", DRIVER, what, here]
            done = subprocess.run(command, env=environment, cwd=home, text=True, stdout=subprocess.PIPE, check=True)
            print(f"{run} {done.stdout}", end="")


if __name__ == "__main__":
    main()
