"""kcl load: the entries of bundles, stored in the cache."""

import pytest
from commands import invoke as run
from commands import with_parts

import kcl
from kcl.bundle import contents
from kcl.bundle.info import CacheInfo

pytestmark = pytest.mark.one_platform


@pytest.fixture
def foreign(file):
    """The same bundle as another Python and another driver would make it."""
    changed = {}
    for (kind, address), entry in contents.unpack(file.read_bytes(), CacheInfo()):
        new = with_parts(entry, python="other", driver="other")
        changed[kind, address[:-64] + new.key.digest] = new
    path = file.with_name("foreign.kclb")
    path.write_bytes(contents.pack(changed, CacheInfo()))
    return path


def test_stored(file):
    done = run("load", file)
    assert done.exit_code == 0, done.output
    assert "cannot hit here" not in done.output
    assert {one.kernel for one in kcl.entries()} == {"typed"}


def test_foreign(file, foreign):
    """Entries that cannot hit here are stored too, and the command says why; with --usable they are not."""
    assert run("load", "--usable", foreign).exit_code == 1
    assert kcl.entries() == []
    for options, count in ((["--usable"], 1), ([], 2)):
        done = run("load", *options, foreign, file)
        assert done.exit_code == 0
        assert "device: driver other -> " in done.output
        assert len(kcl.entries("binary")) == count
    assert "cannot hit here: Python: other -> " in done.output


def test_damaged(file, tmp_path):
    damaged = file.with_name("damaged.kclb")
    damaged.write_bytes(file.read_bytes()[:-1])
    done = run("load", damaged, file)
    assert done.exit_code == 1
    assert "refused: 1 entry: the digest over the bundle does not fit its bytes" in done.output
    assert len(kcl.entries("binary")) == 1
    assert run("load", tmp_path / "nothing.kclb").exit_code == 2
