"""kcl.frontends.loopy.units: units of loopy's own are launched by kcl while the integrations are installed."""

import copy
import pickle
import warnings

import loopy as lp
import numpy as np
import pytest

import kcl
import kcl.loopy as face
from kcl.cache import layers
from kcl.frontends.loopy import imports, units
from kcl.generate import carrying

pytestmark = [pytest.mark.one_platform, pytest.mark.usefixtures("installed")]


@pytest.fixture
def unit():
    return made()


def made(factor=3, name="scaled"):
    """Make a unit as a library does: what this module would get from the face is passed by."""
    with carrying():
        return lp.make_kernel(
            "{[i]: 0<=i<4}", f"out[i] = {factor}*a[i]", name=name, lang_version=(2018, 2)
        )


def generator(looks):
    return [look.outcome for look in looks if look.layer == "generator"]


X = np.arange(4, dtype=np.float32)


def numbers(result):
    """Return the numbers of the only output of a launch."""
    return result[1][0].tolist()


def by(factor):
    """Return what the unit of a factor computes."""
    return (factor * X).tolist()


class TestExecutor:
    def test_is_loopys(self, queue, unit, looks):
        """The executor is loopy's own, and its launch goes through the layers."""
        from loopy.target.pyopencl_execution import PyOpenCLExecutor

        executor = unit.executor(queue.context)
        assert type(executor) is PyOpenCLExecutor
        assert numbers(executor(queue, a=X)) == by(3)
        assert generator(looks) == ["miss"]
        assert executor.t_unit is unit
        assert executor.context == queue.context
        assert "3.0f" in executor.get_code("scaled", executor.arg_to_dtype({"a": X}))

    def test_shared(self, queue, unit, looks):
        """Executors of a unit share what was found; a unit of the same content finds it in the store."""
        for _ in range(2):
            unit.executor(queue.context)(queue, a=X)
        assert generator(looks) == ["miss"]
        made().executor(queue.context)(queue, a=X)
        assert generator(looks) == ["miss", "hit"]

    def test_entry_points(self, queue, looks):
        """An executor launches the entry point that it was made for."""
        both = lp.merge([made(3, "thrice"), made(5, "five_times")])
        for name, factor in (("thrice", 3), ("five_times", 5)):
            assert numbers(both.executor(queue.context, entrypoint=name)(queue, a=X)) == by(factor)
        assert generator(looks) == ["miss", "miss"]

    def test_subclass(self, queue, unit, looks):
        """An executor of another class is its owner's."""
        from loopy.target.pyopencl_execution import PyOpenCLExecutor

        class Own(PyOpenCLExecutor):
            pass

        assert numbers(Own(queue.context, unit, "scaled")(queue, a=X)) == by(3)
        assert generator(looks) == []


class TestDirectCall:
    def test_kept(self, queue, unit, looks):
        """Direct calls warn as loopy does, naming this line, and look up once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                assert numbers(unit(queue, a=X)) == by(3)
        direct = [one for one in caught if one.category is lp.diagnostic.DirectCallUncachedWarning]
        assert [one.filename for one in direct] == [__file__] * 3
        assert generator(looks) == ["miss"]

    def test_others(self, queue):
        """No entry point, an unknown one, and another target are loopy's to judge; its warning names this line."""
        both = lp.merge([made(3, "thrice"), made(5, "five_times")])
        with (
            pytest.warns(lp.diagnostic.DirectCallUncachedWarning) as caught,
            pytest.raises(ValueError, match="multiple"),
        ):
            both(queue, a=X)
        assert caught[0].filename == __file__
        with (
            pytest.warns(lp.diagnostic.DirectCallUncachedWarning),
            pytest.raises(lp.LoopyError, match="not in list"),
        ):
            both(queue, a=X, entrypoint="nobody")


class TestUnit:
    def test_as_before(self, queue, unit):
        """A unit that was launched is equal to others, hashed, copied and pickled as before."""
        unit.executor(queue.context)(queue, a=X)
        assert unit == made()
        assert hash(unit) == hash(made())
        again = pickle.loads(pickle.dumps(unit))
        assert again == unit
        assert vars(again)[units._KERNELS].found == {}
        assert numbers(copy.copy(unit).executor(queue.context)(queue, a=X)) == by(3)

    def test_layer_off(self, queue, unit, looks, monkeypatch):
        """With the generator layer off the unit is loopy's."""
        monkeypatch.setattr(layers.generator(), "off", lambda *_given: "off")
        assert numbers(unit.executor(queue.context)(queue, a=X)) == by(3)
        assert generator(looks) == []

    @pytest.mark.faults
    def test_fault(self, queue, unit, looks, monkeypatch):
        """A fault of kcl leaves the unit to loopy, with one line."""
        from kcl.frontends.loopy.result import LoopyResult

        def fail(*_given):
            raise ZeroDivisionError

        monkeypatch.setattr(LoopyResult, "of_unit", fail)
        with pytest.warns(kcl.CacheWarning, match="take a unit of loopy"):
            assert numbers(unit.executor(queue.context)(queue, a=X)) == by(3)
        assert generator(looks) == []

    def test_uninstalled(self, queue, unit, looks):
        """After `uninstall` launches are loopy's, those of an executor that kcl has launched, too."""
        executor = unit.executor(queue.context)
        executor(queue, a=X)
        kcl.uninstall()
        assert numbers(executor(queue, a=X)) == by(3)
        assert generator(looks) == ["miss"]


class TestTaken:
    """Units that a program made through the face while the generator layer is off."""

    @pytest.fixture(autouse=True)
    def off(self, request, monkeypatch):
        request.getfixturevalue("installed")
        kcl.uninstall()
        imports.install()
        monkeypatch.setenv("KCL_NO_CACHE", "generator")
        layers.reset()

    def two(self):
        units = [
            face.make_kernel(
                "{[i]: 0<=i<4}", f"out[i] = {n}*a[i]", name=f"by{n}", lang_version=(2018, 2)
            )
            for n in (3, 5)
        ]
        return face.merge(units)

    @pytest.mark.parametrize("how", ["executor", "with_entrypoints", "call"])
    def test_launches(self, queue, looks, how):
        """Each launch of a unit goes through the line, once looked up; the unit and its executor are loopy's own."""
        unit = self.two()
        assert type(unit) is lp.TranslationUnit
        chosen = unit.with_entrypoints("by5") if how == "with_entrypoints" else unit
        for _ in range(2):
            if how == "call":
                with pytest.warns(lp.diagnostic.DirectCallUncachedWarning):
                    result = chosen(queue, a=X, entrypoint="by5")
            else:
                result = chosen.executor(queue.context, entrypoint="by5")(queue, a=X)
            assert numbers(result) == by(5)
        assert [(look.layer, look.outcome) for look in looks] == [
            ("generator", "bypass"),
            ("binary", "miss"),
        ]

    def test_others(self, queue, looks):
        """A unit of a library stays loopy's."""
        self.two()
        assert numbers(made().executor(queue.context)(queue, a=X)) == by(3)
        assert looks == []

    def test_installed(self, queue, looks):
        """The integrations come and go above it."""
        unit = self.two()
        for change in (kcl.install, kcl.uninstall):
            change()
            assert numbers(unit.executor(queue.context, entrypoint="by3")(queue, a=X)) == by(3)
        assert [look.layer for look in looks] == ["generator", "binary"]

    def test_copied(self):
        """A unit that arrives in another process is loopy's there."""
        assert not units._is_taken(pickle.loads(pickle.dumps(self.two())))


class TestUnmade:
    def test_direct_call_beside_loopy(self, child):
        """A program's unit is launched unmade though loopy is imported, unless the program replaced the method."""
        found = child.json("""
            import importlib, json, warnings
            import kcl
            kcl.install()
            import loopy as lp, numpy as np, pyopencl as cl
            importlib.import_module("loopy")
            warnings.simplefilter("ignore")
            context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
            queue = cl.CommandQueue(context)
            def unit():
                return lp.make_kernel("{[i]: 0<=i<4}", "y[i] = 2*i", [lp.GlobalArg("y", np.int32, shape=(4,))],
                                      lang_version=(2018, 2))
            def launch(knl):
                return knl(queue)[1][0].get().tolist(), type(knl).__name__
            first, calls, original = launch(unit()), [], lp.TranslationUnit.__call__
            lp.TranslationUnit.__call__ = lambda self, *given, **more: calls.append(1) or original(self, *given, **more)
            print(json.dumps([first, launch(unit()), len(calls)]))
            """)
        assert found == [[[0, 2, 4, 6], "RecordedUnit"], [[0, 2, 4, 6], "TranslationUnit"], 1]
