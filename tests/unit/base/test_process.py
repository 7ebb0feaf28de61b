"""kcl.base.process: one object holds the state of a process."""

from __future__ import annotations

import ast
import functools
import os
import pathlib
import signal
import threading

import house
import numpy as np
import pytest

import kcl
from kcl import option
from kcl.base import events, process, settings
from kcl.base.process import Process, swapped
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.inspect import report
from kcl.inspect.history import journal
from kcl.record import proofs

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


class Numbers:
    """A state without methods."""

    def __init__(self) -> None:
        self.found: list[int] = []


def in_child(tell) -> str:
    """Return what `tell()` returns in a forked child."""
    back, there = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(there, str(tell()).encode())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(back) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def mine():
    """A cache of the test's own."""
    with swapped(Process()) as found:
        yield found


@pytest.mark.usefixtures("mine")
class TestOwn:
    def test_made_once(self):
        """A state is made at its first use, and is the same from then on; each class has its own."""
        made = []

        class One(Numbers):
            def __init__(self) -> None:
                super().__init__()
                made.append(self)

        one, other = process.own(One), process.own(Numbers)
        assert made == []
        assert one() is one() is process.own(One)()
        assert made == [one()]
        assert other() is not one()

    def test_threads(self):
        """Threads that ask at the same moment get the same object."""
        count = 8
        barrier, found = threading.Barrier(count), []

        class Slow(Numbers):
            def __init__(self) -> None:
                barrier.wait(60)
                super().__init__()

        state = process.own(Slow)
        threads = [threading.Thread(target=lambda: found.append(state())) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == count
        assert len({id(one) for one in found}) == 1

    @pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals here")
    def test_signal(self):
        """A signal handler that comes while a state is made gets the state that everybody else gets."""
        found = []

        class Interrupted(Numbers):
            def __init__(self) -> None:
                super().__init__()
                if not found:
                    found.append(None)
                    signal.raise_signal(signal.SIGUSR1)

        state = process.own(Interrupted)
        before = signal.signal(signal.SIGUSR1, lambda *_: found.append(state()))
        try:
            assert state() is found[1]
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_reset(self):
        """After a reset a state is made anew; what the process shares stays."""
        own, shared = process.own(Numbers), process.shared(Numbers)
        before = own(), shared()
        process.reset()
        assert own() is not before[0]
        assert shared() is before[1]

    def test_changed(self):
        """States hear that the place of the files changed, also where one of them fails."""
        heard = []

        class Failing:
            def on_change(self) -> None:
                raise ValueError("cannot")

        class Hearing:
            def on_change(self) -> None:
                heard.append(self)

        process.own(Failing)(), process.own(Numbers)()
        hearing = process.own(Hearing)()
        with pytest.raises(ValueError, match="cannot"):
            process.changed()
        assert heard == [hearing]


@forks
@pytest.mark.usefixtures("mine")
class TestFork:
    def test_child(self):
        """A forked child has the states of its parent, renewed where they need it, and changes none of the parent's."""

        class Locked(Numbers):
            def __init__(self) -> None:
                super().__init__()
                self.lock = threading.Lock()

            def after_fork(self) -> None:
                self.lock = threading.Lock()
                self.found.clear()

        locked, plain, shared = process.own(Locked), process.own(Numbers), process.shared(Locked)
        for state in (locked, plain, shared):
            state().found.append(1)
        with locked().lock, shared().lock:

            def tell():
                plain().found.append(2)
                free = [state().lock.acquire(blocking=False) for state in (locked, shared)]
                return locked().found, plain().found, shared().found, free

            assert in_child(tell) == "([], [1, 2], [], [True, True])"
        assert (locked().found, plain().found, shared().found) == ([1], [1], [1])

    def test_order(self):
        """Before a fork the states that were made last come first, after it last; the others come where one fails."""
        told = []

        class Telling:
            def before_fork(self) -> None:
                told.append(f"{type(self).__name__} before")

            def after_fork_in_parent(self) -> None:
                told.append(f"{type(self).__name__} parent")

            def after_fork(self) -> None:
                told.append(f"{type(self).__name__} child")

        class One(Telling):
            pass

        class Two(Telling):
            pass

        process.own(One)(), process.own(Two)()
        said = in_child(lambda: told)
        assert told == ["Two before", "One before", "One parent", "Two parent"]
        assert said == str(["Two before", "One before", "One child", "Two child"])

    def test_cache_that_is_not_in_use(self):
        """A cache that is not in use at the fork hears of it too."""

        class Hearing(Numbers):
            def after_fork(self) -> None:
                self.found.append(1)

        state, other = process.own(Hearing), Process()
        with swapped(other):
            state()

        def tell():
            with swapped(other):
                return state().found

        assert in_child(tell) == "[1]"

    def test_exit_is_the_parents(self):
        """A forked child forgets a state with `at_exit`, and makes its own."""

        class Ending(Numbers):
            def at_exit(self) -> None:
                self.found.append(1)

        state = process.own(Ending)
        state().found.append(2)
        assert in_child(lambda: (process.current().end(), state().found)) == "(None, [])"
        assert state().found == [2]


EXITS = """
import atexit, os, sys
from kcl.base import process

def ending(name):
    class Ending:
        def at_exit(self):
            print(name, flush=True)
    return Ending

one, two, three, four = [process.own(ending(name)) for name in ("one", "two", "three", "four")]
shared = process.shared(ending("shared"))
"""


class TestExit:
    def test_order(self, child):
        """At exit states come once, the last one first, between the functions that others registered with `atexit`."""
        done = child.run(
            EXITS
            + """
one()
atexit.register(print, "another's", flush=True)
two(), shared(), three(), two(), one()
"""
        )
        assert done.stdout.split("\n")[:-1] == ["three", "shared", "two", "another's", "one"], done.stderr

    @forks
    def test_forked_child(self, child):
        """A forked child does at its exit what is due for its own states, and not what is due for its parent's."""
        done = child.run(
            EXITS
            + """
one(), two(), shared()
if not os.fork():
    two(), four()
    print("child", flush=True)
    sys.exit()
os.wait()
print("parent", flush=True)
"""
        )
        assert done.stdout.split() == ["child", "four", "two", "parent", "shared", "two", "one"], done.stderr

    def test_dropped(self, child):
        """A state that was dropped does nothing at exit."""
        done = child.run(EXITS + "one(), two()\nprocess.reset()\ntwo()")
        assert done.stdout.split() == ["two"], done.stderr

    def test_failing(self, child):
        """A state that fails at exit keeps no other from its turn."""
        done = child.run(
            EXITS
            + """
class Failing:
    def at_exit(self):
        raise ValueError("cannot")
one(), process.own(Failing)(), two()
"""
        )
        assert done.stdout.split() == ["two", "one"]
        assert "cannot" in done.stderr

    def test_other_cache(self, child):
        """At exit a state of a cache that is not in use has its cache."""
        done = child.run(
            EXITS
            + """
class Named:
    name = ""
named = process.own(Named)
class Ending:
    def at_exit(self):
        print(named().name)
other = process.Process()
with process.swapped(other):
    named().name = "other"
    process.own(Ending)()
named().name = "first"
process.own(Ending)()
"""
        )
        assert done.stdout.split() == ["first", "other"], done.stderr

    def test_end(self, mine):
        """What is due at exit can be done before, once."""
        told = []

        class One:
            def at_exit(self) -> None:
                told.append("one")

        class Two:
            def at_exit(self) -> None:
                told.append("two")

        process.own(One)(), process.own(Two)()
        mine.end()
        mine.end()
        assert told == ["two", "one"]


@pytest.fixture
def two(tmp_path):
    """Two caches in directories of their own."""
    found = Process(), Process()
    for number, cache in enumerate(found):
        with swapped(cache):
            option.cache_dir(tmp_path / f"cache {number}")
    return found


def doubled():
    """x = 2*x, in OpenCL C."""
    text = "__kernel void doubled(__global float *x) { x[get_global_id(0)] *= 2; }"
    arguments = [kcl.Array("x", np.float32, "(4,)", "inout")]
    return kcl.Source(text, entry="doubled", arguments=arguments, global_size="(4,)")


def event(kernel: str, outcome: str = "hit") -> events.Event:
    return events.Event("generator", kernel, "", outcome, "", 0.5, 1)


class TestTwoCaches:
    def test_places(self, two, tmp_path):
        """Each cache has its directory, and the cache of the process has what its settings say."""
        before = option.get_cache_dir()
        for _turn in range(2):
            for number, cache in enumerate(two):
                with swapped(cache):
                    assert option.get_cache_dir() == str(tmp_path / f"cache {number}")
                    assert option.reason() == "kcl.option.cache_dir()"
        assert option.get_cache_dir() == before

    def test_statistics(self, two):
        """Each cache counts what was looked up in it, and shows it to its own hooks."""
        seen = [[], []]
        for number, cache in enumerate(two):
            with swapped(cache):
                events.add_hook(seen[number].append)
        for turn in range(3):
            for number, cache in enumerate(two):
                with swapped(cache):
                    for _ in range(1 + number):
                        events.emit(event(f"kernel {number}"))
                    assert events.stats()["generator"]["hits"] == (1 + turn) * (1 + number)
        assert [len(found) for found in seen] == [3, 6]
        assert events.stats()["generator"]["hits"] == 0

    def test_journals(self, two):
        """Each cache leaves its journal in its own directory."""
        for number, cache in enumerate(two):
            with swapped(cache):
                report.at_exit()
                events.emit(event(f"kernel {number}", "miss"))
        for cache in two:
            cache.end()
        for number, cache in enumerate(two):
            with swapped(cache):
                assert [row.kernel for row in journal.rows()] == [f"kernel {number}"]
                assert events.noted() == ()
        assert journal.rows() == []

    def test_settings(self, two):
        """Each cache reads the settings file for itself, once."""
        with swapped(two[0]):
            assert settings.read().report == frozenset()
        path = pathlib.Path(settings.settings_file())
        path.parent.mkdir(mode=0o700, parents=True)
        path.write_text('report = "1"\n')
        path.chmod(0o600)
        with swapped(two[1]):
            assert "table" in settings.read().report
        with swapped(two[0]):
            assert settings.read().report == frozenset()

    def test_proofs(self, two):
        """What was proven for one cache is not proven for the other."""
        with swapped(two[0]):
            proofs.add("a", (), proofs.group("driver.py"))
        with swapped(two[1]):
            assert proofs.group("driver.py") is proofs.group("driver.py")
            assert proofs._state().proven == {}
        with swapped(two[0]):
            assert proofs._state().proven == {"a": ()}

    def test_layers(self, two, tmp_path):
        """Each cache has its layers, with what they hold in memory; an entry of one is not found in the other."""
        key = Key([Part("number", "1")])
        place = address(key.digest, label="test")
        opened = []
        for cache in two:
            with swapped(cache):
                opened.append(layers.binary())
        with swapped(two[0]):
            layers.binary().publish(place, Entry(key, {"kernel": "one", "created": 1}, {}))
        for _turn in range(2):
            for number, cache in enumerate(two):
                with swapped(cache):
                    assert layers.binary() is opened[number]
                    assert layers.binary().place.startswith(str(tmp_path / f"cache {number}"))
                    assert layers.binary().look_up(place, key).outcome == ("miss" if number else "hit")
                    assert list(layers.binary().memory.scan()) == ([] if number else [place])

    @pytest.mark.one_platform
    def test_launch(self, two, device):
        """A kernel that is launched with each cache in turns is made once for each, and found from then on."""
        import pyopencl as cl
        import pyopencl.array

        for turn in range(3):
            for cache in two:
                with swapped(cache):
                    context = cl.Context([device])  # Intel's queue does not hold it
                    queue = cl.CommandQueue(context)
                    x = cl.array.to_device(queue, np.arange(4, dtype=np.float32))
                    kcl.kernel(doubled)()(queue, x=x)
                    assert x.get().tolist() == [0.0, 2.0, 4.0, 6.0]
                    for layer in ("generator", "binary"):
                        row = events.stats()[layer]
                        assert (row["misses"], row["hits"]) == (1, turn), layer


# What a second cache has in common with the first one.
COMMON = {
    "base.process._all",  # every cache
    "base.events._beginnings",  # the function that keeps a journal
    "record.texts._REAL",  # filled as the modules of the recorder are imported
    "record.texts._WRITERS",
    "record.unmade._known",  # loopy's own classes, as long as this loopy is imported
    "record.insides.NONE",  # no change: never filled
}


def modules():
    """Return the name below kcl of every module, and its tree."""
    return [(name, house.parsed(path)) for path, name in house.modules()]


@functools.cache
def calls():
    """Return the modules that call a function, by what stands for it."""
    found = {}
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found.setdefault(ast.unparse(node.func), []).append(name)
    return found


def calling(function: str) -> list[str]:
    """Return the modules that call a function, once for each call."""
    return calls().get(function, [])


def is_empty(value) -> bool:
    """Tell whether a value is a container that is to be filled, or a lock."""
    if isinstance(value, ast.Call):
        kinds = ("dict", "list", "set", "deque", "WeakSet", "WeakValueDictionary", "WeakKeyDictionary", "Lock", "RLock")
        return ast.unparse(value.func).rpartition(".")[2] in kinds and not value.args
    return isinstance(value, (ast.Dict, ast.List)) and not ast.unparse(value)[1:-1]


class TestPackage:
    def test_globals(self):
        """Few functions rebind a name of their module."""
        found = {name for name, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.Global)}
        assert found == {"base.process", "record.imports"}

    def test_one_fork_list(self):
        """One module has functions called at a fork, once."""
        assert calling("os.register_at_fork") == ["base.process"]

    def test_one_exit_list(self):
        """One module registers functions that are called at exit, at one place."""
        assert calling("atexit.register") == ["base.process"]

    def test_states(self):
        """No module has a container to be filled, or a lock, of its own."""
        found = set()
        for module, tree in modules():
            for node in tree.body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and is_empty(node.value):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    found.add(f"{module}.{ast.unparse(target)}")
        assert found == COMMON
