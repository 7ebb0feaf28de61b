"""kcl.frontends.loopy.units: units of loopy's own are launched by kcl while the integrations are installed."""

import copy
import pickle
import warnings

import loopy as lp
import numpy as np
import pytest
from loopy.target.pyopencl_execution import PyOpenCLExecutor

import kcl
import kcl.loopy as face
from kcl.cache import layers
from kcl.frontends.loopy import imports, units
from kcl.frontends.loopy.result import LoopyResult
from kcl.generate import carrying

pytestmark = [pytest.mark.one_platform, pytest.mark.usefixtures("installed")]


DOMAIN = "{[i]: 0<=i<4}"
X = np.arange(4, dtype=np.float32)


def made(factor=3, name="scaled"):
    """Make a unit as a library does: what this module would get from the face is passed by."""
    with carrying():
        return lp.make_kernel(DOMAIN, f"out[i] = {factor}*a[i]", name=name, lang_version=(2018, 2))


@pytest.fixture
def unit():
    return made()


@pytest.fixture
def both():
    """A unit of two entry points."""
    return lp.merge([made(3, "thrice"), made(5, "five_times")])


def generator(looks):
    return [look.outcome for look in looks if look.layer == "generator"]


def multiplies(factor, launch, *queues, **more):
    """Return True if a launch multiplies by a factor."""
    _event, (out,) = launch(*queues, a=X, **more)
    return out.tolist() == (factor * X).tolist()


class TestExecutor:
    def test_is_loopys(self, queue, unit, looks):
        """The executor is loopy's own, and its launch goes through the layers."""
        executor = unit.executor(queue.context)
        assert type(executor) is PyOpenCLExecutor
        assert multiplies(3, executor, queue)
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

    def test_entry_points(self, queue, both, looks):
        """An executor launches the entry point that it was made for."""
        for name, factor in (("thrice", 3), ("five_times", 5)):
            assert multiplies(factor, both.executor(queue.context, entrypoint=name), queue)
        assert generator(looks) == ["miss", "miss"]

    def test_subclass(self, queue, unit, looks):
        """An executor of another class is its owner's."""

        class Own(PyOpenCLExecutor):
            pass

        assert multiplies(3, Own(queue.context, unit, "scaled"), queue)
        assert generator(looks) == []


class TestDirectCall:
    def test_kept(self, queue, unit, looks):
        """Direct calls warn as loopy does, naming this line, and look up once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                assert multiplies(3, unit, queue)
        direct = [one for one in caught if one.category is lp.diagnostic.DirectCallUncachedWarning]
        assert [one.filename for one in direct] == [__file__] * 3
        assert generator(looks) == ["miss"]

    @pytest.mark.parametrize(
        ("given", "error", "words"),
        [({}, ValueError, "multiple"), ({"entrypoint": "nobody"}, lp.LoopyError, "not in list")],
    )
    def test_others(self, queue, both, given, error, words):
        """No entry point, an unknown one, and another target are loopy's to judge; its warning names this line."""
        with (
            pytest.warns(lp.diagnostic.DirectCallUncachedWarning) as caught,
            pytest.raises(error, match=words),
        ):
            both(queue, a=X, **given)
        assert caught[0].filename == __file__


class TestUnit:
    def test_as_before(self, queue, unit):
        """A unit that was launched is equal to others, hashed, copied and pickled as before."""
        unit.executor(queue.context)(queue, a=X)
        assert unit == made()
        assert hash(unit) == hash(made())
        again = pickle.loads(pickle.dumps(unit))
        assert again == unit
        assert vars(again)[units._KERNELS].found == {}
        assert multiplies(3, copy.copy(unit).executor(queue.context), queue)

    def test_layer_off(self, queue, unit, looks, monkeypatch):
        """With the generator layer off the unit is loopy's."""
        monkeypatch.setattr(layers.generator(), "off", lambda *_given: "off")
        assert multiplies(3, unit.executor(queue.context), queue)
        assert generator(looks) == []

    @pytest.mark.faults
    def test_fault(self, queue, unit, looks, monkeypatch):
        """A fault of kcl leaves the unit to loopy, with one line."""
        monkeypatch.setattr(LoopyResult, "of_unit", lambda *_: 1 / 0)
        with pytest.warns(kcl.CacheWarning, match="take a unit of loopy"):
            assert multiplies(3, unit.executor(queue.context), queue)
        assert generator(looks) == []

    def test_uninstalled(self, queue, unit, looks):
        """After `uninstall` launches are loopy's, those of an executor that kcl has launched, too."""
        executor = unit.executor(queue.context)
        executor(queue, a=X)
        kcl.uninstall()
        assert multiplies(3, executor, queue)
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

    @pytest.fixture
    def two(self):
        units = [
            face.make_kernel(DOMAIN, f"out[i] = {n}*a[i]", name=f"by{n}", lang_version=(2018, 2))
            for n in (3, 5)
        ]
        return face.merge(units)

    @pytest.mark.parametrize("how", ["executor", "with_entrypoints", "call"])
    def test_launches(self, queue, two, looks, how):
        """Each launch of a unit goes through the line, once looked up; the unit and its executor are loopy's own."""
        assert type(two) is lp.TranslationUnit
        chosen = two.with_entrypoints("by5") if how == "with_entrypoints" else two
        for _ in range(2):
            if how == "call":
                with pytest.warns(lp.diagnostic.DirectCallUncachedWarning):
                    assert multiplies(5, chosen, queue, entrypoint="by5")
            else:
                assert multiplies(5, chosen.executor(queue.context, entrypoint="by5"), queue)
        found = [(look.layer, look.outcome) for look in looks]
        assert found == [("generator", "bypass"), ("binary", "miss")]

    @pytest.mark.usefixtures("two")
    def test_others(self, queue, looks):
        """A unit of a library stays loopy's."""
        assert multiplies(3, made().executor(queue.context), queue)
        assert looks == []

    def test_installed(self, queue, two, looks):
        """The integrations come and go above it."""
        for change in (kcl.install, kcl.uninstall):
            change()
            assert multiplies(3, two.executor(queue.context, entrypoint="by3"), queue)
        assert [look.layer for look in looks] == ["generator", "binary"]

    def test_copied(self, two):
        """A unit that arrives in another process is loopy's there."""
        assert not units._is_taken(pickle.loads(pickle.dumps(two)))
