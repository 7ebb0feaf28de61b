"""kcl.frontends.source.expressions: what is said of names in shapes and sizes."""

import re

import numpy as np
import pytest

import kcl

pytestmark = pytest.mark.one_platform

WIDTH, X, PICTURE = (
    kcl.Scalar("width", np.int32),
    kcl.Array("x", np.float32, 4),
    kcl.Image("picture"),
)


def refused(arguments, size):
    with pytest.raises(kcl.RecipeError) as raised:
        kcl.Source("", entry="f", arguments=arguments, global_size=size)
    return str(raised.value)


class TestUndeclared:
    @pytest.mark.parametrize(
        ("arguments", "size", "name", "near"),
        [
            ([WIDTH], "round_up(widht, 16)", "widht", "width"),
            ([WIDTH], ("width", "2*widt + 1"), "widt", "width"),
            ([kcl.Array("image", np.int8, 4)], "imag.shape[0]", "imag", "image"),
            ([PICTURE], "pictre.width", "pictre", "picture"),
        ],
    )
    def test_near(self, arguments, size, name, near):
        """A name that is not declared is told with the one that may be meant."""
        words = f"{name!r} is not declared (did you mean {near!r}?); use integer arithmetic"
        assert words in refused(arguments, size)

    def test_forgotten(self):
        """Where no name is near, the scalar that is missing is named."""
        words = "global_size is '(n,)', and 'n' is not declared: list kcl.Scalar('n', ...) among the arguments"
        assert words in refused([X], "(n,)")

    def test_sizes_of_the_launch(self):
        local = kcl.Local("part", np.float32, "locl_size[0]")
        assert re.search(
            r"'locl_size' is not declared \(did you mean 'local_size'", refused([local], 4)
        )

    @pytest.mark.parametrize(
        "size", ["len(width)", "width/2", "part", "local_size[0]", "round_up", "width.shape.x"]
    )
    def test_declared(self, size):
        """Of names that have a meaning, nothing of the kind is said."""
        assert "not declared" not in refused([WIDTH, kcl.Local("part", np.float32, 4)], size)
