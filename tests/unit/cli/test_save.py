"""kcl save: entries of the cache in one file."""

import pytest
from commands import invoke as run

import kcl
from kcl import option
from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.inspect import inventory

pytestmark = pytest.mark.one_platform


def held(file):
    return dict(contents.unpack(file.read_bytes(), CacheInfo()))


def programs(file):
    return {one.metadata["kernel"] for (kind, _at), one in held(file).items() if kind == "binary"}


def test_whole_cache(cache, tmp_path):
    file = tmp_path / "all.kclb"
    done = run("save", file)
    assert done.exit_code == 0, done.output
    listed = {entry.address for entry in inventory.entries(all_rows=True)}
    assert {place for _layer, place in held(file)} == listed
    assert "binary" in done.output
    assert not cache.quarantined


@pytest.mark.usefixtures("cache")
def test_kernels(tmp_path):
    """Of the named kernels the file holds code, programs, and the rows that lead there; a pattern names several."""
    file = tmp_path / "some.kclb"
    assert run("save", file, "typed", "from_*").exit_code == 0
    names = {"typed", "from_global", "from_class", "from_file"}
    assert programs(file) == names
    names = {name for entry in held(file).values() for name in entry.metadata}
    assert names >= {"function", "base", "proven"}
    run("save", file, "typed", "--layer", "binary")
    assert {layer for layer, _place in held(file)} == {"binary"}


def test_last_run(copy, tmp_path):
    last = copy.run("inputs", warm=True)
    file = tmp_path / "last.kclb"
    assert run("save", file, "--last-run").exit_code == 0
    assert programs(file) == set(last.outcomes("binary"))
    assert len(programs(file)) < len(kcl.entries("binary"))
    option.cache_dir(str(tmp_path / "elsewhere"))
    assert run("load", file).exit_code == 0


@pytest.mark.usefixtures("cache")
def test_no_such_kernel(tmp_path):
    done = run("save", tmp_path / "none.kclb", "tpyed")
    assert done.exit_code == 1
    assert "no entries (did you mean 'typed'" in done.output
    assert list(tmp_path.glob("*.kclb")) == []
