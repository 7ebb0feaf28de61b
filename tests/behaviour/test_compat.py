"""The tools behind `make compat` and `make compat-pocl`, which run the programs and the PoCLs of others with kcl."""

import json
import sys

import pytest
from harness import ROOT, run_command

sys.path.insert(0, str(ROOT / "tools"))

import compat_pocl
import compat_unchanged


class TestUnchanged:
    def test_page(self):
        """The page is what the tool makes of it where nothing ran."""
        before = compat_unchanged.part(compat_unchanged.PAGE)
        assert compat_unchanged.table({}, before)[1:] == before[1:]

    def test_again(self):
        """A later run is compared by its seconds, and by its processor seconds, which other processes do not change."""
        runs = [
            {"side": side, "seconds": seconds, "used": used, "outcomes": {"test": "passed"}}
            for side, seconds, used in (
                ("without", 9.0, 8.0),
                ("with", 9.0, 9.0),
                ("without", 4.0, 4.0),
                ("with", 8.0, 3.0),
            )
        ]
        row = compat_unchanged.row("loopy", {"version": "1", "runs": runs})
        assert row == "| loopy, 1 | 1 | 1 | 1 | 9, 4 | 9, 8 | 2.00 | 0.75 |"

    def test_example(self, child):
        run = compat_unchanged.example
        command = [sys.executable, "-c", "import no_such_module"]
        failed = "status 1, ModuleNotFoundError: No module named 'no_such_module'"
        assert run(command, child.directory, child.environment()) == failed
        assert run([sys.executable, "-c", ""], child.directory, child.environment()) == "passed"


class TestPocls:
    def test_nothing_to_make_a_root(self, tmp_path):
        """Without debootstrap nothing runs, and the status and a line say so."""
        command = [sys.executable, ROOT / "tools" / "compat_pocl.py", "--folder", tmp_path]
        done = run_command(command, env={"PATH": str(tmp_path)})
        assert done.returncode == 2, done.stderr
        assert "nothing ran" in done.stderr
        assert "debootstrap" in done.stderr
        assert not list(tmp_path.iterdir())

    def test_requirements(self):
        """A root gets what kcl needs under its Python: 3.14 has wheels of islpy 2026 only."""
        for version, islpy in (("3.13", "islpy<2026,>=2025.2"), ("3.14", "islpy>=2026")):
            found = compat_pocl.requirements(version)
            assert [one for one in found if one.startswith("islpy")] == [islpy]
            assert {"pyopencl", "loopy", "pytest", "attrs"} <= {
                one.partition("<")[0] for one in found
            }

    def test_page(self):
        """The page has a row for each PoCL that ran."""
        known = json.loads(compat_pocl.STATE.read_text())
        page = compat_unchanged.PAGE.read_text()
        assert known
        for one in known.values():
            assert compat_pocl.row(one) in page

    @pytest.mark.slow
    @pytest.mark.one_platform
    def test_program(self, child):
        """The program of the second run computes the same with kcl, and hits with its first run's entries."""
        driver = ROOT / "tools" / "pocls" / "raw_driver.py"
        by_kcl = ("-m", "kcl", "run", driver)
        assert child.script(*by_kcl)["numbers"] == child.script(driver)["numbers"]
        child.finished("-m", "kcl", "wait")  # then no look-up waits
        second = child.script(*by_kcl, "--without-failing", KCL_STRICT="hit")
        assert set(second["looks"]) == {"hit"}
