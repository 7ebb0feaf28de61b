"""kcl.base.process: one object holds the state of a process."""

import ast
import os
import signal
import threading
import time

import house
import pytest
from at_once import at_once

from kcl.base import process

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


class Numbers:
    """A state without methods."""

    def __init__(self):
        self.found = []


def in_child(tell):
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


class TestOwn:
    def test_made_once(self):
        """A state is made at its first use, and is the same until a reset; each class has its own; what is shared stays."""
        made = []

        class Lasting(Numbers):
            pass

        class Counted(Numbers):
            def __init__(self):
                made.append(self)

        one, shared = process.own(Counted), process.shared(Lasting)
        assert made == []
        before = one(), shared()
        assert one() is before[0] is process.own(Counted)() is not shared()
        assert made == [one()]
        process.reset()
        assert one() is not before[0]
        assert shared() is before[1]

    def test_threads_that_ask_at_the_same_moment_get_the_same_object(self):
        barrier, found = threading.Barrier(8), []

        class Slow:
            def __init__(self):
                barrier.wait(60)

        state = process.own(Slow)
        at_once(lambda _number: found.append(state()), 8)
        assert [one is found[0] for one in found] == [True] * 8

    @pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals here")
    def test_signal(self):
        """A signal handler that comes while a state is made gets the state that everybody else gets."""
        found = []

        class Interrupted:
            def __init__(self):
                if not found:
                    found.append(None)
                    signal.raise_signal(signal.SIGUSR1)

        state = process.own(Interrupted)
        before = signal.signal(signal.SIGUSR1, lambda *_: found.append(state()))
        try:
            assert state() is found[1]
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_changed(self):
        """States hear that the place of the files changed, also where one of them fails."""
        heard = []

        class Failing:
            def on_change(self):
                raise ValueError("cannot")

        class Hearing:
            def on_change(self):
                heard.append(self)

        process.own(Failing)(), process.own(Numbers)()
        hearing = process.own(Hearing)()
        with pytest.raises(ValueError, match="cannot"):
            process.on_change()
        assert heard == [hearing]


@forks
def test_began(child):
    """The process began before kcl was imported, and after the test that started it."""
    before = time.time_ns() - 10**8
    program = """
        import json, time
        time.sleep(0.2)
        import kcl
        from kcl.base import process
        print(json.dumps([process.began(), process.STARTED]))
        """
    began, started = child.json(program)
    assert before < began < started - 10**8


class TestFork:
    def test_child(self):
        """A forked child has the states of its parent, renewed where they need it, and changes none of the parent's."""

        class Locked(Numbers):
            def __init__(self):
                super().__init__()
                self.after_fork()

            def after_fork(self):
                self.lock = threading.Lock()
                self.found.clear()

        locked, plain = process.own(Locked), process.own(Numbers)
        for state in (locked, plain):
            state().found.append(1)

        def tell():
            plain().found.append(2)
            return locked().found, plain().found, locked().lock.acquire(blocking=False)

        with locked().lock:
            assert in_child(tell) == "([], [1, 2], True)"
        assert (locked().found, plain().found) == ([1], [1])

    def test_order(self):
        """Before a fork the states that were made last come first, after it last; the others come where one fails."""
        told = []

        def telling(name):
            class Telling:
                before_fork = staticmethod(lambda: told.append(f"{name} before"))
                after_fork_in_parent = staticmethod(lambda: told.append(f"{name} parent"))
                after_fork = staticmethod(lambda: told.append(f"{name} child"))

            return Telling

        for name in ("one", "two"):
            process.own(telling(name))()
        said = in_child(lambda: told)
        assert told == ["two before", "one before", "one parent", "two parent"]
        assert said == str(["two before", "one before", "one child", "two child"])

    def test_a_forked_child_forgets_a_state_with_at_exit_and_makes_its_own(self):

        class Ending(Numbers):
            def at_exit(self):
                self.found.append(1)

        state = process.own(Ending)
        state().found.append(2)
        assert in_child(lambda: state().found) == "[]"
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
        """At exit states come once, the last one first, between the functions that others registered with `atexit`.

        A state that fails keeps no other from its turn, and one that was dropped has none.
        """
        done = child.run(
            EXITS
            + """
four()
process.reset()
one()
atexit.register(print, "another's", flush=True)
class Failing:
    def at_exit(self):
        raise ValueError("cannot")
two(), shared(), process.own(Failing)(), three(), two(), one()
"""
        )
        assert done.stdout.splitlines() == ["three", "shared", "two", "another's", "one"]
        assert "cannot" in done.stderr

    @pytest.mark.skipif(os.name != "posix", reason="no process ends by a signal here")
    def test_interrupted(self, child):
        """A program that Ctrl-C has ended dies of it, whatever the states do at exit; one that printed it ends well."""
        code = """from kcl.base import process
class Evaluating:
    def at_exit(self):
        print(eval("3"), flush=True)
process.own(Evaluating)()
raise KeyboardInterrupt
"""
        done = child.python("-c", code)
        assert (done.stdout, done.returncode) == ("3\n", -signal.SIGINT)
        printed = "import code\ncode.InteractiveInterpreter().runsource('raise KeyboardInterrupt')"
        done = child.python("-c", code.replace("raise KeyboardInterrupt", printed))
        assert "KeyboardInterrupt" in done.stderr
        assert (done.stdout, done.returncode) == ("3\n", 0)

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
        assert done.stdout.split() == ["child", "four", "two", "parent", "shared", "two", "one"]


# What stays in a process whose states are dropped.
COMMON = {
    "base.process._states",
    "base.process._lasting",
    "frontends.loopy.texts.OWN",  # filled as the modules of the recorder are imported
    "frontends.loopy.texts.WRITERS",
    "frontends.loopy.unmade._known",  # loopy's own classes, as long as this loopy is imported
}


def modules():
    """Return the name below kcl of every module, and its tree."""
    return [(name, house.parsed(path)) for path, name in house.modules()]


KINDS = {
    *("dict", "list", "set", "deque", "WeakSet", "WeakValueDictionary"),
    *("WeakKeyDictionary", "Lock", "RLock"),
}


def is_empty(value):
    """Return True if a value is a container that is to be filled, or a lock."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in KINDS and not value.args
    return isinstance(value, (ast.Dict, ast.List)) and not ast.unparse(value)[1:-1]


class TestLockedState:
    @forks
    def test_fork_beside_its_holder(self):
        """A forked child has a new lock, whoever held the one of the parent."""
        one, held, over = process.LockedState(), threading.Event(), threading.Event()

        def hold():
            with one.lock:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        assert not one.lock.acquire(blocking=False)
        assert in_child(lambda: one.lock.acquire(blocking=False)) == "True"
        over.set()
        thread.join()

    @forks
    def test_fork_of_its_holder(self):
        """A thread that forks while it holds the lock goes on in the child, and gives it back there too."""
        one = process.LockedState()

        def leave():
            block.__exit__(None, None, None)
            return one.lock.acquire(blocking=False)

        block = one.lock
        with block:
            assert in_child(leave) == "True"


class TestPackage:
    def test_few_functions_rebind_a_name_of_their_module(self):
        found = {
            name
            for name, tree in modules()
            if any(isinstance(node, ast.Global) for node in ast.walk(tree))
        }
        assert found == {"frontends", "frontends.loopy.imports"}

    def test_one_list(self):
        """One module has functions called at a fork, and at exit, at one place each; it alone asks the system for locks."""
        calls, texts = {"os.register_at_fork": [], "atexit.register": []}, set()
        for name, tree in modules():
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and ast.unparse(node) in calls:
                    calls[ast.unparse(node)].append(name)
                if isinstance(node, ast.Constant) and str(node.value).startswith("/proc"):
                    texts.add(name)
        assert [*calls.values()] == [["base.process"]] * 2
        assert texts == house.importing("fcntl") == {"base.process"}

    def test_no_module_has_a_container_to_be_filled_or_a_lock_of_its_own(self):
        found = set()
        for module, tree in modules():
            for node in tree.body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and is_empty(node.value):
                    (target, *_others) = getattr(node, "targets", None) or [node.target]
                    found.add(f"{module}.{ast.unparse(target)}")
        assert found == COMMON


class TestSystem:
    def test_lock(self, tmp_path):
        """A lock keeps others out until it is released or its file is closed; shared locks let each other in."""
        with open(tmp_path / "lock", "w") as mine, open(tmp_path / "lock") as other:
            process.lock(mine.fileno())
            with pytest.raises(BlockingIOError):
                process.lock(other.fileno(), shared=True)
            process.unlock(mine.fileno())
            process.lock(other.fileno(), shared=True)
            process.lock(mine.fileno(), shared=True, waits=True)

    def test_without_locks(self, tmp_path, monkeypatch):
        """A system without locks is as a file system without: an error of the system, which no lock of others is."""
        monkeypatch.setattr(process, "HAS_LOCKS", False)
        with open(tmp_path / "lock", "w") as mine, pytest.raises(OSError, match="lock") as error:
            process.lock(mine.fileno())
        assert not isinstance(error.value, BlockingIOError)

    def test_without_proc(self, tmp_path, monkeypatch):
        """Where the system tells nothing about processes, this one began with the import of kcl."""
        assert process.began() < process.STARTED
        monkeypatch.setattr(process, "PROC", str(tmp_path))
        with pytest.raises(OSError):
            process.proc("self/stat")
        assert process.began() == process.STARTED
