"""The recorder: which records wait, and what becomes of faults."""

import importlib

import pytest
from recorded_units import make, waits

import kcl.loopy as lp
from kcl import frontends
from kcl.frontends.loopy import proofs, recorder
from kcl.generate import carrying
from kcl.generate.declarations import RecipeCall

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face


class TestWaiting:
    def test_a_proven_call_waits(self):
        assert not waits(make())
        assert waits(make())
        assert not waits(make("a[i] = i + 1"))

    def test_a_chain_of_proven_calls_waits(self):
        for _ in range(2):
            unit = lp.tag_inames(lp.split_iname(make(), "i", 4), {"i_inner": "l.0"})
        assert waits(unit)
        own = make(module=loopy)
        assert unit == loopy.tag_inames(loopy.split_iname(own, "i", 4), {"i_inner": "l.0"})

    def test_threads_have_their_own_state(self):
        """What one block lets through or leaves out, it gives back; a block inside of another one, too."""
        assert recorder.is_on()
        with carrying():
            assert not recorder.is_on()
            call = RecipeCall("make", make, {})
            with frontends.recording(call):
                assert recorder.in_recipe()
                with carrying():
                    assert not recorder.in_recipe()
            assert not recorder.is_on()
        assert recorder.is_on()
        assert not recorder.in_recipe()


class TestFaults:
    @pytest.mark.faults
    def test_proofs_that_cannot_be_read(self, monkeypatch):
        make()

        def broken(*_arguments):
            raise OSError("no proofs")

        monkeypatch.setattr(proofs, "find", broken)
        monkeypatch.setattr(proofs, "known", lambda _digest: None)
        with pytest.warns(UserWarning, match="no proofs"):
            assert not waits(make())
