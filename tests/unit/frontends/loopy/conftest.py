"""Packages of which kcl knows nothing yet."""

import pytest

from kcl.frontends.loopy import baseline, held
from kcl.generate import distributions


@pytest.fixture
def no_packages(monkeypatch):
    """Let kcl know nothing of packages, as where none was imported."""
    memos = distributions.InstallationMemos(), held.ComparedPackages(), baseline.TakenModules()
    monkeypatch.setattr(distributions, "_state", lambda: memos[0])
    monkeypatch.setattr(held, "_state", lambda: memos[1])
    monkeypatch.setattr(baseline, "state", lambda: memos[2])
