"""kcl with the loopy that people have, wherever its files lie."""

import json
import pathlib

import pytest
from harness import PLATFORMS, Child
from loopies import EXPRESSION, PLACES, Loopy

DRIVER = """
import sys, json
import numpy as np, pyopencl as cl, pyopencl.array as cla
import loopy as lp
platform = next(p for p in cl.get_platforms() if p.name == sys.argv[1])
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
a = cla.zeros(queue, 16, np.float32) + 1
# pymbolic, which lies beside, warns of `if`
unit = lp.make_kernel("{[i]: 0<=i<16}", "out[i] = 2.5*if(i >= 0, a[i], 0)",
                      [lp.GlobalArg("a,out", np.float32, shape=(16,))], name="scaled", lang_version=(2018, 2))
_, (out,) = unit.executor(queue.context)(queue, a=a)
print(json.dumps([float(out.get()[3]), getattr(sys.modules.get("loopy"), "__file__", None)]))
"""
STRICT = {"KCL_STRICT": "hit"}
pytestmark = [pytest.mark.one_platform, pytest.mark.slow_platforms]


def run(
    child: Child, platform_name: str, loopy: Loopy, first: str = "", **variables: str
) -> tuple[float, str | None]:
    """Run the driver by kcl with a copy of loopy; return its number, and the file of the loopy that it imported."""
    (child.directory / "driver.py").write_text(f"{first}\n{DRIVER}")
    words = "-W", "ignore", "-m", "kcl", "run", "driver.py", PLATFORMS[platform_name]
    path = f"{loopy.path}:{child.environment()['PYTHONPATH']}"
    done = child.python(*words, **{"PYTHONPATH": path, **variables})
    assert done.returncode == 0, done.stderr
    number, file = json.loads(done.stdout.splitlines()[-1])
    return number, file


class TestPlaces:
    @pytest.mark.parametrize("place", PLACES)
    def test_second_run(
        self, child: Child, platform_name: str, tmp_path: pathlib.Path, place: str
    ) -> None:
        """The second run of a program hits, wherever loopy lies, and imports no loopy."""
        loopy = Loopy(tmp_path / place, place)
        number, file = run(child, platform_name, loopy)
        assert number == 2.5
        assert (file or "").startswith(str(tmp_path))
        assert run(child, platform_name, loopy, **STRICT) == (2.5, None)

    def test_same_files(self, child: Child, platform_name: str, tmp_path: pathlib.Path) -> None:
        """A wheel, an editable install and a checkout of the same files share their entries."""
        run(child, platform_name, Loopy(tmp_path / "wheel", "wheel"))
        for place in ("editable", "checkout"):
            loopy = Loopy(tmp_path / place, place)
            assert run(child, platform_name, loopy, **STRICT) == (2.5, None)


class TestEdits:
    @pytest.mark.parametrize("place", ["wheel", "editable"])
    def test_one_line(
        self, child: Child, platform_name: str, tmp_path: pathlib.Path, place: str
    ) -> None:
        """A line of loopy that was edited by hand decides the number; an explanation names the file."""
        loopy = Loopy(tmp_path / place, place)
        assert run(child, platform_name, loopy)[0] == 2.5
        loopy.edit('+"f")', '+"f*2.0f")')
        assert run(child, platform_name, loopy)[0] == 5.0
        said = child.python("-m", "kcl", "explain").stdout
        assert "its files changed\n      loopy/target/c/codegen/expression.py" in said
        loopy.edit('+"f*2.0f")', '+"f")')
        assert run(child, platform_name, loopy, **STRICT)[0] == 2.5

    def test_while_it_runs(self, child: Child, platform_name: str, tmp_path: pathlib.Path) -> None:
        """What a program generates with a loopy that is edited as it runs is not stored."""
        loopy = Loopy(tmp_path / "wheel", "wheel")
        edit = f"open({str(loopy.folder / EXPRESSION)!r}, 'a').write('# new')"
        assert run(child, platform_name, loopy, first=f"import loopy; {edit}")[0] == 2.5
        number, file = run(child, platform_name, loopy)
        assert number == 2.5
        assert file is not None
