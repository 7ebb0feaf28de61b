"""The tool behind `make compat`, which runs suites and examples of others without kcl and with it."""

import sys

from harness import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import compat_unchanged


class TestUnchanged:
    """The page about programs as they are keeps what it says of suites that did not run."""

    def test_page(self):
        """The page is what the tool makes of it where nothing ran."""
        before = compat_unchanged.part(compat_unchanged.PAGE)
        assert compat_unchanged.table({}, before)[1:] == before[1:]

    def test_example(self, child):
        """An example that fails says how."""
        run = compat_unchanged.example
        command = [sys.executable, "-c", "import no_such_module"]
        failed = "status 1, ModuleNotFoundError: No module named 'no_such_module'"
        assert run(command, child.directory, child.environment()) == failed
        assert run([sys.executable, "-c", ""], child.directory, child.environment()) == "passed"
