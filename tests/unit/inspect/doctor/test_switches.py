"""kcl.inspect.doctor.switches: variables that do not do what they seem to do."""

from __future__ import annotations

import os

import pytest
from late_switching import leave

from kcl.caches.late_switches import LateSwitch
from kcl.inspect.doctor import switches


def only(found):
    """Return the one finding of a check."""
    (finding,) = found
    return finding


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
        found = LateSwitch("pocl", "POCL_CACHE_DIR", "/x", "POCL_CACHE_DIR=/x was set too late", True)
        leave(found, found._replace(variable="POCL_KERNEL_CACHE", sure=False))
        assert sorted(finding.severity for finding in switches.late()) == ["note", "warning"]
        assert all("before the program starts" in finding.cure for finding in switches.late())

    def test_settings(self, monkeypatch):
        """A setting of kcl that is not understood is a warning."""
        monkeypatch.setenv("KCL_STRICT", "hits")
        assert "KCL_STRICT" in only(switches.unknown_settings()).words

    def test_unknown_variable(self, monkeypatch):
        """A variable that begins as kcl's do and is none is compared with those."""
        monkeypatch.setenv("KCL_CACHEDIR", "/x")
        assert "did you mean 'KCL_CACHE_DIR'" in only(switches.unknown_settings()).words


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
