"""kcl.frontends.loopy.callables.encoder: the text of a value."""

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
import sys
import textwrap
import types
from typing import ClassVar

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pyopencl as cl
import pyopencl.array
import pytest
from constantdict import constantdict
from hypothesis import given, settings
from hypothesis import strategies as st
from loopys_own import loopy as lp
from packages import forget_packages, import_again, write_packages

from kcl.errors import UnknownInput
from kcl.frontends.loopy import held
from kcl.frontends.loopy.callables.content import content


def encode(value):
    return content(value).text


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


class Helpful:
    def width(self):
        return 1


class Helped(enum.Enum):
    A = 1

    def width(self):
        return 1


class Ordered:
    def __iter__(self):
        yield 1


class Wordless:
    def __kcl_key__(self):
        raise RuntimeError("no word")


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
]

SAME = [
    ({1, 2, 3}, {3, 2, 1}),
    (frozenset({"a", "b"}), frozenset({"b", "a"})),
    (Data(1), Data(1)),
    (Word("a"), Word("a")),
    (Plain(a=1, b=2), Plain(b=2, a=1)),
    (np.arange(6).reshape(2, 3), np.arange(12)[:6].reshape(2, 3)),
    (np.dtype("=f4"), np.dtype(np.float32)),
    (np.dtype("<f4"), np.dtype("float32")),
    (decimal.Decimal("1.5"), decimal.Decimal("1.5")),
    (re.compile("a b"), re.compile("a b")),
    (re.match("a(b)?", "abc"), re.match("a(b)?", "abc")),
    ("x" * 1000, "x" * 500 + "x" * 500),
    (np.arange(6), np.arange(6).copy()),
    # Bytes between the fields of a structure do not count.
    tuple(np.frombuffer(bytes([1, gap, gap, gap, 2, 0, 0, 0]), ALIGNED) for gap in (0, 9)),
]


class TestTexts:
    """Texts are equal exactly where values are, type for type."""

    def test_different_values(self):
        """Values of which no two are alike have as many texts."""
        texts = {}
        for value in DIFFERENT:
            text = encode(value)
            assert text not in texts, f"{value!r} and {texts[text]!r} are both {text}"
            texts[text] = value

    @pytest.mark.parametrize(("one", "other"), SAME)
    def test_same_values(self, one, other):
        """Values that nothing tells apart have one text."""
        assert encode(one) == encode(other)

    def test_readable(self):
        """Short values read as they are written; a long one counts by its digest."""
        assert encode({"block": (16, 4.0), "name": None}) == "{'block': (16, 4.0,), 'name': None}"
        assert re.fullmatch("sha256 [0-9a-f]{64}", encode("x" * 10000))

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.integers() | st.text() | st.tuples(st.integers(), st.text()), unique_by=repr)
    )
    def test_sets(self, values):
        """The order in which a set was filled does not count."""
        assert encode(set(values)) == encode({*values[::-1]})


class TestObjects:
    """Objects count by class and content."""

    def test_shared_many_times(self):
        value = Plain(a=1)
        for _ in range(40):
            value = Plain(left=p.Sum((value, value)), right=frozenset((value, 1)))
        assert len(encode(value)) < 600

    def test_memos_of_libraries(self):
        """What pytools and pymbolic remember on an object does not count."""
        memos = {"_memoize_dic_f": {(): 3}, "_pytools_persistent_hash_digest": b"1"}
        assert encode(Plain(a=1, **memos)) == encode(Plain(a=1))

    @pytest.mark.parametrize("name", ["_hash_value", "_cached_hash", "_cache_hash_bits"])
    def test_name_of_a_hash(self, name):
        """An attribute of the user's counts although its name looks like a hash."""
        assert encode(Plain(**{name: 1})) != encode(Plain(**{name: 2}))

    def test_names_of_attributes(self):
        """A name that is no identifier is quoted, so that it cannot pass for two attributes or for another type."""
        two, one, number, text = Plain(a=1, b=2), Plain(**{"a=1, b": 2}), Plain(), Plain(**{"1": 2})
        number.__dict__[1] = 2
        assert len({encode(value) for value in (two, one, number, text)}) == 4
        assert encode(Plain(a=1)).endswith("(a=1)")

    def test_unknown(self, context):
        """What has a state that cannot be read is refused, with the cure."""
        memory = cl.array.zeros(cl.CommandQueue(context), 4, np.float32)
        for value in (
            *((i for i in ()), iter([]), map(str, []), sys.stdout, np.frompyfunc(abs, 1, 1)),
            *(np.ma.masked_array([1, 2], [True, False]), *context.devices, context, memory),
        ):
            with pytest.raises(UnknownInput, match="__kcl_key__"):
                encode(value)


def factory(number):
    def made():
        return number

    return made


class Called:
    def __call__(self):
        return 1


class Overriding(Name):
    def __str__(self):
        return "mine"


class TestCode:
    """Code has no text: that of installed packages counts by name and files, that of the program is refused."""

    CODE: ClassVar = {
        "function": factory(1),
        "partial": functools.partial(factory(1)),
        "object": Called(),
        "class": Called,
        "method": Called().__call__,
        "override": Overriding("a"),
        "lambda": [lambda: 1],
        "module": sys.modules[__name__],
        "method of an argument": functools.partial(textwrap.dedent, Helpful()),
        "method of a member": functools.partial(textwrap.dedent, Helped.A),
        "method that Python calls": Ordered(),
    }
    NAMESAKES: ClassVar = {
        "module": types.ModuleType("textwrap"),
        "partial": type("partial", (), {"__module__": "functools", "func": len, "args": ()})(),
        "scalar": type("Scalar", (np.float64,), {})(1),
    }

    @pytest.mark.parametrize("value", CODE.values(), ids=CODE)
    def test_of_the_program(self, value):
        """Code of the program is refused by its name, with the cure."""
        with pytest.raises(UnknownInput, match=r"is code of the program.*__kcl_key__"):
            encode(value)

    @pytest.mark.parametrize("value", NAMESAKES.values(), ids=NAMESAKES)
    def test_name_of_another(self, value):
        with pytest.raises(UnknownInput, match="cannot be known"):
            encode(value)

    def test_program_of_a_command(self, child):
        """A class in the text of `python -c` counts as any other class of the program."""
        text = """
            import dataclasses
            from kcl.errors import UnknownInput
            from kcl.frontends.loopy.callables.content import content
            @dataclasses.dataclass(frozen=True)
            class Plain:
                one: int = 1
            class Ordered(Plain):
                def __iter__(self): yield 1
            print(content(Plain()).text)
            try:
                content(Ordered())
            except UnknownInput as error:
                print("is code of the program" in str(error))
            """
        plain = "__main__.Plain(__main__.Plain.one=1, one=1)"
        assert child.run(text).stdout.splitlines() == [plain, "True"]

    def test_error_of_the_program(self):
        """An error of the program's code is a reason why there is no key, and no error of the run."""
        with pytest.raises(UnknownInput, match="RuntimeError: no word"):
            encode(Wordless())

    def test_of_python(self):
        """Functions and classes of Python count by name, and nothing of them is a part."""
        values = [functools.reduce, textwrap.dedent, textwrap.indent, fractions.Fraction]
        assert len({encode(value) for value in values}) == len(values)
        assert encode(functools.reduce) == "_functools.reduce"
        assert not any(content(value).parts for value in values)

    PACKAGE = """
import functools, attrs
def get(n=1): return n
def factory(number):
    def made(): return number
    return made
class Tool:
    def __init__(self, number): self.number = number
    def __call__(self): return self.number
def both(): return [lambda: 1, lambda: 2]
def made(number):
    class Made:
        def width(self): return number
    return Made
@attrs.frozen
class Kept:
    one: int = 1
"""

    def test_of_an_installed_package(self, tmp_path, monkeypatch):
        """It counts by name and files, and by what functions and objects hold; test_held.py has what was changed in it."""
        forget_packages(monkeypatch)
        write_packages(tmp_path, {"packed.py": self.PACKAGE}, packed=[])
        monkeypatch.syspath_prepend(tmp_path)
        (module,) = import_again("packed")
        held.take(["packed"])
        values = [
            *(module.get, module.factory(1), module.factory(2), module.Tool(1), module.Tool(2)),
            *(functools.partial(module.get, 1), functools.partial(module.get, 2)),
            *(module.Tool(1).__call__, module.Tool(2).__call__, *module.both()),
            *(module.made(1), module.made(2), module.Kept()),
        ]
        assert len({content(value).digest for value in values}) == len(values)
        parts = {part.name for part in content(values).parts}
        assert {"distribution packed", "held by packed"} <= parts
        before = content(values).digest
        module.get.__defaults__ = (2,)
        assert content(values).digest != before
        module.get = factory(1)
        with pytest.raises(UnknownInput, match="is code of the program"):
            content(module.factory(1))
        del sys.modules["packed"]
