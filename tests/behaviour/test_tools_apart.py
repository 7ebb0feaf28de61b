"""A launch needs no tool: without the rooms of tools all is found in the second run, and nothing is said."""

import json
import shutil

import pytest
from harness import PLATFORMS, Child
from house import PACKAGE

from kcl import drivers

TOOLS = ("bundle", "cli", "inspect", "remote", "tuning", "workers")
# The file or the folder of each driver.
DRIVERS = [
    f"{module.split('.')[2]}{ending}"
    for module, _driver in drivers.TABLE.values()
    for ending in ("", ".py")
]
DRIVER = """
import json
import sys

import kcl

kcl.install()
import loopy as lp
import numpy as np
from opened import over_x, queue_on


@kcl.kernel
def doubled():
    return over_x("doubled", "*= 2")


@kcl.kernel
def filled(n=kcl.sizes()):
    arguments = [lp.GlobalArg("x", np.float32, shape=n)]
    return lp.make_kernel(f"{{[i]: 0<=i<{n}}}", "x[i] = 3", arguments, lang_version=(2018, 2))


queue = queue_on(sys.argv[1])
_event, (x,) = filled(n=4)(queue, out_host=True)
_event, (doubled,) = doubled()(queue, x=x)
unit = lp.make_kernel("{[i]: 0<=i<4}", "y[i] = 2*x[i]", lang_version=(2018, 2))
_event, (y,) = unit.executor(queue.context)(queue, x=x)
names = {part for name in sys.modules if name.startswith("kcl.") for part in name.split(".")}
print(json.dumps([doubled.tolist(), y.tolist(), kcl.__file__, sorted(names)]))
"""


@pytest.mark.one_platform
@pytest.mark.parametrize(
    ("left_out", "strict"),
    [(TOOLS, ("fault", "hit,fault")), ((*TOOLS, *DRIVERS), ("",))],
    ids=["tools", "tools and drivers"],
)
def test_a_launch_needs_no_tool(tmp_path, platform_name, left_out, strict):
    """Where an application left a driver out, too, its platform has the plain one, and a warning says so."""
    child = Child(tmp_path)
    ignored = shutil.ignore_patterns(*left_out, "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "kcl", ignore=ignored)
    for words in strict:
        run = child.finished("-c", DRIVER, PLATFORMS[platform_name], KCL_STRICT=words)
        assert "kcl" not in run.stderr or left_out is not TOOLS
        doubled, y, file, names = json.loads(run.stdout)
        assert doubled == [6.0] * 4
        assert y == [12.0] * 4
        assert file == str(tmp_path / "kcl" / "__init__.py")
        assert not {*left_out} & {*names}
