"""kcl.record.callables.readings: what is read off code, and remembered."""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
import reading
from reading import SOURCE, compiled, count, told

import kcl
from kcl.errors import UnknownInput
from kcl.record.callables import code, readings, scan

# what readings are made of, and another value for it, of the code below
CAUGHT = """
def recipe(a, /, b, *, c):
    try:
        return lambda: a.d + g
    except ValueError:
        return h.b
"""
ATTRIBUTES = {
    "co_code": lambda one: one.co_code[:-1] + bytes([one.co_code[-1] ^ 1]),
    "co_consts": lambda one: (*one.co_consts, 1),
    "co_names": lambda one: (*one.co_names[:-1], "other"),
    "co_varnames": lambda one: (*one.co_varnames[:-1], "other"),
    "co_cellvars": lambda one: (*one.co_cellvars, "other"),
    "co_freevars": lambda one: (*one.co_freevars, "other"),
    "co_name": lambda one: one.co_name + "_",
    "co_argcount": lambda one: one.co_argcount - 1,
    "co_posonlyargcount": lambda one: one.co_posonlyargcount - 1,
    "co_kwonlyargcount": lambda one: one.co_kwonlyargcount - 1,
    "co_flags": lambda one: one.co_flags ^ 0x20,
    "co_exceptiontable": lambda one: one.co_exceptiontable[1:],
}
# constants of which no two are one
CONSTANTS = (
    *(None, False, 0, 0.0, -0.0, 0j, -0j, "", b"", ..., ()),
    *(True, 1, 1.0, "1", b"1", (1,), (1.0,), frozenset([1]), frozenset([1.0]), frozenset(["1"]), ((1,),), float("nan")),
)


def codes(*modules: types.ModuleType):
    """Yield the code of modules and everything in it."""
    waiting = [compile(inspect.getsource(module), module.__file__, "exec", dont_inherit=True) for module in modules]
    while waiting:
        one = waiting.pop()
        waiting += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
        yield one


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """No reading is remembered."""
    reading.clear(monkeypatch)


class TestRead:
    def test_the_same(self):
        """What comes back from JSON is what was read, lines included, for all code of some modules of many kinds."""
        number = 0
        for one in codes(argparse, inspect, textwrap, json, subprocess, sys.modules[__name__]):
            found = scan.references(one)
            kept = json.loads(json.dumps(readings._plain(one, found)))
            assert told(readings._restored(one, kept)) == told(found)
            assert readings.digest(one) == code.digest(one)
            assert told(readings.references(one)) == told(found)
            number += 1
        assert number > 400

    def test_once(self, monkeypatch):
        """A code object is read once in a process."""
        read, one = count(monkeypatch), compiled()
        readings.digest(one)
        readings.references(one)
        assert read.count("references") == 1
        read.clear()
        readings.digest(one)
        readings.references(one)
        assert read == []

    def test_text(self):
        """A text that is made of bytes is made once for these bytes and this kind."""
        read = []

        def make(content):
            read.append(content)
            return content.decode().upper()

        assert [readings.text("kind", b"a", make) for _ in range(3)] == ["A"] * 3
        assert readings.text("other kind", b"a", make) == "A"
        assert readings.text("kind", b"b", make) == "B"
        assert read == [b"a", b"a", b"b"]

    def test_empty_text(self):
        """An empty text is one too."""
        assert readings.text("kind", b"", lambda _content: "") == ""
        assert readings.text("kind", b"", lambda _content: "another") == ""

    @pytest.mark.parametrize("bound", [{}, {"LIMIT": 1}])
    def test_bounded(self, monkeypatch, bound):
        """Beyond a bound nothing more is remembered, and all is right."""
        for name, value in bound.items():
            monkeypatch.setattr(readings, name, value)
        for one in codes(textwrap):
            assert readings.digest(one) == code.digest(one)
            assert told(readings.references(one)) == told(scan.references(one))
        assert (len(readings.now) > 20) is not bool(bound)
        assert (len(readings._places) > 10) is not bool(bound)


class TestPlace:
    def test_elsewhere(self):
        """Where code stands does not count: the file, the lines, comments."""
        moved = compiled("# a comment\n\n" + SOURCE.replace("import math", "import math  # of Python"), file="other.py")
        assert readings._place("digest", moved) == readings._place("digest", compiled())

    @pytest.mark.parametrize(
        ("text", "other"),
        [
            ("m=2", "k=2"),
            ("OFFSET", "SHIFT"),
            ("-0.0", "0.0"),
            ("1j", "2j"),
            ('b"z"', '"z"'),
            ("item +", "item -"),
            ("math.pi", "math.e"),
            ('"dumps"', '"loads"'),
            ("2.5", "2"),
            ("None", "False"),
            ("...", "True"),
            ("n, m=2", "n, /, m=2"),
            ("n, m=2", "n, *, m=2"),
            ("n, m=2", "n, *m"),
            ("def helper(a)", "async def helper(a)"),
            ("7", "True"),
            ("lambda: getattr", "lambda k: getattr"),
        ],
    )
    def test_other(self, text, other):
        """Whatever else differs is another place, in nested code too."""
        assert SOURCE.count(text) >= 1
        assert readings._place("digest", compiled(SOURCE.replace(text, other))) != readings._place("digest", compiled())

    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_attributes(self, name):
        """Each attribute of a code object that is read counts by itself."""
        one = compiled(CAUGHT)
        if not hasattr(one, name):
            pytest.skip("Python 3.10 has no table of handlers")
        changed = types.SimpleNamespace(**{each: getattr(one, each, b"") for each in ATTRIBUTES})
        setattr(changed, name, ATTRIBUTES[name](one))
        assert getattr(changed, name) != getattr(one, name)
        assert readings._content(changed) != readings._content(one)

    def test_constants(self):
        """No two constants that differ by value or type have one place, alone and nested."""
        one = compiled("def recipe(): return 1")
        for wrap in (lambda value: value, lambda value: (value,), lambda value: frozenset([value])):
            places = {readings._place("digest", one.replace(co_consts=(wrap(value),))) for value in CONSTANTS}
            assert len(places) == len(CONSTANTS)
            assert "" not in places

    @pytest.mark.parametrize(
        "constant",
        [
            object(),
            [],
            {},
            bytearray(b"x"),
            np.float64(2.0),
            np.int64(1),
            types.SimpleNamespace(),
            type("T", (str,), {})(),
        ],
    )
    def test_made_by_nobody(self, constant):
        """Code with a constant that no compiler makes is read, and not kept."""
        one = compiled("def recipe(): return other.thing").replace(co_consts=((constant,),))
        assert readings._place("digest", one) == ""
        (reference,) = readings.references(one).chains
        assert reference.dotted == "other.thing"
        assert readings.now == {}


class TestNewerPython:
    """On a Python whose bytecode kcl does not know, hits are lost and nothing else."""

    @pytest.fixture(autouse=True)
    def newer(self, monkeypatch):
        """Let this Python be newer than those that kcl knows."""
        monkeypatch.setattr(readings, "NEWEST", (3, 0))
        for memo in ("_references", "_places"):
            monkeypatch.setattr(readings, memo, {})
        monkeypatch.setattr(readings, "before", {})
        monkeypatch.setattr(readings, "now", {})

    def test_digest(self):
        """Code counts as it is: equal code is equal, other constants and names are not."""
        one, same, other = (compile(text, "f", "eval") for text in ("a + {1, 2}", "a + {1, 2}", "b + {1, 2}"))
        assert readings.digest(one) == readings.digest(same) != readings.digest(other)
        assert readings.digest(compile("1", "f", "eval")) != readings.digest(compile("1.0", "f", "eval"))

    def test_references(self):
        """What code refers to is not known, and the reason names the cure."""
        with pytest.raises(UnknownInput, match="does not know the bytecode"):
            readings.references(compile("a", "f", "eval"))

    @pytest.mark.one_platform
    def test_launch(self, queue):
        """A kcl.Source recipe runs, and hits; a pure one is bypassed, and right."""

        def recipe(factor=2):
            code = f"kernel void f(global float *x) {{ x[get_global_id(0)] *= {factor}; }}"
            return kcl.Source(
                code, entry="f", arguments=[kcl.Array("x", "float32", "(4,)", "inout")], global_size="(4,)"
            )

        seen = []
        kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))
        for made in (kcl.kernel(recipe)(), kcl.kernel(recipe)(), kcl.kernel(pure=True)(recipe)()):
            x = np.ones(4, np.float32)
            made(queue, x=x)
            assert x.tolist() == [2.0] * 4
        assert [outcome for layer, outcome in seen if layer == "generator"] == ["miss", "hit", "bypass"]
