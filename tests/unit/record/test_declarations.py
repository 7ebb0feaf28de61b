"""kcl.record.declarations: what a user declares of a recipe, and what counts."""

from __future__ import annotations

import functools
import os
import random
import sys
import warnings

import numpy as np
import pytest

import kcl
from kcl.cache import layers
from kcl.cache.layer import CacheWarning
from kcl.record import declarations

EXTRA = 0
STREAM = open(os.devnull)  # noqa: SIM115


def source(amount):
    """x += amount."""
    return kcl.Source(
        f"kernel void f(global int *x) {{ x[get_global_id(0)] += {amount}; }}",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(4,)", "inout")],
        global_size="(4,)",
    )


def table():
    """A function that recipes depend on."""
    return 1


def constant():
    """Depend on nothing that is seen."""
    return source(1)


def drawn(amount=1):
    """Draw a number that decides nothing."""
    random.random()
    return source(amount + EXTRA)


def with_stream(stream):
    """Take a parameter that cannot be known."""
    return source(1 if stream else 2)


def logged():
    """Use a global that cannot be known."""
    return source(2 if STREAM.closed else 1)


def computed(queue, recipe, *arguments):
    """Launch a new Kernel on zeros; return its number and the look-up in the generator layer as of a new process."""
    layers.reset()
    seen = []
    remove = kcl.add_hook(lambda event: event.layer == "generator" and seen.append(event))
    _event, (x,) = recipe(*arguments)(queue, x=np.zeros(4, np.int32))
    remove()
    (event,) = seen
    return int(x[0]), event.outcome, event.reason


class TestVersion:
    def test_version(self, queue):
        """The version decides, whatever else the recipe does; another version is another key."""
        first, second = (kcl.kernel(pure=True, version=text)(drawn) for text in ("1", "2"))
        assert [computed(queue, recipe)[1] for recipe in (first, first, second, second)] == ["miss", "hit"] * 2

    def test_parameters_and_code_count(self, queue, monkeypatch):
        """Parameters, helpers and values that are seen count beside the version."""
        recipe = kcl.kernel(pure=True, version="1")(drawn)
        assert computed(queue, recipe, 1)[:2] == (1, "miss")
        assert computed(queue, recipe, 2)[:2] == (2, "miss")
        monkeypatch.setattr(sys.modules[__name__], "EXTRA", 5)
        assert computed(queue, recipe, 1)[:2] == (6, "miss")

    def test_unknowable_parameter(self, queue):
        """A parameter whose content cannot be known is no parameter of a key: the recipe runs each time."""
        with open(os.devnull) as stream:
            recipe = kcl.kernel(pure=True, version="1")(with_stream)
            _number, outcome, reason = computed(queue, recipe, stream)
        assert (outcome, "TextIOWrapper" in reason) == ("bypass", True)

    def test_unknowable_global(self, queue):
        """A global whose content cannot be known counts by its class."""
        recipe = kcl.kernel(pure=True, version="1")(logged)
        assert [computed(queue, recipe)[1] for _ in range(2)] == ["miss", "hit"]


class TestDepends:
    def test_values(self, queue):
        """Values and functions count as parameters do, by what they are now."""
        values = [1]
        recipe = kcl.kernel(pure=True, version="1", depends=[values, table])(constant)
        key = recipe().key(queue)["generator"]
        assert [part.name for part in key.parts if part.name.startswith("depends")] == ["depends 0", "depends 1"]
        assert any(part.name == "code table" for part in key.parts)
        values[0] = 2
        assert [d.name for d in key.diff(recipe().key(queue)["generator"])] == ["depends 0"]

    def test_unknowable_value(self, queue):
        """An object whose content cannot be known is refused as a parameter is."""
        with open(os.devnull) as stream:
            assert computed(queue, kcl.kernel(pure=True, version="1", depends=[stream])(constant))[1] == "bypass"


class TestDeclare:
    @pytest.mark.parametrize(
        ("declared", "match"),
        [
            ({"depends": 3}, r"depends=.*takes a list"),
            ({"version": 3}, r"version=.*takes a text"),
            ({"version": None}, r'write @kcl.kernel\(pure=True, version="1"\)'),
            ({"pure": 1}, r"pure=.*takes True or False"),
            ({"reads": ["data.txt"]}, "reads"),
        ],
    )
    def test_mistakes(self, declared, match):
        """What cannot be meant is a TypeError when the recipe is decorated; a pure recipe has a version."""
        with pytest.raises(TypeError, match=match):
            kcl.kernel(**{"pure": True, "version": "1", **declared})

    def test_below(self):
        """The function that the user wrote is found below decorators; a class that was wrapped is none."""
        inner = functools.wraps(constant)(lambda: None)
        assert declarations.below(functools.wraps(inner)(lambda: None)) is constant
        assert declarations.below(constant) is constant
        odd = functools.wraps(constant)(lambda: None)
        odd.__wrapped__ = int
        assert declarations.below(odd) is odd

    def test_nothing_declared(self):
        """Without arguments the decorator is as the bare one."""
        assert kcl.kernel()(constant).declared == kcl.kernel(constant).declared == declarations.NOTHING


class TestWithoutPure:
    @pytest.fixture
    def warned(self, recwarn):
        """Return the warnings of kcl: (text, file, line)."""
        kind = CacheWarning
        return lambda: [(str(one.message), one.filename, one.lineno) for one in recwarn if one.category is kind]

    def test_ignored(self, warned):
        """What a recipe that is not pure depends on is ignored; one warning names the line and the cure."""
        recipe, line = kcl.kernel(depends=[1])(constant), here()
        kcl.kernel(depends=[2])(constant)
        assert recipe.declared == declarations.NOTHING
        ((text, file, number),) = warned()
        assert text.startswith("kcl ignores depends of a recipe that is not declared pure")
        assert "write @kcl.kernel(pure=True, version=...)" in text
        assert (file, number) == (__file__, line)

    def test_version(self, queue, warned):
        """A version counts, declared pure or not, without a warning."""
        keys = [kcl.kernel(version=text)(constant)().key(queue)["generator"] for text in ("1", "2")]
        assert [difference.name for difference in keys[0].diff(keys[1])] == ["declared version"]
        assert not warned()

    def test_warnings_that_are_errors(self):
        """The decorator decorates where warnings are errors."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert isinstance(kcl.kernel(depends=[1])(constant), kcl.Recipe)


def here():
    """Return the line of the caller."""
    return sys._getframe(1).f_lineno
