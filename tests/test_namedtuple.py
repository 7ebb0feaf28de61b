"""kcl's NamedTuple: what typing's does, made faster."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from kcl.namedtuple import NamedTuple


class Ours(NamedTuple):
    """A place."""

    name: str
    number: int
    weight: float = 0.5
    inside: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return 2 * self.number


class Typed(typing.NamedTuple):
    """A place."""

    name: str
    number: int
    weight: float = 0.5
    inside: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return 2 * self.number


CALLS = [
    (("a", 1), {}),
    (("a", 1, 2.0, (3,)), {}),
    (("a",), {"number": 1}),
    ((), {"number": 1, "name": "a", "inside": (4,)}),
]
REFUSED = [
    ((), {}),
    (("a",), {}),
    (("a", 1, 2.0, (), 5), {}),
    (("a", 1), {"name": "b"}),
    (("a", 1), {"other": "b"}),
    ((), {"name": "a"}),
]


class TestNamedTuple:
    @pytest.mark.parametrize(("values", "named"), CALLS)
    def test_instances(self, values, named):
        """An instance has the items, names, text and order of typing's, and is equal to the bare tuple."""
        ours, typed = Ours(*values, **named), Typed(*values, **named)
        assert tuple(ours) == tuple(typed)
        assert ours == tuple(typed)
        assert hash(ours) == hash(typed)
        assert repr(ours) == repr(typed).replace("Typed", "Ours")
        assert [ours.name, ours.number, ours.weight, ours.inside, ours.doubled] == [*typed, 2 * typed.number]
        assert ours._asdict() == typed._asdict()
        assert tuple(ours._replace(number=7)) == tuple(typed._replace(number=7))
        assert type(ours._replace(number=7)) is Ours
        assert Ours._make(tuple(typed)) == ours
        assert copy.copy(ours) == copy.deepcopy(ours) == pickle.loads(pickle.dumps(ours)) == ours
        assert not hasattr(ours, "__dict__")

    @pytest.mark.parametrize(("values", "named"), REFUSED)
    def test_refused(self, values, named):
        """What does not fit the fields raises TypeError, as with typing's."""
        for kind in (Typed, Ours):
            with pytest.raises(TypeError):
                kind(*values, **named)

    def test_immutable(self):
        """Fields cannot be set or deleted."""
        ours = Ours("a", 1)
        with pytest.raises(AttributeError):
            ours.name = "b"
        with pytest.raises(AttributeError):
            del ours.name
        with pytest.raises((TypeError, ValueError)):
            ours._replace(other=1)
        with pytest.raises(TypeError):
            Ours._make(["a"])

    def test_classes(self):
        """A class knows its fields and defaults; a field without a default cannot follow one with a default."""
        assert (Ours._fields, Ours._field_defaults) == (Typed._fields, Typed._field_defaults)
        assert Ours.__match_args__ == Typed.__match_args__
        assert Ours.__doc__ == Typed.__doc__
        assert issubclass(Ours, tuple)
        with pytest.raises(TypeError):
            type(Ours)("Wrong", (NamedTuple,), {"__annotations__": {"first": "int", "second": "int"}, "first": 1})
