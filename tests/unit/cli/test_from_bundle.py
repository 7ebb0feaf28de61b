"""The option --from: kcl ls and kcl show of a bundle."""

import json
import os
import tempfile

import pytest
from commands import invoke as run

from kcl import option

pytestmark = pytest.mark.one_platform


@pytest.fixture
def file(cache, tmp_path, monkeypatch):
    """A bundle of one kernel of a real run, and another, empty cache."""
    path = tmp_path / "typed.kclb"
    assert cache.binary_of("typed")
    assert run("save", path, "typed").exit_code == 0
    option.cache_dir(str(tmp_path / "elsewhere"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return path


def test_ls(file, tmp_path):
    """The entries of the file are listed in place of those of the cache, and nothing is left."""
    done = run("ls", "--from", file, "--json", "--kernel", "typed")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {(one["kernel"], one["layer"]) for one in found} == {
        ("typed", "generator"),
        ("typed", "binary"),
    }
    assert all(os.sep not in one["recipe"] for one in found)
    assert json.loads(run("ls", "--json").stdout) == []
    assert os.listdir(tmp_path / "temporary") == []
    assert not (tmp_path / "elsewhere").exists()


def test_show(file):
    """An entry of the file is shown whole."""
    done = run("show", "--from", file, "typed", "--source")
    assert done.exit_code == 0, done.output
    assert "kernel" in done.output
    assert run("show", "typed", "--source").exit_code == 1


def test_damaged(file):
    """A damaged file is said in a line, and has no entries."""
    file.write_bytes(b"no bundle at all")
    done = run("ls", "--from", file)
    assert "no entries" in done.output
    assert "this is no bundle of kcl" in done.output
