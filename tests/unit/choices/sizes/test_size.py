"""kcl.choices.sizes.size: what a recipe may ask of a size."""

import operator

import numpy as np
import pytest

import kcl


@pytest.mark.parametrize(
    "use",
    [
        *(lambda n: n == 4, lambda n: n > 4, lambda n: n % 16, lambda n: 16 * n, lambda n: f"{n}"),
        *(str, repr, int, bool, hash, operator.index),
        *(lambda n: n.shape, lambda n: setattr(n, "fixed", 4)),
    ],
)
def test_is_no_number(queue, use):
    """Whatever else is done with a size is a TypeError that names what it has."""

    @kcl.kernel(sizes={"n": "x.size"})
    def asking(n):
        use(n)

    with pytest.raises(TypeError, match="`multiple`, `fixed` and `assume"):
        asking()(queue, x=np.ones(4, np.float32))


@pytest.mark.parametrize(
    ("size", "multiple"),
    [(0, 1), (1, 1), (6, 1), (4, 4), (16, 16), (80, 16), (64, 64), (128, 64)],
)
def test_multiple(queue, size, multiple):
    """`multiple` is the largest of 1, 4, 16 and 64 that divides the size; a size of 0 is general."""
    seen = []

    @kcl.kernel(sizes={"n": "n"})
    def asking(n):
        seen.append(n.multiple)
        text = "kernel void asking(global int *x, int n) { x[0] = n; }"
        arguments = [kcl.Array("x", np.int32, 1, "out"), kcl.Scalar("n", np.int32)]
        return kcl.Source(text, entry="asking", arguments=arguments, global_size=1)

    asking()(queue, n=size)
    assert seen == [multiple]
