"""Calls: which are recorded, which are carried out at once, and what becomes of errors and faults."""

from __future__ import annotations

import importlib
import warnings
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest
from recorded_units import VERSION, make, waits

import kcl.loopy as lp
from kcl.base import events
from kcl.cache import layers
from kcl.errors import CacheFault
from kcl.record import calls, recorder, unmade

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face


@pytest.fixture(autouse=True)
def recorded():
    """Record as where nothing was recorded before."""
    from kcl.record import proofs

    proofs.reset()
    recorder._waiting().records.clear()
    yield
    proofs.reset()


def questions():
    """List the questions that made units, or that could not be recorded."""
    return [*events.stats()["made"]]


def preambles(info):  # noqa: ARG001
    """Give loopy a preamble."""
    yield "10_mine", "#define MINE 1"


class Calling:
    def __call__(self, instruction):
        """Change nothing."""
        return instruction


class TestRecorded:
    def test_errors_are_raised_at_their_call(self):
        """A call that loopy refuses raises each time; nothing proves it."""
        for _ in range(3):
            with pytest.raises(KeyError, match="nowhere"):
                lp.split_iname(make(), "nowhere", 4)

    def test_units_of_loopys_own(self):
        """A transformation of a unit that loopy made, and that the program may change, is carried out at once."""
        for _ in range(2):
            own = loopy.make_kernel("{[i]: 0<=i<16}", "a[i] = 7*i", **VERSION)
            assert type(lp.split_iname(own, "i", 2)) is loopy.TranslationUnit

    def test_the_version_of_the_language_of_the_callers_globals(self):
        """A global of the caller decides, as for loopy itself, and counts."""
        found = []
        for names in ({}, {"LOOPY_USE_LANGUAGE_VERSION_2018_2": (2018, 2)}):
            names["lp"] = lp
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                exec("unit = lp.make_kernel('{[i]: 0<=i<16}', 'a[i] = 2*i')", names)
            found.append(
                (unmade.record_of(names["unit"]).digest, any("lang_version" in str(one.message) for one in heard))
            )
        assert found[0][0] != found[1][0]
        assert [warned for _digest, warned in found] == [True, False]


class TestAtOnce:
    def test_questions_are_loopys(self):
        """What answers a question gets loopy's own units."""
        assert lp.get_op_map(make(), subgroup_size=1) is not None
        assert isinstance(lp.generate_code_v2(lp.set_options(make(), no_numpy=True)).device_code(), str)

    def test_callables_that_run_during_the_call(self):
        """A call with a callable of the user is carried out each time, wherever the callable stands."""
        seen = []

        def change(instruction, more):
            seen.append(more)
            return instruction

        for count in (1, 2):
            kernel = lp.map_instructions(make().default_entrypoint, None, partial(change, more=count))
            assert isinstance(kernel, loopy.LoopKernel)
            assert len(seen) == count
        for given in (change, partial(change, more=1), [change], {"x": (change,)}, Calling(), Calling):
            assert calls._calls_user("tag_inames", (make(), given), {})
        for given in (np.float32, lp.CTarget, loopy.CTarget, "change", [1], int, lp.auto):
            assert not calls._calls_user("tag_inames", (make(), given), {})

    def test_generators_of_preambles_wait(self):
        """A callable for code generation is not called during the call: the call waits."""

        for expected in (False, True):
            assert waits(lp.register_preamble_generators(make(), [preambles])) is expected

    def test_off(self, monkeypatch):
        """With the generator layer off a program gets loopy's own objects."""
        monkeypatch.setenv("KCL_NO_CACHE", "generator")
        layers.reset()
        assert type(make()) is loopy.TranslationUnit
        assert type(lp.GlobalArg("a", np.float32, shape=(16,))) is loopy.ArrayArg

    def test_what_waits_meets_what_it_would_have_met(self):
        """A record that waited is carried out with the default target of its call, also after that changed."""
        make("a[i] = 3*i")
        unit = make("a[i] = 3*i")
        before = loopy._DEFAULT_TARGET
        assert waits(unit)
        try:
            lp.set_default_target(loopy.CTarget)
            assert waits(unit)
            assert type(unit.target) is loopy.PyOpenCLTarget
            assert type(make("a[i] = 3*i").target) is loopy.CTarget
        finally:
            loopy.set_default_target(before)


class TestIterators:
    def test_arguments(self):
        """An iterator is read once, by loopy: the call is carried out each time, and stand-ins are exchanged."""
        for _ in range(2):
            arguments = (one for one in [lp.GlobalArg("a", np.int32, shape=lp.auto), ...])
            texts = (text for text in ["a[i] = i", "b[i] = i"])
            unit = lp.make_kernel("{[i]: 0<=i<16}", texts, arguments, name="made", **VERSION)
            assert type(unit) is loopy.TranslationUnit
            assert len(unit["made"].instructions) == 2
            assert type(unit["made"].arg_dict["a"]) is loopy.ArrayArg
        assert any("make_kernel: what an iterator gives" in question for question in questions())

    def test_errors_of_a_generator_are_the_users(self):
        """What a generator of the user raises reaches the user, and is no fault of kcl."""

        def texts():
            yield "a[i] = i"
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            lp.make_kernel("{[i]: 0<=i<16}", texts(), **VERSION)


class TestContainers:
    def test_that_hold_themselves(self):
        """A list that holds itself reaches loopy, which says what is wrong with it."""
        held = ["a[i] = i"]
        held.append(held)
        with pytest.raises(Exception) as caught:
            lp.make_kernel("{[i]: 0<=i<16}", held, **VERSION)
        assert not isinstance(caught.value, CacheFault)
        assert any("make_kernel: " in question for question in questions())

    def test_of_other_classes(self):
        """Mappings and lists of other classes reach loopy with loopy's own things in them, and are recorded exactly."""

        class Listed(list):
            pass

        digests = set()
        for dtype in (np.float32, np.float64, np.float32):
            unit = make("a[i] = 9*i", kernel_data=Listed([lp.GlobalArg("a", dtype, shape=(16,))]), name="made")
            assert unit["made"].arg_dict["a"].dtype.numpy_dtype == dtype
            digests.add(unit["made"].arg_dict["a"].dtype.numpy_dtype)
            tagged = lp.tag_inames(make(), OrderedDict(i="unr"))
            assert isinstance(tagged, loopy.TranslationUnit)
            assert "UnrollTag" in repr(tagged.default_entrypoint.inames["i"].tags)

    def test_what_stands_for_loopys_things(self):
        """Members, classes and constructors in containers are exchanged for loopy's own."""
        unit = make(
            "t = i\na[i] = t",
            kernel_data=[
                lp.TemporaryVariable("t", np.int32, address_space=lp.AddressSpace.PRIVATE),
                lp.GlobalArg("a", np.int32, shape=lp.auto),
                ...,
            ],
            name="made",
        )
        kernel = unit["made"]
        assert kernel.temporary_variables["t"].address_space is loopy.AddressSpace.PRIVATE
        assert type(kernel.arg_dict["a"]) is loopy.ArrayArg


class TestFaults:
    @pytest.fixture
    def _broken(self, monkeypatch):
        """Let each record raise."""

        def broken(*_arguments):
            raise RuntimeError("broken")

        monkeypatch.setattr(calls, "Record", broken)

    @pytest.mark.faults
    @pytest.mark.usefixtures("_broken")
    def test_the_run_goes_on(self):
        """An exception in the recorder is one event and one warning; the call is carried out."""
        with pytest.warns(UserWarning, match="broken"):
            unit = make()
        assert type(unit) is loopy.TranslationUnit
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            assert type(make()) is loopy.TranslationUnit

    @pytest.mark.usefixtures("_broken")
    def test_strict(self, monkeypatch):
        """`KCL_STRICT=fault` raises it."""
        monkeypatch.setenv("KCL_STRICT", "fault")
        layers.reset()
        with pytest.raises(CacheFault):
            make()
