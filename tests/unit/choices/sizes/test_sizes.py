"""kcl.choices.sizes: the declaration of the sizes that a recipe may ask."""

import numpy as np
import pytest

import kcl


@kcl.kernel(sizes={"n": "x.shape[0]"})
def axpy(n, block=64):
    import loopy as lp

    knl = n.assume(lp.make_kernel("{[i]: 0<=i<n}", "z[i] = 2*x[i] + 1", lang_version=(2018, 2)))
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


class TestDeclaration:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"m": "x.shape[0]"}, "'m', which is no parameter"),
            ({"n": "4"}, "names no argument"),
            ({"n": "x.shape["}, "is no expression"),
            ({"n": "x.shape[0] if x else 0"}, "integer arithmetic"),
            ({"n": "open(x)"}, "integer arithmetic"),
            ({"n": 4}, "write an expression"),
            ({}, "takes a dictionary"),
            ("x.shape[0]", "takes a dictionary"),
        ],
    )
    def test_refused(self, given, words):
        with pytest.raises(TypeError, match=words):
            kcl.kernel(sizes=given)(lambda n: n)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"fixed": -1}, 'takes a whole number or "auto"'),
            ({"fixed": "all"}, 'takes a whole number or "auto"'),
            ({"fixed": "auto", "most": -1}, 'takes a whole number or "auto"'),
            ({"most": 3}, 'belongs to fixed="auto": write fixed=64'),
        ],
    )
    def test_no_number(self, given, words):
        with pytest.raises(TypeError, match=words):
            kcl.sizes(n="x.size", **given)

    def test_unknown_argument(self, queue):
        """An expression over no argument of the kernel is refused with the place of the recipe, before a launch."""

        @kcl.kernel(sizes={"n": "w.shape[0]"})
        def asking(n):
            return axpy.function(n)

        words = (
            r"names 'w', which is no argument of kernel 'asking' \(recipe in .*\): it takes n, x, z"
        )
        with pytest.raises(kcl.RecipeError, match=words):
            asking()(queue, x=np.ones(4, np.float32))
        with pytest.raises(kcl.RecipeError, match=words):
            asking().source(queue, x=np.float32)

    @pytest.mark.parametrize(
        ("values", "named", "words"),
        [
            ((), {"n": 4}, "'n' is a size"),
            ((64, 64), {}, "its parameters beside the sizes are block"),
            ((64,), {"blok": 64}, "its parameters beside the sizes are block"),
        ],
    )
    def test_given_by_hand(self, values, named, words):
        """A size is no parameter that a person gives, by name or by position."""
        with pytest.raises(TypeError, match=words):
            axpy(*values, **named)
