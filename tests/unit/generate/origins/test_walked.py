"""kcl.generate.origins.walked: the key of a pure recipe comes from a walk, and the recipe runs on a miss alone."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import kcl
import kcl.loopy as lp
from kcl.generate.origins.recorded import RecordedOrigin
from kcl.generate.origins.walked import WalkedOrigin
from kcl.record import proofs
from kcl.record.declarations import NOTHING, PURE, RecipeCall

loopy = importlib.import_module("loopy")


VERSION = {"lang_version": (2018, 2)}


RAN: list[int] = []


@pytest.fixture(autouse=True)
def recorded():
    """Record as where nothing was recorded before."""
    proofs.reset()
    RAN.clear()
    yield
    proofs.reset()


def recipe(factor=2):
    """Return a unit that is recorded."""
    RAN.append(factor)
    return lp.make_kernel("{[i]: 0<=i<16}", f"out[i] = {factor}*a[i]", name="made", **VERSION)


def source(factor=2, options=()):
    """Return OpenCL C."""
    code = f"kernel void f(global int *a) {{ a[0] = {factor}; }}"
    return kcl.Source(
        code, arguments=[kcl.Array("a", np.int32, "(1,)")], global_size="(1,)", entry="f", build_options=options
    )


def nothing():
    """Return what is no kernel."""
    return 3


def origin(function, declared=NOTHING, **arguments):
    """Return the origin of a recipe with its parameters."""
    return RecordedOrigin(RecipeCall(function.__name__, function, arguments, declared))


def names(key):
    """List the names of a key's parts."""
    return [part.name for part in key.parts]


class TestWalked:
    def test_nothing_runs(self):
        """The key of a pure recipe is found without running it, and depends on its parameters."""
        found = [
            WalkedOrigin(RecipeCall("recipe", recipe, {"factor": factor}, PURE)).key().digest for factor in (2, 3, 2)
        ]
        assert found[0] == found[2] != found[1]
        assert RAN == []

    def test_it_runs_on_a_miss(self):
        """A miss runs the recipe under observation."""
        one = WalkedOrigin(RecipeCall("recipe", recipe, {"factor": 2}, PURE))
        one.key()
        assert one.outcome().result.front_end == "loopy"
        assert RAN == [2]
        assert one.generate({"a": np.dtype("f4")})[0].text.source
