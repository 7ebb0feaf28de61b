"""kcl.base.spans: what took how long, as trace events in one file that is whole at any time."""

import os
import threading

import pytest
from harness import PLATFORMS
from trace_files import whole

from kcl.base import spans

DRIVER = """
import sys, json
import numpy as np, pyopencl as cl, pyopencl.array as cla
import loopy as lp
platform = next(p for p in cl.get_platforms() if p.name == sys.argv[1])
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
unit = lp.make_kernel("{[i]: 0<=i<64}", "out[i] = 2*a[i]", [lp.GlobalArg("a,out", np.float32, shape=(64,))],
    name="doubled", lang_version=(2018, 2))
unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")
a = cla.arange(queue, 64, dtype=np.float32)
unit.executor(context)(queue, a=a, out=cla.empty_like(a))
"""

TRACED = ("-W", "ignore", "-m", "kcl", "run", "--trace")


def test_off():
    """Where nothing is asked for nothing is kept, and all spans are one object."""
    assert spans.span("build") is spans.span("load", "kernel", "binary")


def test_kept(on):
    """A span has its name, its layer and its time; a nested one lies within, and work that fails took its time, too.

    Each is written once.
    """
    with pytest.raises(ZeroDivisionError), spans.span("build", "axpy", "binary"):
        with spans.span("load"):
            raise ZeroDivisionError
    for _ in range(2):
        spans.write()
    load, build = whole(on)
    assert (build["name"], build["cat"]) == ("build axpy", "binary")
    assert build["args"] == {"kernel": "axpy", "layer": "binary"}
    assert load["name"] == "load"
    assert build["ts"] <= load["ts"]
    assert load["ts"] + load["dur"] <= build["ts"] + build["dur"] + 1
    assert (build["pid"], build["tid"]) == (os.getpid(), threading.get_ident())


@pytest.mark.one_platform
def test_cold_and_warm(child, platform_name):
    """A cold run generates and builds, with its helper; a warm one loads."""
    (child.directory / "driver.py").write_text(DRIVER)
    found = []
    for name in ("cold.json", "warm.json"):
        done = child.python(*TRACED, name, "driver.py", PLATFORMS[platform_name])
        assert done.returncode == child.run("import kcl; kcl.flush()").returncode == 0, done.stderr
        found.append({event["name"] for event in whole(child.directory / name)})
    cold, warm = found
    assert {"import loopy", "make make_kernel", "generate doubled", "build doubled"} <= cold
    assert {"import pyopencl", "load doubled", "first launch doubled"} <= warm
    begins = ("import loopy", "make", "generate", "build")
    assert not [name for name in warm if name.startswith(begins)]
