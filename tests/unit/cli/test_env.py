"""`kcl env` and kcl.foreign.shell: what is set and what it does; the lines that switch caches and move them."""

import json
import os
import pathlib

import pytest
import remotes
from commands import run

from kcl.base import process, settings
from kcl.foreign.table import ROWS


def shown() -> dict[str, dict]:
    return {line["variable"]: line for line in json.loads(run("env", "--json").stdout)}


def test_every_variable():
    lines = shown()
    assert {setting.variable for setting in settings.SETTINGS} <= set(lines)
    for name, row in ROWS.items():
        for variable in (*row.switches, *row.code_variables):
            assert name in lines[variable]["read_by"], variable
    assert all(line["value"] is None or line["variable"] in os.environ for line in lines.values())


def test_names_are_whole(monkeypatch, tmp_path):
    """No name of a variable or of its reader is cut, however narrow the terminal is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for columns in ("80", "60"):
        monkeypatch.setenv("COLUMNS", columns)
        tables = run("env").stdout.rpartition("\n\n")[0]
        printed = set(tables.replace(",", " ").split())
        for line in shown().values():
            if columns == "80" or line["value"] is None:
                assert {line["variable"], *line["read_by"]} <= printed
        assert max(map(len, tables.splitlines())) <= int(columns)


def test_secrets(monkeypatch, tmp_path):
    """No password is shown, whoever holds it; a variable that only the settings file can have is said so."""
    address = "redis://user:hidden@host/0"
    monkeypatch.setenv("KCL_REMOTE", address)
    monkeypatch.setenv("KCL_REMOTE_HEADERS", "Token: hidden")
    remotes.configure(
        tmp_path / "config", remote_unsigned=[address], remote_headers=["Token: hidden"]
    )
    assert shown()["KCL_REMOTE"]["value"] == "redis://host/0"
    assert shown()["KCL_REMOTE_UNSIGNED"]["value"] == "redis://host/0"
    assert "the variable counts for nothing" in shown()["KCL_REMOTE_HEADERS"]["effect"]
    for words in ([], ["--json"]):
        assert "hidden" not in run("env", *words).output


def test_effect(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPY_NO_CACHE", "1")
    monkeypatch.setenv("POCL_KERNEL_CACHE", "true")
    monkeypatch.setenv("CUDA_CACHE_PATH", str(tmp_path / "cuda"))
    monkeypatch.setenv("KCL_NOCACHE", "1")
    lines = shown()
    assert lines["LOOPY_NO_CACHE"]["effect"].startswith("off")
    assert "generator layer" in lines["LOOPY_NO_CACHE"]["effect"]
    assert "kcl" in lines["LOOPY_NO_CACHE"]["read_by"]
    assert "anything but 1" in lines["POCL_KERNEL_CACHE"]["effect"]
    assert str(tmp_path / "cuda") in lines["CUDA_CACHE_PATH"]["effect"]
    assert "POCL_CACHE_DIR decides" in lines["XDG_CACHE_HOME"]["effect"]
    assert lines["KCL_NOCACHE"]["effect"] == "nobody reads it"


@pytest.mark.faults
def test_settings_file():
    path = pathlib.Path(settings.settings_file())
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text('strict = "hit"\nstrickt = 1\n')
    path.chmod(0o600)
    process.reset()
    assert shown()["KCL_STRICT"]["value"] == "hit"
    assert "settings file" in shown()["KCL_STRICT"]["effect"]
    assert "strickt" in run("env").stdout
