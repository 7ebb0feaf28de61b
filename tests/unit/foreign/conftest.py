"""The tests of foreign caches begin with an environment that sets nothing."""

import pytest


@pytest.fixture(autouse=True)
def unset(no_switches):
    """Unset what any owner reads; nothing here runs OpenCL in this process."""
