"""Programs of loopy that were not written for kcl: under `kcl run`, and with `kcl.install()` late or in a library."""

import json
import textwrap

import pytest
from harness import PLATFORMS

# What a user has: kernels, transformations, an executor, direct calls.
DRIVER = """
import sys, json
import numpy as np, pyopencl as cl, pyopencl.array as cla
import loopy as lp
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

platform = next(p for p in cl.get_platforms() if p.name == sys.argv[1])
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
a = cla.arange(queue, 64, dtype=np.float32)


def kernel(factor):
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"out[i] = {factor}*a[i]",
        [lp.GlobalArg("a,out", np.float32, shape=("n",)), lp.ValueArg("n", np.int32)],
        name=f"scale_{factor}",
    )
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


found = []
for factor in (2, 3):
    unit = kernel(factor)
    out = cla.empty_like(a)
    unit.executor(context)(queue, a=a, out=out, n=np.int32(64))
    found.append(float(out.get().sum()))
    unit(queue, a=a, out=out, n=np.int32(64))
    if "look" in sys.argv:
        found.append([unit.default_entrypoint.name, unit in {unit: 1}])
"""
END = """
import kcl
kcl.flush()
print(json.dumps([found, "loopy" in sys.modules, {layer: [row[n] for n in ("hits", "misses")] for layer, row in
      kcl.stats().items() if layer in ("generator", "binary")}]))
"""
FORBID = "import forbid; forbid.compilation(); forbid.{}()\n"


def run(child, platform_name, code, *arguments, by=("-m", "kcl", "run"), **variables):
    """Run a driver by kcl; returns what it printed in its last line."""
    (child.directory / "driver.py").write_text(textwrap.dedent(code))
    done = child.python(
        "-W", "ignore", *by, "driver.py", PLATFORMS[platform_name], *arguments, **variables
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SUMS = [2.0 * 2016, 3.0 * 2016]


@pytest.mark.slow_platforms
class TestRun:
    def test_driver(self, child, platform_name):
        """The second run of an unchanged driver imports no loopy and compiles nothing."""
        plain = run(child, platform_name, DRIVER + END, by=())
        assert plain == [SUMS, True, {"generator": [0, 0], "binary": [0, 0]}]
        cold = run(child, platform_name, DRIVER + END)
        assert cold == [SUMS, True, {"generator": [0, 2], "binary": [0, 3]}]
        warm = run(child, platform_name, FORBID.format("loopy") + DRIVER + END)
        assert warm == [SUMS, False, {"generator": [2, 0], "binary": [3, 0]}]

    @pytest.mark.slow
    def test_looked_into(self, child, platform_name):
        """One that asks its units has them made, and generates and compiles nothing."""
        expected = [SUMS[0], ["scale_2", True], SUMS[1], ["scale_3", True]]
        assert run(child, platform_name, DRIVER + END, "look")[0] == expected
        code = (
            'import forbid; forbid.compilation(); forbid.generation(("loopy.codegen",))\n'
            + DRIVER
            + END
        )
        found, has_loopy, looks = run(child, platform_name, code, "look")
        assert found == expected
        assert has_loopy
        assert looks == {"generator": [2, 0], "binary": [3, 0]}


class TestInstall:
    @pytest.mark.parametrize(
        "head",
        [
            "import loopy, kcl; kcl.install()\n",
            "import loopy as lp\nfrom loopy import make_kernel\nimport kcl; kcl.install()\n",
        ],
    )
    @pytest.mark.one_platform
    @pytest.mark.slow_cases(2)
    def test_after_loopy(self, child, platform_name, head):
        """Where loopy was imported before, its functions record: nothing is made, generated or compiled."""
        run(child, platform_name, head + DRIVER + END, by=())
        code = head + FORBID.format("generation") + DRIVER + END
        found, has_loopy, looks = run(child, platform_name, code, by=())
        assert found == SUMS
        assert has_loopy
        assert looks == {"generator": [2, 0], "binary": [3, 0]}

    @pytest.mark.one_platform
    @pytest.mark.slow
    def test_names_that_were_imported(self, child, platform_name):
        """Functions that a program has by name are loopy's: units are made, and looked up by their content."""
        code = DRIVER.replace("lp.make_kernel(", "make_kernel(").replace(
            "lp.split_iname(", "split_iname("
        )
        code = "from loopy import make_kernel, split_iname\nimport kcl; kcl.install()\n" + code
        run(child, platform_name, code + END, by=())
        warm = 'import forbid; forbid.compilation(); forbid.generation(("loopy.codegen",))\n' + code
        found, _has_loopy, looks = run(child, platform_name, warm + END, by=())
        assert found == SUMS
        assert looks == {"generator": [2, 0], "binary": [3, 0]}


# A library as pytato and sumpy are: installed, it looks into units, has them as keys, and knows functions of its own.
LIBRARY = """
import loopy as lp
import numpy as np
from loopy.types import NumpyType

KEPT = {}


class Shifted(lp.ScalarCallable):
    def with_types(self, arg_id_to_dtype, callables_table):
        for number, dtype in arg_id_to_dtype.items():
            if number >= 0 and dtype is not None:
                known = {0: dtype, -1: dtype}
                return self.copy(name_in_target="shifted", arg_id_to_dtype=known), callables_table
        return self.copy(), callables_table

    def with_descrs(self, arg_id_to_descr, callables_table):
        return self.copy(arg_id_to_descr=arg_id_to_descr), callables_table

    def generate_preambles(self, target):
        yield "shifted", "float shifted(float x) { return x + SHIFT; }"


def made(factor):
    unit = lp.make_kernel("{[i]: 0<=i<64}", f"out[i] = {factor}*a[i]", name=f"lib_{factor}", lang_version=(2018, 2))
    assert unit.default_entrypoint.name == f"lib_{factor}"
    return KEPT.setdefault(unit, unit)


def launched(unit, queue, **arguments):
    unit = KEPT.setdefault(unit, unit)
    executor = unit.executor(queue.context)
    assert isinstance(executor, lp.ExecutorBase if hasattr(lp, "ExecutorBase") else object)
    assert executor.t_unit.default_entrypoint.name == unit.default_entrypoint.name
    return executor(queue, **arguments)
""".replace("SHIFT", "5")

USER = """
import sys, json
import numpy as np, pyopencl as cl, pyopencl.array as cla
import loopy as lp
import alib

platform = next(p for p in cl.get_platforms() if p.name == sys.argv[1])
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
a = cla.arange(queue, 64, dtype=np.float32)
found = []
for factor in (2, 3):
    _event, (out,) = alib.launched(alib.made(factor), queue, a=a)
    found.append(float(out.get().sum()))
mine = lp.make_kernel(
    "{[i]: 0<=i<64}", "out[i] = shifted(a[i])", [lp.GlobalArg("a", np.float32, shape=lp.auto), "..."], name="mine",
    lang_version=(2018, 2),
)
mine = lp.register_callable(mine, "shifted", alib.Shifted("shifted"))
_event, (out,) = alib.launched(mine, queue, a=a)
found.append(float(out.get().sum()))
"""


@pytest.fixture
def library(child):
    """A library that is installed: a folder named site-packages with metadata beside the package."""
    site = child.directory / "site-packages"
    about = site / "alib-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "alib.py").write_text(LIBRARY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: alib\nVersion: 1.0\n")
    (about / "RECORD").write_text(
        "alib.py,sha256=x,1\nalib-1.0.dist-info/METADATA,,\nalib-1.0.dist-info/RECORD,,\n"
    )
    usual = child.environment

    def environment(**variables):
        found = usual(**variables)
        return found | {"PYTHONPATH": f"{found['PYTHONPATH']}:{site}"}

    child.environment = environment
    return site


@pytest.mark.one_platform
class TestLibrary:
    SUMS = (2.0 * 2016, 3.0 * 2016, 2016.0 + 5 * 64)

    @pytest.mark.usefixtures("library")
    def test_library(self, child, platform_name):
        """Units of a library are made; the second run generates and compiles nothing."""
        assert run(child, platform_name, USER + END)[0] == [*self.SUMS]
        warm = (
            'import forbid; forbid.compilation(); forbid.generation(("loopy.codegen",))\n'
            + USER
            + END
        )
        found, has_loopy, looks = run(child, platform_name, warm)
        assert found == [*self.SUMS]
        assert has_loopy
        assert looks == {"generator": [3, 0], "binary": [4, 0]}

    @pytest.mark.slow
    def test_callable_of_a_library(self, child, platform_name, library):
        """A new version of a function that a library brings is no old code."""
        assert run(child, platform_name, USER + END)[0] == [*self.SUMS]
        (library / "alib.py").write_text(LIBRARY.replace("x + 5", "x + 125"))
        (library / "alib-1.0.dist-info" / "RECORD").write_text("alib.py,sha256=y,1\n")
        assert run(child, platform_name, USER + END)[0][2] == 2016.0 + 125 * 64


REGISTERED = """
import sys, json
import numpy as np, pyopencl as cl
import loopy as lp

platform = next(p for p in cl.get_platforms() if p.name == sys.argv[1])
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)


@lp.memoize_on_disk
def transformed(unit, size):
    return lp.split_iname(unit, "i", size)


unit = lp.make_kernel("{[i]: 0<=i<8}", "y[i] = 2*x[i]", name="twice", lang_version=(2018, 2))
_, (y,) = transformed(unit, 4).executor(queue.context)(queue, x=np.ones(8))
found = float(y[0])
"""


@pytest.mark.one_platform
class TestMemoizeOnDisk:
    def test_second_run(self, child, platform_name):
        """A program with a function under loopy.memoize_on_disk hits at its second run."""
        assert run(child, platform_name, REGISTERED + END)[0] == 2.0
        found, _, counts = run(child, platform_name, REGISTERED + END, KCL_STRICT="hit")
        assert found == 2.0
        assert counts["generator"] == [1, 0]
