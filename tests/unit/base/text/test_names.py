"""kcl.base.text.names: dtypes and classes by the names that people use."""

import pytest

from kcl.base.text.names import dtype, of_value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("<f4", "float32"), ("|b1", "bool"), ("<c16", "complex128"), ("|u1", "uint8")),
        ("pair", "pair"),
    ],
)
def test_dtype(text, name):
    """Plain dtypes have the names that people use; a structure stays."""
    assert dtype(text) == name


def test_value():
    """A class and a dtype stand by their names; a structure stays."""
    assert of_value("(dtype('<f4'), dtype('float64'), dtype('S3'))") == "(float32, float64, S3)"
    assert of_value("dtype([('x', '<f4')])") == "dtype([('x', '<f4')])"
    assert of_value("<class 'numpy.float32'>") == "numpy.float32"
    assert of_value("[<class 'int'>, 3]") == "[int, 3]"
