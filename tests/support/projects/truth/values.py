"""Recipes that depend on values: globals of every kind, parameters, dtypes."""

import collections
import datetime
import decimal
import fractions
import pathlib
import re

import numpy as np

import kcl
from truth.common import number, scaled

INTEGER = 2
REAL = 1.5
TEXT = "three"
BYTES = b"four"
KIND = 16
NEGATIVE = 0.0
NAN = float("inf")
COMPLEX = 1 + 2j
LISTED = [1, 2, {"a": (3, 4.0)}]
TUPLE = (5, (6, 7))
NAMED = {"x": 8, "y": 9}
ORDER = {"first": 1, "second": 2}
NAMES = {"p", "q", "r"}
FROZEN = frozenset({"s", "t"})
ARRAY = np.arange(10, dtype=np.int32)
SHAPED = np.zeros((2, 6))
BIG = np.linspace(0, 1, 5000)
OBJECTS = np.array([1, "two", None], dtype=object)
STRUCTURE = np.dtype([("a", np.int8), ("b", np.int32)])
SUBARRAY = np.dtype((np.float32, (3,)))
SCALAR = np.float32(3.25)
DATE = datetime.date(2020, 2, 3)
DECIMAL = decimal.Decimal("1.50")
FRACTION = fractions.Fraction(3, 7)
PATTERN = re.compile("[a-m]")
PATH = pathlib.PurePosixPath("/a/b")
QUEUE = collections.deque([1, 2, 3], maxlen=4)
COUNTER = collections.Counter("aab")
DEFAULTS = collections.defaultdict(lambda: 11)
SLICE = slice(1, 5)
RANGE = range(3, 9)
LONG = ["word"] * 400 + ["last"]
IN_PLACE = [1]
DICT_IN_PLACE = {"n": 1}
ARRAY_IN_PLACE = np.ones(4)
SET_IN_PLACE = {1}
NESTED_IN_PLACE = {"deep": [[1]]}
REBOUND = 5
BRANCH = 21 if INTEGER > 1 else 22


@kcl.kernel
def global_integer():
    return scaled(INTEGER)


@kcl.kernel
def global_float():
    return scaled(f"{REAL}f")


@kcl.kernel
def global_text():
    return scaled(number(TEXT))


@kcl.kernel
def global_bytes():
    return scaled(number(BYTES))


@kcl.kernel
def global_type():
    return scaled(number(KIND))


@kcl.kernel
def global_sign():
    return scaled(number(NEGATIVE))


@kcl.kernel
def global_special():
    return scaled(number(NAN))


@kcl.kernel
def global_complex():
    return scaled(number(COMPLEX))


@kcl.kernel
def global_list():
    return scaled(number(LISTED))


@kcl.kernel
def global_tuple():
    return scaled(number(TUPLE))


@kcl.kernel
def global_dict():
    return scaled(NAMED["y"])


@kcl.kernel
def global_order():
    return scaled(number(*ORDER))


@kcl.kernel
def global_set():
    return scaled(number(*sorted(NAMES)))


@kcl.kernel
def global_frozenset():
    return scaled(number(*sorted(FROZEN)))


@kcl.kernel
def global_array():
    return scaled(int(ARRAY.sum()))


@kcl.kernel
def global_shape():
    return scaled(SHAPED.shape[1])


@kcl.kernel
def global_array_type():
    return scaled(number(SHAPED.dtype))


@kcl.kernel
def global_big_array():
    return scaled(int(BIG[777] * 10**6) % 1000)


@kcl.kernel
def global_objects():
    return scaled(number(*OBJECTS))


@kcl.kernel
def global_structure():
    return scaled(STRUCTURE.fields["b"][1] + 1)


@kcl.kernel
def global_subarray():
    return scaled(SUBARRAY.shape[0])


@kcl.kernel
def global_scalar():
    return scaled(number(SCALAR, type(SCALAR)))


@kcl.kernel
def global_date():
    return scaled(DATE.day)


@kcl.kernel
def global_decimal():
    return scaled(number(DECIMAL))


@kcl.kernel
def global_fraction():
    return scaled(FRACTION.denominator)


@kcl.kernel
def global_pattern():
    return scaled(1 if PATTERN.match("n") else 2)


@kcl.kernel
def global_path():
    return scaled(number(PATH.name))


@kcl.kernel
def global_deque():
    return scaled(number(QUEUE))


@kcl.kernel
def global_counter():
    return scaled(COUNTER["a"])


@kcl.kernel
def global_defaults():
    return scaled(DEFAULTS["missing"])


@kcl.kernel
def global_slice():
    return scaled(number(SLICE))


@kcl.kernel
def global_range():
    return scaled(len(RANGE))


@kcl.kernel
def global_long():
    return scaled(number(*LONG))


@kcl.kernel
def global_branch():
    return scaled(BRANCH)


@kcl.kernel
def list_in_place():
    return scaled(len(IN_PLACE))


@kcl.kernel
def dict_in_place():
    return scaled(DICT_IN_PLACE["n"])


@kcl.kernel
def array_in_place():
    return scaled(int(ARRAY_IN_PLACE.sum()))


@kcl.kernel
def set_in_place():
    return scaled(len(SET_IN_PLACE))


@kcl.kernel
def nested_in_place():
    return scaled(NESTED_IN_PLACE["deep"][0][0])


@kcl.kernel
def rebound():
    return scaled(REBOUND)


@kcl.kernel
def parameter_type(value=1):
    names = {"int": 2, "float": 3, "bool": 4, "int32": 5, "int64": 6, "str": 7, "float32": 8}
    return scaled(names[type(value).__name__])


@kcl.kernel
def parameter_value(value=1):
    return scaled(value)


@kcl.kernel
def parameter_sign(value=0.0):
    return scaled(2 if str(value) == "0.0" else 3)


@kcl.kernel
def parameter_list(values=(1, 2)):
    return scaled(2 if isinstance(values, tuple) else 3)


@kcl.kernel
def parameter_array(values):
    return scaled(int(values[3]))


@kcl.kernel
def parameter_dtype(dtype=np.float32):
    return scaled(np.dtype(dtype).itemsize)


@kcl.kernel
def parameter_mapping(options):
    return scaled(number(*options))
