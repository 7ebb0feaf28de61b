"""The option --from: kcl ls and kcl show of a bundle."""

import json
import os
import tempfile

import pytest
from commands import run

pytestmark = pytest.mark.one_platform


def test_listed(file, tmp_path, monkeypatch):
    """The entries of the file are listed and shown in place of those of the cache, and nothing is left."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    found = json.loads(run("ls", "--from", str(file), "--json", "--kernel", "typed").stdout)
    pairs = {(one["kernel"], one["layer"]) for one in found}
    assert pairs == {("typed", "generator"), ("typed", "binary")}
    assert all(os.sep not in one["recipe"] for one in found)
    assert "kernel" in run("show", "--from", str(file), "typed", "--source").output
    assert json.loads(run("ls", "--json").stdout) == []
    run("show", "typed", code=1)
    assert os.listdir(tmp_path / "temporary") == []
    assert not (tmp_path / "elsewhere").exists()


def test_damaged(file):
    file.write_bytes(b"no bundle at all")
    done = run("ls", "--from", str(file))
    assert "no entries" in done.output
    assert "this is no bundle of kcl" in done.output
