"""The clock that notes of a remote are read by."""

import time

import pytest

from kcl.cache import notes


@pytest.fixture
def ahead(monkeypatch):
    """A list with the seconds by which the clock is ahead."""
    ahead, now = [0.0], time.time
    monkeypatch.setattr(notes.time, "time", lambda: now() + ahead[0])
    return ahead
