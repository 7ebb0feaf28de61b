"""A bundle of a real run, for the commands that read one."""

import pytest
from commands import run

from kcl import option


@pytest.fixture
def file(cache, tmp_path):
    """A bundle of one kernel of a real run; the cache is another, empty one then."""
    path = tmp_path / "typed.kclb"
    assert cache.binary_of("typed")
    run("save", str(path), "typed")
    option.cache_dir(str(tmp_path / "elsewhere"))
    return path
