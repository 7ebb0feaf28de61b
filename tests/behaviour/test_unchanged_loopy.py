"""Programs of loopy that were not written for kcl: under `kcl run`, and with `kcl.install()` late or in a library."""

import packages
import pytest
from harness import PLATFORMS

# What a user has: kernels, transformations, an executor, direct calls.
DRIVER = """
import sys, json
import numpy as np, pyopencl.array as cla
import loopy as lp
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401
from opened import queue_on

queue = queue_on(sys.argv[1])
context = queue.context
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
GENERATED = 'import forbid; forbid.compilation(); forbid.generation(("loopy.codegen",))\n'
SUMS = [2.0 * 2016, 3.0 * 2016]
HITS = {"generator": [2, 0], "binary": [3, 0]}


@pytest.fixture
def run(child, platform_name):
    """Return what runs a driver by kcl and returns what it printed in its last line."""

    def run(code, *arguments, by=("-m", "kcl", "run"), **variables):
        (child.directory / "driver.py").write_text(code + END)
        words = ("-W", "ignore", *by, "driver.py", PLATFORMS[platform_name], *arguments)
        return child.script(*words, **variables)

    return run


@pytest.mark.slow_platforms
class TestRun:
    def test_driver(self, run):
        """The second run of an unchanged driver imports no loopy and compiles nothing."""
        plain, cold = run(DRIVER, by=()), run(DRIVER)
        assert plain == [SUMS, True, {"generator": [0, 0], "binary": [0, 0]}]
        assert cold == [SUMS, True, {"generator": [0, 2], "binary": [0, 3]}]
        warm = run(FORBID.format("loopy") + DRIVER)
        assert warm == [SUMS, False, {"generator": [2, 0], "binary": [3, 0]}]

    @pytest.mark.slow
    def test_looked_into(self, run):
        """One that asks its units has them made, and generates and compiles nothing."""
        expected = [SUMS[0], ["scale_2", True], SUMS[1], ["scale_3", True]]
        assert run(DRIVER, "look")[0] == expected
        assert run(GENERATED + DRIVER, "look") == [expected, True, HITS]


@pytest.mark.one_platform
class TestInstall:
    @pytest.mark.parametrize(
        "head",
        [
            "import loopy, kcl; kcl.install()\n",
            "import loopy as lp\nfrom loopy import make_kernel\nimport kcl; kcl.install()\n",
        ],
    )
    @pytest.mark.slow_cases(2)
    def test_after_loopy(self, run, head):
        """Where loopy was imported before, its functions record: nothing is made, generated or compiled."""
        run(head + DRIVER, by=())
        assert run(head + FORBID.format("generation") + DRIVER, by=()) == [SUMS, True, HITS]

    @pytest.mark.slow
    def test_names_that_were_imported(self, run):
        """Functions that a program has by name are loopy's: units are made, and looked up by their content."""
        code = "from loopy import make_kernel, split_iname\nimport kcl; kcl.install()\n" + DRIVER
        for name in ("make_kernel", "split_iname"):
            code = code.replace(f"lp.{name}(", f"{name}(")
        run(code, by=())
        found, _has_loopy, looks = run(GENERATED + code, by=())
        assert (found, looks) == (SUMS, HITS)


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
        yield "shifted", "float shifted(float x) { return x + 5; }"


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
"""

USER = """
import sys, json
import numpy as np, pyopencl.array as cla
import loopy as lp
import alib
from opened import queue_on

queue = queue_on(sys.argv[1])
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
def _library(child):
    """The library is installed: in a folder named site-packages, with metadata beside it."""
    site = child.directory / "site-packages"
    site.mkdir()
    (site / "alib.py").write_text(LIBRARY)
    packages.describe(site, "alib")
    usual = child.environment

    def environment(**variables):
        found = usual(**variables)
        return found | {"PYTHONPATH": f"{found['PYTHONPATH']}:{site}"}

    child.environment = environment


@pytest.mark.one_platform
@pytest.mark.usefixtures("_library")
def test_library(run, child):
    """Units of a library are made; the second run makes no code. A callable of a newer library is no old code."""
    expected = [*SUMS, 2016.0 + 5 * 64]
    assert run(USER)[0] == expected
    looks = {"generator": [3, 0], "binary": [4, 0]}
    assert run(GENERATED + USER) == [expected, True, looks]
    site = child.directory / "site-packages"
    (site / "alib.py").write_text(LIBRARY.replace("x + 5", "x + 125"))
    packages.describe(site, "alib")
    assert run(USER)[0][2] == 2016.0 + 125 * 64


REGISTERED = """
import sys, json
import numpy as np
import loopy as lp
from opened import queue_on

queue = queue_on(sys.argv[1])


@lp.memoize_on_disk
def transformed(unit, size):
    return lp.split_iname(unit, "i", size)


unit = lp.make_kernel("{[i]: 0<=i<8}", "y[i] = 2*x[i]", name="twice", lang_version=(2018, 2))
_, (y,) = transformed(unit, 4).executor(queue.context)(queue, x=np.ones(8))
found = float(y[0])
"""


@pytest.mark.one_platform
def test_memoize_on_disk(run):
    """A program with a function under loopy.memoize_on_disk hits at its second run."""
    assert run(REGISTERED)[0] == 2.0
    found, _, counts = run(REGISTERED, KCL_STRICT="hit")
    assert (found, counts["generator"]) == (2.0, [1, 0])
