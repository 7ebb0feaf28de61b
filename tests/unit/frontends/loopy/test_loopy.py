"""kcl.frontends.loopy: which modules are generators."""

import pytest

from kcl.frontends.loopy import is_generators


@pytest.mark.parametrize(
    ("name", "right"),
    [
        *[("loopy", True), ("loopy.kernel.data", True), ("pymbolic", True), ("islpy", True)],
        *[("pyopencl.array", True), ("numpy", False), ("loopy_more", False), ("kcl", False)],
    ],
)
def test_generators(name, right):
    """They are what loopy generates with, by the top-level module, and pyopencl; numpy only runs."""
    assert is_generators(name) is right
