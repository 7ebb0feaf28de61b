"""Stand-ins by name: members of enumerations mean what they mean in loopy. `test_face` has the functions."""

from __future__ import annotations

import importlib

import kcl.loopy  # noqa: F401
from kcl.frontends.loopy import stand_ins, unmade

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face


def thing(name):
    """Return what stands for a thing of loopy's where loopy is not imported yet."""
    return stand_ins.member(name) if "." in name else unmade.kind_of(name)


class TestMembers:
    def test_members_compare_as_loopys(self):
        """Members are equal to loopy's, sort, hash, count and read as they do."""
        for name in ("PRIVATE", "LOCAL", "GLOBAL"):
            one, own = thing(f"AddressSpace.{name}"), loopy.AddressSpace[name]
            assert one == own
            assert own == one
            assert not one != own  # noqa: SIM202
            assert hash(one) == hash(own)
            assert {own: 1}[one] == {one: 1}[own] == 1
            assert (f"{one}", str(one), repr(one), int(one), bool(one), one.name, one.value) == (
                *(f"{own}", str(own), repr(own), int(own), bool(own), own.name, own.value),
            )
            assert [10, 11, 12][one] == 10 + own
            assert f"{one:03d}" == f"{own:03d}"
            assert isinstance(one, thing("AddressSpace"))
            assert isinstance(one, loopy.AddressSpace)
            assert not isinstance(one, thing("KernelState"))
        spaces = [thing(f"AddressSpace.{name}") for name in ("GLOBAL", "PRIVATE", "LOCAL")]
        assert [one.name for one in sorted(spaces)] == [
            own.name for own in sorted(loopy.AddressSpace)
        ]
        assert max(spaces) == loopy.AddressSpace.GLOBAL
        assert spaces[1] < loopy.AddressSpace.LOCAL <= spaces[2] < 2 <= spaces[0]
        assert spaces[0] > loopy.AddressSpace.LOCAL >= spaces[2]
        assert spaces[0] != spaces[1]
        assert spaces[0] != "GLOBAL"

    def test_members_that_are_values(self):
        """Members of classes that are no enumerations mean what they mean in loopy."""
        for name in (
            "MemoryOrdering.SEQ_CST",
            "MemoryScope.WORK_GROUP",
            "CountGranularity.WORKITEM",
        ):
            kind, _, member = name.partition(".")
            own = getattr(getattr(loopy, kind), member)
            assert thing(name) == own
            assert hash(thing(name)) == hash(own)
            assert str(thing(name)) == str(own)
        assert thing("CountGranularity").ALL[0] == "workitem"
