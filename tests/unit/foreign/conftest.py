"""The tests of foreign caches begin with an environment that sets nothing."""

import pytest

from kcl.foreign.table import ROWS


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """Unset what any owner reads, but for the root of a fresh cache; nothing here runs OpenCL in this process."""
    for variable in {each for row in ROWS.values() for each in row.variables} - {
        "HOME",
        "XDG_CACHE_HOME",
    }:
        monkeypatch.delenv(variable, raising=False)
