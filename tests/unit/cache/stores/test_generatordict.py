"""kcl.cache.stores.generatordict: the subclass fits the installed release of pytools, and nothing is unpickled."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from at_once import at_once
from harness import ROOT
from pytools.persistent_dict import PersistentDict
from pytools.version import VERSION

from kcl.cache.places import GENERATED as IDENTIFIER
from kcl.cache.stores import generatordict
from kcl.cache.stores.contract import example
from kcl.cache.stores.generatordict import GeneratorDict
from kcl.cache.stores.persistentdict import Rows, filename, supported


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that runs some code with kcl on its path and pipes at both ends."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def a_dict(directory: Path) -> GeneratorDict:
    return GeneratorDict(IDENTIFIER, str(directory), filename(str(directory), IDENTIFIER))


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """A store whose file holds rows 0 to 9."""
    store = Rows(tmp_path)
    for number in range(10):
        store.put(example(number), b"%d" % number)
    return store


class TestPytools:
    """That the subclass fits the installed release of pytools."""

    def test_supported(self) -> None:
        """The installed release is supported; older layouts of the file and the unknown future are not."""
        assert supported(VERSION)
        assert supported((2024, 1, 8))
        assert supported((2026, 1, 1))
        assert not supported((2024, 1, 7))
        assert not supported((2026, 2))
        assert not supported((2027, 1))

    def test_same_file_and_attributes(self, tmp_path: Path) -> None:
        """Table and attributes are those of a PersistentDict of pytools, and the name but for the patch release."""
        theirs: PersistentDict[str, bytes] = PersistentDict(IDENTIFIER, container_dir=str(tmp_path), safe_sync=False)
        theirs["key"] = b"value"
        ours = a_dict(tmp_path)
        assert ours.filename == Rows(tmp_path).location
        python = "{}.{}".format(*sys.version_info)
        assert theirs.filename.startswith(ours.filename.removesuffix(f"-{python}.sqlite"))
        assert ours.filename.endswith(f"-{python}.sqlite")
        os.rename(theirs.filename, ours.filename)
        assert vars(theirs).keys() <= vars(ours).keys()
        ours["key"] = b"value"  # INSERT OR REPLACE into the table that pytools made
        assert "key" in ours
        other = a_dict(tmp_path / "other")
        other["key"] = b"value"
        command = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('dict')"
        tables = [sqlite3.connect(each.filename).execute(command).fetchall() for each in (ours, other)]
        assert tables[0] == tables[1]

    def test_every_method_is_known(self) -> None:
        """Whatever the base class touches rows with is overridden, or harmless and listed here."""
        harmless = {"__getitem__", "__setitem__", "__iter__", "nbytes", "_exec_sql", "_collision_check"}
        harmless |= {"_make_container_dir"}
        base = {
            name
            for owner in PersistentDict.__mro__
            if owner.__module__ == "pytools.persistent_dict"
            for name, member in vars(owner).items()
            if callable(member)
        }
        assert base - vars(GeneratorDict).keys() - harmless <= {"__class_getitem__", "__init_subclass__"}

    def test_mapping(self, tmp_path: Path) -> None:
        """It is still a mapping with the methods of a PersistentDict."""
        store = a_dict(tmp_path)
        assert isinstance(store, PersistentDict)
        assert len(store) == 0
        store["a"] = b"1"
        store.store_if_not_present("a", b"2")
        store["b"] = b"3"
        assert (list(store), list(store.values()), list(store.items())) == (
            ["a", "b"],
            [b"1", b"3"],
            [("a", b"1"), ("b", b"3")],
        )
        assert store.nbytes() > 0
        assert str(tmp_path) in repr(store)
        del store["a"]
        with pytest.raises(KeyError):
            store.remove("a")
        with pytest.raises(KeyError):
            store["a"]
        store.clear()
        assert dict(store) == {}

    def test_pytools_is_imported_late(self) -> None:
        """Importing the module imports neither pytools nor SQLite's dictionary."""
        code = "import sys, kcl.cache.stores.persistentdict; print('pytools' in sys.modules)"
        assert python(code).communicate()[0] == "False\n"


class TestNoPickle:
    class Bomb:
        """Unpickling it creates a file."""

        def __init__(self, path: Path) -> None:
            self.path = path

        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(self.path), "w")

    def test_pickles_stay_bytes(self, tmp_path: Path, rows: Rows) -> None:
        """A row that holds a pickle, as pytools would have written it, is handed out as bytes by every method."""
        mark = tmp_path / "unpickled"
        bomb = pickle.dumps((example(1), self.Bomb(mark)))
        with sqlite3.connect(rows.location) as connection:
            connection.execute("UPDATE dict SET key_value = ?", (bomb,))
        store = a_dict(tmp_path)
        assert rows.get(example(1)) == bomb
        assert store.fetch(example(1)) == bomb
        assert set(store.values()) == {bomb}
        assert {value for _, value in store.items()} == {bomb}
        assert len(list(store.keys())) == len(list(store)) == len(store) == 10
        assert len(list(rows.scan())) == 10
        store.store_if_not_present(example(1), b"new")
        store.remove(example(1))
        del store[example(2)]
        rows.delete(example(3))
        rows.put(example(4), b"new")
        store.clear()
        assert not mark.exists()
        pickle.loads(bomb)
        assert mark.exists()  # it would have gone off

    @pytest.mark.parametrize("value", ["a text", 1, 1.5])
    def test_other_types(self, rows: Rows, value: object) -> None:
        """A row of another type is handed out as bytes or is damage, never as something else."""
        with sqlite3.connect(rows.location) as connection:
            connection.execute("UPDATE dict SET key_value = ?", (value,))
        assert rows.get(example(1)) == str(value).encode()

    def test_text_that_is_not_utf8(self, rows: Rows) -> None:
        """A text that cannot be decoded comes back as its bytes, for the entry's digest to reject."""
        with sqlite3.connect(rows.location) as connection:
            connection.execute("UPDATE dict SET key_value = CAST(x'ff00ff' AS TEXT)")
        assert rows.get(example(1)) == b"\xff\0\xff"


class TestFork:
    def test_threads_that_fork_at_once(self, tmp_path):
        """Each thread that forks lets go of what it held back itself, so that a statement in any thread goes on."""
        rows = Rows(tmp_path / "pytools")
        rows.put(example(1), b"whole")
        children = []

        def fork(_number):
            for _ in range(5):
                child = os.fork()
                if not child:
                    signal.alarm(20)  # ends a child in which the statement waits for ever
                    os._exit(rows.get(example(1)) != b"whole")
                children.append(child)

        at_once(fork, 6)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 30
        found = []
        thread = threading.Thread(target=lambda: found.append(rows.get(example(1))), daemon=True)
        thread.start()
        thread.join(20)
        assert found == [b"whole"]


def test_row_of_another_process(tmp_path: Path) -> None:
    """A row that others remove and store again while the index is looked at is no damage."""
    rows, others = a_dict(tmp_path), a_dict(tmp_path)
    rows["key"] = b"1"

    class Between:
        asked = 0

        def ask(self, command: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
            self.asked += 1
            if self.asked == 1:
                others.remove("key")
            found = rows._connection().ask(command, values)
            if self.asked == 1:
                others["key"] = b"2"
            return found

    generatordict._check_index(Between(), "key", 1)
