"""What the tests of integrations share: the look-ups of a test."""

import pytest

import kcl


@pytest.fixture
def looks():
    """The events of all look-ups."""
    found = []
    remove = kcl.add_hook(found.append)
    yield found
    remove()
