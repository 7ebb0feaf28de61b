"""kcl.generate.declarations: what a user declares of a recipe, and what counts."""

import functools

import numpy as np
import pytest

import kcl
from kcl.generate import declarations


def constant():
    return kcl.Source(
        "kernel void f(global int *x) { x[get_global_id(0)] += 1; }",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(4,)", "inout")],
        global_size="(4,)",
    )


class TestDeclare:
    @pytest.mark.parametrize(
        ("declared", "match"),
        [
            ({"depends": 3}, r"depends=.*takes a list"),
            ({"version": 3}, r"version=.*takes a text"),
            ({"version": None}, r'write @kcl.kernel\(pure=True, version="1"\)'),
            ({"pure": 1}, r"pure=.*takes True or False"),
            ({"reads": ["data.txt"]}, "reads"),
            ({"pure": False, "depends": [1]}, r"write @kcl.kernel\(pure=True, version=...\)"),
        ],
    )
    def test_mistakes(self, declared, match):
        """What cannot be meant is a TypeError when the recipe is decorated; a pure recipe has a version."""
        with pytest.raises(TypeError, match=match):
            kcl.kernel(**{"pure": True, "version": "1", **declared})

    @pytest.mark.parametrize(
        ("depends", "kept"), [(np.array([1, 2]), (1, 2)), ((one for one in ()), ())]
    )
    def test_depends(self, depends, kept):
        """Whatever is iterable is taken; what is empty counts as nothing declared."""
        declared = {"version": "1", "pure": bool(kept)}
        assert kcl.kernel(depends=depends, **declared)(constant).declared["depends"] == kept

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
        nothing = {"depends": (), "version": None, "pure": False}
        assert kcl.kernel()(constant).declared == kcl.kernel(constant).declared == nothing


def test_version(queue):
    """A version counts, declared pure or not."""
    keys = [kcl.kernel(version=text)(constant)().key(queue)["generator"] for text in ("1", "2")]
    assert [difference.name for difference in keys[0].diff(keys[1])] == ["declared version"]
