"""Programs in a process of Python alone, and in processes of kcl beside it: the same lines, status and last error.

A program says IMPORT where it imports loopy as `lp`. It runs without kcl once, then three times each in some ways to
use kcl: the first run finds an empty cache, the second one what the first one left.
"""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping
from typing import NamedTuple

from harness import PLATFORMS, Child

HEAD = """
import sys
import numpy as np
import pyopencl as cl
IMPORT

context = cl.Context([PLATFORM.get_devices()[0]])
queue = cl.CommandQueue(context)


def unit(times=2):
    arguments = [lp.GlobalArg("y", np.int32, shape=(8,), is_input=False)]
    return lp.make_kernel("{[i]: 0<=i<8}", f"y[i] = {times}*i", arguments, name="k", lang_version=(2018, 2))


def show(knl):
    event, (y,) = knl.executor(context)(queue)
    print(y.get().tolist())


"""
WAYS = {  # the import of loopy, and the options of Python
    "face": ("import kcl.loopy as lp", ()),
    "install": ("import kcl\nkcl.install()\nimport loopy as lp", ()),
    "run": ("import loopy as lp", ("-m", "kcl", "run")),
    "late": ("import loopy as lp\nimport kcl\nkcl.install()", ()),
}


class Program(NamedTuple):
    """A program; `site` has the files of installed packages."""

    title: str
    text: str
    site: Mapping[str, str] = {}
    head: str = HEAD
    asks_nothing: bool = False  # the second run imports no loopy

    def __str__(self) -> str:
        return self.title


class Said(NamedTuple):
    """What a process said."""

    lines: str
    status: int
    last_error: str


def run(program: Program, child: Child, way: str, platform: str) -> Said:
    """Run a program in one way, without kcl if that is empty."""
    line, options = WAYS.get(way, ("import loopy as lp", ()))
    find = f"[one for one in cl.get_platforms() if one.name.startswith({PLATFORMS[platform]!r})][0]"
    folder = child.directory / "program"
    site = child.directory / "site-packages"
    text = (program.head + textwrap.dedent(program.text)).replace("IMPORT", line).replace("PLATFORM", find)
    text += "\nimport pathlib\npathlib.Path(__file__).with_name('loaded').write_text(str('loopy' in sys.modules))\n"
    _write(folder, {"program.py": text if way else f"import sys\nsys.modules['kcl'] = None\n{text}"})
    _write(site, program.site)
    for package in {name.partition("/")[0] for name in program.site}:
        about = f"{package}-1.0.dist-info"
        listed = [name for name in program.site if name.startswith(f"{package}/")]
        names = [*listed, f"{about}/METADATA", f"{about}/RECORD"]
        _write(site, {f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"})
        _write(site, {f"{about}/RECORD": "".join(f"{name},,\n" for name in names)})
    variables = {} if way else {"LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}
    variables |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{child.environment()['PYTHONPATH']}:{site}"}
    done = child.python(*options, folder / "program.py", cwd=folder, **variables)
    last = (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else ""  # else it may be a warning's
    return Said(done.stdout, done.returncode, last)


def _write(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def faults(program: Program, child: Child, way: str, platform: str) -> list[tuple[str, Said, Said]]:
    """List the runs of a program that say something else than Python alone, each with both."""
    plain = run(program, child, "", platform)
    assert plain.status == 0 or "Error" in plain.last_error, plain
    runs, loaded = [], []
    for _ in range(3):
        runs.append(run(program, child, way, platform))
        loaded.append((child.directory / "program" / "loaded").read_text())
    is_silent = program.asks_nothing and way != "late"
    assert not is_silent or loaded == ["True", "False", "False"], "a later run imports loopy"
    return [(f"run {number} under {way}", said, plain) for number, said in enumerate(runs, 1) if said != plain]
