"""kcl.foreign.usable: caches that cannot be written, and a private one for PoCL in their place."""

import os

import pytest
from harness import PLATFORMS, mounted, platforms

from kcl import foreign
from kcl.foreign import usable

LAUNCH = """
    import sys
    import pyopencl as cl, pyopencl.array as cl_array

    (platform,) = [platform for platform in cl.get_platforms() if platform.name == sys.argv[1]]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    print(cl_array.sum(cl_array.arange(queue, 100, dtype="float32")))
"""


class TestFault:
    def test_directories(self, tmp_path):
        """A directory that can be written or made is fine, and nothing is left there; a file on the way is not."""
        assert usable.fault(str(tmp_path)) == usable.fault(str(tmp_path / "a" / "b")) == ""
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()
        assert usable.fault(str(tmp_path / "file" / "below")) == f"{tmp_path}/file is no directory"
        assert usable.fault("/proc/nowhere/below")

    @pytest.mark.parametrize("options", ["size=64k", "size=1m,nr_inodes=1", "size=1m,ro"])
    def test_a_full_file_system_one_without_inodes_and_a_read_only_one(self, tmp_path, options):
        with mounted(tmp_path, options):
            assert usable.fault(str(tmp_path))


def test_private(tmp_path, monkeypatch):
    """It lies among the temporary directories, closed to others; one that a stranger made is passed over."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = usable.private("pocl")
    assert made == f"{tmp_path}/kcl-{os.getuid()}/pocl"
    assert os.stat(made).st_mode & 0o777 == 0o700
    os.chmod(os.path.dirname(made), 0o777)
    assert usable.private("pocl") != made


class TestPocl:
    def test_where_pocl_can_use_its_cache_nothing_is_said_or_set(self, monkeypatch):
        monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
        assert foreign.provide_pocl() == ""
        assert "POCL_CACHE_DIR" not in os.environ

    def test_processes(self, child):
        """Without kcl PoCL shows no device then; under `kcl run` the program runs, and is told once what cures it."""
        if "pocl" not in platforms():
            pytest.skip("this is PoCL's cache")
        (child.home / ".cache").write_text("a file in the place of the directory")
        (child.directory / "tmp").mkdir(mode=0o700)
        (child.directory / "program.py").write_text(f"if True:{LAUNCH}")
        places = {"KCL_CACHE_DIR": str(child.cache), "TMPDIR": str(child.directory / "tmp")}

        def run(*options, **variables):
            words = (*options, "program.py", PLATFORMS["pocl"])
            return child.python(*words, XDG_CACHE_HOME="", **places, **variables)

        assert run().returncode != 0
        done = run("-m", "kcl", "run")
        assert (done.returncode, done.stdout) == (0, "4950.0\n"), done.stderr
        assert done.stderr.count("set POCL_CACHE_DIR") == done.stderr.count("CacheWarning") == 1
        assert os.listdir(child.directory / "tmp" / f"kcl-{os.getuid()}" / "pocl")
        done = run("-m", "kcl", "run", POCL_CACHE_DIR=str(child.home / ".cache" / "mine"))
        assert done.returncode != 0
        assert f"PoCL cannot use its cache {child.home}/.cache/mine" in done.stderr
