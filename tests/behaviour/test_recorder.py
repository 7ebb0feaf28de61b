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
from kcl.frontends.loopy import proofs, recorder, unmade

pytestmark = [pytest.mark.one_platform, pytest.mark.slow_platforms]
X = np.arange(16, dtype=np.float32)
GLOBAL = 2


@pytest.fixture(scope="module")
def real():
    """The real loopy, whoever asks."""
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


class Launch:
    def __init__(self, queue):
        self.queue = queue

    def __call__(self, kernel):
        """Launch a unit, executor or Kernel, and return the sum of what comes back."""
        launcher = kernel.executor(self.queue.context) if hasattr(kernel, "executor") else kernel
        _event, outputs = launcher(self.queue, x=X)
        return float(
            sum(one.sum() for one in (outputs.values() if isinstance(outputs, dict) else outputs))
        )

    def gives_names(self, kernel):
        """Tell whether a launch returns a dictionary, which an option decides."""
        launcher = kernel.executor(self.queue.context) if hasattr(kernel, "executor") else kernel
        return isinstance(launcher(self.queue, x=X)[1], dict)


@pytest.fixture
def launch(context):
    """Launches on a queue."""
    import pyopencl as cl

    return Launch(cl.CommandQueue(context))


def generated(_info):
    """A preamble that a global decides."""
    yield "20_global", f"#define GLOBAL {GLOBAL}"


class TestByReference:
    """What loopy keeps by reference counts at the call and again where code is needed."""

    def test_callable_of_the_program(self, launch, looks):
        """A generator of preambles of the program is in no key: nothing is stored, and the reason names it."""

        @kcl.kernel
        def recipe():
            return lp.register_preamble_generators(unit(), [generated])

        assert "#define GLOBAL 2" in recipe().source(launch.queue.context)
        assert looks[0].outcome == "bypass"
        assert "generated (test_recorder.py:" in looks[0].reason


class TestHandedOut:
    """A unit counts by its content from when a program holds parts of it, and so do those that share them."""

    @staticmethod
    def name_outputs(one):
        one.default_entrypoint.options.return_dict = True

    def test_siblings(self, launch):
        """Options that are set on one of two units made of a third decide all three, and what is made of them."""

        def run():
            made = unit()
            one, other = lp.split_iname(made, "i", 4), lp.split_iname(made, "i", 8)
            self.name_outputs(one)
            later = lp.split_iname(made, "i", 2)
            return [launch.gives_names(each) for each in (made, one, other, later)]

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


class TestErrors:
    def test_another_way(self, launch, looks):
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

    @pytest.mark.parametrize("change", ["default target", "reduction"])
    def test_proof_under_other_surroundings(self, change, monkeypatch, real):
        """A call is not recorded while what it would meet in loopy is changed."""
        waiting()
        if change == "default target":
            monkeypatch.setattr(real, "_DEFAULT_TARGET", real.CTarget)
        else:
            parsers = importlib.import_module("loopy.library.reduction")._REDUCTION_OP_PARSERS
            monkeypatch.setattr(
                importlib.import_module("loopy.library.reduction"),
                "_REDUCTION_OP_PARSERS",
                [*parsers, generated],
            )
        assert type(unit()) is real.TranslationUnit


class TestWarnings:
    """Warnings of loopy come under the user's filters, in every run, and without loopy in a warm one."""

    def test_threads(self):
        """Threads that hear warnings leave the process as it was, and do not hear each other's."""
        before = warnings.showwarning, list(warnings.filters)
        mine = []

        def make(number):
            lp.make_kernel("{[i]: 0<=i<4}", f"y[i] = {number}")

        def warn():
            for number in range(200):
                warnings.warn(f"mine {number}", UserWarning, stacklevel=1)
                mine.append(number)

        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
            threads.append(threading.Thread(target=warn))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert (warnings.showwarning, list(warnings.filters)) == before
        kinds = collections.Counter(one.category.__name__ for one in heard)
        assert kinds["UserWarning"] == 200
        assert kinds["LoopyWarning"] == 8
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
                assert lp.make_kernel(
                    "{[i]: 0<=i<4}", f"y[i] = {number}", lang_version=(2018, 2)
                ).entrypoints

        thread = threading.Thread(target=make)
        thread.start()
        try:
            ends = [
                _forked(lambda: lp.split_iname(split, "i_inner", 2).default_entrypoint)
                for _ in range(4)
            ]
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
    """Raises wherever it can."""

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
        (key,) = [
            found.key
            for place in layer.stores[0].scan()
            if "proven" in (found := layer.read(place)).metadata
        ]
        for strange in ({"proven": []}, {"proven": {"a": 1}}, {"proven": {"a": [["short"]]}}, {}):
            from kcl.cache.entry import Entry

            layer.publish(
                key.digest, Entry(key, {"kernel": "damaged", "created": 1, **strange}, {})
            )
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


class TestSwitches:
    def test_strict_hits(self, launch, monkeypatch):
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
