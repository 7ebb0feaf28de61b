"""kcl.choices.sizes: the declaration of the sizes that a recipe may ask."""

import numpy as np
import pytest

import kcl


@kcl.kernel(sizes={"n": "x.shape[0]"})
def axpy(n, block=64):
    """Ask what divides the size."""
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
        """What cannot be meant is a TypeError at the decoration."""
        with pytest.raises(TypeError, match=words):
            kcl.kernel(sizes=given)(lambda n: n)

    def test_pure(self):
        """A body that is skipped asks nothing."""
        with pytest.raises(TypeError, match="takes no sizes"):
            kcl.kernel(pure=True, version="1", sizes={"n": "x.size"})(lambda n: n)

    @pytest.mark.parametrize(
        "given", [{"fixed": -1}, {"fixed": "all"}, {"fixed": "auto", "most": -1}]
    )
    def test_no_number(self, given):
        """`fixed` is a whole number or "auto", and `most` a whole number."""
        with pytest.raises(TypeError, match='takes a whole number or "auto"'):
            kcl.sizes(n="x.size", **given)

    def test_most_belongs_to_auto(self):
        """`most` counts what was seen: without `fixed="auto"` it is refused, with the cure."""
        with pytest.raises(TypeError, match='belongs to fixed="auto": write fixed=64'):
            kcl.sizes(n="x.size", most=3)

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

    def test_given_by_hand(self):
        """A size is no parameter that a person gives, by name or by position."""
        with pytest.raises(TypeError, match="'n' is a size"):
            axpy(n=4)
        with pytest.raises(TypeError, match="its parameters beside the sizes are block"):
            axpy(64, 64)
        with pytest.raises(TypeError, match="its parameters beside the sizes are block"):
            axpy(blok=64)
