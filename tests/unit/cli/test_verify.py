"""`kcl verify`: damaged entries are named."""

import json
import os

import pytest
from commands import flip, run

pytestmark = pytest.mark.one_platform


def verify(*options, code=0):
    said = json.loads(run("verify", "--json", *options, code=code).stdout)
    return said["checked"], {fault["place"]: fault["reason"] for fault in said["damaged"]}


def test_fine(cache):
    stores = {"generator": cache.rows, "binary": cache.binaries}
    counts = {name: len(list(store.scan())) for name, store in stores.items()} | {"tuning": 0}
    assert verify() == verify("--headers") == (counts, {})


def test_damaged(copy):
    """Headers show a changed header, an entry cut short and one in another's place; all bytes show the rest."""
    header, body, short = (
        os.path.join(copy.binaries.location, copy.binary_of(kernel)[0])
        for kernel in ("control", "body", "helped")
    )
    flip(header, 200)
    flip(body, -1)
    os.truncate(short, os.path.getsize(short) - 1)
    other, _entry = copy.row_of("defaulted")
    copy.rows.put(other, copy.row_of("closed")[1].pack())
    moved = f"{copy.rows.location}: {other}"
    assert verify("--headers", code=1)[1].keys() == {header, short, moved}
    assert verify(code=1)[1].keys() == {header, short, moved, body}
    said = run("verify", code=1).stdout
    assert "damaged: 4\n" in said
    assert f"binary: {body}: the digest over the entry does not fit its bytes\n" in said
    assert "makes it anew" in said


def test_of_pocl(monkeypatch, tmp_path):
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    path = tmp_path / "pocl" / "AB" / ("C" * 37) / "program.bc"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage")
    assert verify(code=1)[1] == {str(path): "it is no bitcode"}
    said = run("verify", code=1).stdout
    assert f"pocl: {path}: it is no bitcode\n" in said
    assert "kcl purge pocl removes the rest" in said
