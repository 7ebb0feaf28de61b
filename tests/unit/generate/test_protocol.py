"""kcl.generate.protocol: what a unit leaves open by default."""

from __future__ import annotations

import pytest

from kcl.generate.protocol import Unit


def test_defaults():
    """A unit leaves nothing open, packs nothing and may always be generated; it says what its code is itself."""
    unit = Unit()
    assert unit.open({}) == ((), (), (), {})
    assert unit.packed == {}
    assert unit.follows({}, ())
    unit.missed("kernel")
    assert unit.described() == []
    for ask in (unit.identity, lambda: unit.arguments, lambda: unit.code("kernel", {})):
        with pytest.raises(NotImplementedError):
            ask()
