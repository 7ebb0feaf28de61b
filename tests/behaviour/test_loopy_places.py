"""kcl with the loopy that people have, wherever its files lie."""

import pytest
from harness import PLATFORMS
from loopies import EXPRESSION, PLACES, Loopy

DRIVER = """
import sys, json
import numpy as np, pyopencl.array as cla
import loopy as lp
from opened import queue_on
queue = queue_on(sys.argv[1])
a = cla.zeros(queue, 16, np.float32) + 1
# pymbolic, which lies beside, warns of `if`
unit = lp.make_kernel("{[i]: 0<=i<16}", "out[i] = 2.5*if(i >= 0, a[i], 0)",
                      [lp.GlobalArg("a,out", np.float32, shape=(16,))], name="scaled", lang_version=(2018, 2))
_, (out,) = unit.executor(queue.context)(queue, a=a)
print(json.dumps([float(out.get()[3]), getattr(sys.modules.get("loopy"), "__file__", None)]))
"""
STRICT = {"KCL_STRICT": "hit"}
pytestmark = [pytest.mark.one_platform, pytest.mark.slow_platforms]


@pytest.fixture
def run(child, platform_name):
    """Return what runs the driver by kcl with a copy of loopy: its number, and the file of the loopy that it imports."""

    def run(loopy, first="", **variables):
        (child.directory / "driver.py").write_text(f"{first}\n{DRIVER}")
        words = "-W", "ignore", "-m", "kcl", "run", "driver.py", PLATFORMS[platform_name]
        path = f"{loopy.path}:{child.environment()['PYTHONPATH']}"
        return child.script(*words, **{"PYTHONPATH": path, **variables})

    return run


class TestPlaces:
    @pytest.mark.parametrize("place", PLACES)
    def test_second_run(self, run, tmp_path, place):
        """The second run of a program hits, wherever loopy lies, and imports no loopy."""
        loopy = Loopy(tmp_path / place, place)
        number, file = run(loopy)
        assert number == 2.5
        assert (file or "").startswith(str(tmp_path))
        assert run(loopy, **STRICT) == [2.5, None]

    def test_same_files(self, run, tmp_path):
        """A wheel, an editable install and a checkout of the same files share their entries."""
        run(Loopy(tmp_path / "wheel", "wheel"))
        for place in ("editable", "checkout"):
            assert run(Loopy(tmp_path / place, place), **STRICT) == [2.5, None]


class TestEdits:
    @pytest.mark.parametrize("place", ["wheel", "editable"])
    def test_one_line(self, run, child, tmp_path, place):
        """A line of loopy that was edited by hand decides the number; an explanation names the file."""
        loopy = Loopy(tmp_path / place, place)
        assert run(loopy)[0] == 2.5
        loopy.edit('+"f")', '+"f*2.0f")')
        assert run(loopy)[0] == 5.0
        said = child.python("-m", "kcl", "explain").stdout
        assert "its files changed\n      loopy/target/c/codegen/expression.py" in said
        loopy.edit('+"f*2.0f")', '+"f")')
        assert run(loopy, **STRICT)[0] == 2.5

    def test_while_it_runs(self, run, tmp_path):
        """What a program generates with a loopy that is edited as it runs is not stored."""
        loopy = Loopy(tmp_path / "wheel", "wheel")
        edit = f"open({str(loopy.folder / EXPRESSION)!r}, 'a').write('# new')"
        assert run(loopy, first=f"import loopy; {edit}")[0] == 2.5
        number, file = run(loopy)
        assert number == 2.5
        assert file is not None
