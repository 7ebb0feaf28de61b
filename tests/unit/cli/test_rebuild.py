"""kcl rebuild: the programs of a bundle, or of the cache, for the devices of this machine."""

import pytest
from commands import invoke as run
from harness import PLATFORMS, platforms

import kcl
from kcl.bundle import contents
from kcl.bundle.info import CacheInfo

pytestmark = pytest.mark.one_platform


def test_cache(file, platform_name):
    words = ("--device", PLATFORMS[platform_name])
    for given in ((file,), ("-j", "1")):
        done = run("rebuild", *given, *words)
        assert done.exit_code == 0, done.output
        assert "1 program there before" in done.output
    assert {one.kernel for one in kcl.entries()} == {"typed"}


def test_another_device(file, platform_name, tmp_path, under):
    """For another device the programs are built anew; the new bundle has them beside the code. A line counts them."""
    under(KCL_PROGRESS="1")
    others = [PLATFORMS[name] for name in platforms() if name != platform_name]
    if not others:
        pytest.skip("needs two platforms")
    new = tmp_path / "new.kclb"
    done = run("rebuild", file, "--to", new, "--device", others[0])
    assert done.exit_code == 0, done.output
    assert "1 program built" in done.stdout
    assert "kcl: 1 of 1 rebuilt\n" in done.stderr
    before, after = (
        {place for place, _entry in contents.unpack(path.read_bytes(), CacheInfo())}
        for path in (file, new)
    )
    assert {layer for layer, _address in before & after} == {"generator"}
    assert {layer for layer, _address in before ^ after} == {"binary"}
    assert len(after) == len(before)
    assert kcl.entries() == []


def test_not_built(file):
    data = contents.unpack(file.read_bytes(), CacheInfo())
    broken = {}
    for place, entry in data:
        if place[0] == "binary":
            entry.parts["source.cl"] = b"kernel void typed( {"
        broken[place] = entry
    path = file.with_name("broken.kclb")
    path.write_bytes(contents.pack(broken, CacheInfo()))
    done = run("rebuild", path, "--to", file.with_name("new.kclb"))
    assert done.exit_code == 1
    assert "not built" in done.output
    assert "typed: does not build: " in done.output


def test_wrong_use(file):
    assert run("rebuild", "--to", file).exit_code == 2
    assert run("rebuild", file, "-j", "0").exit_code == 2
    done = run("rebuild", file, "--device", "nobody")
    assert (done.exit_code, "no device" in done.output) == (1, True)
    damaged = file.with_name("damaged.kclb")
    damaged.write_bytes(file.read_bytes()[:-1])
    assert run("rebuild", damaged).exit_code == 1
