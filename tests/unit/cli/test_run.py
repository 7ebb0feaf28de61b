"""`kcl run`: what it answers itself, and what its options set."""

import json
import pathlib

import pytest
from commands import run as invoke

SHOW = (
    "import os, json; print(json.dumps({name: os.environ.get(name) for name in"
    " ('KCL_NO_CACHE', 'KCL_STRICT', 'KCL_REPORT', 'LOOPY_NO_CACHE', 'XDG_CACHE_HOME', 'KCL_CACHE_DIR',"
    " 'POCL_CACHE_DIR', 'KCL_PROMOTE')}))"
)


def run(child, *arguments, **variables):
    return child.python("-m", "kcl", "run", *arguments, **variables)


def test_help():
    said = invoke("run", "--help").stdout
    for option in ("--off", "--strict", "--report", "--explain", "--fresh", "-m", "-c"):
        assert option in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "name a program"),
        ("--off generator", "name a program"),
        ("--wobble x.py", "No such option"),
        ("-m", "requires an argument"),
        ("--off wobble x.py", "'wobble' is no layer"),
        ("--strict wobble x.py", "--strict takes hit or fault"),
    ],
)
def test_wrong_use(child, line, words):
    done = run(child, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


class TestOptions:
    def test_variables(self, child):
        """Options add to what is exported; the file of a report stays, and comes last."""
        words = ("--off", "binary,loopy", "--strict", "hit", "--report", "--explain", "-c", SHOW)
        done = run(child, *words, KCL_STRICT="fault")
        variables = json.loads(done.stdout.splitlines()[0])
        assert variables["KCL_NO_CACHE"] == "binary"
        assert variables["LOOPY_NO_CACHE"] == "1"
        assert variables["KCL_STRICT"] == "fault,hit"
        assert variables["KCL_REPORT"] == "1,explain"
        path = child.directory / "a, b.jsonl"
        done = run(child, "--report", "-c", SHOW, KCL_REPORT=f"kernels,json:{path}")
        assert json.loads(done.stdout.splitlines()[0])["KCL_REPORT"] == f"kernels,1,json:{path}"
        assert json.loads(path.read_text(encoding="utf-8"))["kernels"] == []

    @pytest.mark.parametrize("option", [("--off", "all"), ("--fresh",)])
    def test_not_late(self, child, option):
        """Variables that `kcl run` sets are not reported as the program's; those that the program sets are."""
        code = "from kcl import foreign; foreign.off('pocl'); import os"  # as when a layer is first used
        done = run(child, *option, "--report", "-c", code)
        assert done.returncode == 0, done.stderr
        assert "kcl: no kernel was asked for" in done.stderr
        assert "was set" not in done.stderr
        code += "; os.environ['POCL_CACHE_DIR'] = '/nowhere'"
        said = run(child, *option, "--report", "-c", code).stderr
        assert "POCL_CACHE_DIR=/nowhere was set" in said

    def test_fresh(self, child):
        """`--fresh` has caches of its own, for children too, which are gone afterwards."""
        code = f"{SHOW}\nimport os, subprocess, sys; os.listdir(os.environ['XDG_CACHE_HOME'])\n"
        code += f"sys.stdout.flush(); subprocess.run([sys.executable, '-c', {SHOW!r}])"
        done = run(child, "--fresh", "-c", code, POCL_CACHE_DIR=str(child.directory / "mine"))
        own, of_child = map(json.loads, done.stdout.splitlines())
        assert own == of_child
        assert own["XDG_CACHE_HOME"] == own["KCL_CACHE_DIR"] != str(child.cache)
        assert (own["POCL_CACHE_DIR"], own["KCL_PROMOTE"]) == (None, "off")
        assert not pathlib.Path(own["XDG_CACHE_HOME"]).exists()
