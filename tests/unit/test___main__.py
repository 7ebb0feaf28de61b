"""kcl.__main__: the command line is click's, but for a program that is run."""

import sys

from harness import run_command


def imported(child, *arguments):
    """Run a command line; returns what it imported of click and kcl's commands, and its status."""
    done = run_command(
        [sys.executable, "-X", "importtime", "-m", "kcl", *arguments],
        env=child.environment(),
        cwd=child.directory,
    )
    names = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    return {"click", "kcl.cli"} & names, done.returncode


class TestMain:
    def test_run(self, child):
        """A program is run without click."""
        assert imported(child, "run", "-c", "raise SystemExit(3)") == (set(), 3)

    def test_others(self, child):
        """Every other command line, and one that needs an answer, is click's."""
        assert imported(child, "--version") == ({"click", "kcl.cli"}, 0)
        assert imported(child, "run", "--help") == ({"click", "kcl.cli"}, 0)
