"""kcl.build.driver: what the build stage asks of a driver."""

from __future__ import annotations

import pytest

from kcl import drivers
from kcl.build.driver import Driver, Promise
from kcl.cache.entry import Entry
from kcl.cache.key import Key


@pytest.mark.parametrize("platform", [*drivers.TABLE, "another platform"])
def test_every_driver_answers(platform):
    """Each driver of the table, and the plain one, has every verb and fact of the contract."""
    asked = {name for name in vars(Driver) if not name.startswith("_")} | set(Driver.__annotations__)
    driver = drivers.named(platform)
    assert {"identity", "mark", "completed", "prebuilt", "is_silent"} <= asked
    assert [name for name in asked if not hasattr(driver, name)] == []


def test_promise():
    """A promise is an entry with the address at which it will be found."""
    entry = Entry(Key([("a", "1")]), {}, {})
    assert Promise("folder/name", entry) == ("folder/name", entry)
