"""kcl.inspect.doctor: each check against the thing itself: variables, directories, databases, distributions."""

from __future__ import annotations

from kcl.inspect import doctor


class TestRun:
    def test_fine(self, monkeypatch, tmp_path):
        """Each check says something, in the order of the list; where nothing is wrong, that."""
        monkeypatch.setenv("HOME", str(tmp_path))
        found = list(doctor.run())
        assert list(dict.fromkeys(check for check, _finding in found)) == list(doctor.CHECKS)
        assert {finding.severity for _check, finding in found} <= {"ok", "note"}
        assert not (tmp_path / "cache").exists()
