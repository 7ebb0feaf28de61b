"""kcl.integrations.pyinstaller: an application that PyInstaller makes of a program computes, and hits."""

import json
import pathlib
import subprocess
import sys

import pytest
from harness import PLATFORMS

from kcl.drivers.pocl import client
from kcl.integrations import pyinstaller

PROGRAM = """
import json
import numpy as np, pyopencl as cl
import kcl

@kcl.kernel
def doubled():
    text = "kernel void doubled(global float *x) { x[get_global_id(0)] *= 2; }"
    x = kcl.Array("x", np.float32, "(8,)", "inout")
    return kcl.Source(text, entry="doubled", arguments=[x], global_size="(8,)")

@kcl.kernel
def tripled(block=4):
    import loopy as lp
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]")  # without lang_version: loopy warns
    return lp.split_iname(unit, "i", block)

@kcl.kernel
def summed():
    import loopy as lp
    return lp.make_kernel("{[i, j]: 0<=i, j<n}", "y[i] = x[i]*sum(j, x[j])", lang_version=(2018, 2))

(platform,) = [one for one in cl.get_platforms() if one.name == PLATFORM]
x = np.ones(8, np.float32)
context = cl.Context(platform.get_devices())
queue = cl.CommandQueue(context)
doubled()(queue, x=x)
sums = [float(x.sum())]
for kernel in (tripled(), summed()):
    _event, (y,) = kernel(queue, x=x)
    sums.append(float(y.sum()))
counted = kcl.stats()
print(json.dumps([sums, counted["generator"]["hits"], counted["binary"]["hits"]]))
"""
# What the program does not use, and PyInstaller would look through.
EXCLUDED = ("matplotlib", "PIL", "IPython", "mpi4py", "redis", "obstore")
OPTIONS = [
    *(
        "-y",
        "--log-level=ERROR",
        "--collect-all=pyopencl",
        "--collect-all=pocl_binary_distribution",
    ),
    *(f"--exclude-module={name}" for name in EXCLUDED),
]


def test_hooks():
    """PyInstaller is told of the folder with the hook, and of what an application runs as it starts."""
    (folder,) = map(pathlib.Path, pyinstaller.folders())
    named = json.loads((folder / "rthooks.dat").read_text())
    assert (folder / "hook-kcl.py").is_file()
    assert all((folder / "rthooks" / name).is_file() for name in named["kcl"])


@pytest.mark.slow
@pytest.mark.slow_platforms
def test_application(child, platform_name):
    """The first run of an application computes and a helper of its own completes what it stored. The second run hits."""
    pytest.importorskip("PyInstaller")
    text = PROGRAM.replace("PLATFORM", repr(PLATFORMS[platform_name]))
    (child.directory / "app.py").write_text(text)
    streams, folder = {"capture_output": True, "text": True}, child.directory
    environment = child.environment(PYINSTALLER_CONFIG_DIR=str(folder / "config"))
    command = [sys.executable, "-m", "PyInstaller", *OPTIONS, "app.py"]
    # This takes minutes on a busy machine.
    done = subprocess.run(command, cwd=folder, env=environment, **streams)
    assert done.returncode == 0, done.stderr
    found = []
    for _run in range(2):
        application = folder / "dist" / "app" / "app"
        ran = subprocess.run([application], env=child.environment(), cwd="/", **streams)
        assert ran.returncode == 0, ran.stderr
        found.append(json.loads(ran.stdout))
        assert client.idle(str(child.cache / "kcl"), 120.0)
    sums = [16.0, 48.0, 256.0]
    assert found == [[sums, 0, 0], [sums, 3, 3]]
    assert "lang_version" in ran.stderr  # loopy's warning is given again
    said = child.python("-m", "kcl", "explain").stdout
    assert said.count("first time seen") == 2  # a layer
    assert "flush" not in said
    assert "changed" not in said
