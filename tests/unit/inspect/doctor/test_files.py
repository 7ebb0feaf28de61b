"""kcl.inspect.doctor.files: directories, disks, databases, locks and jobs that wait."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

import pytest

from kcl import caches, option
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.drivers.pocl.jobs import JobQueue
from kcl.inspect.doctor import files


def only(found):
    """Return the one finding of a check."""
    (finding,) = found
    return finding


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

    def test_home(self, monkeypatch, tmp_path):
        """A home that cannot be written is told first, once for all caches below it; caches elsewhere are not its."""
        (tmp_path / "file").write_text("")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
        finding = only(files.directories())
        assert finding.words.startswith(f"the home directory {tmp_path}/file/home cannot be written: ")
        assert "kcl env --dir" in finding.cure
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert list(files.directories()) == []

    def test_network(self, monkeypatch):
        """A directory on a network file system is a note."""
        monkeypatch.setattr(trust, "is_network", lambda _path: True)
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
        """A file that is no code where PoCL keeps code is a problem, and a warning where an entry holds it."""
        program = "AB/" + "C" * 37
        code = os.path.join(caches.directory("pocl"), program, "k", "8-1-1", "k.so")
        os.makedirs(os.path.dirname(code))
        for path, content in ((code, b""), (os.path.join(caches.directory("pocl"), program, "program.bc"), b"garbage")):
            with open(path, "wb") as stream:
                stream.write(content)
        finding = only(files.damaged())
        assert (finding.severity, finding.cure) == ("problem", "kcl purge pocl")
        assert finding.words.startswith("2 damaged files in PoCL's cache")
        about = {"place": program, "specialisations": {"k": ["8-1-1"]}, "kernel": "k"}
        key = Key([("source", "k")])
        store = Directory(places.binaries())
        store.put(address(key.digest, "device", "k"), Entry(key, about, {"binary": b""}).pack())
        finding = only(files.damaged())
        assert (finding.severity, "kcl replaces them" in finding.words) == ("warning", True)

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
        queue = JobQueue(option.folder("kcl"))
        queue.add(Entry(Key([Part("number", "1")]), {}, {}))
        assert list(files.pending()) == []
        path = os.path.join(queue.folder, queue.jobs()[0].address)
        os.utime(path, (time.time() - 7200,) * 2)
        assert "1 program has waited" in only(files.pending()).words
