"""The command line: `kcl status`, also as `python -m kcl`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig

import pytest


def kcl(project, *arguments, **variables):
    """Run `python -m kcl` beside a project's cache."""
    command = [sys.executable, "-m", "kcl", *arguments]
    environment = project.child.environment(**variables)
    return subprocess.run(command, env=environment, cwd=project.folder, text=True, capture_output=True, timeout=60)


@pytest.mark.one_platform
class TestStatus:
    def test_json(self, warm):
        """--json lists both layers: on, place, entries, bytes."""
        done = kcl(warm, "status", "--json")
        assert done.returncode == 0, done.stderr
        generator, binary = json.loads(done.stdout)
        assert (generator["layer"], binary["layer"]) == ("generator", "binary")
        assert generator["on"] is binary["on"] is True
        assert binary["place"] == warm.binaries.location
        assert generator["place"] == warm.rows.location
        assert binary["entries"] == len(list(warm.binaries.scan()))
        assert generator["entries"] == len(list(warm.rows.scan()))
        assert generator["bytes"] == os.path.getsize(warm.rows.location)
        assert binary["bytes"] > 1000
        assert binary["fault"] == generator["fault"] == ""

    def test_table(self, project):
        """Without --json a person gets a table that holds whole paths; an empty cache is no fault, and stays empty."""
        done = kcl(project, "status")
        assert done.returncode == 0, done.stderr
        assert project.binaries.location in done.stdout
        assert project.rows.location in done.stdout
        assert not project.child.cache.exists()

    def test_switched_off(self, project):
        """A layer that is off says by which switch."""
        done = kcl(project, "status", "--json", KCL_NO_CACHE="binary", LOOPY_NO_CACHE="1")
        generator, binary = json.loads(done.stdout)
        assert binary["on"] is False
        assert "KCL_NO_CACHE" in binary["reason"]
        assert "LOOPY_NO_CACHE" in generator["reason"]

    def test_unusable(self, project):
        """A directory that cannot be used is told with the remedy, and the exit status is 1."""
        project.child.cache.mkdir(mode=0o700)
        (project.child.cache / "pyopencl").write_text("in the way")
        done = kcl(project, "status")
        assert done.returncode == 1
        assert "in the way" not in done.stderr
        assert "KCL_CACHE_DIR" in done.stdout

    def test_imports(self, child):
        """No command imports loopy or asks for a platform."""
        code = """
            import json, sys, forbid
            forbid.loopy()
            from click.testing import CliRunner
            from kcl.cli import main
            codes = [CliRunner().invoke(main, words).exit_code for words in (["status"], ["--help"], ["status", "-h"])]
            print(json.dumps([codes, sorted(set(sys.modules) & {"pyopencl", "numpy", "loopy"})]))
            """
        path = os.path.dirname(os.path.abspath(__file__))
        environment = child.environment()
        assert child.json(code, PYTHONPATH=f"{environment['PYTHONPATH']}{os.pathsep}{path}") == [[0, 0, 0], []]


@pytest.mark.one_platform
class TestMain:
    @pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-h"]])
    def test_options(self, project, arguments):
        """Version and help say what this is."""
        done = kcl(project, *arguments)
        assert done.returncode == 0
        assert "kcl" in done.stdout

    def test_unknown(self, project):
        """An unknown command is refused with status 2 and no traceback."""
        done = kcl(project, "stauts")
        assert done.returncode == 2
        assert "Traceback" not in done.stderr

    def test_script(self, project):
        """The script `kcl`, where it is installed, is the same command."""
        script = os.path.join(sysconfig.get_path("scripts"), "kcl")
        if not os.path.exists(script):
            pytest.skip("kcl is not installed here, only importable")
        done = subprocess.run([script, "--help"], env=project.child.environment(), text=True, capture_output=True)
        assert done.stdout.replace("kcl [", "[") == kcl(project, "--help").stdout.replace("python -m kcl [", "[")
