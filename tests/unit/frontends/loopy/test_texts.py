"""The texts of what a program gives to loopy: one text for one meaning, in every process."""

import enum
import gc
import importlib
import json
import math
import struct
import sys
import textwrap
from collections import OrderedDict, deque

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic import parse
from pymbolic.primitives import ExpressionNode

from kcl.errors import UnknownInput
from kcl.frontends.loopy import texts

lp = importlib.import_module("loopy")  # itself, where an import statement gives the face
DIGEST = "0123456789abcdef" * 4
WORDS = [
    *("", "a", "b'1'", "'", '"', "', '", "(1,)", "1", "None", "<root>", f"<{DIGEST}>", "call 3"),
    *("\n", "\ud800"),
]


def text(value):
    return texts.take(value, texts.ArgumentParts())[0]


def same(one, other):
    """Tell whether two values mean the same: types, values to the bit, orders where there are any."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()])
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, np.generic):
        return (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    if isinstance(one, isl.Set):
        return one.to_str() == other.to_str()
    if isinstance(one, (ExpressionNode, range)):
        return repr(one) == repr(other)
    return bool(one == other)


KINDS = [np.int8, np.int32, np.int64, np.float32, np.float64, np.complex64, np.bool_, np.str_]
FORMATS = ["i4", "<f4", ">f4", "f8", "S1", "U1", "V4", "O", "?", [("a", "i4")], [("b", "i4")]]
FORMATS += [("i4", (2,)), "(2,)f4"]
SHAPES = [(), (1,), (2,), (1, 2), (2, 1), (6,)]
EXPRESSIONS = ["i", "i + 1", "1 + i", "a[i]", "a[i, 1]", "f(i)", "i.a", "1", "1.0"]
DOMAINS = ["[n] -> {[i]: 0<=i<n}", "{[i]: 0<=i<4}", "{[j]: 0<=j<4}", "[n]->{[i]: 0<=i<4}"]
SINGLES = [None, True, False, ..., NotImplemented, 0.0, -0.0, 1.0, math.nan, math.inf]
SINGLES += [1j, -1j, 1 + 0j, range(1), range(0, 1, 1), range(0, 2, 2), range(2)]
SINGLES += [np.int32, np.float32, int, float, str, *lp.AddressSpace, *lp.KernelState]
SINGLES += [lp.AddressSpace, lp.CTarget, lp.auto, lp.TranslationUnit]
small = st.integers(-2, 2)
leaves = st.one_of(
    st.sampled_from(SINGLES),
    small,
    st.sampled_from([*WORDS, *[word.encode("utf-8", "replace") for word in WORDS]]),
    st.text(max_size=3),
    st.builds(lambda kind, value: kind(value), st.sampled_from(KINDS), st.integers(0, 2)),
    st.sampled_from([*map(np.dtype, FORMATS)]),
    st.builds(np.full, st.sampled_from(SHAPES), small, st.sampled_from(["i4", "f4"])),
    st.sampled_from(EXPRESSIONS).map(parse),
    st.sampled_from(DOMAINS).map(isl.Set),
)
members = st.none() | st.booleans() | small | st.sampled_from([*WORDS, b"1", 1.5, "1", (1,)])
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(members, inner, max_size=3),
        st.sets(members, max_size=3),
        st.frozensets(members, max_size=3),
    ),
    max_leaves=6,
)
NANS = [struct.unpack("<d", bits + b"\0" * 5 + b"\xf8\x7f")[0] for bits in (b"\0", b"\1")]
BIG = 10 ** (sys.get_int_max_str_digits() + 10)


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Flags(enum.Flag):
    A = 1
    B = 2


class Named(str):
    __slots__ = ()


# Values of which no two have one text, by what tells them apart.
DIFFERENT = {
    "signs of zero and payloads of NaN": [
        *(0.0, -0.0, *NANS, complex(0, -0.0), 0j, complex(NANS[0], 1), -NANS[0]),
        *(np.array([NANS[0]]), np.array([NANS[1]]), np.float32(-0.0), np.float32(0)),
    ],
    "integers that Python refuses to write": [BIG, BIG + 1, -BIG, hex(BIG), [BIG]],
    "members of enumerations": [
        *(Colour.RED, Colour.GREEN, Flags.A, Flags.B, Flags.A | Flags.B, lp.AddressSpace.LOCAL),
        *(1, 2, 3),
    ],
    "subclasses": [Named("a"), "a", OrderedDict(a=1), {"a": 1}, (1,), True, 1],
    "orders of dictionaries": [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    "strings that read like a class": [
        *(lp.auto, "loopy.auto", lp.AddressSpace.LOCAL, "loopy.AddressSpace.LOCAL"),
    ],
}


class TestOneTextForOneMeaning:
    @settings(max_examples=600, deadline=None)
    @given(values, values)
    def test_two_values_share_a_text_only_if_they_are_the_same(self, one, other):
        assert (text(one) == text(other)) == same(one, other)

    @settings(max_examples=150, deadline=None)
    @given(values)
    def test_the_copy_has_the_text_of_the_value(self, value):
        found, copied = texts.take(value, texts.ArgumentParts())
        assert text(copied) == found
        assert same(copied, value)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(leaves, max_size=4), st.lists(leaves, max_size=4))
    def test_lists_of_texts_do_not_share_a_digest(self, one, other):
        digests = [texts.digest([text(value) for value in listed]) for listed in (one, other)]
        assert (digests[0] == digests[1]) == same(one, other)

    @pytest.mark.parametrize("differing", DIFFERENT.values(), ids=DIFFERENT)
    def test_different(self, differing):
        """Some of them no comparison tells apart, or calls equal, and they can generate different code."""
        assert len({*map(text, differing)}) == len(differing)

    def test_a_string_is_no_reference(self):
        assert text(f"<{DIGEST}>") == f"'<{DIGEST}>'"

    def test_sets_have_no_order(self):
        members = [*range(50), "a", None, (1, "x")]
        assert text({*members}) == text({*reversed(members)})

    @pytest.mark.parametrize("length", [1, 127, 128, 129, 511, 513, 100_000])
    def test_lengths(self, length):
        """Bytes and strings of any length count to their ends."""
        assert text(b"x" * length) != text(b"x" * (length - 1) + b"y")
        assert text("x" * length) != text("x" * (length - 1) + "y")
        assert text([b"x" * length]) != text([b"x" * (length - 1) + b"y"])


class TestObjects:
    def test_a_class_that_claims_to_be_of_numpy(self):
        """A class is numpy's if numpy has it, not if it says so: one that says so is refused."""
        for name, module in (("float32", "numpy"), ("int", "builtins")):
            with pytest.raises(UnknownInput, match="cannot be known"):
                text(type(name, (), {"__module__": module}))

    def test_what_may_change(self):
        users = type("Thing", (), {"__module__": "loopy_helpers"})()
        users.x = 1
        unit = lp.make_kernel("{[i]: 0<=i<4}", "a[i] = 1")
        for value in (users, unit, lp.Options(), bytearray(b"1"), deque(), [deque()]):
            with pytest.raises(UnknownInput, match="may change"):
                text(value)

    @pytest.mark.parametrize(
        ("value", "name", "changed"),
        [
            (lp.ValueArg("n", np.int32), "approximately", 3),
            (lp.ValueArg("n", np.int32).dtype, "dtype", np.dtype("f4")),
            (lp.Assignment("x[i]", "y[i]"), "temp_var_type", lp.Optional(None)),
            (lp.Optional(1), "_value", 2),
            (lp.PyOpenCLTarget(), "fortran_abi", True),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_arguments_and_instructions_of_loopy(self, value, name, changed):
        """An object of loopy's own is copied: a later change has another text, and does not reach the copy."""
        before, copied = texts.take([value], texts.ArgumentParts())
        assert copied == [value]
        hash(value)
        assert text([value]) == before
        object.__setattr__(value, name, changed)
        assert text([value]) != before == text(copied)


class TestThatNothingBreaks:
    def test_a_list_that_is_nested_too_deeply(self):
        value: list = []
        for _ in range(20 * sys.getrecursionlimit()):
            value = [value]
        with pytest.raises(UnknownInput, match="nested"):
            text(value)
        while value:
            value = value[0]
        gc.collect()

    def test_what_loopy_calls_later_is_noted(self):
        """Callables are kept with their texts, which count again at the look-up; an array is copied."""
        taken = texts.ArgumentParts()
        array = np.zeros(3)
        values = [1, "a", np.float32, array, textwrap.dedent, lp.AddressSpace.LOCAL]
        _text, copied = texts.take(values, taken)
        assert [thing for thing, _ in taken.rechecked] == [textwrap.dedent]
        assert copied[3] is not array


SAYS = """
    import json, sys
    import numpy as np
    if {loopy}:
        import loopy
    import kcl.loopy as lp
    from kcl.frontends.loopy import texts
    things = {{
        "LOCAL": lp.AddressSpace.LOCAL, "AddressSpace": lp.AddressSpace, "auto": lp.auto,
        "ArrayArg": lp.ArrayArg, "CTarget": lp.CTarget, "TranslationUnit": lp.TranslationUnit, "Options": lp.Options,
        "np": [np.float32, np.dtype("f4"), np.int32(3), np.dtype([("a", "i4")])],
        "set": {{"a", "b", "c", 1, None, (1, 2), frozenset("abc")}}, "array": np.arange(5),
    }}
    from pytools.tag import Tag
    things["mine"] = type("Mine", (Tag,), {{"__module__": "loopy_helpers"}})()
    found = {{name: texts.take(value, texts.ArgumentParts())[0] for name, value in things.items()}}
    assert ("loopy" in sys.modules) == {loopy}
    print(json.dumps(found))
"""


class TestInOtherProcesses:
    def test_the_texts_are_the_same(self, child):
        first = child.json(SAYS.format(loopy=False), PYTHONHASHSEED="1")
        for loopy, seed in ((False, "2"), (True, "3")):
            assert child.json(SAYS.format(loopy=loopy), PYTHONHASHSEED=seed) == first, json.dumps(
                first, indent=1
            )
