"""Programs of pyopencl under `kcl.install()`: switches, inputs and threads. What they say: truth/families."""

import pytest
from harness import PLATFORMS

from kcl.drivers.pocl import client

pytestmark = pytest.mark.slow_platforms

# The platform is the first argument.
START = """
import sys, warnings, json, numpy as np, pyopencl as cl, kcl
kcl.install()
context = cl.Context([next(p for p in cl.get_platforms() if p.name == sys.argv[1]).get_devices()[0]])
queue = cl.CommandQueue(context)
looks = []
kcl.add_hook(lambda event: looks.append((event.layer, event.outcome)) if event.layer == "binary" else None)
from beside_driver import launched
ADD = "kernel void add(global int *out) { out[get_global_id(0)] += N; }"
"""
ADDED = (
    START
    + """
found = launched(queue, cl.Program(context, ADD).build("-DN=3").add)
kcl.flush()
print(json.dumps([found, looks]))
"""
)


class TestSwitches:
    @pytest.mark.one_platform
    @pytest.mark.parametrize("variable", ["KCL_NO_CACHE", "PYOPENCL_NO_CACHE"])
    def test_off(self, child, platform_name, variable):
        """A program is built as without kcl where the binary layer is off."""
        off = child.json(ADDED, PLATFORMS[platform_name], **{variable: "1"})
        assert off == [3, []]
        assert not list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))

    @pytest.mark.one_platform
    def test_uninstalled(self, child, platform_name):
        """After `kcl.uninstall` programs are pyopencl's; those that were built stay usable."""
        code = (
            START
            + """
            before = cl.Program(context, ADD).build("-DN=3")
            kcl.uninstall()
            after = cl.Program(context, ADD).build("-DN=4")
            found = [launched(queue, one.add) for one in (before, after)]
            print(json.dumps([found, looks, before.kernel_names]))
        """.replace("\n            ", "\n")
        )
        assert child.json(code, PLATFORMS[platform_name]) == [
            [3, 4],
            [["binary", "miss"]],
            "add",
        ]


class TestInputs:
    @pytest.mark.one_platform
    def test_forced_options(self, child, platform_name):
        """`PYOPENCL_BUILD_OPTIONS` is part of what a program is made of."""
        code = ADDED.replace('"-DN=3"', "")
        found = []
        for number in (1, 2, 1):
            options = {"PYOPENCL_BUILD_OPTIONS": f"-DN={number}"}
            found.append(child.json(code, PLATFORMS[platform_name], **options))
            assert client.idle(str(child.cache / "kcl"), 120)
        assert found == [
            [1, [["binary", "miss"]]],
            [2, [["binary", "miss"]]],
            [1, [["binary", "hit"]]],
        ]

    def test_name_of_the_file(self, child, platform_name):
        """A program that asks for `__FILE__` is stored; its source is shown as it was given."""
        code = (
            START
            + """
            text = "kernel void add(global int *out) { if (out[0] > 9) printf(__FILE__); }"
            program = cl.Program(context, text).build()
            print(json.dumps([program.source == text, launched(queue, program.add), looks]))
        """.replace("\n            ", "\n")
        )
        found = []
        for _ in range(2):
            found.append(child.json(code, PLATFORMS[platform_name]))
            assert client.idle(str(child.cache / "kcl"), 120)
        assert found == [[True, 0, [["binary", outcome]]] for outcome in ("miss", "hit")]


@pytest.mark.faults
class TestFaults:
    @pytest.mark.one_platform
    def test_threads(self, child, platform_name):
        """Threads that build one program at once compile it once: on PoCL, whose binaries come later, by its cache."""
        code = (
            START
            + """
            import threading
            programs = [cl.Program(context, ADD) for _ in range(8)]
            threads = [threading.Thread(target=one.build, args=("-DN=7",)) for one in programs]
            [one.start() for one in threads]; [one.join() for one in threads]
            print(json.dumps([[launched(queue, one.add) for one in programs], looks]))
        """.replace("\n            ", "\n")
        )
        found, looks = child.json(code, PLATFORMS[platform_name])
        assert found == [7] * 8
        if platform_name == "pocl":
            assert len(list(child.cache.glob("pocl/kcache/*/*/program.bc"))) == 1
        else:
            assert looks.count(["binary", "miss"]) == 1
