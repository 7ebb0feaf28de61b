"""kcl.cache.layers: a layer's switches, its stores, and what comes of their faults."""

import warnings

import pytest

import kcl
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.faults import CacheWarning
from kcl.cache.key import Key
from kcl.cache.stores import address

KEY = Key([("source", "1")])
PLACE = address(KEY.digest, "device", "add")


SCALAR = [kcl.Scalar("n", "int32")]


@pytest.fixture
def unusable(tmp_path, monkeypatch):
    """Let the cache directory be a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    layers.reset()


@pytest.mark.faults
@pytest.mark.usefixtures("unusable")
def test_a_fault_is_a_miss(recwarn):
    """A store that fails is said once and is a miss; what was made here stays in memory."""
    warnings.simplefilter("always")
    entry = Entry(KEY, {}, {"binary": b"1234"})
    assert layers.binary().look_up(PLACE, KEY).entry is None
    for _ in range(3):
        layers.binary().publish(PLACE, entry)
    assert layers.binary().look_up(PLACE, KEY).entry == entry
    assert len([one for one in recwarn if one.category is CacheWarning]) == 1


@kcl.kernel
def nothing():
    return kcl.Source(
        "kernel void nothing(int n) {}", entry="nothing", arguments=SCALAR, global_size="(1,)"
    )


@pytest.mark.faults
@pytest.mark.usefixtures("unusable")
def test_a_fault_names_the_line_of_the_program(queue):
    """The warning stands at the line that launched, and not in a file of kcl; one line has all of it."""
    with pytest.warns(CacheWarning) as said:
        nothing()(queue, n=1)
    ours = [one for one in said if one.category is CacheWarning]
    assert {one.filename for one in ours} == {__file__}
    assert not any("\n" in str(one.message) for one in ours)
