"""kcl.drivers.builder: what the child of `kcl rebuild` does, in this process."""

import pytest
from harness import PLATFORMS
from rebuilt import FINE, entries, kernel

import kcl
from kcl import option
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.drivers.builder import BUILT, FAILED, LACKS_HEADER, THERE, Builder, Order

pytestmark = pytest.mark.slow_platforms


@pytest.fixture
def place(tmp_path):
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def made(platform_name):
    """Return a builder for the platform of the test, with include directories."""

    def made(*directories):
        name = PLATFORMS[platform_name].upper()
        return Builder(Order(option.get_cache_dir(), directories, name))

    return made


def asked(builder, entry):
    return builder.build(0, entry.key.digest, entry.pack())


def test_devices(made, platform_name):
    """The devices with a text in their name or platform, in any case, are listed; another text finds none."""
    (name,) = made().devices()
    assert PLATFORMS[platform_name] in name
    assert Builder(Order(option.get_cache_dir(), (), "no such device")).devices() == []


def test_built(queue, place, made):
    """A program is built and launched, its entry is complete and has the launch; then it is there."""
    (entry,) = entries(queue, place, kernel())
    builder = made()
    verdict, address = asked(builder, entry)
    assert verdict.outcome == BUILT
    assert builder.launch() == ""
    assert kcl.flush()
    found = layers.binary().read(address)
    assert found.key == entry.key
    assert found.metadata["complete"]
    assert found.metadata["launched"] == entry.metadata["launched"] != {}
    assert asked(builder, entry)[0].outcome == THERE


def test_a_program_whose_first_launch_is_not_noted_is_completed_as_it_is(queue, place, made):
    (entry,) = entries(queue, place, kernel())
    builder = made()
    _verdict, address = asked(builder, entry.with_metadata(launched=["moved"]))
    assert builder.launch() == "its first launch is not recorded"
    assert kcl.flush()
    assert "binary" in layers.binary().read(address).parts


def test_headers(queue, place, made):
    """A header that is not found is named; in an include directory it is found."""
    there = place / "include"
    there.mkdir()
    (there / "one.h").write_text("#define ONE 1\n")
    one = kernel("headed", "x[i] += ONE;", [f"-I{there}"], before='#include "one.h"')
    (entry,) = entries(queue, place, one)
    verdict, _address = asked(made(), entry)
    assert verdict == (LACKS_HEADER, "one.h")
    verdict, address = asked(made(str(there)), entry)
    assert verdict.outcome == BUILT
    assert address[-64:] == entry.key.digest


@pytest.mark.parametrize(
    "one",
    [
        kernel("defined", "x[i] += ONE;", ["-DONE=1", "-cl-mad-enable"]),
        kernel("named", "x[i] += __FILE__[0] == 'p';"),
    ],
)
def test_same_key(queue, place, made, one):
    """Build options are those of the entry, those of pyopencl once; a driver's line before the source is no part of it."""
    (entry,) = entries(queue, place, one)
    assert asked(made(), entry)[1][-64:] == entry.key.digest


def test_does_not_build(queue, place, made):
    """A program that does not build is named with the compiler's first error."""
    (entry,) = entries(queue, place, kernel())
    broken = entry.parts["source.cl"].replace(FINE.encode(), b"unknown;")
    verdict, address = asked(made(), Entry(entry.key, entry.metadata, {"source.cl": broken}))
    assert verdict.outcome == FAILED
    assert "unknown" in verdict.detail
    assert address == ""
