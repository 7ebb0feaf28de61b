"""Which choices a search asks for, and when it ends."""

import pytest

from kcl.choices.tuning import search
from kcl.choices.tuning.space import space


def run(searching, time):
    """Answer a search until it ends; return the lists that it asked for."""
    asked = []
    while choices := searching.ask():
        asked.append(choices)
        for choice in choices:
            searching.tell(choice, time(choice))
    return asked


def each(searching, time):
    return [choice for choices in run(searching, time) for choice in choices]


def of_level(level, made, given=None, start=None):
    """Return the search of a level; it starts at the first values."""
    free = {name: values for name, values in made.lists.items() if name not in (given or {})}
    first = start or {name: values[0] for name, values in free.items()}
    return search.of_level(level, made, given or {}, {}, first)


def same(_choice):
    return 1.0


class TestLevels:
    def test_other_levels(self):
        assert run(of_level(0, space(a=[1, 2]))[0], same) == []
        with pytest.raises(ValueError, match=r"level 3 .* 0 .*, 1 .* 2"):
            of_level(3, space(a=[1]))

    def test_all_choices(self):
        """Level 2 asks for every valid choice of a space at once, in an order that leaves no corner to the end."""
        made = space(a=[1, 2, 3], b=[1, 2]).where(lambda a, b: a + b < 5)
        searching, count = of_level(2, made)
        (asked,) = run(searching, same)
        declared = list(made.choices({}, {}))
        assert sorted(asked, key=declared.index) == declared
        assert asked != declared
        assert count == len(asked) == 5

    def test_random_choices_first(self):
        """Of a space of 3,000 choices level 2 draws 256 different ones, and finds the best by what these take."""
        made = space(a=range(1, 16), b=range(1, 21), c=range(1, 11))
        made = made.where(lambda a, b, c: a + b + c > 4)
        searching, _count = of_level(2, made, start={"a": 8, "b": 8, "c": 8})

        def time(choice):
            return (abs(choice["a"] - 3) + abs(choice["b"] - 17) + abs(choice["c"] - 5) + 1) / 50

        first, *later = run(searching, time)
        assert len({tuple(one.values()) for one in first}) == 256
        assert {"a": 3, "b": 17, "c": 5} in sum(later, first)
        assert sum(map(len, later)) <= 2 * (15 + 20 + 10)

    def test_given_parameters_stay(self):
        """A parameter that is given by hand is not in a choice, and its value counts in the predicates."""
        made = space(a=[1, 2], b=[1, 2]).where(lambda a, b: a == b)
        searching, count = of_level(2, made, given={"a": 2})
        assert run(searching, same) == [[{"b": 2}]]
        assert count == 1


class TestInterpolation:
    def test_far_choices_first(self):
        """Level 1 begins with choices that lie far from the start, and from each other."""
        made = space(a=range(9), b=range(9))
        first = of_level(1, made)[0].first
        assert first[:3] == [{"a": 8, "b": 8}, {"a": 0, "b": 8}, {"a": 8, "b": 0}]
        assert len(first) == round(0.35 * (81 // 4))

    def test_choices_that_look_fastest(self):
        """Then it asks for what lies near fast choices: it finds two parameters that pay only together."""
        made = space(a=range(8), b=range(8), c=[False, True])

        def time(choice):
            return 0.3 if choice["a"] > 5 and choice["b"] > 5 and choice["c"] else 1.0

        first, second, *_later = run(of_level(1, made)[0], time)
        assert [sum(time(one) < 1 for one in some) for some in (first, second)] == [1, 3]

    def test_other_values_are_equally_far(self):
        """Values that are no numbers have no order: the slow ones of a text say nothing about the others."""
        made = space(a=list("abcdefghijklmnop"), b=[0, 1])
        asked = run(of_level(1, made)[0], lambda choice: 0.5 if choice["b"] else 1.0)
        assert all(one["b"] == 1 for some in asked[1:] for one in some)

    def test_bound(self):
        """It asks for a quarter of the space, or for twice the sum of the lists, whichever is less."""
        made = space(a=range(5), b=range(5), c=range(5))
        wide = space(a=range(2), b=range(2), c=range(2), d=range(20), e=range(20))
        bounds = ((made, 2 * 15), (wide, 2 * 46), (space(a=range(8), b=range(6)), 48 // 4))
        for space_, count in bounds:
            asked = each(of_level(1, space_)[0], lambda choice: 1 / (2 + sum(choice.values())))
            assert len(asked) == count

    def test_no_choice_twice(self):
        made = space(a=range(6), b=range(6), c=range(6))
        choices = each(of_level(1, made)[0], lambda choice: 1 / (1 + choice["b"]))
        asked = [tuple(choice.values()) for choice in choices]
        assert len(asked) == len(set(asked))
        assert (0, 0, 0) not in asked
        # Values of different types are different choices.
        asked = each(of_level(1, space(a=[1, True, 1.0]))[0], lambda _choice: None)
        assert sorted(type(choice["a"]).__name__ for choice in asked) == ["bool", "float"]
        assert run(of_level(1, space(a=[1, 2]).where(lambda a: a > 2))[0], same) == []

    @pytest.mark.parametrize("default", [7, 1.5, 1.0])
    def test_a_default_that_is_no_choice(self, default):
        """A default may lie outside of the lists, or where a choice lies."""
        made = space(a=[1, 2], b=["x"])
        asked = each(of_level(1, made, start={"a": default, "b": None})[0], same)
        assert sorted(choice["a"] for choice in asked) == [1, 2]

    def test_failures(self):
        """A choice that failed counts as the slowest: what lies near it comes last."""
        made = space(a=range(10), b=range(10))
        asked = run(of_level(1, made)[0], lambda choice: None if choice["a"] > 4 else 0.9)
        assert all(one["a"] <= 4 for some in asked[1:] for one in some)
