"""Caches of a real run, for the commands that look at them."""

import pytest

from kcl import option


@pytest.fixture
def cache(filled):
    """The cache of a cold and a warm run; only to be read."""
    option.cache_dir(filled.project.child.cache)
    return filled.project


@pytest.fixture
def copy(warm):
    """A copy of that cache."""
    option.cache_dir(warm.child.cache)
    return warm
