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
    """Return the text of a value."""
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


small = st.integers(-2, 2)
leaves = st.one_of(
    st.sampled_from(
        [
            *(None, True, False, ..., NotImplemented, 0.0, -0.0, 1.0, math.nan, math.inf, 1j, -1j),
            1 + 0j,
        ]
    ),
    small,
    st.sampled_from(WORDS),
    st.text(max_size=3),
    st.sampled_from([word.encode("utf-8", "replace") for word in WORDS]),
    st.sampled_from([range(1), range(0, 1, 1), range(0, 2, 2), range(2)]),
    st.builds(
        lambda kind, value: kind(value),
        st.sampled_from(
            [np.int8, np.int32, np.int64, np.float32, np.float64, np.complex64, np.bool_, np.str_]
        ),
        st.integers(0, 2),
    ),
    st.sampled_from(
        [
            *map(np.dtype, ("i4", "<f4", ">f4", "f8", "S1", "U1", "V4", "O", "?")),
            np.int32,
            np.float32,
        ]
    ),
    st.sampled_from(
        [
            np.dtype([("a", "i4")]),
            np.dtype([("b", "i4")]),
            np.dtype(("i4", (2,))),
            np.dtype("(2,)f4"),
        ]
    ),
    st.sampled_from([int, float, str, lp.AddressSpace, lp.CTarget, lp.auto, lp.TranslationUnit]),
    st.sampled_from([*lp.AddressSpace, *lp.KernelState]),
    st.builds(
        np.full,
        st.sampled_from([(), (1,), (2,), (1, 2), (2, 1), (6,)]),
        small,
        st.sampled_from(["i4", "f4"]),
    ),
    st.sampled_from(["i", "i + 1", "1 + i", "a[i]", "a[i, 1]", "f(i)", "i.a", "1", "1.0"]).map(
        parse
    ),
    st.sampled_from(["{[i]: 0<=i<n}", "{[i]: 0<=i<4}", "{[j]: 0<=j<4}", "[n]->{[i]: 0<=i<4}"]).map(
        lambda words: isl.Set(words if "n" not in words or "->" in words else f"[n] -> {words}")
    ),
)
members = st.one_of(
    st.none(), st.booleans(), small, st.sampled_from(WORDS), st.sampled_from([b"1", 1.5, "1", (1,)])
)
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


class TestOneTextForOneMeaning:
    @settings(max_examples=600, deadline=None)
    @given(values, values)
    def test_two_values_share_a_text_only_if_they_are_the_same(self, one, other):
        """Equal texts mean equal values of equal types."""
        assert (text(one) == text(other)) == same(one, other)

    @settings(max_examples=150, deadline=None)
    @given(values)
    def test_the_copy_has_the_text_of_the_value(self, value):
        """What a record keeps says the same as what it was given."""
        found, copied = texts.take(value, texts.ArgumentParts())
        assert text(copied) == found
        assert same(copied, value)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(leaves, max_size=4), st.lists(leaves, max_size=4))
    def test_lists_of_texts_do_not_share_a_digest(self, one, other):
        """The digest of several texts keeps them apart."""
        digests = [texts.digest([text(value) for value in listed]) for listed in (one, other)]
        assert (digests[0] == digests[1]) == same(one, other)

    def test_a_string_is_no_reference(self):
        """A string that reads like the reference to another record, or to a class, is a string."""
        assert text(f"<{DIGEST}>") == f"'<{DIGEST}>'"
        assert text("loopy.auto") != text(lp.auto)
        assert text("loopy.AddressSpace.LOCAL") != text(lp.AddressSpace.LOCAL)

    def test_signs_of_zero_and_payloads_of_nan_count(self):
        """Two values that no comparison tells apart, or calls equal, can generate different code."""
        nans = [
            struct.unpack("<d", bits)[0]
            for bits in (b"\0" * 6 + b"\xf8\x7f", b"\1" + b"\0" * 5 + b"\xf8\x7f")
        ]
        found = [
            text(value)
            for value in (0.0, -0.0, *nans, complex(0, -0.0), 0j, complex(nans[0], 1), -nans[0])
        ]
        assert len(set(found)) == len(found)
        arrays = [np.array([nan]) for nan in nans] + [np.float32(-0.0), np.float32(0)]
        assert len({text(one) for one in arrays}) == 4

    def test_orders(self):
        """Dictionaries keep their order, sets have none."""
        assert text({"a": 1, "b": 2}) != text({"b": 2, "a": 1})
        assert text({*range(50), "a", None, (1, "x")}) == text(
            {(1, "x"), None, "a", *reversed(range(50))}
        )

    def test_lengths(self):
        """Bytes and strings of any length count to their ends."""
        for length in (1, 127, 128, 129, 511, 513, 100_000):
            assert text(b"x" * length) != text(b"x" * (length - 1) + b"y")
            assert text("x" * length) != text("x" * (length - 1) + "y")
            assert text([b"x" * length]) != text([b"x" * (length - 1) + b"y"])

    def test_integers_that_python_refuses_to_write(self):
        """More digits than `sys.get_int_max_str_digits` allows are exact, too."""
        big = 10 ** (sys.get_int_max_str_digits() + 10)
        assert len({text(value) for value in (big, big + 1, -big, hex(big), [big])}) == 5


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Flags(enum.Flag):
    A = 1
    B = 2


class Named(str):
    __slots__ = ()


class TestObjects:
    def test_members_of_enumerations(self):
        """Members count by enumeration and name, combinations of flags too."""
        found = [
            *(Colour.RED, Colour.GREEN, Flags.A, Flags.B, Flags.A | Flags.B, lp.AddressSpace.LOCAL),
            *(1, 2, 3),
        ]
        assert len({text(value) for value in found}) == len(found)

    def test_subclasses_of_builtin_types(self):
        """An instance of a subclass is not what it extends."""
        found = [
            Named("a"),
            "a",
            OrderedDict(a=1),
            {"a": 1},
            (1,),
            struct.unpack("<i", b"\1\0\0\0"),
            True,
            1,
        ]
        assert (
            len({text(value) for value in found}) == len(found) - 1
        )  # an unpacked tuple is a tuple

    def test_a_class_that_claims_to_be_of_numpy(self):
        """A class is numpy's if numpy has it, not if it says so: one that says so is refused."""
        for name, module in (("float32", "numpy"), ("int", "builtins")):
            with pytest.raises(UnknownInput, match="cannot be known"):
                text(type(name, (), {"__module__": module}))

    def test_a_package_whose_name_begins_like_loopys(self):
        """Objects of `loopy_helpers` are the user's."""
        kind = type(
            "Thing",
            (),
            {"__module__": "loopy_helpers", "__init__": lambda self, x: setattr(self, "x", x)},
        )
        with pytest.raises(UnknownInput, match="may change"):
            text(kind(1))

    def test_what_may_change(self):
        """Objects that Python lets change have no text, and neither has loopy's own unit."""
        for value in (
            lp.make_kernel("{[i]: 0<=i<4}", "a[i] = 1"),
            lp.Options(),
            bytearray(b"1"),
            deque(),
            [deque()],
        ):
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
        """Containers that are nested more deeply than Python calls have no text."""
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
        """Neither the seed of hashes nor an import of loopy changes a text."""
        first = child.json(SAYS.format(loopy=False), PYTHONHASHSEED="1")
        for loopy, seed in ((False, "2"), (True, "3")):
            assert child.json(SAYS.format(loopy=loopy), PYTHONHASHSEED=seed) == first, json.dumps(
                first, indent=1
            )
