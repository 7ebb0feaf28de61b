"""kcl.drivers.devices: the devices here, and the one that is most like that of a key."""

import pytest

from kcl import drivers
from kcl.cache.key import Key, Part
from kcl.drivers.devices import compared, context_at, places_of


def test_the_parts_of_a_program_of_a_device_here_are_those_of_the_device(device):
    identity = drivers.named(device.platform.name).identity(device)
    program = [Part("source", "1" * 64), Part("options", "-g"), Part("header a", "2")]
    mine, here = compared(Key([Part("format", "1"), *program, *identity]))
    assert mine == here == Key([Part("format", "1"), *identity])


def test_a_platform_that_is_not_here_has_no_device():
    parts = (Part("format", "1"), Part("platform", "Nobody's"))
    mine, here = compared(Key(parts))
    assert (mine.parts, here) == (parts, None)


def test_places(context):
    """Another process finds the devices of a context at their places; for another device nothing is built."""
    assert context_at(places_of(context)).devices == context.devices
    places = tuple([(platform, place, "another") for platform, place, _name in places_of(context)])
    with pytest.raises(LookupError, match="another is not found"):
        context_at(places)
