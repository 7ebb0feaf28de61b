"""A warm cache travels: what one process saved hits in another one, of another user, place, Python and machine."""

import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

import bundled
import packages
import pytest
from harness import PLATFORMS, ROOT, Child, platforms, run_command
from project import NUMBERS, PROGRAMS, Project

from kcl.cache.stores.directory import Directory

DRIVER = pathlib.Path(bundled.__file__)
HITS = {("generator", "hit"), ("binary", "hit")}


class Saved:
    """A bundle of the driver bundled.py, with what its process said."""

    def __init__(self, platform_name, folder):
        self.platform = PLATFORMS[platform_name]
        self.child = Child(folder)
        self.file = folder / "saved.kclb"
        self.said = self.drive(self.child, "save")

    def drive(self, child, mode="hit", **keywords):
        return child.script(DRIVER, self.platform, mode, self.file, **keywords)


@pytest.fixture(scope="module")
def saved(platform_name, tmp_path_factory):
    return Saved(platform_name, tmp_path_factory.mktemp("saved"))


@pytest.fixture
def elsewhere(tmp_path):
    """Another home, with an empty cache, in another place."""
    folder = tmp_path / "somewhere" / "else"
    folder.mkdir(parents=True, mode=0o700)
    return Child(folder)


def looks(said):
    return {tuple(one) for one in said["looks"]}


def _python_for(user):
    """Return a Python of this release that another user can run; skip the test where there is none."""
    name = "python{}.{}".format(*sys.version_info)
    for python in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        command = [python, "-c", "import sqlite3, lzma"]
        with contextlib.suppress(OSError):
            if not run_command(command, user=user, cwd="/").returncode:
                return python
    return pytest.skip("another user cannot run this Python")


class TestElsewhere:
    def test_saved(self, saved):
        """The process that made everything saves every program, all of it usable here."""
        said = saved.said
        assert (said["programs"], said["unusable"], said["left out"]) == (3, [], [])

    def test_whole_project(self, filled, elsewhere):
        """Another home, project path, working directory and hash seed: all hits, no loopy, nothing from source.

        Headers, include directories and build options are among the programs of the project.
        """
        file = elsewhere.directory / "all.kclb"
        filled.project.child.finished("-m", "kcl", "save", file)
        elsewhere.finished("-m", "kcl", "load", "--usable", file)
        project = Project(elsewhere, filled.project.platform)
        there = project.run(warm=True, cwd="/", PYTHONHASHSEED="77")
        assert there.numbers == NUMBERS
        assert there.set("generator") == there.set("binary") == {"hit"}
        project.finish()

    def test_another_user(self, saved, platform_name):
        if os.name != "posix" or os.geteuid() != 0:
            pytest.skip("only root can start a process of another user")
        with tempfile.TemporaryDirectory(prefix="kcl-other-") as name:
            os.chmod(name, 0o755)
            folder = pathlib.Path(name) / "home-of-another"
            folder.mkdir(mode=0o755)
            child = Child(folder)
            file = shutil.copy(saved.file, folder)
            for path in (folder, child.home, file):
                os.chown(path, 65533, 65533)
            python = _python_for(65533)
            variables = child.environment(KCL_STRICT="hit")
            variables["PYTHONPATH"] += os.pathsep + os.pathsep.join(
                p for p in sys.path if p.endswith("site-packages")
            )
            seen = "import pyopencl; print([one.name for one in pyopencl.get_platforms()])"
            how = {"user": 65533, "cwd": folder, "env": variables}
            if PLATFORMS[platform_name] not in run_command([python, "-c", seen], **how).stdout:
                pytest.skip("another user cannot load this driver")
            done = run_command([python, DRIVER, PLATFORMS[platform_name], "hit", file], **how)
            assert done.returncode == 0, done.stderr
            said = json.loads(done.stdout.splitlines()[-1])
        assert looks(said) == HITS
        assert not said["loopy"]

    @pytest.mark.one_platform
    def test_patch_release_of_python(self, saved, elsewhere):
        """Another patch release of Python hits in the loaded entries, and in the same directory."""
        for child in (elsewhere, saved.child):
            said = saved.drive(child, KCL_STRICT="hit", BUNDLED_PATCH="99")
            assert (looks(said), said["loopy"], said["unusable"]) == (HITS, False, [])

    def test_before_a_fork(self, saved, elsewhere):
        """A bundle may be loaded before a fork: no platform is asked, and the child hits."""
        code = f"""
            import os, sys
            import kcl
            info = kcl.load_artifacts({str(saved.file)!r})
            assert "pyopencl" not in sys.modules
            child = os.fork()
            if not child:
                sys.argv = ["", {saved.platform!r}, "save", "again.kclb"]
                import bundled
                bundled.main(*sys.argv[1:])
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print("[]")
            """
        elsewhere.json(code, KCL_STRICT="hit")


class TestMachines:
    def test_marketing_name(self, saved, elsewhere, platform_name):
        """On PoCL's CPU device another marketing name of the processor hits: key and address do without it."""
        said = saved.drive(elsewhere, BUNDLED_NAME="pthread-Another(R) Processor 9000")
        if platform_name != "pocl":
            assert looks(said) == {("generator", "hit"), ("binary", "miss")}
            assert "Another(R)" in said["unusable"][0]
            return
        assert (looks(said), said["loopy"], said["unusable"]) == (HITS, False, [])
        store = Directory(elsewhere.cache / "pyopencl/kcl-binary-v1")
        (name,) = {address.partition("/")[0] for address in store.scan()}
        assert name.startswith("pocl-")

    def test_another_cpu(self, saved, elsewhere, platform_name):
        """Another CPU of LLVM misses, and the report names the part."""
        if platform_name != "pocl":
            pytest.skip("LLVM's name of the CPU is in the device version of PoCL")
        said = saved.drive(elsewhere, BUNDLED_CPU="znver9")
        assert looks(said) == {("generator", "hit"), ("binary", "miss")}
        (reason,) = said["unusable"]
        assert "device: version" in reason
        assert "znver9" in reason


class TestRebuilt:
    """After `kcl rebuild` the first run on another device hits, and needs neither loopy nor a compiler."""

    def test_another_platform(self, saved, elsewhere, platform_name):
        """What was saved on one platform hits on the other one; the cache stays as it is."""
        other = {"pocl": "intel", "intel": "pocl"}.get(platform_name, platform_name)
        if other not in platforms():
            pytest.skip("needs two platforms")
        new, device = elsewhere.directory / "new.kclb", PLATFORMS[other]
        said = elsewhere.finished(
            "-m", "kcl", "rebuild", saved.file, "--to", new, "--device", device
        ).stdout
        assert "3 programs" in said
        assert "not launched" not in said
        assert not (elsewhere.cache / "pyopencl").exists()
        words = (DRIVER, device, "hit", new)
        done = elsewhere.script(*words, KCL_STRICT="hit")
        assert (looks(done), done["loopy"], done["unusable"]) == (HITS, False, [])

    @pytest.mark.slow
    def test_another_cpu(self, filled, elsewhere, platform_name):
        """A whole project hits on another CPU: headers, include directories and build options are in its programs."""
        if platform_name != "pocl":
            pytest.skip("LLVM's name of the CPU is in the device version of PoCL")
        site = elsewhere.directory / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text("import bundled; bundled.become_another()")
        path = os.pathsep.join(map(str, (site, DRIVER.parent, ROOT)))
        another = {"BUNDLED_CPU": "znver9", "PYTHONPATH": path}
        file = elsewhere.directory / "all.kclb"
        project = Project(elsewhere, filled.project.platform)
        filled.project.child.finished("-m", "kcl", "save", file)
        words = ("rebuild", file, "--device", "portable", "-I", project.folder / "kernels")
        said = elsewhere.finished("-m", "kcl", *words, **another).stdout
        assert f"pocl-znver9: {PROGRAMS} programs built" in said
        assert "not launched" not in said
        there = project.run(warm=True, **another)
        assert there.numbers == NUMBERS
        assert there.set("generator") == there.set("binary") == {"hit"}
        project.finish()


def installed(folder):
    """Install kcl below a folder as its wheel is: the package, and a record of its files."""
    site = folder / "site-packages"
    shutil.copytree(ROOT / "kcl", site / "kcl", ignore=shutil.ignore_patterns("__pycache__"))
    packages.describe(site, "kcl", "0.1.0")
    return site


@pytest.mark.one_platform
def test_checkout_and_wheel(saved, elsewhere):
    """The bundle of a checkout hits for the wheel of the same files, and misses for a wheel of other files."""
    site = installed(elsewhere.directory)
    (elsewhere.directory / "support").mkdir()
    driver = shutil.copy(DRIVER, elsewhere.directory / "support")
    command = driver, saved.platform, "hit", saved.file
    said = elsewhere.script(*command, PYTHONPATH=str(site), KCL_STRICT="hit")
    assert said["kcl"].startswith(str(site))
    assert (looks(said), said["unusable"]) == (HITS, [])
    with (site / "kcl" / "code.py").open("a") as file:
        file.write("# another file\n")
    said = elsewhere.script(*command, PYTHONPATH=str(site))
    assert looks(said) == {("generator", "miss"), ("binary", "hit")}
    assert said["unusable"] == ["kcl itself changed"]
