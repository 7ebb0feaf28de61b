"""kcl.bundle.rebuild: programs for the devices of this machine, by children that may hang or crash."""

import pytest
from harness import PLATFORMS
from rebuilt import CRASHES, FINE, HANGS, entries, kernel

from kcl import bundle
from kcl.base import settings
from kcl.bundle import contents, rebuild
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.drivers import builder
from kcl.errors import CacheFault

pytestmark = pytest.mark.slow_platforms


@pytest.fixture
def place(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    return tmp_path


@pytest.fixture
def done(platform_name):
    """Rebuild programs for the platform of the test; return what became of each, by kernel."""

    def done(programs, jobs=None):
        found = rebuild.of_programs(programs, jobs, device=PLATFORMS[platform_name])
        assert len({one.kernel for one in found}) == len(found)
        return {one.kernel: one for one in found}

    return done


def test_crash(queue, place, done):
    """A launch that crashes costs its child alone, and its program is stored all the same."""
    bodies = {"fine": FINE, "crashing": CRASHES, "other": "x[i] += 2;"}
    given = entries(queue, place, *[kernel(name, body) for name, body in bodies.items()])
    found = done(given, 1)
    assert {one.verdict.outcome for one in found.values()} == {builder.BUILT}
    assert found["fine"].launch == found["other"].launch == ""
    assert "crashes" in found["crashing"].launch
    assert all(one.is_there for one in found.values())


def test_hanging(queue, place, done, monkeypatch):
    monkeypatch.setattr(rebuild, "_LAUNCH_SECONDS", 1.0)
    found = done(entries(queue, place, kernel("hanging", HANGS)))["hanging"]
    assert "hangs" in found.launch
    assert found.is_there


def test_one_of_equals(queue, place, done):
    """Of several entries of one program, one is built: that whose launch is noted."""
    (entry,) = entries(queue, place, kernel())
    bare = entry.with_metadata(launched=["moved"])
    assert done([bare, entry, bare])["moved"].launch == ""


@pytest.mark.usefixtures("platform_name")
def test_without_the_device_or_the_layer_nothing_is_rebuilt(queue, place, under):
    given = entries(queue, place, kernel())
    with pytest.raises(CacheFault, match="no device of this machine has 'nobody' in its name"):
        rebuild.of_programs(given, device="nobody")
    under(KCL_NO_CACHE="binary")
    with pytest.raises(CacheFault, match="the binary layer is off"):
        rebuild.of_programs(given)


def test_to(queue, place, platform_name):
    """The new bundle has the other entries and the rebuilt programs; the cache stays as it is."""
    given = {
        (settings.BINARY, f"there/moved-{one.key.digest}"): one
        for one in entries(queue, place, kernel())
    }
    row = given[next(iter(given))].key
    old, new = str(place / "old.kclb"), str(place / "new.kclb")
    bundle.write(old, given, CacheInfo())
    (found,) = rebuild.of_file(old, new, device=PLATFORMS[platform_name])
    assert found.verdict.outcome in (builder.BUILT, builder.THERE)
    held = dict(contents.unpack(bundle.read_file(new), CacheInfo()))
    assert [address[-64:] for kind, address in held] == [row.digest]
    assert not found.is_there
    assert not list(layers.binary().stores[0].scan())
