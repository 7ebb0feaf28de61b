"""kcl.drivers.devices: the devices here, and the one that is most like that of a key."""

import pytest

from kcl import drivers
from kcl.cache.key import Key, Part
from kcl.drivers.devices import compared, context_at, places_of


def test_the_device_here(device):
    """The parts of a program of a device here are those of the device."""
    identity = drivers.named(device.platform.name).identity(device)
    key = Key(
        [
            Part("format", "1"),
            Part("source", "1" * 64),
            Part("options", "-g"),
            Part("header a", "2"),
            *identity,
        ]
    )
    mine, here = compared(key)
    assert mine == here == Key([Part("format", "1"), *identity])


def test_no_such_platform():
    """A platform that is not on this machine has no device."""
    mine, here = compared(Key([Part("format", "1"), Part("platform", "Nobody's")]))
    assert (mine.parts, here) == ((Part("format", "1"), Part("platform", "Nobody's")), None)


def test_same_devices(context):
    """Another process finds the devices of a context at their places."""
    assert context_at(places_of(context)).devices == context.devices


@pytest.mark.one_platform
def test_another_device(context):
    """Where another device lies at a place nothing is built for it."""
    places = tuple([(platform, place, "another") for platform, place, _name in places_of(context)])
    with pytest.raises(LookupError, match="another is not found"):
        context_at(places)
