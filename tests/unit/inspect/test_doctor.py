"""kcl.inspect.doctor: each check against the thing itself: variables, directories, databases, distributions."""

import os
import pathlib
import re
import time
import types

import pytest

from kcl import foreign, option
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.inspect import doctor

pytestmark = pytest.mark.usefixtures("no_switches")


def only(found):
    (finding,) = found
    return finding


def test_fine(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = list(doctor.run())
    assert list(dict.fromkeys(finding.check for finding in found)) == list(doctor.CHECKS)
    assert {finding.severity for finding in found} <= {"ok", "note"}
    assert not (tmp_path / "cache").exists()


def test_a_check_that_cannot_end(monkeypatch, tmp_path):
    """A directory that others can write is told once, with its cure, and every other check runs."""
    (tmp_path / "own").mkdir()
    os.chmod(tmp_path / "own", 0o777)
    monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "own"))
    found = list(doctor.run())
    assert list(dict.fromkeys(finding.check for finding in found)) == list(doctor.CHECKS)
    faults = [finding.words for finding in found if finding.severity not in ("ok", "note")]
    assert "chmod go-w" in only(faults)


class TestFiles:
    def test_directories(self, monkeypatch, tmp_path):
        (tmp_path / "cache").mkdir()
        os.chmod(tmp_path / "cache", 0o777)
        assert "chmod go-w" in only({*doctor.directories()}).words
        os.chmod(tmp_path / "cache", 0o700)
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "file" / "pocl"))
        finding = only(doctor.directories())
        assert "PoCL shows no device" in finding.words
        assert "POCL_CACHE_DIR" in finding.cure

    def test_home(self, monkeypatch, tmp_path):
        """Where the home cannot be written each cache in it is a problem; caches elsewhere are none."""
        (tmp_path / "file").write_text("")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
        found = list(doctor.directories())
        assert {finding.severity for finding in found} == {"problem"}
        moving = {finding.cure.split()[1] for finding in found if finding.cure}
        assert moving >= {"POCL_CACHE_DIR", "XDG_CACHE_HOME"}
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert list(doctor.directories()) == []

    def test_read_only(self, monkeypatch, tmp_path):
        """An own cache that cannot be written is read, and no problem."""
        for folder in ("kcl", "pyopencl", "pytools"):
            (tmp_path / "own" / folder).mkdir(parents=True, mode=0o700)
        option.cache_dir(tmp_path / "own")
        own = str(tmp_path / "own")
        monkeypatch.setattr(
            doctor.usable, "fault", lambda path, **_how: "a fault" * path.startswith(own)
        )
        assert [finding.severity for finding in doctor.directories()] == ["note"] * 3

    def test_network(self, monkeypatch):
        monkeypatch.setattr(trust, "is_network", lambda _path: True)
        assert {finding.severity for finding in doctor.directories()} == {"note"}

    @pytest.mark.parametrize(
        ("limit", "severity"), [("_FULL", "problem"), ("_ALMOST_FULL", "warning")]
    )
    def test_disk(self, monkeypatch, limit, severity):
        assert list(doctor.disk()) == []
        monkeypatch.setattr(doctor, limit, 1 << 62)
        assert {finding.severity for finding in doctor.disk()} == {severity}

    def test_damaged(self):
        """A file that is no entry, a dictionary of loopy that is no database, files that are no code of PoCL's."""
        place = address("0" * 64, "device", "k")
        Directory(places.binaries()).put(place, b"garbage")
        folder = foreign.place("loopy").path
        os.makedirs(folder, 0o700)
        pathlib.Path(folder, "pdict-v5-loopy-bad.sqlite").write_text("no database" * 100)
        folder = pathlib.Path(foreign.place("pocl").path, "AB", "C" * 37)
        (folder / "k" / "8-1-1").mkdir(parents=True)
        (folder / "k" / "8-1-1" / "k.so").write_bytes(b"")
        (folder / "program.bc").write_bytes(b"garbage")
        entry, database, pocl = doctor.damaged()
        assert place in entry.words
        assert "kcl verify" in entry.cure
        assert (database.severity, database.cure) == ("problem", "kcl purge loopy")
        assert "pdict-v5-loopy-bad.sqlite: file is not a database" in database.words
        assert (pocl.severity, pocl.cure) == ("problem", "kcl purge pocl")
        assert pocl.words.startswith("2 damaged files in PoCL's cache")

    def test_lock(self):
        """pyopencl's lock is a problem once nobody can hold it any more, and a note before."""
        place = pathlib.Path(foreign.place("pyopencl-binary").path)
        path = place / "pyopencl-compiler-cache-v2-py3.11" / "lock"
        path.parent.mkdir(parents=True)
        assert list(doctor.locks()) == []
        path.touch()
        assert only(doctor.locks()).severity == "note"
        os.utime(path, (time.time() - 120,) * 2)
        finding = only(doctor.locks())
        assert (finding.severity, finding.cure) == ("problem", f"rm {path}")


class TestRoots:
    def test_relative(self, monkeypatch):
        """A relative XDG_CACHE_HOME splits the root: some ignore it, some take it from wherever a program starts."""
        for value in ("relative", "~/cache"):
            monkeypatch.setenv("XDG_CACHE_HOME", value)
            finding = only(doctor.roots())
            assert finding.severity == "warning"
            assert os.path.isabs(finding.cure.partition("=")[2])

    def test_home(self, monkeypatch):
        """Without HOME PoCL goes to /tmp; HOME=/ is what a container gives to a user that it does not know."""
        monkeypatch.delenv("HOME")
        assert "/tmp/pocl" in only(doctor.roots()).words
        monkeypatch.setenv("HOME", "/")
        assert list(doctor.roots()) == []
        monkeypatch.delenv("XDG_CACHE_HOME")
        finding = only(doctor.roots())
        assert "/.cache" in finding.words
        assert "XDG_CACHE_HOME" in finding.cure


class TestSwitches:
    @pytest.mark.parametrize(
        ("switch", "severity", "words"),
        [
            ("POCL_KERNEL_CACHE=true", "note", "(PoCL reads anything but 1 as off)"),
            ("POCL_KERNEL_CACHE=1", "ok", "PoCL's kernel cache is on: POCL_KERNEL_CACHE=1"),
            ("LOOPY_NO_CACHE=sure", "problem", "makes the import fail"),
            ("LOOPY_NO_CACHE=yes", "note", "is off: LOOPY_NO_CACHE=yes"),
        ],
    )
    def test_values(self, monkeypatch, switch, severity, words):
        """A switch that is set is named as its owner reads it; a value that makes an import fail is a problem."""
        monkeypatch.setenv(*switch.split("="))
        finding = only(doctor.switches())
        assert (finding.severity, bool(finding.cure)) == (severity, severity == "problem")
        assert words in finding.words

    def test_settings(self, monkeypatch):
        """To demand hits of a layer that is off demands nothing; a variable that kcl lacks is compared with its own."""
        monkeypatch.setenv("KCL_STRICT", "hit")
        monkeypatch.setenv("KCL_NO_CACHE", "binary")
        assert only(doctor.unknown_settings()).severity == "note"
        monkeypatch.setenv("KCL_CACHEDIR", "/x")
        assert "did you mean 'KCL_CACHE_DIR'" in [*doctor.unknown_settings()][-1].words


POCL = "OpenCL 3.0 PoCL HSTR: pthread-"


class TestSystem:
    def test_platforms(self):
        found = list(doctor.platforms())
        assert any("Portable Computing Language" in finding.words for finding in found)
        assert {finding.severity for finding in found} <= {"ok", "note"}

    @pytest.mark.parametrize(
        ("version", "severities"),
        [
            (f"{POCL}x86_64-unknown-linux-gnu-generic", ["ok", "warning"]),
            (f"{POCL}x86_64-unknown-linux-gnu-znver3", ["ok"]),
            (f"{POCL}aarch64-unknown-linux-gnu-generic", ["ok"]),
            ("OpenCL 3.1 (generic)", ["ok"]),
        ],
    )
    def test_cpu_that_pocl_does_not_know(self, monkeypatch, version, severities):
        """Where PoCL's compiler is older than the CPU builds fail for a reason that nobody guesses; there is a cure."""
        device = types.SimpleNamespace(name="a CPU", version=version)
        platform = types.SimpleNamespace(name="PoCL", version="3.0", get_devices=lambda: [device])
        monkeypatch.setattr("pyopencl.get_platforms", lambda: [platform])
        found = list(doctor.platforms())
        assert [finding.severity for finding in found] == severities
        assert all(re.search("conda install.*with_pocl", finding.cure) for finding in found[1:])

    def test_no_linker(self, monkeypatch, tmp_path):
        """Where PoCL finds no linker the first build aborts the program; the doctor says so before, with the cure."""
        monkeypatch.setenv("PATH", str(tmp_path))
        warnings = [finding for finding in doctor.platforms() if finding.severity == "warning"]
        assert only(warnings).words.startswith("Portable Computing Language links what it builds")
        assert "binutils" in warnings[0].cure

    def test_no_platform(self, child):
        """Where there is no device the directories come first, then a package; the folder of drivers is named."""
        (child.directory / "empty").mkdir()
        code = "import json; from kcl.inspect import doctor; print(json.dumps(list(doctor.platforms())))"
        # PoCL, which is found without such a folder, disappears where it cannot make its directory.
        places = {
            "OCL_ICD_VENDORS": str(child.directory / "empty"),
            "POCL_CACHE_DIR": "/proc/nowhere",
        }
        severity, words, cure, _check = child.json(code, **places)[-1]
        assert severity == "problem"
        assert "OCL_ICD_VENDORS=" in words
        first = "cure the directories first; if that is not enough: pip install pocl-binary-"
        assert cure.startswith(first)
