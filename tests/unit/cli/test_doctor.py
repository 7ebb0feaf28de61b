"""`kcl doctor`: what it prints, and how it ends."""

import json

import remotes
from commands import run

from kcl.inspect import doctor as checks


def test_fine(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run("doctor")
    assert all(f"  {check}" in done.output for check in checks.CHECKS)
    assert done.output.endswith("0 problems, 0 warnings, 0 notes\n")


def test_findings(monkeypatch):
    """A warning stands with its cure below it, and the exit status stays 0; a problem makes it 1."""
    monkeypatch.setenv("KCL_STRICT", "hits")
    done = run("doctor")
    lines = [line.split() for line in done.output.splitlines()]
    place = next(number for number, words in enumerate(lines) if words[:1] == ["warning"])
    assert lines[place][:3] == ["warning", "settings", "KCL_STRICT:"]
    assert "1 warning," in done.output
    monkeypatch.setenv("LOOPY_NO_CACHE", "sure")
    done = run("doctor", "--json", code=1)
    (problem,) = [
        finding for finding in json.loads(done.output) if finding["severity"] == "problem"
    ]
    assert set(problem) == {"check", "severity", "words", "cure"}
    assert problem["check"] == "switches"


def test_remote(tmp_path, monkeypatch):
    assert "remote  " in run("doctor").output
    assert "none is set" in run("doctor").output
    monkeypatch.setenv("KCL_REMOTE", remotes.directory(tmp_path / "remote"))
    assert "kcl key trust" in run("doctor").output
