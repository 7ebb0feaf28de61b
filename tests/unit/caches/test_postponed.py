"""kcl.caches.postponed: modules that are imported when somebody asks them for something."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from types import ModuleType

import pytest
from at_once import at_once

from kcl.caches import postponed

BODY = "import counted\ncounted.times.append(__name__)\ncounted.step()\nanswer, other = 42, 1\n"
COUNTED = "times = []\ndef step(): pass\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The module in which the modules of the package `late` count their executions, and whose `step` they call."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "__init__.py").touch()
    for number in range(100):
        (tmp_path / "late" / f"one{number}.py").write_text(BODY)
    (tmp_path / "counted.py").write_text(COUNTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("counted")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("late", "counted")]:
        del sys.modules[name]


class TestModule:
    def test_executed_when_asked(self, package):
        """Nothing is executed before an attribute is asked for, and all of it once; then it is a module as any."""
        found = postponed.module("late.one0")
        assert (found.__name__, found.__spec__.name) == ("late.one0", "late.one0")
        assert found is postponed.module("late.one0") is sys.modules["late.one0"] is sys.modules["late"].one0
        assert package.times == []
        assert found.answer == 42
        assert type(found) is ModuleType
        from late.one0 import other

        assert other == 1
        assert package.times == ["late.one0"]
        assert not hasattr(found, "no_such_name")

    def test_import_statement(self, package):
        """Who imports from it, or lists it, gets what it holds."""
        for name in ("late.one1", "late.one2", "late.one3"):
            postponed.module(name)
        from late.one1 import answer

        everything = {}
        exec("from late.one2 import *", everything)
        assert answer == everything["answer"] == 42
        assert {"answer", "other"} <= set(dir(sys.modules["late.one3"]))
        assert package.times == ["late.one1", "late.one2", "late.one3"]

    def test_imported_already(self, package):
        """A module that is there is the answer."""
        there = importlib.import_module("late.one4")
        assert postponed.module("late.one4") is there
        assert package.times == ["late.one4"]

    @pytest.mark.usefixtures("package")
    @pytest.mark.parametrize("name", ["late.no_such_module", "no_such_package.module"])
    def test_not_there(self, name):
        """A module that does not exist is Python's own error."""
        with pytest.raises(ModuleNotFoundError, match=r"no_such"):
            postponed.module(name)
        assert name not in sys.modules

    def test_error(self, package, monkeypatch):
        """A module that raises leaves nothing behind, and is tried again by who asks next."""
        found = postponed.module("late.one5")
        monkeypatch.setattr(package, "step", lambda: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                _ = found.answer
            assert "counted" not in vars(found)
        monkeypatch.undo()
        assert found.answer == 42

    def test_threads(self, package):
        """Threads that postpone, import and ask at once all find the whole module.

        It is executed once, or twice where the import of another thread had begun but shown nothing yet.
        """
        names = [f"late.one{number}" for number in range(10, 100)]
        faults = []

        def ask(turn):
            try:
                for number, name in enumerate(names):
                    barrier.wait(60)
                    way = ways[(number + turn) % len(ways)]
                    assert way(name).answer == 42, name
                    assert importlib.import_module(name).other == 1
                    assert importlib.import_module(name) is getattr(sys.modules["late"], name.partition(".")[2])
            except BaseException as error:
                faults.append(error)
                barrier.abort()

        barrier = threading.Barrier(3)
        ways = [postponed.module, postponed.module, importlib.import_module]
        at_once(ask, len(ways))
        assert faults == []
        assert {package.times.count(name) for name in names} <= {1, 2}

    def test_fork(self, package, monkeypatch):
        """A child that is forked while a thread executes the module executes it for itself."""
        inside, go_on = threading.Event(), threading.Event()

        def stays():
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go_on.wait(60)

        monkeypatch.setattr(package, "step", stays)
        found = postponed.module("late.one6")
        thread = threading.Thread(target=getattr, args=(found, "answer"))
        thread.start()
        assert inside.wait(60)
        child = os.fork()
        if not child:
            try:
                os._exit(0 if found.answer == 42 else 1)
            finally:
                os._exit(2)
        go_on.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert found.answer == 42
        assert package.times == ["late.one6"]
