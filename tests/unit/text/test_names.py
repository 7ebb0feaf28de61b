"""kcl.text.names: dtypes and classes by the names that people use."""

from __future__ import annotations

import pytest

from kcl.text.names import dtype, of_class


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<f4", "float32"),
        ("|b1", "bool"),
        ("<c16", "complex128"),
        ("|u1", "uint8"),
        ("pair", "pair"),
    ],
)
def test_dtype(text, name):
    """Plain dtypes have the names that people use; a structure stays."""
    assert dtype(text) == name


def test_class():
    """A class stands by its name."""
    assert of_class("<class 'numpy.float32'>") == "numpy.float32"
    assert of_class("[<class 'int'>, 3]") == "[int, 3]"
