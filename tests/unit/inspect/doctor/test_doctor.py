"""kcl.inspect.doctor: each check against the thing itself: variables, directories, databases, distributions."""

from __future__ import annotations

import os
import sqlite3
import time
import types
from contextlib import closing

import pytest

from kcl import caches, option, trust
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.caches.late_switches import Late
from kcl.caches.table import ROWS
from kcl.drivers.pocl.jobs import Queue
from kcl.inspect import doctor
from kcl.inspect.doctor import files, switches, system
from kcl.inspect.history import notes


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """Unset what any owner reads, but for the root of a fresh cache."""
    for variable in {each for row in ROWS.values() for each in row.variables} - {"HOME", "XDG_CACHE_HOME"}:
        monkeypatch.delenv(variable, raising=False)


def only(found):
    """Return the one finding of a check."""
    (finding,) = found
    return finding


class TestRun:
    def test_fine(self, monkeypatch, tmp_path):
        """Each check says something, in the order of the list; where nothing is wrong, that."""
        monkeypatch.setenv("HOME", str(tmp_path))
        found = list(doctor.run())
        assert list(dict.fromkeys(finding.check for finding in found)) == list(doctor.CHECKS)
        assert {finding.severity for finding in found} <= {"ok", "note"}
        assert not (tmp_path / "cache").exists()


class TestSystem:
    def test_platforms(self):
        """Platforms and devices are named."""
        found = list(system.platforms())
        assert any("Portable Computing Language" in finding.words for finding in found)
        assert {finding.severity for finding in found} <= {"ok", "note"}

    @pytest.mark.parametrize(
        ("version", "severities"),
        [
            ("OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic", ["ok", "warning"]),
            ("OpenCL 1.2 pocl HSTR: pthread-x86_64-pc-linux-gnu-generic", ["ok", "warning"]),
            ("OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-znver3", ["ok"]),
            ("OpenCL 3.0 PoCL HSTR: pthread-aarch64-unknown-linux-gnu-generic", ["ok"]),
            ("OpenCL 3.1 (generic)", ["ok"]),
        ],
    )
    def test_cpu_that_pocl_does_not_know(self, monkeypatch, version, severities):
        """Where PoCL's compiler is older than the CPU builds fail for a reason that nobody guesses; there is a cure."""
        device = types.SimpleNamespace(name="a CPU", version=version)
        platform = types.SimpleNamespace(name="PoCL", version="3.0", get_devices=lambda: [device])
        monkeypatch.setattr("pyopencl.get_platforms", lambda: [platform])
        found = list(system.platforms())
        assert [finding.severity for finding in found] == severities
        assert all("conda install" in finding.cure and "with_pocl" in finding.cure for finding in found[1:])

    def test_no_platform(self, child):
        """Where there is no device the cure is a package, and the folder of drivers is named."""
        (child.directory / "empty").mkdir()
        code = "import json; from kcl.inspect.doctor import system; print(json.dumps(list(system.platforms())))"
        # PoCL, which is found without such a folder, disappears where it cannot make its directory
        found = child.json(code, OCL_ICD_VENDORS=str(child.directory / "empty"), POCL_CACHE_DIR="/proc/nowhere")
        finding = found[-1]
        assert finding[1] == "problem"
        assert "OCL_ICD_VENDORS=" in finding[2]
        assert "pip install pocl-binary-distribution" in finding[3]

    def test_versions(self, monkeypatch, tmp_path):
        """Versions that are known to be wrong together are a problem, with the command that cures it."""
        assert list(system.versions()) == []
        for name, version in (("loopy", "2025.2"), ("islpy", "2026.1"), ("pytools", "2031.1")):
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)
        wrong, unknown = system.versions()
        assert wrong.severity == "problem"
        assert wrong.words.startswith("loopy 2025.2 with islpy 2026.1: ")
        assert "islpy>=2025.2,<2026" in wrong.cure
        assert unknown.severity == "note"
        assert "pytools 2031.1" in unknown.words


class TestRoots:
    @pytest.mark.parametrize("value", ["relative", "~/cache"])
    def test_relative(self, monkeypatch, value):
        """A relative XDG_CACHE_HOME splits the root: some ignore it, some take it from wherever a program starts."""
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        finding = only(switches.roots())
        assert finding.severity == "warning"
        assert "PoCL's kernel cache" in finding.words
        assert os.path.isabs(finding.cure.partition("=")[2])

    def test_no_home(self, monkeypatch):
        """Without HOME PoCL goes to a directory for temporary files."""
        monkeypatch.delenv("HOME")
        assert "/tmp/pocl" in only(switches.roots()).words


class TestSwitches:
    @pytest.mark.parametrize(
        ("variable", "value", "severity", "words", "cure"),
        [
            ("POCL_KERNEL_CACHE", "true", "warning", "is off all the same", "export POCL_KERNEL_CACHE=1"),
            ("POCL_KERNEL_CACHE", "0", "note", "is off", ""),
            ("NEO_CACHE_PERSISTENT", "yes", "warning", "is off all the same", "export NEO_CACHE_PERSISTENT=1"),
            ("CUDA_CACHE_DISABLE", "true", "warning", "is on all the same", "export CUDA_CACHE_DISABLE=1"),
            ("AMD_COMGR_CACHE", "off", "warning", "is on all the same", "export AMD_COMGR_CACHE=0"),
            ("LOOPY_NO_CACHE", "sure", "problem", "makes the import fail", "unset LOOPY_NO_CACHE"),
            ("PYOPENCL_NO_CACHE", "1", "note", "pyopencl's PersistentDict cache is off: PYOPENCL_NO_CACHE=1", ""),
            ("NEO_CACHE_DIR", "/none", "note", "there is no such directory", ""),
        ],
    )
    def test_values(self, monkeypatch, variable, value, severity, words, cure):
        """A value that does not mean what it seems to mean is a warning, a switch that works a note."""
        monkeypatch.setenv(variable, value)
        finding = only(switches.values())
        assert (finding.severity, finding.cure) == (severity, cure)
        assert words in finding.words

    @pytest.mark.parametrize(("variable", "value"), [("POCL_KERNEL_CACHE", "1"), ("LOOPY_NO_CACHE", "no")])
    def test_on(self, monkeypatch, variable, value):
        """A switch that says on, and is understood, is nothing to speak of."""
        monkeypatch.setenv(variable, value)
        assert list(switches.values()) == []

    def test_contradiction(self, monkeypatch):
        """Two switches of one cache that disagree are named, with what comes of it."""
        monkeypatch.setenv("LOOPY_NO_CACHE", "1")
        monkeypatch.setenv("CG_NO_CACHE", "0")
        finding = only(switches.contradictions())
        assert "LOOPY_NO_CACHE=1 and CG_NO_CACHE=0 contradict: loopy's PersistentDict cache is off" in finding.words
        monkeypatch.setenv("CG_NO_CACHE", "1")
        assert list(switches.contradictions()) == []

    def test_strict_and_off(self, monkeypatch):
        """To demand hits of a layer that is off demands nothing."""
        monkeypatch.setenv("KCL_STRICT", "hit")
        monkeypatch.setenv("KCL_NO_CACHE", "binary")
        assert only(switches.contradictions()).severity == "note"

    def test_late(self):
        """A late switch of the last week is a warning; one that may have come in time a note."""
        late = Late("pocl", "POCL_CACHE_DIR", "/x", "POCL_CACHE_DIR=/x was set too late", True)
        notes.keep([late, late._replace(variable="POCL_KERNEL_CACHE", sure=False)])
        assert sorted(finding.severity for finding in switches.late()) == ["note", "warning"]
        assert all("before the program starts" in finding.cure for finding in switches.late())

    def test_settings(self, monkeypatch):
        """A setting of kcl that is not understood is a warning."""
        monkeypatch.setenv("KCL_STRICT", "hits")
        assert "KCL_STRICT" in only(switches.settings()).words


class TestLookAlikes:
    @pytest.mark.parametrize(
        ("variable", "cure"),
        [
            ("CUDA_CACHE_DIR", "export CUDA_CACHE_PATH=/x"),
            ("XDG_CACHE_DIR", "export XDG_CACHE_HOME=/x"),
            ("POCL_NO_CACHE", "export POCL_KERNEL_CACHE=0"),
        ],
    )
    def test_known(self, monkeypatch, variable, cure):
        """A variable that nobody reads is named, with the one that was meant."""
        monkeypatch.setenv(variable, "/x")
        finding = only(switches.look_alikes())
        assert finding.severity == "warning"
        assert cure in finding.cure

    def test_of_kcl(self, monkeypatch):
        """A variable that begins as kcl's do and is none is compared with those."""
        monkeypatch.setenv("KCL_CACHEDIR", "/x")
        assert only(switches.look_alikes()).cure == "did you mean KCL_CACHE_DIR?"

    def test_nobody_reads_them(self):
        """None of the look-alikes is a variable that somebody reads."""
        read = {variable for row in ROWS.values() for variable in (*row.variables, *row.limits)}
        assert not read & set(switches.LOOK_ALIKES)
        assert set(switches.LOOK_ALIKES.values()) <= read


class TestProcessIds:
    @pytest.mark.skipif(os.getpid() < 1000, reason="a small number may be anything")
    def test_of_an_ancestor(self, child):
        """A directory that names the process around it, as the shell of a job, is never warm."""
        code = """
            import json
            from kcl.inspect.doctor import switches
            print(json.dumps([finding.words for finding in switches.process_ids()]))
            """
        (words,) = child.json(code, POCL_CACHE_DIR=f"/scratch/pocl-{os.getpid()}")
        assert words.startswith(f"POCL_CACHE_DIR=/scratch/pocl-{os.getpid()} names the process id")

    def test_of_a_job(self, monkeypatch):
        """So is one that names the job of a batch scheduler."""
        monkeypatch.setenv("SLURM_JOB_ID", "8812345")
        monkeypatch.setenv("KCL_CACHE_DIR", "/scratch/8812345/kcl")
        assert "SLURM_JOB_ID 8812345" in only(switches.process_ids()).words

    def test_siblings(self, monkeypatch, tmp_path):
        """So is one whose siblings differ in a number alone; a year in a path is nothing."""
        for number in (1111, 2222, 3333):
            (tmp_path / f"cache-{number}").mkdir()
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "cache-4444" / "pocl"))
        assert "3 directories beside it" in only(switches.process_ids()).words
        monkeypatch.setenv("POCL_CACHE_DIR", "/data2026/pocl")
        assert list(switches.process_ids()) == []


class TestFiles:
    def test_directories(self, monkeypatch, tmp_path):
        """A directory that others can write, and one that cannot be made, are problems with their cures."""
        (tmp_path / "cache").mkdir()
        os.chmod(tmp_path / "cache", 0o777)
        finding = only(files.directories())
        assert finding.severity == "problem"
        assert "chmod go-w" in finding.words
        os.chmod(tmp_path / "cache", 0o700)
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "file" / "pocl"))
        finding = only(files.directories())
        assert "PoCL shows no device" in finding.words
        assert "POCL_CACHE_DIR" in finding.cure

    def test_network(self, monkeypatch, tmp_path):
        """A directory on a network file system is a note."""
        with open("/proc/self/mountinfo") as stream:
            kind = trust.mount_type(stream.read(), os.path.realpath(tmp_path))
        monkeypatch.setattr(trust, "_NETWORK", {kind})
        assert {finding.severity for finding in files.directories()} == {"note"}

    @pytest.mark.parametrize(("limit", "severity"), [("_NEEDED", "problem"), ("_WANTED", "warning")])
    def test_disk(self, monkeypatch, limit, severity):
        """A disk with less room than is needed is a problem, with less than is good to have a warning."""
        assert list(files.disk()) == []
        monkeypatch.setattr(files, limit, 1 << 62)
        assert {finding.severity for finding in files.disk()} == {severity}

    def test_damaged_entry(self):
        """A file in a layer that is no entry is named."""
        place = os.path.join(option.folder("pyopencl"), "kcl-binary-v1", "device", "k-" + "0" * 64)
        os.makedirs(os.path.dirname(place), 0o700)
        with open(place, "wb") as stream:
            stream.write(b"garbage")
        os.chmod(place, 0o600)
        finding = only(files.damaged())
        assert place in finding.words
        assert "kcl verify" in finding.cure

    def test_damaged_database(self):
        """A dictionary of loopy that is no database any more is a problem: import loopy fails on it."""
        folder = caches.directory("loopy")
        os.makedirs(folder, 0o700)
        with closing(sqlite3.connect(os.path.join(folder, "pdict-v5-loopy-good.sqlite"))) as database:
            database.execute("CREATE TABLE dict (keyhash TEXT, key_value TEXT)")
        assert list(files.damaged()) == []
        with open(os.path.join(folder, "pdict-v5-loopy-bad.sqlite"), "w") as stream:
            stream.write("no database" * 100)
        finding = only(files.damaged())
        assert finding.severity == "problem"
        assert "pdict-v5-loopy-bad.sqlite: file is not a database" in finding.words
        assert finding.cure == "kcl purge loopy"

    def test_damaged_pocl(self):
        """An empty file where PoCL keeps code is a problem."""
        place = os.path.join(caches.directory("pocl"), "AB", "C" * 37, "k", "8-1-1", "k.so")
        os.makedirs(os.path.dirname(place))
        open(place, "w").close()
        assert only(files.damaged()).cure == "kcl purge pocl"

    def test_lock(self):
        """pyopencl's lock is a problem once nobody can hold it any more, and a note before."""
        path = os.path.join(caches.directory("pyopencl-binary"), "pyopencl-compiler-cache-v2-py3.11", "lock")
        os.makedirs(os.path.dirname(path))
        assert list(files.locks()) == []
        open(path, "w").close()
        assert only(files.locks()).severity == "note"
        os.utime(path, (time.time() - 120,) * 2)
        finding = only(files.locks())
        assert (finding.severity, finding.cure) == ("problem", f"rm {path}")

    def test_pending(self):
        """Programs that nobody completes for an hour are a note."""
        queue = Queue(option.folder("kcl"))
        queue.add(Entry(Key([Part("number", "1")]), {}, {}))
        assert list(files.pending()) == []
        path = os.path.join(queue.folder, "new", Key([Part("number", "1")]).digest)
        os.utime(path, (time.time() - 7200,) * 2)
        assert "1 programs have waited" in only(files.pending()).words
