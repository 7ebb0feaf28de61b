"""Several kernels of one program text: one build and one entry, whichever kernels are asked for, in whichever order."""

import shutil

import pytest
from commands import run
from harness import PLATFORMS

import kcl
from kcl import option

pytestmark = pytest.mark.slow_platforms

DRIVER = """
import json, sys
import numpy as np
import kcl
from opened import queue_on

NAMES = sys.argv[2:]
TEXT = '''
kernel void one(global float *x) { x[get_global_id(0)] = 1; }
kernel void two(global float *x) { x[get_global_id(0)] = 2; }
kernel void three(global float *x) { x[get_global_id(0)] = 3; }
'''

def view(name):
    return kcl.Source(TEXT, entry=name, arguments=[kcl.Array("x", np.float32, "(8,)", "out")], global_size="(8,)")

@kcl.kernel
def first(name):
    return view(name)

@kcl.kernel
def second(name):
    return view(name)

queue = queue_on(sys.argv[1])
if FORBIDDEN:
    import forbid
    forbid.compilation()
found = [float(recipe(name)(queue, out_host=True)[1][0][0]) for recipe in (first, second) for name in NAMES]
kcl.flush()
print(json.dumps([found, kcl.stats()["binary"]]))
"""


def driver(child, platform_name, *names, forbidden=False, **variables):
    """Run the driver; returns the numbers of its kernels, and the counters of the binary layer."""
    code = DRIVER.replace("FORBIDDEN", str(forbidden))
    return child.json(code, PLATFORMS[platform_name], *names, **variables)


def test_one_build_and_one_entry(child, platform_name):
    """Six kernels of two recipes are one program: it is built once, stored once, and found by every kernel.

    Every invoker of the program is unpacked; a copy of an entry under another address counts as that entry.
    """
    found, counted = driver(child, platform_name, "one", "two", "three")
    assert found == [1, 2, 3] * 2
    assert (counted["misses"], counted["hits"]) == (1, 0)
    again = driver(child, platform_name, "three", "one", "two", forbidden=True, KCL_STRICT="hit")
    assert again[0] == [3, 1, 2] * 2
    assert (again[1]["misses"], again[1]["hits"]) == (0, 1)
    with option.cache_dir(child.cache):
        assert len(kcl.entries("binary")) == 1
        run("unpack", str(child.directory / "first"))
        assert len(list((child.directory / "first").rglob("invoker.py"))) == 3
        (entry,) = [path for path in child.cache.rglob("one-*") if path.is_file()]
        shutil.copy(entry, entry.with_name(entry.name.replace("one-", "copy-")))
        run("unpack", str(child.directory / "second"))
        assert len(list((child.directory / "second").rglob("program.bin"))) == 1
        run("show", entry.name.removeprefix("one-"))
