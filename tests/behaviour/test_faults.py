"""Faults: whatever happens to the files below, the numbers are right, the run ends well, and the next one hits."""

import contextlib
import os
import random
import shutil
import sys

import pytest
from harness import PLATFORMS, mounted, run_command
from project import NUMBERS, X

pytestmark = pytest.mark.slow_platforms

PAIR = {name: NUMBERS[name] for name in ("typed", "control")}
OTHERS = ("typed", "untyped", "untyped float64", "untyped once more")
INPUTS = {name: number for name, number in NUMBERS.items() if name not in OTHERS}
SINGLE = ["control", "body", "helped", "elsewhere", "closed", "defaulted", "from_global"]
SINGLE += ["from_class"]


def flipped(blob, position):
    damaged = bytearray(blob)
    damaged[position] ^= 1 << (position % 8)
    return bytes(damaged)


def damages(blob):
    """Return what can have happened to the bytes of an entry."""
    middle = random.Random(len(blob)).randrange(200, len(blob))
    return [
        flipped(blob, 3),
        flipped(blob, middle),
        flipped(blob, len(blob) - 1),
        blob[: len(blob) // 2],
        blob[:-1],
        blob + b"\0",
        b"",
        blob[: len(blob) // 3] + bytes(len(blob) - len(blob) // 3),
    ]


def warnings_in(run):
    return [line for line in run.stderr.splitlines() if "CacheWarning" in line]


def goes_on(warm):
    warm.finish()
    assert warm.run("inputs", warm=True).numbers == INPUTS


@pytest.mark.faults
@pytest.mark.parametrize("layer", ["binary", "generator"])
def test_rejected_and_replaced(warm, layer):
    """Flipped, cut, extended, empty and zeroed entries: no signal, right numbers, one error each, replaced."""
    store = warm.binaries if layer == "binary" else warm.rows
    find = warm.binary_of if layer == "binary" else warm.row_of
    found = [find(kernel) for kernel in SINGLE]
    for number, (address, entry) in enumerate(found):
        store.put(address, damages(entry.pack())[number])
    run = warm.run("inputs")
    assert run.numbers == INPUTS
    outcomes = run.outcomes(layer)
    wrong = {kernel: outcome for kernel, outcome in outcomes.items() if outcome != ["hit"]}
    assert wrong == {kernel: ["error"] for kernel in SINGLE}
    assert run.said["stats"][layer]["errors"] == len(warm.quarantined) == len(SINGLE)
    goes_on(warm)


@pytest.mark.one_platform
@pytest.mark.faults
class TestDirectories:
    def test_file_in_its_place(self, warm):
        """A file where a directory should be: one warning that names the remedy, and the run goes on."""
        path = warm.child.cache / "pyopencl"
        shutil.rmtree(path)
        path.write_text("in the way")
        run = warm.run("inputs")
        assert run.numbers == INPUTS
        assert run.set("generator") == {"hit"}
        assert len(warnings_in(run)) == 1
        assert "KCL_CACHE_DIR" in warnings_in(run)[0]
        assert path.read_text() == "in the way"
        path.unlink()
        assert warm.run("inputs").set("binary") == {"miss"}
        goes_on(warm)

    @pytest.mark.slow
    def test_no_directory_for_loopy(self, warm):
        """A file in the place of pytools' directory, with which loopy cannot be imported: the run goes on."""
        shutil.rmtree(warm.child.cache / "pytools")
        (warm.child.cache / "pytools").write_text("in the way")
        run = warm.run("pair")
        assert run.numbers == PAIR
        assert run.set("binary") == {"hit"}
        assert run.outcomes("generator") == {"typed": ["miss"], "control": ["miss"]}
        assert len(warnings_in(run)) == 1  # of the first look at the layer, for proofs
        assert (warm.child.cache / "pytools").read_text() == "in the way"

    @pytest.mark.parametrize("folder", ["pyopencl/kcl-binary-v1", "pytools"])
    @pytest.mark.slow_cases(2)
    def test_loose(self, warm, folder):
        """A directory that others can write is refused with one warning that names the command; mended, it hits."""
        path = warm.child.cache / folder
        os.chmod(path, 0o777)
        run = warm.run("inputs")
        assert run.numbers == INPUTS
        layer = "binary" if folder.startswith("pyopencl") else "generator"
        (other,) = {"generator", "binary"} - {layer}
        assert run.set(layer) <= {"error", "miss"}
        assert run.set(other) == {"hit"}
        assert len(warnings_in(run)) == 1
        assert f"chmod go-w {path}" in warnings_in(run)[0]
        os.chmod(path, 0o700)
        goes_on(warm)

    def test_read_only(self, warm, tmp_path):
        """On a read-only cache what is there hits, and what is not is computed with one warning a layer."""
        warm.edit("driver.py", 'scaled("body", 2)', 'scaled("body", 20)')
        with _read_only(warm.child.cache):
            # PoCL cannot compile without a directory of its own.
            run = warm.run("inputs", POCL_CACHE_DIR=str(tmp_path / "pocl"))
        assert run.numbers == {**INPUTS, "body": 20 * X}
        assert run.outcomes("generator")["control"] == run.outcomes("binary")["control"] == ["hit"]
        assert run.outcomes("generator")["body"] == run.outcomes("binary")["body"] == ["miss"]
        assert 1 <= len(warnings_in(run)) <= 2

    @pytest.mark.slow
    def test_no_home(self, warm):
        """Without a home directory, hence without a place for any cache, loopy is imported and everything computed."""
        if warm.platform == "Portable Computing Language":
            pytest.skip("PoCL's platform disappears where it has no directory of its own")
        code = "import os; del os.environ['XDG_CACHE_HOME']; import sys, driver; driver.main(*sys.argv[1:])"
        run = warm.run("pair", command=("-c", code), PYTHONPATH=warm.path, HOME="/proc/no-home")
        assert run.numbers == PAIR
        assert len(warnings_in(run)) == 2

    @pytest.mark.slow
    def test_no_home_and_no_user(self, child, platform_name):
        """Without HOME and without an entry in the list of users nothing is written into the working directory."""
        command = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
        if shutil.which("unshare") is None or run_command([*command, "true"]).returncode:
            pytest.skip("needs user namespaces")
        work, temporary = child.directory / "work", child.directory / "temporary"
        for folder in (work, temporary):
            folder.mkdir(mode=0o700)
        environment = child.environment(TMPDIR=str(temporary))
        del environment["HOME"], environment["XDG_CACHE_HOME"]
        environment.pop("XDG_CONFIG_HOME", None)
        command += [sys.executable, "-c", HOMELESS, PLATFORMS[platform_name]]
        for _ in range(2):
            done = run_command(command, env=environment, cwd=work)
            assert done.returncode == 0, done.stderr
            assert os.listdir(work) == []
        assert done.stdout.split() == ["3.0", str(temporary / "kcl-54321" / ".cache"), "hit", "hit"]


HOMELESS = """
import os, sys
import numpy as np
import kcl
import handle_recipes
from opened import queue_on
outcomes = []
kcl.add_hook(lambda event: outcomes.append(event.outcome))
_event, (y,) = handle_recipes.scaled(3)(queue_on(sys.argv[1]), x=np.ones(4, np.float32), a=np.float32(1))
kcl.flush()
print(y[0], kcl.option.get_cache_dir(), *outcomes)
"""


@pytest.mark.one_platform
@pytest.mark.faults
def test_file_system(project, tmp_path):
    """On a full disk look-ups are misses; with space again the entries are written."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=16m,mode=0700"):  # room for the work of a helper
        root = disk / "cache"
        root.mkdir(mode=0o700)
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        run = project.run("pair", KCL_CACHE_DIR=str(root))
        assert run.numbers == PAIR
        assert "error" in run.set("generator") <= {"miss", "error"}
        assert 1 <= len(warnings_in(run)) <= 3
        assert not list(root.rglob(".kcl-tmp-*"))
        os.unlink(disk / "filler")
        assert project.run("pair", KCL_CACHE_DIR=str(root)).numbers == PAIR
        run = project.run("pair", warm=True, KCL_CACHE_DIR=str(root))
        assert run.numbers == PAIR


@contextlib.contextmanager
def _read_only(folder):
    """Make a tree read-only: by mode where that binds this user, else by the attribute that binds root too."""
    if os.geteuid() != 0:
        folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        for path in folders:
            path.chmod(0o500)
        try:
            yield
        finally:
            for path in folders:
                path.chmod(0o700)
        return
    loosen = ["chattr", "-R", "-i", folder]
    if shutil.which("chattr") is None or run_command(["chattr", "-R", "+i", folder]).returncode:
        run_command(loosen)
        pytest.skip("this file system cannot bind root")
    try:
        yield
    finally:
        run_command(loosen, check=True)
