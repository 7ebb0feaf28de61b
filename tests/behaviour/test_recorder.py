"""The recorder against its adversaries: what changes after a call, what is asked, raised, warned of, and damaged."""

import collections
import importlib
import os
import sys
import threading
import warnings

import numpy as np
import pytest
from at_once import at_once

import kcl
import kcl.loopy as lp
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.frontends.loopy import proofs, recorder, unmade

pytestmark = [pytest.mark.one_platform, pytest.mark.slow_platforms]
X = np.arange(16, dtype=np.float32)


@pytest.fixture(scope="module")
def real():
    return importlib.import_module("loopy")


def unit(text="y[i] = 2*x[i]", extra=(), name="recorded", loopy=lp, **keywords):
    """Return a unit with an array in and an array out."""
    arguments = [loopy.GlobalArg("x,y", np.float32, shape=(16,)), *extra]
    return loopy.make_kernel(
        "{[i]: 0<=i<16}", text, arguments, name=name, lang_version=(2018, 2), **keywords
    )


def again():
    """Go on as a new process would: with what lies on disk, after a look-up."""
    proofs.use()
    proofs.write()
    layers.reset()


def twice(function, *arguments):
    """Run as two processes would: return both results, and how many calls the second one carried out."""
    first = function(*arguments)
    again()
    before = recorder.thread.carried
    return first, function(*arguments), recorder.thread.carried - before


def waiting(*arguments, **keywords):
    """Return a unit that a proof lets wait."""
    unit(*arguments, **keywords)
    again()
    before = recorder.thread.carried
    found = unit(*arguments, **keywords)
    assert recorder.thread.carried == before
    assert type(found) is unmade.RecordedUnit
    return found


@pytest.fixture
def outputs(context):
    import pyopencl as cl

    queue = cl.CommandQueue(context)

    def launched(kernel):
        launcher = kernel.executor(context) if hasattr(kernel, "executor") else kernel
        return launcher(queue, x=X)[1]

    return launched


@pytest.fixture
def launch(outputs):
    return lambda kernel: float(sum(one.sum() for one in outputs(kernel)))


def test_siblings(outputs):
    """Options that are set on one of two units made of a third decide all three, and what is made of them."""

    def run():
        made = unit()
        one, other = lp.split_iname(made, "i", 4), lp.split_iname(made, "i", 8)
        one.default_entrypoint.options.return_dict = True
        later = lp.split_iname(made, "i", 2)
        return [isinstance(outputs(each), dict) for each in (made, one, other, later)]

    first, second, _carried = twice(run)
    assert first == second == [True] * 4


def test_shown_parameters(launch):
    """kcl's own texts, of a miss and of a Kernel, ask units nothing."""

    @kcl.kernel
    def recipe(units):
        return lp.split_iname(units[0], "i", 4)

    one = waiting()
    kernel = recipe([one])
    assert "TranslationUnit" in repr(kernel)
    assert launch(kernel) == 240.0
    assert type(one) is unmade.RecordedUnit


def test_another_way(launch, looks):
    """A recipe that goes on differently after an error gives the same in every run; the second one is a hit."""

    @kcl.kernel
    def recipe():
        made = unit()
        try:
            return lp.split_iname(made, "nope", 4)
        except KeyError:
            return lp.split_iname(made, "i", 4)

    first, second, _carried = twice(lambda: launch(recipe()))
    assert first == second == 240.0
    assert [one.outcome for one in looks if one.layer == "generator"] == ["miss", "hit"]


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("loopy", "_DEFAULT_TARGET", lambda real: real.CTarget),
        ("loopy.library.reduction", "_REDUCTION_OP_PARSERS", lambda _real: [print]),
    ],
)
def test_proof_under_other_surroundings(module, name, value, monkeypatch, real):
    """A call is not recorded while what it would meet in loopy is changed."""
    waiting()
    monkeypatch.setattr(importlib.import_module(module), name, value(real))
    assert type(unit()) is real.TranslationUnit


def test_warnings_in_threads():
    """Threads that hear warnings leave the process as it was, and do not hear each other's."""
    before = warnings.showwarning, list(warnings.filters)

    def make(number):
        lp.make_kernel("{[i]: 0<=i<4}", f"y[i] = {number}")

    def work(number):
        if number < 8:
            make(number)
            return
        for text in range(200):
            warnings.warn(f"mine {text}", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        at_once(work, 9)
    assert (warnings.showwarning, list(warnings.filters)) == before
    kinds = collections.Counter(one.category.__name__ for one in heard)
    assert (kinds["UserWarning"], kinds["LoopyWarning"]) == (200, 8)
    again()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        make(0)
    assert [one.category.__name__ for one in heard] == ["LoopyWarning"]


class TestThreads:
    def test_recipes_at_once(self, launch):
        """Recipes that run at once in threads do not mix their records."""
        barrier, found = threading.Barrier(6), {}

        @kcl.kernel
        def recipe(number):
            made = unit(f"y[i] = {number}*x[i]")
            barrier.wait(60)
            return lp.split_iname(made, "i", 4)

        def run(number):
            found[number] = launch(recipe(number))

        at_once(run, 6)
        assert found == {number: 120.0 * number for number in range(6)}

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_fork_in_the_middle(self):
        """A child that is forked while a thread carries records out waits for nobody."""
        split = lp.split_iname(waiting(), "i", 4)
        over = threading.Event()

        def make():
            number = 0
            while not over.is_set():
                number += 1
                made = lp.make_kernel("{[i]: 0<=i<4}", f"y[i] = {number}", lang_version=(2018, 2))
                assert made.entrypoints

        thread = threading.Thread(target=make)
        thread.start()
        try:
            ask = lambda: lp.split_iname(split, "i_inner", 2).default_entrypoint  # noqa: E731
            ends = [_forked(ask) for _ in range(4)]
        finally:
            over.set()
            thread.join()
        assert ends == [0] * 4


def _forked(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        import signal

        signal.alarm(30)
        try:
            function()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


class Raises:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def _raise(self, *_arguments):
        raise RuntimeError("raises")

    __repr__ = __eq__ = __hash__ = __iter__ = __reduce_ex__ = __bool__ = _raise


class Lies:
    @property
    def __class__(self):
        raise RuntimeError("lies")


class Items(dict):
    def items(self):
        raise RuntimeError("items")


def _in_itself():
    found = []
    found.append(found)
    return found


@pytest.mark.faults
class TestFaults:
    """An exception inside the recorder never reaches the user."""

    @pytest.mark.filterwarnings("ignore::kcl.cache.faults.CacheWarning")
    @pytest.mark.parametrize(
        "make", [Raises, Lies, lambda: Items(a=1), _in_itself, threading.Lock, sys._getframe]
    )
    def test_arguments(self, real, make):
        """loopy says what it thinks of an argument, as without kcl."""

        def tried(loopy):
            calls = [
                lambda: loopy.split_iname(unit(loopy=loopy), "i", 4, inner_tag=value),
                lambda: loopy.tag_inames(unit(loopy=loopy), {"i": value}),
                lambda: loopy.fix_parameters(unit(loopy=loopy), n=value),
                lambda: loopy.prioritize_loops(unit(loopy=loopy), value),
                lambda: loopy.set_options(unit(loopy=loopy), build_options=value) and None,
            ]
            return [_outcome(call) for call in calls]

        value = make()
        assert tried(lp) == tried(real)

    def test_damaged_proofs(self, launch):
        """Proofs of a strange form prove nothing."""
        launch(unit())
        proofs.write()
        layer = layers.generator()
        entries = [layer.read(place) for place in layer.stores[0].scan()]
        (key,) = [entry.key for entry in entries if "proven" in entry.metadata]
        for strange in ({"proven": []}, {"proven": {"a": 1}}, {"proven": {"a": [["short"]]}}, {}):
            metadata = {"kernel": "damaged", "created": 1, **strange}
            layer.publish(key.digest, Entry(key, metadata, {}))
            layers.reset()
            before = recorder.thread.carried
            unit()
            assert recorder.thread.carried > before
        assert launch(unit()) == 240.0


def _outcome(call):
    try:
        return None if call() is None else "a unit"
    except Exception as error:
        return type(error).__name__, str(error).partition(" at 0x")[0]


def test_strict_hits(launch, monkeypatch):
    """`KCL_STRICT=hit` does not mind a unit that had to be made while its code is a hit."""

    @kcl.kernel
    def recipe():
        made = unit()
        assert made.default_entrypoint.name == "recorded"
        return lp.split_iname(made, "i", 4)

    assert launch(recipe()) == 240.0
    monkeypatch.setenv("KCL_STRICT", "hit")
    again()
    assert launch(recipe()) == 240.0
    assert any(question.startswith("default_entrypoint") for question in kcl.stats()["made"])
