"""Origins: what knows the key and the code of a kernel, where its recipe runs and where it is walked."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import kcl
import kcl.loopy as lp
from kcl.cache import layers
from kcl.generate.recorded import RecordedOrigin
from kcl.record import recorder, unmade
from kcl.record.declarations import Declarations, RecipeCall

loopy = importlib.import_module("loopy")
VERSION = {"lang_version": (2018, 2)}
RAN: list[int] = []
MADE = loopy.make_kernel("{[i]: 0<=i<16}", "out[i] = a[i]", name="made", lang_version=(2018, 2))


@pytest.fixture(autouse=True)
def recorded():
    """Record as where nothing was recorded before."""
    layers.reset()
    RAN.clear()
    yield
    layers.reset()


def recipe(factor=2):
    """Return a unit that is recorded."""
    RAN.append(factor)
    return lp.make_kernel("{[i]: 0<=i<16}", f"out[i] = {factor}*a[i]", name="made", **VERSION)


def of_loopy(factor=2):
    """Return a unit that loopy made."""
    return loopy.make_kernel("{[i]: 0<=i<16}", f"out[i] = {factor}*a[i]", name="made", **VERSION)


def source(factor=2, options=()):
    """Return OpenCL C."""
    code = f"kernel void f(global int *a) {{ a[0] = {factor}; }}"
    return kcl.Source(
        code,
        arguments=[kcl.Array("a", np.int32, "(1,)")],
        global_size="(1,)",
        entry="f",
        build_options=options,
    )


def nothing():
    """Return what is no kernel."""
    return 3


def failing():
    """Raise an error of the user's."""
    raise LookupError("mine")


DECLARED = Declarations()


def origin(function, declared=DECLARED, **arguments):
    """Return the origin of a recipe with its parameters."""
    return RecordedOrigin(RecipeCall(function.__name__, function, arguments, declared))


def names(key):
    """List the names of a key's parts."""
    return [part.name for part in key.parts]


class TestRecorded:
    def test_the_recipe_runs_once(self):
        """The recipe runs at the first look-up, and no more."""
        one = origin(recipe)
        assert (RAN, one.front_ends) == ([], frozenset())
        key = one.key()
        assert one.key() is key
        assert one.outcome() is one.outcome()
        assert RAN == [2]
        assert one.front_ends == {"loopy"}

    def test_keys(self):
        """The key is of what came back: a record, a unit's content, or a text."""
        assert names(origin(recipe).key())[-1] == "record"
        assert names(origin(lambda: MADE).key())[-1] == "unit"
        assert names(origin(of_loopy).key())[-1] == "record"
        assert names(origin(source).key())[-1] == "source"
        assert origin(recipe).key().digest == origin(recipe).key().digest
        assert origin(of_loopy).key().digest == origin(of_loopy).key().digest
        keys = [
            origin(function, factor=factor).key()
            for function in (recipe, of_loopy, source)
            for factor in (2, 3)
        ]
        assert (
            len({key.digest for key in keys}) == 4
        )  # the same calls, by the face and by loopy itself, are one record

    def test_neither_the_recipe_nor_its_parameters_count(self):
        """Another recipe with other parameters that asks for the same has the same key."""

        def other(twice):
            return recipe(2 * twice)

        assert origin(other, twice=1).key().digest == origin(recipe, factor=2).key().digest

    def test_a_declared_version_counts(self):
        """`version` is a part of the key."""
        found = [
            origin(recipe, Declarations(version=version)).key() for version in (None, "1", "2")
        ]
        assert len({key.digest for key in found}) == 3
        assert "declared version" in names(found[1])

    def test_what_is_no_kernel(self):
        """Anything else that comes back is refused by the recipe's name; the recipe's own errors are the user's."""
        with pytest.raises(kcl.RecipeError, match="nothing"):
            origin(nothing).key()
        with pytest.raises(LookupError, match="mine"):
            origin(failing).key()

    def test_what_was_carried_out_is_said(self):
        """The event says how many calls no earlier run had proven."""
        cold, warm = origin(recipe), origin(recipe)
        cold.key()
        assert cold.remark == "1 call(s) of loopy carried out: no earlier run proved them"
        warm.key()
        assert warm.remark == ""

    def test_what_ran_without_the_layer(self):
        """A unit that was made while the layer was off is made again: loopy's own caches may have given it."""
        one = origin(recipe)
        plain = one.outcome()
        assert one.key() == origin(recipe).key()
        assert one.outcome() is not plain
        assert RAN == [2, 2, 2]

    def test_things_that_changed_after_the_call(self):
        """A record whose array changed is carried out with the array itself, and keyed by content."""
        array = np.arange(4, dtype=np.float32)

        def changing(late):
            table = lp.TemporaryVariable(
                "table",
                np.float32,
                shape=(4,),
                initializer=array,
                read_only=True,
                address_space=lp.AddressSpace.GLOBAL,
            )
            unit = lp.make_kernel(
                "{[i]: 0<=i<4}", "out[i] = table[i]", [table, ...], name="made", **VERSION
            )
            array[0] = late
            return unit

        digests = []
        for late in (0, 5, 0, 5):
            array[0] = 0
            one = origin(changing, late=late)
            digests.append((names(one.key())[-1], one.key().digest))
            assert repr(float(late)) in one.generate({})[0].text.source
        assert digests[0] == digests[2]
        assert digests[1] == digests[3]
        assert [name for name, _digest in digests[:2]] == ["record", "unit"]

    def test_an_unrecorded_unit(self):
        """A unit outside of recipes is an origin of its own, named as loopy names it."""
        unit = recipe()
        one = RecordedOrigin.of_record(unmade.record_of(unit), None)
        assert one.name == "made"
        assert one.key().digest == origin(recipe).key().digest
        other = RecordedOrigin.of_record(unmade.record_of(lp.split_iname(unit, "i", 4)), "made")
        assert "entry point" in names(other.key())
        nameless = lp.make_kernel("{[i]: 0<=i<16}", "a[i] = 1", **VERSION)
        assert RecordedOrigin.of_record(unmade.record_of(nameless), None).name == "loopy_kernel"

    def test_build_options_of_this_run(self):
        """Stored code of a kcl.Source is built with the options that the recipe gave now; loopy's are in the code."""
        for given in (("-DX=1",), ("-DX=2",)):
            one = origin(source, options=given)
            one.key()
            assert one.options() == given
        one = origin(recipe)
        one.key()
        assert one.options() is None

    def test_without_a_key(self):
        """Where the layer is off the recipe runs unrecorded."""
        one = origin(recipe)
        before = recorder.thread.carried
        result = one.outcome()
        assert result.front_end == "loopy"
        assert recorder.thread.carried == before
