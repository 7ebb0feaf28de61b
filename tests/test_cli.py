"""The command line: `kcl`, also as `python -m kcl`."""

from __future__ import annotations

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
