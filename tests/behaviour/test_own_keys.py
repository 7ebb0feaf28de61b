"""kcl is in the generator key by its content, and in no program key: a new kcl generates again and compiles nothing."""

import shutil

import pytest
from harness import PLATFORMS, ROOT

pytestmark = pytest.mark.one_platform
DRIVER = """
import json
import sys

import numpy as np
import pyopencl as cl

import kcl

@kcl.kernel
def recipe():
    import loopy as lp
    knl = lp.make_kernel("{[i]: 0<=i<16}", "y[i] = 2*x[i]", [lp.GlobalArg("x,y", np.float32, shape=(16,))],
                         name="own", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", 4)

(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
looks = {}
kcl.add_hook(lambda event: looks.setdefault(event.layer, event.outcome))
kernel = recipe()
_event, (y,) = kernel(queue, x=np.ones(16, np.float32))
keys = {layer: [name for name, _ in key.parts] for layer, key in kernel.key(context).items()}
print(json.dumps([kcl.__file__, float(y.sum()), looks, keys]))
"""


@pytest.mark.slow
def test_front_end_of_another_kcl(child, platform_name):
    """Where kcl's front end writes other code, the generator misses; where the text is the same, the binary hits."""
    shutil.copytree(ROOT / "kcl", child.directory / "kcl", ignore=shutil.ignore_patterns("__pycache__"))
    front_end = child.directory / "kcl" / "generate" / "frontends" / "loopy.py"

    def run():
        file, total, looks, keys = child.json(DRIVER, PLATFORMS[platform_name])
        assert file.startswith(str(child.directory))
        assert total == 32.0
        assert "kcl" in keys["generator"]
        assert "kcl" not in keys["binary"]
        return looks

    assert run() == {"generator": "miss", "binary": "miss"}
    assert run() == {"generator": "hit", "binary": "hit"}
    front_end.write_text(front_end.read_text() + "\n# another front end that writes the same\n")
    assert run() == {"generator": "miss", "binary": "hit"}
    assert run() == {"generator": "hit", "binary": "hit"}
