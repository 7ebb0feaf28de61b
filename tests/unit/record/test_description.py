"""The texts of a record that an entry holds."""

from __future__ import annotations

import importlib

import numpy as np

import kcl
import kcl.loopy as lp
from kcl.cache.key import Key, Part
from kcl.record import description, unmade
from kcl.record.declarations import Declarations, RecipeCall

loopy = importlib.import_module("loopy")
VERSION = {"lang_version": (2018, 2)}
KEY = Key([Part("kcl", "1"), Part("declared version", "7"), Part("record", "digest")])


def recipe(block=16, dtype=np.float32):
    """Return a unit."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = i", name="made", **VERSION)
    return lp.split_iname(lp.add_dtypes(unit, {"a": dtype}), "i", block)


class Unspeakable:
    def __repr__(self):
        """Fail."""
        raise ValueError("no words")


class TestPlaces:
    def test_of_a_recipe(self):
        """A record is described with its calls, their parameters by name, the recipe's text and parameters."""
        unit = recipe()
        task = RecipeCall(
            "recipe",
            recipe,
            {"block": 16, "dtype": np.float32, "odd": Unspeakable()},
            Declarations(),
        )
        place = description.place(unmade.record_of(unit), unit, task, KEY)
        assert place.record is not None
        assert [call["function"] for call in place.record["calls"]] == [
            "make_kernel",
            "add_dtypes",
            "split_iname",
        ]
        assert all(
            call["place"].startswith("test_description.py:") for call in place.record["calls"]
        )
        assert place.record["calls"][2]["arguments"] == [
            ["kernel", "call 2"],
            ["split_iname", "'i'"],
            ["inner_length", "16"],
        ]
        assert place.record["calls"][1]["arguments"][1][1] == "{'a': numpy.float32}"
        assert place.record["result"] == 3
        assert place.record["beside"] == [
            ["kcl", "1"],
            ["declared version", "7"],
            ["parameter block", "16"],
            ["parameter dtype", "<class 'numpy.float32'>"],
            ["parameter odd", "<Unspeakable>"],
        ]
        assert "def recipe" in place.texts["code recipe"]
        assert place.origins == {"code recipe": (__name__, recipe.__code__.co_firstlineno)}

    def test_names_of_parameters(self):
        """Arguments are named as a class or its base names them; those that loopy passes on as `*args` are numbered."""
        arguments = [
            lp.GlobalArg("a", np.int32),
            lp.ConstantArg("b", np.int32),
            lp.ValueArg("n", np.int32),
        ]
        unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = b[i]", arguments, **VERSION)
        unit = lp.set_options(unit, "return_dict")
        place = description.place(unmade.record_of(unit), unit, None, None)
        names = [[name for name, _text in call["arguments"]] for call in place.record["calls"]]
        assert names[:3] == [["name", "dtype"]] * 3
        assert names[-1] == ["kernel", "2"]

    def test_of_a_unit_outside_of_recipes(self):
        """Without a recipe there are calls and what stands beside them."""
        unit = recipe()
        place = description.place(unmade.record_of(unit), unit, None, None)
        assert place.record["result"] == 3
        assert place.record["beside"] == []
        assert place.texts == {}

    def test_of_what_was_not_recorded(self):
        """A unit that loopy made, and a kcl.Source, are one call with what is known of them."""
        own = loopy.make_kernel("{[i]: 0<=i<n}", "a[i] = i", **VERSION)
        (call,) = description.place(None, own, None, KEY).record["calls"]
        assert call == {"function": "a unit that loopy made", "place": "", "arguments": []}
        code, array = "kernel void f(global int *a) { a[0] = 1; }", kcl.Array("a", np.int32, "(1,)")
        source = kcl.Source(
            code, arguments=[array], global_size="(1,)", entry="f", include_dirs=["/somewhere"]
        )
        (call,) = description.place(None, source, None, KEY).record["calls"]
        assert call["function"] == "kcl.Source"
        assert dict(call["arguments"])["code"] == repr(source.code)
        assert "/somewhere" not in str(call)  # include directories are in no key

    def test_a_recipe_without_a_text(self):
        """A recipe whose source is not to be found has none, and is described all the same."""
        names = {"__name__": "gone"}
        exec(compile("def gone(): pass", "<nowhere>", "exec"), names)
        place = description.place(
            None, None, RecipeCall("gone", names["gone"], {}, Declarations()), None
        )
        assert place.texts == {"code gone": ""}
