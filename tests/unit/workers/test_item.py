"""kcl.workers.item: what `kcl.prepare` takes."""

from __future__ import annotations

import numpy as np
import pytest
from prepare_recipes import filled

from kcl.workers.item import PreparationItem, item


def test_kinds():
    """A kernel stands alone, or beside a mapping of arguments; both have the label of the kernel."""
    kernel = filled(2)
    assert item(kernel) == PreparationItem(kernel, {})
    assert item((kernel, {"x": np.float32})) == PreparationItem(kernel, {"x": np.float32})
    assert item(kernel).label == "filled(number=2)"


@pytest.mark.parametrize("one", [1, (1, {}), filled])
def test_other(one):
    """Another object is refused; of a recipe the error says that it is to be called."""
    with pytest.raises(TypeError, match=r"call it: filled\(\)" if one is filled else "kcl.prepare takes kernels"):
        item(one)
