"""The texts of what a program gives to loopy: one text for one meaning, in every process."""

import gc
import importlib
import json
import re
import sys
import textwrap
from collections import deque

import numpy as np
import pytest
from different_values import DIFFERENT
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.errors import UnknownInput
from kcl.frontends.loopy import texts

lp = importlib.import_module("loopy")  # itself, where an import statement gives the face


def text(value):
    return texts.take(value, texts.ArgumentParts())[0]


def has_text(value):
    try:
        return bool(text(value))
    except UnknownInput:
        return False


VALUES = [value for value in DIFFERENT if has_text(value)]
SINGLE = [value for value in VALUES if type(value) not in (list, tuple, dict)]
LAYOUT = re.compile(r", (strides \([-\d, ]+\)|read-only)")
places = st.integers(0, len(SINGLE) - 1)
plans = st.recursive(
    places,
    lambda inner: st.tuples(st.sampled_from([list, tuple, dict]), st.lists(inner, max_size=3)),
    max_leaves=6,
)


def built(plan):
    """Return a single value by its place, or a container of what other plans give."""
    if isinstance(plan, int):
        return SINGLE[plan]
    kind, items = plan
    values = map(built, items)
    return dict(zip("abc", values, strict=False)) if kind is dict else kind(values)


class TestOneTextForOneMeaning:
    def test_different_values(self):
        """Some of them no comparison tells apart, or calls equal, and they can generate different code."""
        assert len(VALUES) > 220
        assert len({*map(text, VALUES)}) == len(VALUES)

    @settings(max_examples=300, deadline=None)
    @given(plans, plans)
    def test_two_values_share_a_text_only_if_they_are_the_same(self, one, other):
        assert (text(built(one)) == text(built(other))) == (one == other)

    def test_the_copy_has_the_text_of_the_value(self):
        for value in [*VALUES, [*SINGLE], (*SINGLE,), {"all": SINGLE}]:
            found, copied = texts.take(value, texts.ArgumentParts())
            # The copy of an array may be contiguous, and can be written.
            words = [LAYOUT.sub("", one) for one in (found, text(copied))]
            assert words[0] == words[1]

    def test_lists_of_texts_do_not_share_a_digest(self):
        lists = [
            ["1", "2"],
            ["12"],
            ["12", ""],
            ["", "12"],
            ["1", "", "2"],
            ["1:2"],
            ["1:", "2"],
            [],
        ]
        assert len({texts.digest(one) for one in lists}) == len(lists)

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
