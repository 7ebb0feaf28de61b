"""Several kernels of one program text: one build and one entry, whichever kernels are asked for, in whichever order."""

import shutil

import pytest
from harness import PLATFORMS

pytestmark = pytest.mark.slow_platforms

DRIVER = """
import json, sys
import numpy as np
import pyopencl as cl
import kcl

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

(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(platform.get_devices())
queue = cl.CommandQueue(context)
if FORBIDDEN:
    import forbid
    forbid.compilation()
found = [float(recipe(name)(queue, out_host=True)[1][0][0]) for recipe in (first, second) for name in NAMES]
kcl.flush()
print(json.dumps([found, kcl.stats()["binary"]]))
"""

SPECIALISED = """
import json
from kcl.inspect import inventory

(entry,) = inventory.entries("binary")
print(json.dumps(sorted(entry.metadata["specialisations"])))
"""


def driver(child, platform_name, *names, forbidden=False, **variables):
    """Run the driver; returns the numbers of its kernels, and the counters of the binary layer."""
    code = DRIVER.replace("FORBIDDEN", str(forbidden))
    return child.json(code, PLATFORMS[platform_name], *names, **variables)


def test_one_build_and_one_entry(child, platform_name):
    """Six kernels of two recipes are one program: it is built once, stored once, and found by every kernel."""
    found, counted = driver(child, platform_name, "one", "two", "three")
    assert found == [1, 2, 3] * 2
    assert counted["misses"] == 1
    assert counted["hits"] == 0
    listed = child.run(
        "from kcl.cli import main; main(['ls', '--layer', 'binary', '--json'])"
    ).stdout
    assert listed.count('"layer": "binary"') == 1
    found, counted = driver(
        child, platform_name, "three", "one", "two", forbidden=True, KCL_STRICT="hit"
    )
    assert found == [3, 1, 2] * 2
    assert (counted["misses"], counted["hits"]) == (0, 1)


@pytest.mark.parametrize("names", [("two",), ("three", "two")])
def test_other_kernels_later(child, platform_name, names):
    """Kernels that the first run did not ask for hit in the second, and their code is in the entry after that."""
    driver(child, platform_name, "one")
    found, counted = driver(child, platform_name, *names, forbidden=True)
    assert found == [{"two": 2, "three": 3}[name] for name in names] * 2
    assert counted["hits"] == 1
    if platform_name == "pocl":
        assert child.json(SPECIALISED) == sorted({"one", *names})


def test_unpacked(child, platform_name):
    """Every invoker of the program is unpacked; a copy of an entry under another address counts as that entry."""
    driver(child, platform_name, "one", "two", "three")
    unpack = "from kcl.cli import main; main(['unpack', 'unpacked'])"
    assert child.run(unpack).returncode == 0
    assert len(list((child.directory / "unpacked").rglob("invoker.py"))) == 3
    (entry,) = [path for path in child.cache.rglob("one-*") if path.is_file()]
    shutil.copy(entry, entry.with_name(entry.name.replace("one-", "copy-")))
    shutil.rmtree(child.directory / "unpacked")
    assert child.run(unpack).returncode == 0
    assert len(list((child.directory / "unpacked").rglob("program.bin"))) == 1
    digest = entry.name.removeprefix("one-")
    assert child.run(f"from kcl.cli import main; main(['show', '{digest}'])").returncode == 0
