"""The matrix of faults: a sample of each row runs, and the tool that runs them all is right."""

import contextlib
import errno
import json
import os
import re
import signal
import sys
import threading

import pytest
import slow
from harness import ROOT, run_command

sys.path.insert(0, str(ROOT / "tools"))

import faults_files
import faults_page
import faults_rows
import faults_stores

from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.errors import UnusableDirectory

ENTRY = Entry(Key([Part("source", "kernel")]), {}, {"binary": b"\1\2\3"})
WHERE = address(ENTRY.key.digest, "device", "kernel")


def ran(tmp_path, *arguments):
    """Run the tool; returns its status, what it printed and what it wrote down."""
    state = tmp_path / "faults.json"
    command = [sys.executable, ROOT / "tools" / "faults.py", "--state", state, *map(str, arguments)]
    done = run_command(command, timeout=550)
    return done, json.loads(state.read_text()) if state.exists() else {}


class TestOperations:
    @pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
    def test_each_fails(self, tmp_path, error):
        """Each operation of a put can be made to fail; then nothing is there, or all."""
        with faults_files.failing(None) as counted:
            Directory(tmp_path / "counted").put(WHERE, ENTRY.pack())
        assert counted.count > 5
        for number in range(counted.count):
            store = Directory(tmp_path / str(number))
            with faults_files.failing(number, error) as made:
                with contextlib.suppress(OSError, UnusableDirectory):
                    store.put(WHERE, ENTRY.pack())
            assert made.failed == 1
            assert store.get(WHERE) in (None, ENTRY.pack())

    def test_others_do_not_fail(self, tmp_path):
        """What this test does with files is not kcl's, and works; a thread of kcl's may write meanwhile."""
        with faults_files.failing(0, for_ever=True) as made:
            (tmp_path / "file").write_text("text")
            assert os.path.exists(tmp_path / "file")
            assert Directory(tmp_path / "store").location
        assert threading.get_ident() not in made.threads
        assert os.open.__module__ == "posix"


class TestCrowd:
    @pytest.mark.parametrize("rows", [False, True])
    def test_ends(self, tmp_path, rows):
        """Each process ends its operation, however busy the machine is; one that died counts, and is not called stuck."""
        crowd = faults_stores.Crowd(tmp_path, 1, 4, rows)
        os.kill(crowd.pids[1], signal.SIGKILL)
        found = crowd.end()
        found.pop("operations", None)
        assert found == {f"signal {signal.SIGKILL.value}": 1}


class TestTool:
    def test_goes_on(self, tmp_path):
        """A row goes on where it stopped, with the seed of before; a case can be run alone."""
        done, first = ran(tmp_path, "--row", "right key", "--sample", "0.001")
        assert done.returncode == 0, done.stderr
        (known,) = first.values()
        assert (known["done"], sum(known["outcomes"].values())) == (50, 50)
        _done, second = ran(tmp_path, "--row", "right key", "--sample", "0.03")
        (again,) = second.values()
        assert (again["done"], again["seed"]) == (60, known["seed"])
        done, _state = ran(tmp_path, "--row", "right key", "--only", "7")
        assert "case 7: {'rejected, replaced': 1}" in done.stdout + done.stderr

    def test_page(self):
        """The page says what ran, how much of the full number, what was bad, and what did not run."""
        known = {"outcomes": {"rejected": 109_999, "wrong: accepted": 1}, "done": 110_000}
        known |= {"seed": 5, "bad": [[3, "wrong"]], "slowest": 1.25, "memory": 30}
        text = faults_page.page({"bit flips in an entry": known | {"date": "2026-01-02"}})
        row = "| 110,000 | all | 1 | rejected 109,999; wrong: accepted 1 | 1.2 s | 2026-01-02, 5 |"
        assert re.search(rf"bit flips in an entry \|.*{re.escape(row)}", text)
        assert text.count("did not run") >= len(faults_rows.ROWS) - 1
        assert "All at once" not in text


@pytest.mark.slow
@pytest.mark.parametrize("row", faults_rows.ROWS, ids=lambda row: row.name)
def test_sample(tmp_path, row):
    """A sample of the row's cases, by the seed of the run: none of them is bad."""
    done, state = ran(tmp_path, "--row", row.name, "--sample", "0", "--seed", 1 + slow.seed())
    if "not here" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert state[row.name]["done"] >= row.least
