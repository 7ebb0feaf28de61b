"""kcl.handle.questions: what a Kernel answers beside a launch; test_handle.py asks by the Kernel's methods."""

import numpy as np
import pytest
from handle_recipes import add, scaled

import kcl
from kcl.handle import chooser_of, questions


@pytest.mark.one_platform
def test_are_stored(context):
    """Both layers must hold the code for the named dtypes; the question counts no look-up."""
    chooser = chooser_of(scaled(factor=31))
    dtypes = {"a": np.float32, "x": np.float32}
    assert not questions.are_stored(chooser, context, dtypes)
    scaled(factor=31).prepare(context, **dtypes)
    assert kcl.flush()
    before = kcl.stats()
    assert questions.are_stored(chooser, context, dtypes)
    assert not questions.are_stored(chooser, context, {"a": np.float64, "x": np.float64})
    assert kcl.stats() == before


def test_an_argument_that_the_kernel_lacks_is_refused_by_name(context):
    with pytest.raises(TypeError, match="'add'"):
        questions.find_code(chooser_of(add()), context, {"nothing": np.float32})
