"""Arguments that loopy keeps: they are seen by their references, and get the content of the call back."""

from collections import OrderedDict, defaultdict

import loopy as lp
import numpy as np
import pytest

from kcl.frontends.loopy import keeping

CHANGES = [
    (["a"], lambda one: one.append("b")),
    ({"a"}, lambda one: one.add("b")),
    ({"a": 1, "b": 2}, lambda one: one.pop("a")),
    (OrderedDict(a=1, b=2), lambda one: one.move_to_end("a")),
    (defaultdict(list, a=1), lambda one: one["b"]),
    (lp.ValueArg("n", np.int32), lambda one: setattr(one, "approximately", 8)),
    (lp.ValueArg("n", np.int32), lambda one: setattr(one, "more", 8)),
]


def shown(thing):
    """Return a text of a container; that of a set does not depend on its order."""
    if type(thing) is lp.ValueArg:
        return repr(vars(thing))
    return repr(sorted(thing) if type(thing) is set else thing)


class TestContent:
    @pytest.mark.parametrize(("thing", "change"), CHANGES, ids=lambda one: type(one).__name__)
    def test_it_is_given_back_for_a_block(self, thing, change):
        held = keeping.hold((thing,))
        called = shown(thing)
        assert not any(one.is_changed() for one in held)
        change(thing)
        changed = shown(thing)
        assert any(one.is_changed(in_place=True) for one in held)
        with keeping.as_of_call(held):
            assert shown(thing) == called
        assert shown(thing) == changed

    def test_numbers_count_at_the_look_up(self):
        array = np.zeros(3)
        held = keeping.hold((array,))
        array[:] = 1
        (one,) = held
        assert not one.is_changed(in_place=True)
        assert one.is_changed(in_place=False)
        with keeping.as_of_call(held):
            assert array.sum() == 3


class TestReferences:
    def test_what_is_kept(self):
        """An object grows in references if something keeps it, its iterator, or a view of it."""
        whole, kept = np.zeros((2, 3)), []
        things = [["a"], [["b"]], {"c": 1}, whole[1], ["d"]]
        with (references := keeping.ReferenceCount(tuple(things))):
            kept += [things[0], things[1][0], iter(things[2].items()), things[3][:], [*things[4]]]
        assert references.grown == {*map(id, (things[0], things[1][0], things[2], whole))}
