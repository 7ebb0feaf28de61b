"""kcl.frontends.source.invoker: the text of an invoker; test_result.py has what it does."""

import numpy as np
import pytest
from pyopencl import cltypes

import kcl
from kcl.frontends.source import invoker

POINT = np.dtype([("x", np.float32), ("count", np.int32), ("mass", np.float64)], align=True)
NESTED = np.dtype(
    {
        "names": ["head", "points", "tail"],
        "formats": [np.int8, (POINT, (2, 3)), [("a", np.float32), ("b", np.float64)]],
        "offsets": [0, 8, 128],
        "itemsize": 160,
    }
)


@pytest.mark.parametrize(
    "dtype", [np.float32, POINT, NESTED, cltypes.float4, np.dtype((np.int32, (3,)))]
)
def test_dtypes(dtype):
    """Dtypes are written as numpy constructors, structures with offsets, alignment, titles and arrays in them."""
    namespace = {"_np": np}
    text = invoker._dtype_expression(kcl.Scalar("a", dtype))
    assert eval(text, namespace) == np.dtype(dtype)
    assert repr(eval(text, namespace)) == repr(np.dtype(dtype))
