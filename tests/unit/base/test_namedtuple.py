"""kcl's NamedTuple: what typing's does, made faster."""

from __future__ import annotations

import abc
import copy
import inspect
import pickle
import typing

import pytest

from kcl.base.namedtuple import NamedTuple


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
        assert type(Ours) is type
        with pytest.raises(TypeError, match="without a default"):
            type(NamedTuple)("Wrong", (NamedTuple,), {"__annotations__": {"first": "int", "second": "int"}, "first": 1})

    @pytest.mark.parametrize("kind", [Ours, Typed])
    def test_subclasses(self, kind):
        """A subclass is an ordinary class: it adds methods, or a constructor of its own, and no fields."""

        class Shorter(kind, abc.ABC):
            remark: str = "not a field"

            def __new__(cls, name):
                return super().__new__(cls, name, 3)

        class Plain(kind):
            pass

        assert Shorter("a") == ("a", 3, 0.5, ())
        assert (Shorter("a").doubled, Shorter("a").remark, Shorter._fields) == (6, "not a field", kind._fields)
        assert Plain("a", 1)._replace(number=2) == Plain("a", 2)
        assert list(inspect.signature(Shorter).parameters) == ["name"]

    def test_signature(self):
        """The signature, which the documentation shows, is that of the fields."""
        said = "(name: 'str', number: 'int', weight: 'float' = 0.5, inside: 'tuple[int, ...]' = ())"
        assert str(inspect.signature(Ours)) == said
        assert inspect.signature(Ours).parameters.keys() == inspect.signature(Typed).parameters.keys()

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: Ours("a"), "Ours: number is missing"),
            (lambda: Ours("a", 1, names=2), "Ours: names is no field; there are name, number, weight, inside"),
            (lambda: Ours("a", 1, name="b"), "Ours: name is given twice"),
            (lambda: Ours(1, 2, 3, 4, 5), "Ours has 4 fields, not 5: name, number, weight, inside"),
            (lambda: Ours._make(["a"]), "Ours has 4 fields, not 1"),
            (lambda: Ours("a", 1)._replace(names=2), "Ours: names is no field"),
        ],
    )
    def test_errors(self, call, words):
        """An error names the field that is wrong, and no value."""
        with pytest.raises((TypeError, ValueError), match=words):
            call()
