"""Arrays: inputs, data, sums and multiples."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Axis:
    tags: frozenset = frozenset()


@dataclass(frozen=True, eq=False)
class Array:
    tags: frozenset = field(kw_only=True, default=frozenset())
    axes: tuple = field(kw_only=True, default=(Axis(),))
    non_equality_tags: frozenset = field(kw_only=True, default=frozenset())


class AbstractResultWithNamedArrays:
    pass


@dataclass(frozen=True, eq=False)
class DictOfNamedArrays(AbstractResultWithNamedArrays):
    _data: dict


@dataclass(frozen=True, eq=False)
class Placeholder(Array):
    name: str
    shape: tuple
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class DataWrapper(Array):
    data: object
    shape: tuple


@dataclass(frozen=True, eq=False)
class Sum(Array):
    arrays: tuple


@dataclass(frozen=True, eq=False)
class Scaled(Array):
    array: Array
    factor: object


def make_placeholder(name, length, dtype=np.float64, **more):
    return Placeholder(name, (length,), np.dtype(dtype), **more)


def make_data_wrapper(data, **more):
    return DataWrapper(data, data.shape, **more)


def make_dict_of_named_arrays(arrays):
    return DictOfNamedArrays(dict(arrays))
