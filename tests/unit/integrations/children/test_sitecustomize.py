"""kcl.integrations.children.sitecustomize: what a child of `kcl run` inherits, and what it is not to notice."""

import json
import os
import shutil
import sys

import pytest
from harness import run_command

from kcl.base import settings
from kcl.integrations import runner

ASK = (
    "import sys, json; print(json.dumps(['kcl.integrations' in sys.modules and"
    " sys.modules['kcl.integrations'].is_installed(), sys.path, 'sitecustomize' in sys.modules]))"
)


RUN = """
import os, subprocess, sys
{0}
done = subprocess.run([sys.executable, *{1!r}, "-c", {2!r}], capture_output=True, text=True, check=True)
print(done.stdout, done.stderr)
"""


def told(child, code, **variables):
    """Return what a program prints under `kcl run`."""
    return child.output("-m", "kcl", "run", "-c", code, **variables)


def ask(child, *options, first=""):
    """Run a program under `kcl run` that asks a child of its own; return what the child saw."""
    return json.loads(told(child, RUN.format(first, options, ASK)))


class TestSubprocess:
    def test_inherits(self, child):
        """A child under the same interpreter has the integrations, and sees a path without our folder."""
        is_installed, *others = ask(child)
        assert is_installed
        # Debian's Python has a sitecustomize of its own.
        assert others == json.loads(child.python("-c", ASK).stdout)[1:]

    @pytest.mark.parametrize(
        ("options", "first"),
        [*(((f"-{letter}",), "") for letter in "IES"), ((), "os.environ['KCL_RUN'] = 'another'")],
    )
    def test_not_asked(self, child, options, first):
        """A child that does not read PYTHONPATH or no site, or of another interpreter, is as it would have been."""
        is_installed, path, _has = ask(child, *options, first=first)
        assert not is_installed
        assert runner.CHILDREN not in path or options == ("-S",)

    def test_without_kcl(self, child):
        """A child that cannot import kcl runs as it would have."""
        (child.directory / "none").mkdir()
        (child.directory / "none" / "kcl.py").write_text("raise RuntimeError('no kcl here')\n")
        first = (
            "own, *others = os.environ['PYTHONPATH'].split(os.pathsep)\n"
            "os.environ['PYTHONPATH'] = os.pathsep.join([own, os.path.abspath('none'), *others])\n"
        )
        assert not ask(child, first=first)[0]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("import sys\nsys.customized = __file__\n", "{0} {0}"),
            ("import sys\nsys.customized = ''\n1/0\n", "ZeroDivisionError"),
        ],
    )
    def test_own_sitecustomize(self, child, text, said):
        """A `sitecustomize` that ours hides runs, and is the one that the child knows; Python says its fault."""
        path = child.directory / "sitecustomize.py"
        path.write_text(text)
        show = "import sys; print(sys.customized, getattr(sys.modules.get('sitecustomize'), '__file__', ''))"
        assert said.format(path) in told(child, RUN.format("", (), show))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_inherits(child, method):
    """Children of multiprocessing have the integrations, however they are started."""
    (child.directory / "pool.py").write_text(
        "import multiprocessing, sys\n"
        "def ask(number):\n"
        "    from kcl import integrations\n"
        "    return integrations.is_installed() and number\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        print(pool.map(ask, [1, 2, 3]))\n"
    )
    done = child.python("-m", "kcl", "run", "pool.py", method)
    assert done.stdout == "[1, 2, 3]\n", done.stderr


MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
)


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec here")
class TestMpi:
    def test_ranks(self, child):
        """Ranks of MPI have the integrations: those that the program starts, and those that each run `kcl run`."""
        show = "from kcl import integrations; print('[%d]' % integrations.is_installed())"
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = [MPIEXEC, "-n", "2", sys.executable]
        code = f"import subprocess\nprint(subprocess.run({[*command, '-c', show]!r}, stdout=-1, text=True).stdout)"
        assert told(child, code, **as_root).count("[1]") == 2
        command, environment = (
            [*command, "-m", "kcl", "run", "-c", show],
            child.environment(**as_root),
        )
        done = run_command(command, env=environment)
        assert done.stdout.count("[1]") == 2, done.stderr


def test_once(monkeypatch):
    """The folder stands once at the head of PYTHONPATH, before what stood there.

    An empty path stands for the working directory.
    """
    monkeypatch.setenv("PYTHONPATH", os.pathsep + "/some/where")
    monkeypatch.setenv(settings.RUN, "")
    runner.inherit()
    runner.inherit()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [runner.CHILDREN, "", "/some/where"]
    assert os.environ[settings.RUN] == f"{sys.implementation.cache_tag} {sys.prefix}"
