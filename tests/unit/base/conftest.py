"""Fixtures of the tests of this room."""

import pytest


@pytest.fixture
def on(tmp_path, monkeypatch):
    """Ask for a trace; returns its path."""
    path = tmp_path / "trace.json"
    monkeypatch.setenv("KCL_TRACE", str(path))
    return path
