"""Caches of a real run, for the commands that look at them."""

import pytest
from commands import invoke as run

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


@pytest.fixture
def file(cache, tmp_path):
    """A bundle of one kernel of a real run; the cache is another, empty one then."""
    path = tmp_path / "typed.kclb"
    assert cache.binary_of("typed")
    assert run("save", path, "typed").exit_code == 0
    option.cache_dir(str(tmp_path / "elsewhere"))
    return path
