"""kcl.cache.stores.sqlite: rows of bytes in the file of pytools' PersistentDict."""

import ast
import contextlib
import os
import pickle
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from at_once import at_once
from harness import ROOT, python
from planted import plant
from pytools.persistent_dict import PersistentDict
from store_contract import PersistentContract, example

from kcl.base.settings import trust
from kcl.cache.places import ASIDE, GENERATED
from kcl.cache.stores import ROW_LIMIT, sqlite
from kcl.cache.stores.sqlite import Database, Rows
from kcl.errors import DamagedEntry, UnusableDirectory

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
_INDEX_LEAF = 10  # how a page of an index begins


@pytest.fixture
def rows(tmp_path):
    """A store whose file holds rows 0 to 9."""
    store = Rows(tmp_path)
    for number in range(10):
        store.put(example(number), b"%d" % number)
    return store


@pytest.fixture
def locked(rows):
    """A process that holds the file of `rows` locked until a line is sent to it."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.readline(); c.execute('ROLLBACK')"
    )
    with python(code, rows.location) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def reopened(rows):
    """Return another store of the same file."""
    return Rows(os.path.dirname(rows.location))


class TestRows(PersistentContract):
    def make(self, tmp_path):
        return Rows(tmp_path / "pytools")

    def test_arguments_by_name(self) -> None:
        """Only the file is given to SQLite by its place: Python 3.13 warns of more, and 3.15 refuses them."""
        found = [
            call
            for path in (ROOT / "kcl").rglob("*.py")
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "sqlite3.connect"
        ]
        assert found
        assert [len(call.args) for call in found] == [1] * len(found)


class TestBusy:
    def test_locked_by_another_process(self, rows, locked, monkeypatch):
        """While another process holds the file a get finds nothing and a put keeps nothing; no error says so.

        After a wait in vain nothing waits, until the file works again: then a lock is waited for.
        """
        rows._close()
        with monkeypatch.context() as patched:
            patched.setattr(sqlite, "_PATIENCE", 0.2)
            assert rows.get(example(1)) is None
        for number in range(42):
            rows.put(example(number), b"new")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Database(rows.location).get(example(1))
        locked.communicate("go on\n")
        assert rows.get(example(1)) == b"1"
        rows.put(example(1), b"new")
        assert not os.path.exists(rows.location + ASIDE)
        shared = {"isolation_level": None, "check_same_thread": False}
        with sqlite3.connect(rows.location, **shared) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            timer = threading.Timer(0.5, lambda: holder.execute("COMMIT"))
            timer.start()
            assert rows.get(example(1)) == b"new"
            timer.join()

    def test_a_change_ends_although_other_threads_read_all_the_time(self, rows):
        over = threading.Event()

        def read():
            with contextlib.closing(
                sqlite3.connect(rows.location, isolation_level=None, timeout=5.0)
            ) as connection:
                while not over.is_set():
                    connection.execute("BEGIN")
                    connection.execute("SELECT * FROM dict").fetchall()
                    time.sleep(0.02)
                    connection.execute("COMMIT")

        with ThreadPoolExecutor(16) as readers:
            try:
                reading = [readers.submit(read) for _ in range(16)]
                for number in range(20, 25):
                    rows.put(example(number), b"new")
            finally:
                over.set()
        assert [one.result() for one in reading] == [None] * 16
        assert len(list(rows.scan())) == 15


def use_as_a_layer(store):
    """Get and put rows, as a layer does that takes faults for misses; return what another layer gets then."""
    for number in range(5):
        with contextlib.suppress(sqlite3.Error, DamagedEntry):
            assert isinstance(store.get(example(number)), bytes | None)
        with contextlib.suppress(sqlite3.Error, DamagedEntry):
            store.put(example(number), b"new")
    again = reopened(store)
    for number in range(5):
        with contextlib.suppress(DamagedEntry):
            again.put(example(number), b"newer")
    return [again.get(example(number)) for number in range(5)]


class TestDamage:
    @pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
    def test_set_aside_once(self, rows, content):
        """A file that is no database is reported, set aside and made anew, once in a process; then it is an error."""
        fresh = reopened(rows)
        Path(rows.location).write_bytes(content)
        with pytest.raises(DamagedEntry, match="was damaged"):
            fresh.get(example(1))
        assert Path(rows.location + ASIDE).read_bytes() == content
        assert fresh.get(example(1)) is None
        fresh.put(example(1), b"new")
        assert fresh.get(example(1)) == b"new"
        Path(rows.location).write_bytes(content)
        with pytest.raises(sqlite3.DatabaseError):
            fresh.get(example(1))
        assert Path(rows.location).read_bytes() == content

    def test_cut_or_flipped(self, tmp_path):
        """However long it is, and with any byte of its header or schema changed, puts work after one report."""
        whole = Rows(tmp_path / "whole")
        for number in range(5):
            whole.put(example(number), b"%d" % number * 3000)
        content = Path(whole.location).read_bytes()
        damaged = [content[:length] for length in range(0, len(content), 997)]
        for position in [*range(16, 28), *range(40, 64), *range(92, 116), *range(3900, 4096, 9)]:
            flipped = bytes([content[position] ^ 0x40])
            damaged.append(content[:position] + flipped + content[position + 1 :])
        for number, content in enumerate(damaged):
            store = Rows(tmp_path / str(number))
            os.mkdir(tmp_path / str(number), 0o700)
            Path(store.location).touch(0o600)
            Path(store.location).write_bytes(content)
            assert use_as_a_layer(store) == [b"newer"] * 5, number

    @pytest.mark.parametrize("damage", ["order", "type", "lost"])
    def test_index(self, rows, damage):
        """Where the index is damaged, and a get misses, a put keeps a row that is found again, and listed once."""
        content = bytearray(Path(rows.location).read_bytes())
        page = next(page for page in range(0, len(content), 4096) if content[page] == _INDEX_LEAF)
        first, second = (
            int.from_bytes(content[page + 8 + 2 * cell : page + 10 + 2 * cell], "big")
            for cell in (4, 5)
        )
        if damage == "order":
            content[page + 16 : page + 20] = second.to_bytes(2, "big") + first.to_bytes(2, "big")
        elif damage == "type":
            content[page + first + 2] ^= 1  # of a text it makes bytes
        else:
            content[page + 4] -= 1  # the number of its cells
        Path(rows.location).write_bytes(content)
        store = reopened(rows)
        (missed, *_others) = [number for number in range(10) if store.get(example(number)) is None]
        store.put(example(missed), b"again")
        assert reopened(rows).get(example(missed)) == b"again"
        listed = [*Database(rows.location).scan()]
        assert damage != "lost" or sorted(listed) == sorted(map(example, range(10)))

    def test_file_of_another_is_not_set_aside(self, rows):
        """Of two stores that meet the same damage the slower does not set aside the new file of the faster."""
        fast = reopened(rows)

        def damage(connection):
            Path(rows.location).write_bytes(b"garbage" * 1000)
            with pytest.raises(DamagedEntry):
                fast.put(example(1), b"new")
            connection.execute("SELECT other FROM dict")

        with pytest.raises(DamagedEntry):
            rows._try(damage)
        assert fast.get(example(1)) == rows.get(example(1)) == b"new"

    def test_killed_writers(self, tmp_path):
        """Writers killed at any moment leave a file that can be read and written."""
        code = (
            "import os, sys; from kcl.cache.stores.sqlite import Rows\n"
            "from store_contract import example\n"
            "store = Rows(sys.argv[1]); print('go', flush=True)\n"
            "while True:\n  for number in range(20): store.put(example(number), bytes([number]) * 5000)"
        )
        for _ in range(3):
            with python(code, str(tmp_path)) as process:
                process.stdout.readline()
                for number in range(20):
                    try:
                        assert Rows(tmp_path).get(example(number)) in (None, bytes([number]) * 5000)
                    except sqlite3.OperationalError as error:
                        assert "locked" in str(error)  # noqa: PT017
                process.kill()
        store = Rows(tmp_path)
        store.put(example(1), b"after")
        assert store.get(example(1)) == b"after"


class TestFile:
    def test_deleted_while_open(self, rows):
        """A file deleted under an open store is gone for it too, and made anew by the next put."""
        assert rows.get(example(1)) == b"1"
        os.unlink(rows.location)
        assert rows.get(example(1)) is None
        assert not os.path.exists(rows.location)
        rows.put(example(2), b"new")
        assert reopened(rows).get(example(2)) == b"new"

    def test_characters_that_mean_something_in_a_uri_are_allowed_in_the_path(self, tmp_path):
        store = Rows(tmp_path / "100%2f? #x")
        store.put(example(1), b"blob")
        assert store.get(example(1)) == b"blob"
        assert os.path.dirname(store.location) == str(tmp_path / "100%2f? #x")

    def test_empty_file(self, tmp_path):
        """A file that another process has just made, without a table, is empty."""
        store = Rows(tmp_path)
        os.close(os.open(store.location, os.O_CREAT, 0o600))
        assert store.get(example(1)) is None
        store.delete(example(1))
        assert list(store.scan()) == []
        store.put(example(1), b"blob")
        assert store.get(example(1)) == b"blob"

    @pytest.mark.parametrize("kind", ["link", "fifo", "directory", "device"])
    @pytest.mark.parametrize("place", ["", *trust.SIDECARS])
    @pytest.mark.timeout(60)
    def test_planted(self, tmp_path, kind, place):
        """Anything but a regular file is refused and left alone, in the file's place and where SQLite looks beside it."""
        target, opened = tmp_path / "target", Rows(tmp_path / "pytools")
        opened.put(example(1), b"blob")
        listed = Database(opened.location)
        assert listed.get(example(1)) == b"blob"
        if not place:
            os.unlink(opened.location)
            target.write_bytes(b"precious")
        plant(kind, target, opened.location + place)
        for store in (opened, listed, reopened(opened), Database(opened.location)):
            with pytest.raises(UnusableDirectory, match="not a regular file"):
                store.get(example(1))
        for store in (opened, reopened(opened)):
            with pytest.raises(UnusableDirectory, match="not a regular file"):
                store.put(example(2), b"new")
        if place:
            assert not target.exists()
            (os.rmdir if kind == "directory" else os.unlink)(opened.location + place)
            assert (opened.get(example(1)), opened.get(example(2))) == (b"blob", None)
        else:
            assert target.read_bytes() == b"precious"

    def test_a_row_that_is_longer_than_any_entry_is_cut_and_one_is_not_put(self, rows):
        change = "UPDATE dict SET key_value = zeroblob(?) WHERE keyhash = ?"
        rows.ask(change, ROW_LIMIT + 1, example(8))
        assert len(rows.get(example(8))) == ROW_LIMIT
        with pytest.raises(ValueError, match="above the limit"):
            rows.put(example(9), bytes(ROW_LIMIT + 1))

    @AS_ROOT
    @pytest.mark.parametrize(
        ("mode", "suffixes"), [("DELETE", ["", "-journal"]), ("WAL", ["", "-wal", "-shm"])]
    )
    def test_given_away(self, tmp_path, monkeypatch, mode, suffixes):
        """Root gives the file to the user whom it serves, and SQLite the files that it opens beside it."""
        os.chown(tmp_path, 12345, 12345)
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path))
        monkeypatch.setenv("KCL_TRUST_UID", "12345")
        rows = Rows(tmp_path / "pytools")
        rows.put(example(1), b"blob")
        with contextlib.closing(sqlite3.connect(rows.location, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM dict")
            owners = {str(path): path.stat().st_uid for path in (tmp_path / "pytools").iterdir()}
            assert owners == {rows.location + suffix: 12345 for suffix in suffixes}

    def test_loose_directory(self, rows):
        """A directory that others can write is refused for reading and writing."""
        os.chmod(os.path.dirname(rows.location), 0o777)
        fresh = reopened(rows)
        for use in (lambda: fresh.get(example(1)), lambda: fresh.put(example(1), b"blob")):
            with pytest.raises(UnusableDirectory, match="chmod go-w"):
                use()

    @AS_ROOT
    def test_read_only(self):
        """A file that I may only read is read; a put is an error, and the file is not set aside."""
        code = (
            "import os, sys, sqlite3; from kcl.cache.stores.sqlite import Rows;"
            "from store_contract import example;"
            "os.setgid(12345); os.setuid(12345); store = Rows(sys.argv[1]); print(store.get(example(1)))\n"
            "try: store.put(example(1), b'new')\nexcept sqlite3.OperationalError as error: print(error)"
        )
        # Those of tmp_path are closed to others.
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            store = Rows(place)
            store.put(example(1), b"blob")
            for path, mode in ((store.location, 0o400), (place, 0o500)):
                os.chmod(path, mode)
                os.chown(path, 12345, 12345)
            output = python(code, place).communicate()[0].splitlines()
            assert output == ["b'blob'", "attempt to write a readonly database"]
            assert not os.path.exists(store.location + ASIDE)


class TestDatabase:
    def test_same(self, rows):
        """It reads what was put, without making anything."""
        rows.put(example(2), b"")
        database = Database(rows.location)
        assert list(database.scan()) == list(rows.scan())
        for place in (example(1), example(2), example(30)):
            assert database.get(place) == rows.get(place)
        assert database.head(example(1), 8) == ((1, None), b"1")
        heads = [(place, rows.head(place, 8)) for place in rows.scan()]
        assert list(database.heads(8)) == heads
        assert database.count(b"1", 100) == 1
        assert database.count(b"10", 100) == 0
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            database.ask("DELETE FROM dict")
        assert Database(rows.location + "none").get(example(1)) is None
        assert not os.path.exists(rows.location + "none")

    def test_many(self, rows):
        """A scan of more rows than one statement reads yields each once, in the order of their making."""
        blobs = [(example(number), b"blob") for number in range(1000, 2200)]
        rows.ask("DELETE FROM dict")
        assert rows.connection is not None
        rows.connection.executemany("INSERT INTO dict VALUES (?, ?)", blobs)
        assert list(rows.scan()) == [place for place, _blob in blobs]

    def test_another_row_is_not_listed(self, rows):
        rows.ask("INSERT INTO dict VALUES (?, ?)", "other", b"1")
        assert len(list(Database(rows.location).scan())) == 10


class TestPytools:
    def test_same_file(self, tmp_path):
        """Table and name are those of the installed pytools, but for the patch release; pytools empties the file."""
        place = {"container_dir": str(tmp_path), "safe_sync": False}
        theirs, ours = PersistentDict(GENERATED, **place), Rows(tmp_path / "ours")
        theirs["key"] = b"value"
        ours.put(example(1), b"blob")
        suffix = "-{}.{}.sqlite".format(*sys.version_info)
        name = os.path.basename(ours.location)
        assert name.endswith(suffix)
        assert os.path.basename(theirs.filename).startswith(name.removesuffix(suffix))
        command = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('dict')"
        one, other = (
            sqlite3.connect(path).execute(command).fetchall()
            for path in (theirs.filename, ours.location)
        )
        assert one == other
        os.replace(ours.location, theirs.filename)
        PersistentDict(GENERATED, **place).clear()
        os.replace(theirs.filename, ours.location)
        assert ours.get(example(1)) is None

    def test_pickles_stay_bytes(self, rows):
        """A row that holds a pickle, as pytools would have written it, is handed out as bytes."""
        pickled = pickle.dumps((example(1), "value"))
        rows.ask("UPDATE dict SET key_value = ?", pickled)
        assert rows.get(example(1)) == Database(rows.location).get(example(1)) == pickled
        assert len(list(rows.scan())) == 10


def forked(status):
    """Fork a child that ends with a status, at most after 20 seconds; return its number."""
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(status())
    return child


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestProcesses:
    def test_fork_then_use(self, tmp_path):
        """Forked children, also of a parent whose threads are using the store, read and write on their own."""
        code = (
            "import os, sys, threading; from kcl.cache.stores.sqlite import Rows\n"
            "from store_contract import example\n"
            "store = Rows(sys.argv[1]); store.put(example(1), b'parent'); stop = threading.Event()\n"
            "def work():\n"
            "    while not stop.is_set(): store.put(example(3), b'thread'); store.get(example(1))\n"
            "threads = [threading.Thread(target=work) for _ in range(2)]\n"
            "for thread in threads: thread.start()\n"
            "codes = []\n"
            "for number in range(10, 20):\n"
            "    child = os.fork()\n"
            "    if not child:\n"
            "        assert store.get(example(1)) == b'parent'; store.put(example(number), b'child')\n"
            "        sys.exit(0) if number % 2 else os._exit(0)\n"
            "    codes.append(os.waitpid(child, 0)[1])\n"
            "stop.set()\n"
            "for thread in threads: thread.join()\n"
            "store.put(example(4), b'parent')\n"
            "print(codes.count(0), sum(store.get(example(number)) == b'child' for number in range(10, 20)))"
        )
        process = python(code, str(tmp_path))
        assert process.communicate(timeout=60)[0] == "10 10\n"

    def test_threads_that_fork_at_once(self, rows):
        """Each thread that forks lets go of what it held back itself, so that a step in any thread goes on."""
        children = []

        def fork(_number):
            for _ in range(5):
                children.append(forked(lambda: rows.get(example(1)) != b"1"))

        at_once(fork, 6)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 30
        found = []
        thread = threading.Thread(target=lambda: found.append(rows.get(example(1))), daemon=True)
        thread.start()
        thread.join(20)
        assert found == [b"1"]

    def test_fork_beside_one_that_takes_long(self, rows, monkeypatch):
        """A child opens the file although another thread held its turn for longer than the fork waited for it."""
        monkeypatch.setattr(sqlite, "_FORK_SECONDS", 0.05)
        held, over = threading.Event(), threading.Event()

        def hold():
            with sqlite._state().lock:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        child = forked(lambda: rows.get(example(1)) != b"1")
        over.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
