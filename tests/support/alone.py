"""Programs of pyopencl beside Python alone: the output, the status and the last line of stderr are the same.

A program is a text with the names `context`, `queue`, `cl`, `np`, `warnings`, and those of the functions below. Each
runs without kcl, and then three times under `kcl run` and three times with `kcl.install()`. The programs of a group
share their processes, one after the other, as the cells of a notebook do.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import sys
import textwrap
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from harness import PLATFORMS, Child

from kcl.drivers.pocl import client

WAYS = {"run": [sys.executable, "-m", "kcl", "run"], "install": [sys.executable]}
RUNS = 3
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
_PASSING = re.compile(r"0x[0-9a-f]+|(?:/\S*?)?(?:tempfile_|tmp)\S*?\.cl|\b\d+(?=:\d+:\d+:)")


class Answer(NamedTuple):
    """The answer of a program: its output, its status and the last line of its error."""

    printed: str
    status: int
    last: str


def answers(child: Child, platform: str, way: str, texts: Mapping[str, str], **variables: str) -> dict[str, Answer]:
    """Run programs in one process; returns the answer of each by its title."""
    (child.directory / "programs.json").write_text(json.dumps({"way": way, "platform": platform, "texts": dict(texts)}))
    said = child.script(*WAYS.get(way, [""])[1:], __file__, "programs.json", **variables)
    assert client.idle(str(child.cache / "kcl"), 120)
    return {title: Answer(*found) for title, found in said.items()}


def runs(directory: pathlib.Path, platform_name: str, texts: Mapping[str, str], **variables: str) -> dict[str, Any]:
    """Return the answers of Python alone under "", and those of each run with kcl under "way number"."""
    found = {}
    for way in ("", *WAYS):
        place = directory / (way or "alone")
        place.mkdir()
        child = Child(place)
        for number in range(RUNS if way else 1):
            name = f"{way} {number + 1}" if way else ""
            found[name] = answers(child, PLATFORMS[platform_name], way, texts, **variables)
    return found


def differing(found: Mapping[str, Mapping[str, Answer]], title: str) -> dict[str, Answer]:
    """Return the answers that are not those of Python alone, by their runs."""
    right = found[""][title]
    return {run: one[title] for run, one in found.items() if one[title] != right}


# the names that a program has


def launched(queue: Any, kernel: Any, *arguments: Any) -> int:
    """Launch a kernel of an array of one number, and return the number."""
    import pyopencl as cl

    out = np.zeros(1, np.int32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, out.nbytes)
    kernel(queue, (1,), None, buffer, *arguments)
    cl.enqueue_copy(queue, out, buffer)
    return int(out[0])


def plain(text: object) -> str:
    """Return a text without what differs from run to run: addresses, and the names of files that were made up."""
    return _PASSING.sub("#", str(text))


def _ran(text: str, title: str, context: Any, queue: Any) -> Answer:
    """Run one program as a module of its own."""
    import warnings

    import pyopencl as cl

    vars(cl).pop("__warningregistry__", None)  # as in a process of its own
    names = {name: globals()[name] for name in ("np", "launched", "plain", "COUNT", "LOUD")}
    names |= {"__name__": "__main__", "context": context, "queue": queue, "cl": cl, "warnings": warnings}
    file = pathlib.Path(f"{re.sub(r'[^a-z0-9]+', '_', title)}.py")
    file.write_text(textwrap.dedent(text))
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(file.read_text(), str(file), "exec"), names)
        except SystemExit as end:
            status = int(end.code or 0)
        except Exception:
            status = 1
            err.write(traceback.format_exc())
    last = err.getvalue().strip().splitlines()[-1:]
    return Answer(plain(out.getvalue()), status, plain("".join(last)))


def main(arguments: Sequence[str]) -> None:
    """Run the programs of a file, and print the answers."""
    job = json.loads(pathlib.Path(arguments[0]).read_text())
    import pyopencl as cl

    if job["way"] == "install":
        import kcl

        kcl.install()
    (platform,) = [one for one in cl.get_platforms() if one.name == job["platform"]]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    found = {title: _ran(text, title, context, queue) for title, text in job["texts"].items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
