"""kcl.inspect.doctor.system: platforms, devices and versions, against what is installed."""

from __future__ import annotations

import types

import pytest

from kcl.inspect.doctor import system


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

    def test_no_linker(self, monkeypatch, tmp_path):
        """Where PoCL finds no linker the first build aborts the program; the doctor says so before, with the cure."""
        monkeypatch.setenv("PATH", str(tmp_path))
        warnings = [finding for finding in system.platforms() if finding.severity == "warning"]
        assert [
            finding.words.startswith("Portable Computing Language links what it builds") for finding in warnings
        ] == [True]
        assert "binutils" in warnings[0].cure

    def test_no_platform(self, child):
        """Where there is no device the directories come first, then a package; the folder of drivers is named."""
        (child.directory / "empty").mkdir()
        code = "import json; from kcl.inspect.doctor import system; print(json.dumps(list(system.platforms())))"
        # PoCL, which is found without such a folder, disappears where it cannot make its directory
        found = child.json(code, OCL_ICD_VENDORS=str(child.directory / "empty"), POCL_CACHE_DIR="/proc/nowhere")
        severity, words, cure = found[-1]
        assert severity == "problem"
        assert "OCL_ICD_VENDORS=" in words
        assert cure.startswith("cure the directories first; if that is not enough: pip install pocl-binary-")

    def test_versions(self, monkeypatch, tmp_path):
        """Versions that are known to be wrong together are a problem, with the command that cures it."""
        assert list(system.versions()) == []
        for name, version in (("loopy", "2025.2"), ("islpy", "2026.1")):
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)
        (wrong,) = system.versions()
        assert wrong.severity == "problem"
        assert wrong.words.startswith("loopy 2025.2 with islpy 2026.1: ")
        assert "islpy>=2025.2,<2026" in wrong.cure
