"""Root in a container whose workspace belongs to another user: a cache that root keeps for that user."""

import os
import pathlib
import sys
import tempfile

import pytest
from harness import Child, run_command

USER = 47110  # in no list of users


def is_python_for_all() -> bool:
    """Return True if every user may enter the folders of this Python."""
    place = pathlib.Path(os.__file__).resolve().parent
    return all(folder.stat().st_mode & 0o001 for folder in (place, *place.parents))


pytestmark = [
    pytest.mark.one_platform,
    pytest.mark.faults,
    pytest.mark.skipif(
        os.name != "posix" or os.geteuid() != 0,
        reason="only root can keep a cache for another user",
    ),
    pytest.mark.skipif(not is_python_for_all(), reason="another user cannot start this Python"),
]
PROGRAM = """
import os, subprocess, sys, warnings

import numpy as np
import pyopencl as cl

import kcl

warnings.simplefilter("ignore", cl.CompilerWarning)
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)


@kcl.kernel
def halved():
    text = "kernel void halved(global float *x) { x[get_global_id(0)] /= 2; }"
    x = kcl.Array("x", np.float32, "(4,)", "inout")
    return kcl.Source(text, entry="halved", arguments=[x], global_size="(4,)")


event, (x,) = halved()(queue, x=np.ones(4, np.float32))
assert x.tolist() == [0.5] * 4
if len(sys.argv) > 1:  # go on as the user, who may be unable to import anything, and ask the disk again
    subprocess.run(["chown", "-R", sys.argv[1], os.environ["POCL_CACHE_DIR"]], check=True)
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    kcl.option.cache_dir(os.environ["KCL_CACHE_DIR"])
    event, (x,) = halved()(queue, x=np.ones(4, np.float32))
    assert kcl.stats()["binary"]["hits"] == 2
"""


class Container:
    """A folder for the home of root and for the workspace of a user, which every user may enter."""

    def __init__(self, folder: pathlib.Path) -> None:
        os.chmod(folder, 0o755)
        self.child = Child(folder)
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.program = self.workspace / "solver.py"
        self.program.write_text(PROGRAM)
        os.chown(self.workspace, USER, USER)
        self.cache = self.workspace / "cache" / "kernels"

    def python(self, *words: object, **variables: str):
        """Run Python as root, whose kernels shall lie in the workspace."""
        place = {
            "KCL_CACHE_DIR": str(self.cache),
            "POCL_CACHE_DIR": str(self.child.directory / "pocl"),
        }
        return self.child.python(*words, **{**place, **variables})

    def owners(self) -> set[int]:
        """Return the owners of everything in the cache; there is something of each folder of kcl's."""
        assert {path.name for path in self.cache.iterdir()} == {"pytools", "pyopencl", "kcl"}
        return {
            path.lstat().st_uid for path in (self.cache.parent, self.cache, *self.cache.rglob("*"))
        }


@pytest.fixture
def container():
    with tempfile.TemporaryDirectory(prefix="kcl-container-") as name:
        yield Container(pathlib.Path(name))


def stores(container, **variables):
    """Root stores: the second run hits, and everything is the user's, who hits, too."""
    for strict in ({}, {"KCL_STRICT": "hit"}):
        done = container.python(container.program, **strict, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        assert container.python("-m", "kcl", "flush", **variables).returncode == 0
    assert container.owners() == {USER}
    done = container.python(container.program, USER, KCL_STRICT="hit", **variables)
    assert (done.returncode, done.stderr) == (0, "")


def test_named_user(container):
    """`KCL_TRUST_UID` names the user for whom root keeps the cache."""
    stores(container, KCL_TRUST_UID=str(USER))


@pytest.mark.parametrize("variables", [{}, {"KCL_TRUST_UID": "1001"}])
def test_path_is_no_consent(container, variables):
    """Without that name root stores nothing there; warning and `kcl flush` name the line that helps."""
    done = container.python(container.program, **variables)
    assert done.returncode == 0
    assert f"KCL_TRUST_UID={USER} if root may run that user's code" in done.stderr
    done = container.python("-m", "kcl", "flush", **variables)
    assert done.returncode == 1
    assert "nothing can be stored" in done.stderr
    assert f"KCL_TRUST_UID={USER}" in done.stderr
    assert not container.cache.parent.exists()


def test_caches_below(container):
    """What is not kcl's is not given away, so it stays refused: PoCL takes a private cache under `kcl run`."""
    os.chown(container.child.home, USER, USER)
    code = "import pyopencl as cl; print(len(cl.get_platforms()))"
    home = container.child.home
    places = {"XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(container.child.directory)}
    variables = container.child.environment(KCL_CACHE_DIR=str(container.cache), **places)
    variables.pop("POCL_CACHE_DIR", None)
    done = run_command([sys.executable, "-m", "kcl", "run", "-c", code], env=variables)
    assert done.returncode == 0
    assert "root makes no files in a home that HOME names" in done.stderr
    assert "KCL_TRUST_UID" not in done.stderr  # it does not help there
    assert {path.name for path in home.iterdir()} <= {".nv"}  # NVIDIA's own


def test_nothing_is_left(container):
    """Root that may not give files away, as in a container without that right, leaves none of its own."""
    code = (
        "import ctypes, os, sys\n"
        "assert ctypes.CDLL(None).prctl(24, 0) == 0\n"  # PR_CAPBSET_DROP, CAP_CHOWN
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    for words in ([container.program], ["-c", "import kcl; kcl.flush()"]):
        done = container.python("-c", code, *words, KCL_TRUST_UID=str(USER))
        assert done.returncode == 0, done.stderr
    assert not container.cache.parent.exists()
    for words in ([container.program], ["-m", "kcl", "flush"]):
        assert container.python(*words, KCL_TRUST_UID=str(USER)).stderr == ""
    before = sorted(container.cache.rglob("*"))
    done = container.python("-c", code, container.program, KCL_TRUST_UID=str(USER))
    assert done.returncode == 0, done.stderr
    assert container.owners() == {USER}
    assert {path.name for path in container.cache.rglob("*")} <= {path.name for path in before}
