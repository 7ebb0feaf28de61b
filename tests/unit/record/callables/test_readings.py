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

import kcl
from kcl.errors import UnknownInput
from kcl.record.callables import code, readings, scan

SOURCE = """
def recipe(n, m=2):
    import math
    def inner(x=math.pi):
        return lambda: getattr(json, "dumps")(x, n)
    def helper(a):
        return [item + OFFSET for item in a if item in {1, 2.5, "x"}]
    return helper([n * m, -0.0, 1j, b"z", None, ..., ("a", 7)]), inner
"""


def compiled(source: str = SOURCE, name: str = "recipe", file: str = "recipe.py") -> types.CodeType:
    """Return the code of a function in a text."""
    module = compile(source, file, "exec", dont_inherit=True)
    return next(item for item in module.co_consts if isinstance(item, types.CodeType) and item.co_name == name)


def told(found):
    """Return all that references say, so that two can be compared."""
    chains = [
        (one.root, one.name, one.level, one.attributes, id(one.code), one.unit, one.line, one.dotted)
        for one in found.chains
    ]
    return chains, found.mentions, found.stored


def count(monkeypatch):
    """Return the list that grows by a name whenever a code object is read."""
    read = []
    for module, name in ((code, "digest"), (scan, "references")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda one, name=name, original=original: read.append(name) or original(one))
    return read


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
    for name in ("_digests", "_references"):
        monkeypatch.setattr(readings, name, {})


class TestRead:
    def test_the_same(self):
        """What is remembered is what was read, lines included, for all code of some modules of many kinds."""
        number = 0
        for one in codes(argparse, inspect, textwrap, json, subprocess, sys.modules[__name__]):
            for _time in range(2):
                assert readings.digest(one) == code.digest(one)
                assert told(readings.references(one)) == told(scan.references(one))
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

    @pytest.mark.parametrize("bound", [{}, {"LIMIT": 1}])
    def test_bounded(self, monkeypatch, bound):
        """Beyond a bound nothing more is remembered, and all is right."""
        for name, value in bound.items():
            monkeypatch.setattr(readings, name, value)
        for one in codes(textwrap):
            assert readings.digest(one) == code.digest(one)
            assert told(readings.references(one)) == told(scan.references(one))
        for memo in (readings._digests, readings._references):
            assert (len(memo) > 10) is not bool(bound)


class TestNewerPython:
    """On a Python whose bytecode kcl does not know, hits are lost and nothing else."""

    @pytest.fixture(autouse=True)
    def newer(self, monkeypatch):
        """Let this Python be newer than those that kcl knows."""
        monkeypatch.setattr(readings, "NEWEST", (3, 0))

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
