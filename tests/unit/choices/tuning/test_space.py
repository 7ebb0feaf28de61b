"""kcl.choices.tuning.space: the choices that a recipe declares, and the rules that a choice obeys."""

import numpy as np
import pytest

import kcl


class TestChoices:
    def test_in_order(self):
        """Choices come in the order of the declaration, the last parameter first to change."""
        space = kcl.space(block=[64, 16], exact=[False, True])
        choices = [tuple(choice.values()) for choice in space.choices({}, {})]
        assert choices == [(64, False), (64, True), (16, False), (16, True)]
        # A space does not change, and its length counts choices that are not valid.
        small = space.where(lambda block: block < 20)
        assert len(small) == len([*space.choices({}, {})]) == 4
        assert len([*small.choices({}, {})]) == 2

    def test_predicates(self):
        """A parameter that is given is no choice, and a predicate sees its value; it may name a size of the call."""
        space = kcl.space(block=[16, 64], unroll=[1, 4]).where(
            lambda block, unroll: block * unroll <= 100
        )
        assert list(space.choices({"block": 32}, {})) == [{"unroll": 1}]
        space = kcl.space(block=[16, 64], exact=[False, True])
        space = space.where(lambda exact, block, n: not exact or n % block == 0)
        assert [one["block"] for one in space.choices({}, {"n": 48}) if one["exact"]] == [16]
        assert not any(one["exact"] for one in space.choices({}, {"n": 17}))

    def test_predicate_that_raises(self):
        """An error in a predicate is raised with its class, the choice and the line of the predicate."""
        space = kcl.space(block=[16, 0]).where(lambda block, n: n % block == 0)
        words = r"where 1 of the space raises ZeroDivisionError: .*, for n=64, block=0 \(.*test_space.py, line \d+: "
        with pytest.raises(kcl.RecipeError, match=words + "space = kcl.space") as caught:
            list(space.choices({}, {"n": 64}))
        assert type(caught.value.__cause__) is ZeroDivisionError
        assert space.refusal({"block": 16}, {"n": 64}) == ""

    def test_lists(self):
        """A value is in a list only with its type: 1, 1.0 and True are three. An integer of numpy is the integer, once."""
        space = kcl.space(unroll=[1, True], factor=[0.5])
        assert space.lists["unroll"] == (1, True)
        assert space.has({"unroll": True, "factor": 0.5})
        assert not space.has({"unroll": 1.0})
        assert not space.has({"block": 1})
        space = kcl.space(block=16 * np.arange(1, 4), unroll=[np.int8(1), 1, np.uint64(2)])
        assert space.lists == {"block": (16, 32, 48), "unroll": (1, 2)}
        assert {type(value) for values in space.lists.values() for value in values} == {int}


class TestBadInput:
    @pytest.mark.parametrize(
        "value", [[1], object(), float("nan"), float("inf"), 1j, b"x", np.float32(0.5)]
    )
    def test_no_scalar(self, value):
        with pytest.raises(TypeError, match=r"kcl.space\(block=...\) has"):
            kcl.space(block=[16, value])

    @pytest.mark.parametrize("values", [[], "abc", 16, None])
    def test_no_list(self, values):
        with pytest.raises(TypeError, match=r"kcl.space\(block=...\)"):
            kcl.space(block=values)
        with pytest.raises(TypeError, match="has no parameter"):
            kcl.space()

    @pytest.mark.parametrize("predicate", [3, lambda *values: values, lambda **values: values])
    def test_no_predicate(self, predicate):
        with pytest.raises(TypeError, match="where takes a function"):
            kcl.space(block=[16]).where(predicate)


class TestComparison:
    def test_options(self):
        cases = [{"x": [1, 2]}]
        space = kcl.space(block=[16], compare=len, tolerance={"y": (1e-5, 1e-8)}, cases=iter(cases))
        narrowed = space.where(lambda block: block > 0)
        assert (narrowed.compare, narrowed.cases) == (len, tuple(cases))
        assert narrowed.tolerance == {"y": (1e-5, 1e-8)}
        assert list(narrowed.choices({}, {})) == [{"block": 16}]
        assert space.predicates == []

    @pytest.mark.parametrize(
        "options", [{"compare": 3}, {"tolerance": -1}, {"tolerance": {"y": "x"}}, {"cases": [1, 2]}]
    )
    def test_bad(self, options):
        with pytest.raises(TypeError, match=rf"kcl.space\({next(iter(options))}=...\) takes"):
            kcl.space(block=[16], **options)

    def test_text(self):
        """Outcomes stand as long as tolerance, cases and source text are the same; without a text none does."""
        one, other = (kcl.space(block=[1], compare=lambda out: out["y"] * 2) for _ in "ab")
        assert one.comparison() == other.comparison() != one.comparison(1e-3) != ""
        assert kcl.space(block=[1], compare=len).comparison() == ""
        bare, *others = (
            kcl.space(block=[1], cases=cases).comparison()
            for cases in ([], [{"x": np.arange(2000)}], [{"x": np.arange(2000)[::-1]}])
        )
        assert len({bare, *others}) == 3
