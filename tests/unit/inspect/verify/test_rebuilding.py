"""kcl.inspect.verify.rebuilding: stored programs are compared with their source, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from printed import differs

import kcl
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.inspect.inventory import ListedEntry
from kcl.inspect.verify import rebuilding


def verify(project, *options):
    """Run `kcl verify --json` beside a project's cache: (exit status, what it says)."""
    command = [sys.executable, "-m", "kcl", "verify", "--json", *options]
    refused = project.child.directory / "refused" / "loopy"
    refused.mkdir(parents=True, exist_ok=True)
    (refused / "__init__.py").write_text("raise AssertionError('loopy is imported')\n")
    path = os.pathsep.join([str(refused.parent), project.child.environment()["PYTHONPATH"]])
    environment = project.child.environment(PYTHONPATH=path)
    done = subprocess.run(command, env=environment, cwd=project.folder, text=True, capture_output=True, timeout=300)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


RECIPES = """
def crash():
    code = "__kernel void crash(__global const float *x, __global float *y, int n)"
    code += "{ volatile __global float *p = 0; int i = get_global_id(0); if (x[i] != 0) p[i] = 1; y[i] = x[i]; }"
    return kcl.Source(code, entry="crash", arguments=factors.ARGUMENTS, global_size="(n,)")


def wrong():
    return factors.scaled("body", 3)


def launches(queue, group):
    x = np.zeros(100, np.float32)
    for recipe in (crash, wrong):
        yield recipe.__name__, kcl.kernel(recipe)()(queue, x=x)


def main("""


@pytest.mark.one_platform
class TestRebuild:
    def test_home(self):
        """The child finds kcl where this process did, also without PYTHONPATH."""
        assert os.path.samefile(os.path.join(rebuilding._HOME, "kcl", "__init__.py"), kcl.__file__)

    def test_no_recipe(self):
        """A program that pyopencl launched itself is not comparable, and neither is one whose invoker is gone."""
        about = {"kernel": "k", "program": "p", "kernels": ["k"]}
        for launch, said in ({}, "no recipe launched it"), ({"launch": {}}, "no invoker"):
            program = ListedEntry("binary", "0" * 64, Key([]), {**about, **launch}, {}, 0, 0.0)
            ((_program, compared),) = rebuilding.compare([program], [])
            assert compared.verdict == "not comparable"
            assert said in compared.reason

    def test_compared(self, warm):
        """Stored programs compute what their source computes; one that does not is named, and one that cannot be known.

        Besides two that are right there is one with the binary of another source, one whose binary is none, one that
        ends the process where it is launched with other numbers than it was, and one that was never launched.
        """
        warm.edit("driver.py", "def main(", RECIPES)
        warm.run("recipes")
        warm.finish()
        address, entry = warm.binary_of("body")
        _place, other = warm.binary_of("wrong")
        exchanged = Entry(entry.key, entry.metadata, {**entry.parts, "binary": other.parts["binary"]})
        warm.binaries.put(address, exchanged.pack())
        address, entry = warm.binary_of("helped")
        warm.binaries.put(address, Entry(entry.key, entry.metadata, {**entry.parts, "binary": b"none"}).pack())
        address, entry = warm.binary_of("elsewhere")
        about = {name: value for name, value in entry.metadata.items() if name != "launch"}
        warm.binaries.put(address, Entry(entry.key, about, entry.parts).pack())
        kept = {"control", "typed", "body", "helped", "elsewhere", "crash"}
        for address in list(warm.binaries.scan()):
            if Entry.unpack(warm.binaries.get(address)).metadata["kernel"] not in kept:
                warm.binaries.delete(address)

        status, said = verify(warm, "--rebuild")
        found = {one["kernel"]: (one["verdict"], one["reason"]) for one in said["rebuilt"]}
        assert (status, said["damaged"]) == (1, [])
        assert differs("verify", said) == []
        assert found.keys() == kept
        assert found["control"] == found["typed"] == ("fine", "")
        assert found["body"][0] == found["helped"][0] == "different"
        assert "it computes something else than its source" in found["body"][1]
        assert found["crash"][0] == "not comparable"
        assert "built from source it ends the process" in found["crash"][1]
        assert found["elsewhere"][0] == "not comparable"
        assert "after `kcl purge binary --kernel elsewhere` the next launch" in found["elsewhere"][1]
