"""kcl.generate.evidence: a recipe and what it returned, described for a later miss."""

import numpy as np

from kcl.cache.key import Key, Part
from kcl.generate import evidence
from kcl.generate.declarations import RecipeCall
from kcl.generate.evidence import ORIGINS, RECORD, TEXTS

KEY = Key([Part("kcl", "1"), Part("declared version", "7"), Part("record", "digest")])


class Unspeakable:
    def __repr__(self):
        raise ValueError("no words")


def recipe(block, dtype, odd):
    """Return nothing: nobody runs it."""


def test_of_a_recipe():
    """What a recipe returned stands beside the parts of its key, its parameters and its text."""
    arguments = {"block": 16, "dtype": np.float32, "odd": Unspeakable()}
    call = RecipeCall("recipe", recipe, arguments)
    found = evidence.of_result(evidence.of_one_call("made", []), call, KEY)
    assert found.parts[RECORD]["calls"] == [{"function": "made", "place": "", "arguments": []}]
    assert found.parts[RECORD]["beside"] == [
        ["kcl", "1"],
        ["declared version", "7"],
        ["parameter block", "16"],
        ["parameter dtype", "<class 'numpy.float32'>"],
        ["parameter odd", "<Unspeakable>"],
    ]
    assert "def recipe" in found.parts[TEXTS]["code recipe"]
    assert found.parts[ORIGINS] == {"code recipe": (__name__, recipe.__code__.co_firstlineno)}


def test_outside_of_recipes():
    """Without a recipe there are calls and what stands beside them; the site is that of the first call."""
    described = {"calls": [{"function": "f", "place": "a.py:3", "arguments": []}], "result": 1}
    found = evidence.of_result(described, None, None)
    assert found.parts[RECORD] == {**described, "beside": []}
    assert (found.parts[TEXTS], found.site) == ({}, "a.py:3")


def test_a_recipe_without_a_text():
    """A recipe whose source is not to be found has none, and is described all the same."""
    names = {"__name__": "gone"}
    exec(compile("def gone(): pass", "<nowhere>", "exec"), names)
    found = evidence.of_recipe(RecipeCall("gone", names["gone"], {}))
    assert found.parts[TEXTS] == {"code gone": ""}


def test_parameters():
    """The texts of the parameters are those of the record, by name; there are none without a record."""
    beside = [["kcl", "1"], ["parameter block", "32"], ["parameter names", "('x', 'y')"]]
    found = evidence.Evidence({RECORD: {"beside": beside}}).parameters
    assert found == [("block", "32"), ("names", "('x', 'y')")]
    assert evidence.Evidence({}).parameters == []


def test_site_of():
    """A function stands in a file, named without its folder, and begins in a line."""
    line = test_site_of.__code__.co_firstlineno
    assert evidence.site_of(test_site_of) == f"test_evidence.py:{line}"
