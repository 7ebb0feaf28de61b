"""What a recorded call gives: it becomes loopy's own at the first question, and does without until then."""

import copy
import dataclasses
import functools
import gc
import importlib
import pickle
import sys
import weakref

import numpy as np
import pytest
import recorded_units
from at_once import at_once
from recorded_units import thing, waits

import kcl.loopy as lp
from kcl.base import events
from kcl.frontends.loopy import recorder, unmade

loopy = importlib.import_module("loopy")
make = functools.partial(recorded_units.make, name="made")


def waiting(text="a[i] = i"):
    make(text)
    unit = make(text)
    assert waits(unit)
    return unit


def test_cell_of_a_notebook():
    """A cell that ends in a unit asks it nothing, and shows a line with its name and its digest."""
    unit = waiting()
    for name in ("_ipython_display_", "_ipython_canary_", "_repr_html_", "_repr_pretty_"):
        assert not hasattr(unit, name)
    line = f"<TranslationUnit made {unmade.record_of(unit).digest[:12]}>"
    assert unit._repr_mimebundle_(include=None, exclude=None) == {"text/plain": line}
    assert waits(unit)


class TestWithoutAnAnswer:
    def test_what_a_unit_does_before_it_is_made(self):
        """A unit that waits is named, kept, copied, told apart and handed on."""
        unit, other = waiting(), waiting("a[i] = 2*i")
        assert isinstance(unit, loopy.TranslationUnit)
        assert unit.__class__ is loopy.TranslationUnit
        assert unit is not None
        assert unit
        assert dataclasses.is_dataclass(unit)
        assert weakref.ref(unit)() is unit
        assert copy.copy(unit) == unit == copy.deepcopy([unit])[0]
        assert copy.copy(unit) is not unit
        assert [id(one) for one in (unit, other)]
        assert unit == make()
        assert not unit != make()  # noqa: SIM202
        assert waits(unit)
        assert unit != other
        asked = waiting()
        record = unmade.record_of(asked)
        _ = asked.entrypoints  # as another thread may, after a copy of it has begun
        assert unmade.RecordedResult.__deepcopy__(asked, {}) == asked
        assert copy.deepcopy(record) is record
        for name in ("__array__", "__array_interface__", "__len__", "dtype", "__kcl_key__"):
            assert not hasattr(waiting(), name)
        for operation in (len, float):
            with pytest.raises(TypeError):
                operation(unit)


QUESTIONS = {
    "attribute": lambda unit: unit.entrypoints,
    "item": lambda unit: unit["made"],
    "hash": hash,
    "repr": repr,
    "str": str,
    "dir": dir,
    "vars": vars,
    "pickle": pickle.dumps,
    "fields": lambda unit: [getattr(unit, field.name) for field in dataclasses.fields(unit)],
    "replace": lambda unit: dataclasses.replace(unit, entrypoints=frozenset()),
    "copy": lambda unit: unit.copy(entrypoints=frozenset({"made"})),
    "equal to loopy's": lambda unit: unit == make(module=loopy),
    "unequal to a number": lambda unit: unit != 3,
    "equal from the other side": lambda unit: make(module=loopy) == unit,
}


class TestQuestions:
    @pytest.mark.parametrize("question", QUESTIONS)
    def test_a_unit_becomes_loopys(self, question):
        """Each question is answered as by loopy's unit, and the object is that from then on."""
        unit, own = waiting(), make(module=loopy)
        ask = QUESTIONS[question]
        found, expected = ask(unit), ask(own)
        assert type(unit) is loopy.TranslationUnit
        if question not in ("hash", "pickle", "repr", "str", "vars", "item", "fields"):
            assert found == expected
        assert unit == own
        assert hash(unit) == hash(own)
        assert vars(unit).keys() == vars(own).keys() | ({"_hash"} & vars(unit).keys())
        assert pickle.loads(pickle.dumps(unit)) == own

    def test_attributes_that_loopy_does_not_have(self):
        unit = waiting()
        with pytest.raises(AttributeError, match="nonexistent"):
            _ = unit.nonexistent
        with pytest.raises(dataclasses.FrozenInstanceError):
            unit.target = None

    def test_the_question_is_counted_at_its_line(self):
        unit = waiting()
        events.stats(reset=True)
        _ = unit.entrypoints
        _ = unit.target
        (made,) = events.stats()["made"]
        assert made.startswith("entrypoints of make_kernel (test_unmade.py:")

    def test_each_record_is_carried_out_once(self):
        unit = lp.split_iname(waiting(), "i", 4)
        unit = lp.split_iname(waiting(), "i", 4)
        before, found = recorder.thread.carried, []
        at_once(lambda _number: found.append((unit.entrypoints, recorder.thread.carried)))
        assert [names for names, _count in found] == [frozenset({"made"})] * 8
        assert sum(count for _names, count in found) == 2
        assert recorder.thread.carried == before
        assert type(unit) is loopy.TranslationUnit


class TestArguments:
    def test_constructors_pass_on(self):
        """An argument that was asked stays an object of its own, and passes everything on to loopy's."""
        for _ in range(2):
            argument = lp.GlobalArg("a", np.float32, shape=(16,))
        assert waits(argument)
        own = loopy.GlobalArg("a", np.float32, shape=(16,))
        assert isinstance(argument, loopy.ArrayArg)
        assert (argument.name, argument.shape) == ("a", (16,))
        assert unmade.record_of(argument) is None
        assert argument == own
        assert not argument != own  # noqa: SIM202
        for ask in (hash, repr, str):
            assert ask(argument) == ask(own)
        assert pickle.loads(pickle.dumps(argument)) == own
        assert copy.copy(argument) == copy.deepcopy(argument) == own
        assert argument.copy(shape=(8,)).shape == (8,)
        assert argument.__class__ is loopy.ArrayArg
        unit = make("a[i] = 1", kernel_data=[argument])
        assert type(unit["made"].args[0]) is loopy.ArrayArg

    def test_targets_and_instructions(self):
        for _ in range(2):
            insn = lp.Assignment("a[i]", "2*i", id="first", within_inames=frozenset({"i"}))
            unit = make([insn], target=lp.PyOpenCLTarget())
        assert waits(unit)
        assert unit["made"].id_to_insn["first"].expression == insn.expression


class TestMemory:
    def test_a_unit_is_let_go_of(self):
        unit = waiting()
        record = weakref.ref(unmade.record_of(unit))
        held = weakref.ref(unit)
        del unit
        gc.collect()
        assert held() is None
        assert record() is None

    def test_a_long_chain_is_let_go_of(self):
        unit = waiting()
        for number in range(3 * sys.getrecursionlimit()):
            before = unmade.record_of(unit)
            arguments = unit, f"n >= {number}"
            record = recorder.Record("assume", arguments, {}, before.moment, before.place)
            unit = unmade.new(record)
        last = weakref.ref(record)
        del unit, record, before, arguments
        gc.collect()
        assert last() is None


class TestMembers:
    ASKED = (hash, str, repr, int, bool, "{:03d}".format, list(range(8)).__getitem__)

    @pytest.mark.parametrize("name", ["PRIVATE", "LOCAL", "GLOBAL"])
    def test_members_compare_as_loopys(self, name):
        one, own = thing(f"AddressSpace.{name}"), loopy.AddressSpace[name]
        assert one == own
        assert own == one
        assert not one != own  # noqa: SIM202
        assert {own: 1}[one] == {one: 1}[own] == 1
        for ask in self.ASKED:
            assert ask(one) == ask(own)
        assert (f"{one}", one.name, one.value) == (f"{own}", name, own.value)
        for kind, is_one in (("AddressSpace", True), ("KernelState", False)):
            assert isinstance(one, thing(kind)) is isinstance(one, getattr(loopy, kind)) is is_one

    def test_members_are_in_order(self):
        private, local, everywhere = (
            thing(f"AddressSpace.{name}") for name in ("PRIVATE", "LOCAL", "GLOBAL")
        )
        assert [*sorted([everywhere, private, local])] == [private, local, everywhere]
        assert private < loopy.AddressSpace.LOCAL <= local < 2 <= everywhere
        assert everywhere > loopy.AddressSpace.LOCAL >= local
        assert everywhere not in (private, "GLOBAL")

    @pytest.mark.parametrize(
        "name", ["MemoryOrdering.SEQ_CST", "MemoryScope.WORK_GROUP", "CountGranularity.WORKITEM"]
    )
    def test_members_that_are_values(self, name):
        kind, _, member = name.partition(".")
        own = getattr(getattr(loopy, kind), member)
        assert thing(name) == own
        assert hash(thing(name)) == hash(own)
        assert str(thing(name)) == str(own)
        assert thing("CountGranularity").ALL[0] == "workitem"
