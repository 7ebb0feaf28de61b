"""`kcl status`: every layer and every foreign cache."""

import json
import os

import late_switching
import pytest
from commands import run

from kcl.base import settings
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.drivers.pocl.jobs import JobQueue
from kcl.foreign import contents
from kcl.foreign.table import ROWS
from kcl.inspect import inventory


def status(*arguments, code=0):
    return run("status", *arguments, code=code).output


def said():
    document = json.loads(status("--json"))
    return document, {row["layer"]: row for row in document["layers"]}


IMPORTS = """
import contextlib, io, json, sys
from kcl import cli
imported = []
for arguments in (["status"], ["status", "--json"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        cli.main(arguments)
    imported.append("importlib.metadata" in sys.modules)
print(json.dumps(imported))
"""


@pytest.mark.one_platform
def test_imports(child):
    """The versions of packages, whose import is slow, are read for --json alone."""
    assert child.json(IMPORTS) == [False, True]


@pytest.mark.one_platform
class TestJson:
    def test_layers(self, warm, monkeypatch):
        """--json lists kcl's layers with state, directory and why, entries, bytes, hit rate and what was saved."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(warm.child.cache))
        monkeypatch.delenv("POCL_CACHE_DIR")
        document, rows = said()
        assert [row["layer"] for row in document["layers"]] == [*settings.LAYERS, *ROWS]
        generator, binary = rows["generator"], rows["binary"]
        assert generator["on"] is binary["on"] is True
        assert binary["directory"] == warm.binaries.location
        assert generator["directory"] == os.path.dirname(warm.rows.location)
        assert binary["why"] == generator["why"] == "XDG_CACHE_HOME"
        assert binary["entries"] == len(list(warm.binaries.scan()))
        listed = len(list(inventory.entries("generator")))
        assert generator["entries"] == listed < len(list(warm.rows.scan()))
        assert generator["bytes"] == os.path.getsize(warm.rows.location)
        assert binary["oldest"] <= binary["newest"]
        assert 0.4 < binary["hit_rate"] < 0.6
        assert binary["saved"] > 0
        assert binary["fault"] == generator["fault"] == ""
        assert rows["loopy"]["entries"] == 0  # kcl runs loopy without its dictionaries
        assert rows["loopy"]["version"]

    def test_switched_off(self, monkeypatch):
        """What is off says by which switch; a layer that is off for some recipes says so too."""
        for switch in ("KCL_NO_CACHE=binary", "LOOPY_NO_CACHE=1", "POCL_KERNEL_CACHE=true"):
            monkeypatch.setenv(*switch.split("="))
        _document, rows = said()
        assert not rows["binary"]["on"]
        assert "KCL_NO_CACHE" in rows["binary"]["reason"]
        assert rows["generator"]["on"]
        assert rows["generator"]["reason"] == "LOOPY_NO_CACHE=1"
        assert not rows["pocl"]["on"]
        printed = status()
        assert "partly off: LOOPY_NO_CACHE=1" in printed
        (off,) = [line for line in printed.splitlines() if line.startswith("binary")]
        assert " 0 B " not in off  # what nobody looked at is not said to be empty

    def test_empty(self, tmp_path):
        document, rows = said()
        assert rows["binary"]["entries"] == rows["generator"]["entries"] == 0
        assert rows["binary"]["hit_rate"] is None
        nothing = {"programs": 0, "since": 0.0, "helper": False, "elsewhere": {}, "words": []}
        assert document["pending"] == nothing
        assert document["late"] == document["notes"] == []
        assert not (tmp_path / "cache").exists()


class TestText:
    def test_table(self):
        printed = status()
        first = [line.split()[0] for line in printed.splitlines()][:3]
        assert first == ["layer", "generator", "binary"]
        assert os.path.join(settings.folder("pyopencl"), "kcl-binary-v1") in printed
        assert "mesa" not in printed
        names = [line.split()[0] for line in status("--all").splitlines()]
        assert set(names) > {"comgr", "cuda", "mesa", "neo"}  # whatever is on this machine

    def test_not_here(self, monkeypatch, tmp_path):
        """A cache of a driver that is not on this machine is left out, unless it holds something or is switched off."""
        monkeypatch.setattr(contents, "is_here", lambda name: name != "neo")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        assert "neo " not in status()
        assert said()[1]["neo"]["here"] is False
        path = tmp_path / "home" / "neo_compiler_cache" / "a.cl_cache"
        path.parent.mkdir(parents=True)
        path.write_text("x")
        assert "neo " in status()
        path.unlink()
        monkeypatch.setenv("NEO_CACHE_PERSISTENT", "0")
        assert "neo " in status()

    def test_neighbour(self, monkeypatch, tmp_path):
        monkeypatch.setenv("MESA_SHADER_CACHE_DIR", str(tmp_path / "mesa"))
        path = tmp_path / "mesa" / "mesa_shader_cache" / "ab" / ("0" * 38)
        path.parent.mkdir(parents=True)
        path.write_text("{}")
        (line,) = [line for line in status().splitlines() if line.startswith("mesa")]
        assert line.split()[:5] == ["mesa", "on", "1", "2", "B"]
        assert line.split()[-2:] == [str(tmp_path / "mesa"), "MESA_SHADER_CACHE_DIR"]

    def test_pending(self):
        queue = JobQueue(settings.folder("kcl"))
        for number in range(2):
            queue.add(Entry(Key([Part("number", str(number))]), {}, {}))
        assert "2 programs wait to be completed: run `kcl flush`, the first since" in status()
        pending = said()[0]["pending"]
        assert (pending["programs"], pending["helper"]) == (2, False)

    def test_late(self, monkeypatch):
        """A switch that came too late in a program of the last week is said; so is a setting that is not understood."""
        late_switching.leave("/x was set too late")
        (late,) = said()[0]["late"]
        assert f"{late['driver']} (<1 s ago): /x was set too late\n" in status()
        monkeypatch.setenv("KCL_STRICT", "hits")
        assert "KCL_STRICT: 'hits' is not one of" in status()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("pyopencl", "KCL_CACHE_DIR"),
        ("pytools/pdict-v5-kcl-generated-v1-3.99.sqlite", "3.99.sqlite: file is not a database"),
    ],
)
def test_faults(tmp_path, path, words):
    place = tmp_path / "cache" / path
    place.parent.mkdir(parents=True, mode=0o700)
    (tmp_path / "cache").chmod(0o700)
    place.write_text("no database")
    assert words in status(code=1)


@pytest.mark.skipif(os.name == "nt", reason="without mode bits")
def test_fault_of_a_layer_that_is_off(tmp_path, monkeypatch):
    """A directory that others can write is a fault, also while nothing is looked up there."""
    place = tmp_path / "cache" / "pyopencl"
    place.mkdir(parents=True)
    (tmp_path / "cache").chmod(0o700)
    place.chmod(0o777)
    monkeypatch.setenv("KCL_NO_CACHE", "1")
    assert "0777" in status(code=1)


def test_remote(tmp_path, monkeypatch):
    assert "remote file" not in status()
    address = (tmp_path / "remote").as_uri()
    monkeypatch.setenv("KCL_REMOTE", address)
    # The project is named by the folder of the checkout.
    assert f"remote {address}: read only; 0 entries of " in status()
    assert json.loads(status("--json"))["remote"]["address"] == address
