"""A small language of arrays with the names of pytato that kcl knows."""

from .array import (
    Axis,
    DataWrapper,
    DictOfNamedArrays,
    Placeholder,
    Scaled,
    Sum,
    make_data_wrapper,
    make_dict_of_named_arrays,
    make_placeholder,
)
from .target.loopy import generate_loopy

__all__ = [
    "Axis",
    "DataWrapper",
    "DictOfNamedArrays",
    "Placeholder",
    "Scaled",
    "Sum",
    "generate_loopy",
    "make_data_wrapper",
    "make_dict_of_named_arrays",
    "make_placeholder",
]
