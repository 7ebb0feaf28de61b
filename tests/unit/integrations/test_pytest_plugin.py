"""kcl.integrations.pytest_plugin: a suite runs with the integrations where it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

SUITE = """
import os, sys
def test_where():
    import pyopencl as cl
    found = hasattr(cl.Program.build, "__wrapped__")
    print("installed" if found else "not installed", os.environ.get("PYTEST_XDIST_WORKER"))
    assert str(found) == os.environ["WANTED"]
"""


@pytest.mark.parametrize(
    ("arguments", "setting", "wanted"),
    [
        ((), "", "False"),
        (("--kcl",), "", "True"),
        (("--kcl", "-n", "2"), "", "True"),
        ((), "kcl = true", "True"),
        (("-p", "no:kcl"), "", "False"),
    ],
)
def test_suite(child, arguments, setting, wanted):
    """Off unless asked for by option or setting; workers of xdist have it, too."""
    (child.directory / "test_suite.py").write_text(SUITE)
    (child.directory / "pytest.ini").write_text(f"[pytest]\n{setting}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        env=child.environment(WANTED=wanted),
        cwd=child.directory,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_uninstalled():
    """As a session ends the integrations are as before."""
    from kcl import integrations
    from kcl.integrations import pytest_plugin

    class Config:
        def getoption(self, _name):
            return True

        def getini(self, _name):
            return False

    assert not integrations.is_installed()
    pytest_plugin.pytest_configure(Config())
    assert integrations.is_installed()
    pytest_plugin.pytest_unconfigure(Config())
    assert not integrations.is_installed()
