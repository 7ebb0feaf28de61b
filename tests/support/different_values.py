"""Values of which no two are alike, type for type and bit for bit, for the tests of texts."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import operator
import pathlib
import re
import struct
import sys
import types

import islpy as isl
import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict
from loopys_own import loopy as lp
from pymbolic import parse


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Bare:
    """An object of the program, whose class has no code."""


def Plain(**attributes):
    made = Bare()
    vars(made).update(attributes)
    return made


class WithSlots:
    __slots__ = ("a", "b")


def Slotted(a):
    made = WithSlots()
    made.a = a
    return made


class Word:
    def __init__(self, word):
        self.word = word
        self.lock = object()

    def __kcl_key__(self):
        return self.word


@dataclasses.dataclass
class Data:
    x: object
    y: list[int] = dataclasses.field(default_factory=list)


class Name(str):
    pass


class Failure(Exception):
    pass


class Table(dict):
    pass


Pair = collections.namedtuple("Pair", "a b")

LOCKED = np.zeros(2)
LOCKED.flags.writeable = False
ALIGNED = np.dtype([("a", np.int8), ("b", np.int32)], align=True)
NAN = struct.unpack("<d", b"\1" + b"\0" * 5 + b"\xf8\x7f")[0]
BIG = 10 ** (sys.get_int_max_str_digits() + 10)
DIGEST = "0123456789abcdef" * 4

DIFFERENT = [
    *(None, False, True, 0, 1, -1, 10**30, 10**5000, 10**5000 + 1, 0.0, -0.0, 1.0, 0j, 1 + 0j),
    *(math.inf, -math.inf, math.nan, -math.nan, complex(0.0, -0.0), b"", b"1", bytearray(b"1")),
    *("", "1", "N", "None", "ab", "a\x00b", "\ud800", "x" * 600, ("x" * 600,)),
    *((), (1,), (1, 2), ((1,), 2), (None,), ((),)),
    *(("a", "b"), ("ab",), ("a", ("b",)), (("a",), "b")),
    *([], [1], [1, 2], [[1], 2], ["a", "b"], tuple(range(600)), list(range(600))),
    *({}, {1: 2}, {1: 2, 3: 4}, {3: 4, 1: 2}, {"a": "b"}, {"a": (1, "b", 2)}),
    *(set(), {1}, {1, 2}, {True, 2}, frozenset(), frozenset({1}), frozenset("ab")),
    *(constantdict(), constantdict({"a": 1, "b": 2}), {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    *(range(3), range(0, 3, 2), slice(3), slice(0, 3), ..., NotImplemented),
    *(Color.RED, Color.GREEN, Level.LOW, Bits.A, Bits.B, Bits.A | Bits.B),
    *(Plain(), Plain(a=1), Plain(a=1.0), Plain(b=1), Slotted(1), Slotted(2), Data(1), Data(1, [2])),
    *(Name("1"), Table({1: 2}), Pair(1, 2), Word("a"), Word("b"), Word((1, 2))),
    *(collections.OrderedDict({1: 2}), collections.Counter("a"), types.MappingProxyType({1: 2})),
    *(collections.deque([1]), collections.deque([1], 3), types.SimpleNamespace(a=1)),
    *(types.SimpleNamespace(a=2), decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    *(fractions.Fraction(1, 2), datetime.date(2020, 1, 1), datetime.timedelta(1)),
    *(re.search(*one) for one in [("a", "a"), ("a", "a", re.I), ("a", "aa"), ("a", "ba")]),
    *(re.compile("a"), re.compile("a", re.I), operator.itemgetter(1), operator.attrgetter("a")),
    *(functools.partial(max, 1), functools.partial(max, 2), functools.partial(min, 1)),
    *(pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b"), len, max, int, str, float, type),
    *(str.join, "a".join, "b".join, "a".__len__, "ab".__len__),
    *(ValueError(1), ValueError(2), Failure(1), Failure(2)),
    *(kind(1) for kind in (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.bool_)),
    *(kind(1) for kind in (np.float32, np.float64, np.longdouble, np.complex64)),
    *(np.float32(0.0), np.float32(-0.0), np.float32("nan"), np.str_("1"), np.bytes_(b"1")),
    *(np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00:00:00"), np.datetime64(1, "s")),
    *(np.float32, np.float64, np.add, *map(np.dtype, ("f4", "f8", ">f4", "l", "q", "V4", "S4"))),
    np.dtype([("a", "f4"), ("b", "f8")]),
    np.dtype([("a", "f4"), ("b", "f8")], align=True),
    *(np.dtype([("a", "f4"), ("c", "f8")]), np.dtype([("b", "f8"), ("a", "f4")])),
    np.dtype({"names": ["a"], "formats": ["f4"], "offsets": [4], "itemsize": 8}),
    np.dtype({"names": ["a"], "formats": ["f4"], "offsets": [0], "itemsize": 8}),
    *(np.dtype(("f4", (2,))), *(np.dtype("f4", metadata={"unit": unit}) for unit in (1, 2))),
    *(np.array(1), np.array([1]), np.array([1, 2]), np.array([[1, 2]]), np.array([[1], [2]])),
    *(np.array([1, 2], np.float32), np.array([1, 2], ">f4"), np.array([1, None], object)),
    *(np.arange(100), np.arange(100)[::-1], np.arange(100) + (np.arange(100) == 5)),
    *(np.array(["a"]), LOCKED, np.array(0.0), np.zeros(400), np.zeros((20, 20))),
    *(np.zeros(shape) for shape in (0, 1, 2, (2, 1), (0, 2))),
    *(np.zeros(2, dtype) for dtype in ("g", "i8", "M8[s]", [("a", "f4")])),
    *(np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
    *(np.array([0, 2, 4]), np.arange(6)[::2]),
    *(np.frombuffer(b"12", np.int8), np.array([49, 50], np.int8)),
    *(p.Variable("a"), p.Sum((p.Variable("a"),)), p.Product((p.Variable("a"),)), p.Wildcard()),
    *(p.Variable("a").lt(1), p.Variable("a").le(1), lp.symbolic.ResolvedFunction("a")),
    *(p.Subscript(p.Variable("a"), (1,)), p.Subscript(p.Variable("a"), 1)),
    *(lp.auto, lp.AddressSpace.GLOBAL, lp.AddressSpace.LOCAL, lp.AddressSpace),
    *(lp.to_loopy_type(np.float32), lp.types.AtomicNumpyType(np.float32)),
    *(lp.types.OpaqueType("float32"), lp.Optional(), lp.Optional(None), lp.Optional(1)),
    *(isl.Set("[n] -> {[i]: 0<=i<n}"), isl.BasicMap("{[i]->[j]: 0<=i<4}")),
    *(isl.BasicSet(f"[n] -> {{[{iname}]: 0<={iname}<n}}") for iname in "ij"),
    *(isl.BasicSet("{[i]: 0<=i<4}"), isl.BasicSet("[n] -> {[i]: 0<=i<4}")),
    # A payload of NaN; texts that read like others, or that Python cannot write; what is written alike.
    *(NAN, complex(NAN, 1), np.array([NAN]), np.array([math.nan]), BIG, -BIG, hex(BIG), [BIG]),
    *("a", "b'1'", "'", '"', "', '", "(1,)", "<root>", f"<{DIGEST}>", "call 3", "\n"),
    *("loopy.auto", "loopy.AddressSpace.LOCAL", b"call 3", 1j, -1j, 2, range(1), range(2)),
    *(parse(text) for text in ("i", "i + 1", "1 + i", "a[i]", "a[i, 1]", "f(i)", "i.a")),
    *(*lp.KernelState, lp.AddressSpace.PRIVATE, lp.CTarget, lp.TranslationUnit),
    *map(np.dtype, ("S1", "U1", "O", "?", [("b", "i4")], ("i4", (2,)))),
]
