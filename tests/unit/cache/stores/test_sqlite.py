"""kcl.cache.stores.sqlite: rows of bytes in the file of pytools' PersistentDict."""

import ast
import contextlib
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from at_once import at_once
from harness import ROOT, python
from pytools.persistent_dict import PersistentDict
from store_contract import PersistentContract, example

from kcl.base.settings import trust
from kcl.cache.places import ASIDE, GENERATED
from kcl.cache.stores import ROW_LIMIT, Store, sqlite
from kcl.cache.stores.sqlite import Database, Rows
from kcl.errors import DamagedEntry, UnusableDirectory

_INDEX_LEAF = 10  # how a page of an index begins


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """A store whose file holds rows 0 to 9."""
    store = Rows(tmp_path)
    for number in range(10):
        store.put(example(number), b"%d" % number)
    return store


@pytest.fixture
def locked(rows: Rows) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the file of `rows` locked until a line is sent to it."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.readline(); c.execute('ROLLBACK')"
    )
    with python(code, rows.location) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


class TestRows(PersistentContract):
    def make(self, tmp_path: Path) -> Store:
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
    @pytest.fixture
    def impatient(self, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
        """Have the next wait for a lock end soon; `undo` brings the patience back."""
        rows._close()
        monkeypatch.setattr(sqlite, "_PATIENCE", 0.2)
        return monkeypatch

    @pytest.mark.usefixtures("impatient")
    def test_locked_by_another_process(self, rows: Rows, locked: subprocess.Popen[str]) -> None:
        """While another process holds the file a get finds nothing and a put keeps nothing; no error says so."""
        assert rows.get(example(1)) is None
        for number in range(42):
            rows.put(example(number), b"new")  # waits no longer
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Database(rows.location).get(example(1))
        locked.communicate("go on\n")
        assert rows.get(example(1)) == b"1"
        rows.put(example(1), b"new")
        assert rows.get(example(1)) == b"new"
        assert not os.path.exists(rows.location + ASIDE)

    def test_patience_comes_back(
        self, rows: Rows, locked: subprocess.Popen[str], impatient: pytest.MonkeyPatch
    ) -> None:
        """A lock that is released meanwhile is waited for, also after a wait in vain."""
        assert rows.get(example(1)) is None
        impatient.undo()
        locked.communicate("go on\n")
        assert rows.get(example(1)) == b"1"
        with sqlite3.connect(
            rows.location, isolation_level=None, check_same_thread=False
        ) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            timer = threading.Timer(0.5, lambda: holder.execute("COMMIT"))
            timer.start()
            assert rows.get(example(1)) == b"1"
            timer.join()

    def test_readers(self, rows: Rows) -> None:
        """A change ends although other threads read all the time."""
        over = threading.Event()

        def read() -> None:
            with contextlib.closing(
                sqlite3.connect(rows.location, isolation_level=None, timeout=5.0)
            ) as connection:
                while not over.is_set():
                    connection.execute("BEGIN")
                    connection.execute("SELECT * FROM dict").fetchall()
                    time.sleep(0.02)
                    connection.execute("COMMIT")

        readers = [threading.Thread(target=read) for _ in range(16)]
        for reader in readers:
            reader.start()
        try:
            for number in range(20, 25):
                rows.put(example(number), b"new")
            assert len(list(rows.scan())) == 15
        finally:
            over.set()
            for reader in readers:
                reader.join()


class TestDamage:
    @pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
    def test_garbage(self, rows: Rows, content: bytes) -> None:
        """A file that is no database is reported once, set aside and made anew."""
        Path(rows.location).write_bytes(content)
        fresh = Rows(os.path.dirname(rows.location))
        with pytest.raises(DamagedEntry, match="was damaged"):
            fresh.get(example(1))
        assert Path(rows.location + ASIDE).read_bytes() == content
        assert fresh.get(example(1)) is None
        fresh.put(example(1), b"new")
        assert fresh.get(example(1)) == b"new"

    def test_once_per_process(self, rows: Rows) -> None:
        """A file that is damaged again is an error and stays where it is."""
        for expected in (DamagedEntry, sqlite3.DatabaseError):
            Path(rows.location).write_bytes(b"garbage" * 1000)
            with pytest.raises(expected):
                rows.get(example(1))
        assert os.path.exists(rows.location)

    def test_truncated(self, tmp_path: Path) -> None:
        """At any length a shortened file gives the row, nothing or an error; afterwards puts work."""
        content = self.database(tmp_path)
        for length in range(0, len(content), 997):
            self.check(tmp_path / str(length), content[:length])

    def test_flipped(self, tmp_path: Path) -> None:
        """With any byte of the first page's header or schema changed, likewise."""
        content = self.database(tmp_path)
        for position in [*range(16, 28), *range(40, 64), *range(92, 116), *range(3900, 4096, 9)]:
            flipped = bytes([content[position] ^ 0x40])
            self.check(
                tmp_path / str(position), content[:position] + flipped + content[position + 1 :]
            )

    @staticmethod
    def database(directory: Path) -> bytes:
        store = Rows(directory / "whole")
        for number in range(5):
            store.put(example(number), b"%d" % number * 3000)
        return Path(store.location).read_bytes()

    @staticmethod
    def check(directory: Path, content: bytes) -> None:
        """Use a store whose file has this content, as a layer would: faults are misses, puts come after them."""
        store = Rows(directory)
        directory.mkdir(0o700)
        Path(store.location).write_bytes(content)
        os.chmod(store.location, 0o600)
        for number in range(5):
            try:
                blob = store.get(example(number))
            except (sqlite3.Error, DamagedEntry):
                blob = None
            assert blob is None or isinstance(blob, bytes)
            try:
                store.put(example(number), b"new")
            except (sqlite3.Error, DamagedEntry):
                pass
        again = Rows(directory)
        for number in range(5):
            try:
                again.put(example(number), b"newer")
            except DamagedEntry:
                pass
        assert [again.get(example(number)) for number in range(5)] == [b"newer"] * 5

    @pytest.mark.parametrize("damage", ["order", "type", "lost"])
    def test_index(self, rows: Rows, damage: str) -> None:
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
        store = Rows(os.path.dirname(rows.location))
        (missed, *_others) = [number for number in range(10) if store.get(example(number)) is None]
        store.put(example(missed), b"again")
        assert Rows(os.path.dirname(rows.location)).get(example(missed)) == b"again"
        listed = [*Database(rows.location).scan()]
        assert damage != "lost" or sorted(listed) == sorted(map(example, range(10)))

    def test_file_of_another_is_not_set_aside(self, rows: Rows) -> None:
        """Of two stores that meet the same damage the slower does not set aside the new file of the faster."""
        fast = Rows(os.path.dirname(rows.location))

        def damage(connection: sqlite3.Connection) -> None:
            Path(rows.location).write_bytes(b"garbage" * 1000)
            with pytest.raises(DamagedEntry):
                fast.put(example(1), b"new")
            connection.execute("SELECT other FROM dict")

        with pytest.raises(DamagedEntry):
            rows._try(damage)
        assert fast.get(example(1)) == rows.get(example(1)) == b"new"

    def test_killed_writers(self, tmp_path: Path) -> None:
        """Writers killed at any moment leave a file that can be read and written."""
        code = (
            "import os, sys; from kcl.cache.stores.sqlite import Rows\n"
            "from store_contract import example\n"
            "store = Rows(sys.argv[1]); print('go', flush=True)\n"
            "while True:\n  for number in range(20): store.put(example(number), bytes([number]) * 5000)"
        )
        for _ in range(3):
            with python(code, str(tmp_path)) as process:
                assert process.stdout is not None
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
    def test_deleted_while_open(self, rows: Rows) -> None:
        """A file deleted under an open store is gone for it too, and made anew by the next put."""
        assert rows.get(example(1)) == b"1"
        os.unlink(rows.location)
        assert rows.get(example(1)) is None
        assert not os.path.exists(rows.location)
        rows.put(example(2), b"new")
        assert Rows(os.path.dirname(rows.location)).get(example(2)) == b"new"

    def test_special_characters(self, tmp_path: Path) -> None:
        """Characters that mean something in a URI are allowed in the path."""
        store = Rows(tmp_path / "100%2f? #x")
        store.put(example(1), b"blob")
        assert store.get(example(1)) == b"blob"
        assert os.path.dirname(store.location) == str(tmp_path / "100%2f? #x")

    def test_empty_file(self, tmp_path: Path) -> None:
        """A file that another process has just made, without a table, is empty."""
        store = Rows(tmp_path)
        os.close(os.open(store.location, os.O_CREAT, 0o600))
        assert store.get(example(1)) is None
        store.delete(example(1))
        assert list(store.scan()) == []
        store.put(example(1), b"blob")
        assert store.get(example(1)) == b"blob"

    @pytest.mark.parametrize("kind", ["symlink", "dangling", "fifo", "directory", "device"])
    def test_planted(self, tmp_path: Path, kind: str) -> None:
        """Anything but a regular file in the file's place is refused and left alone, like what it points to."""
        store = Rows(tmp_path / "pytools")
        (tmp_path / "pytools").mkdir(0o700)
        target = tmp_path / "target"
        if kind == "symlink":
            target.write_bytes(b"precious")
        if kind in ("symlink", "dangling"):
            os.symlink(target, store.location)
        elif kind == "fifo":
            os.mkfifo(store.location)
        elif kind == "directory":
            os.mkdir(store.location)
        elif os.geteuid() == 0:
            os.mknod(store.location, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        else:
            pytest.skip("only root can plant a device")
        for use in (lambda: store.get(example(1)), lambda: store.put(example(1), b"blob")):
            with pytest.raises(UnusableDirectory, match="not a regular file"):
                use()
        assert target.read_bytes() == b"precious" if kind == "symlink" else not target.exists()

    def test_planted_beside(self, tmp_path: Path) -> None:
        """A FIFO, a link or a directory that SQLite would open beside the file is refused, before and after opening."""
        code = (
            "import os, sys; from store_contract import example;"
            "from kcl.cache.stores.sqlite import Database, Rows\n"
            "plant = [lambda at: os.mkfifo(at, 0o600), os.mkdir, lambda at: os.symlink(at + '-target', at)]\n"
            "def said(use, *values):\n"
            "    try: return use(*values)\n"
            "    except Exception as error: return type(error).__name__\n"
            "for make, suffix in [(make, suffix) for suffix in sys.argv[2:] for make in plant]:\n"
            "    opened = Rows(sys.argv[1]); opened.put(example(1), b'blob'); listed = Database(opened.location)\n"
            "    beside = opened.location + suffix; listed.get(example(1)); make(beside)\n"
            "    stores = [opened, listed, Rows(sys.argv[1]), Database(opened.location)]\n"
            "    print(*[said(one.get, example(1)) for one in stores], end=' ')\n"
            "    print(*[said(one.put, example(2), b'new') for one in stores[::2]], flush=True)\n"
            "    os.rmdir(beside) if os.path.isdir(beside) else os.unlink(beside)\n"
            "print(opened.get(example(1)), opened.get(example(2)), os.path.lexists(beside + '-target'))\n"
        )
        process = python(code, str(tmp_path), *trust.SIDECARS)
        try:
            lines = process.communicate(timeout=60)[0].splitlines()
        finally:
            process.kill()
        assert lines == [" ".join(["UnusableDirectory"] * 6)] * 9 + ["b'blob' None False"]

    def test_huge_row(self, rows: Rows) -> None:
        """A row that is longer than any entry is cut, and one is not put."""
        with sqlite3.connect(rows.location) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO dict VALUES (?, zeroblob(?))", (example(8), ROW_LIMIT + 1)
            )
        connection.close()
        assert len(rows.get(example(8)) or b"") == ROW_LIMIT
        with pytest.raises(ValueError, match="above the limit"):
            rows.put(example(9), bytes(ROW_LIMIT + 1))

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    @pytest.mark.parametrize("mode", ["DELETE", "WAL"])
    def test_given_away(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
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
            found = {
                path.name.partition(".sqlite")[2]: path.stat().st_uid
                for path in (tmp_path / "pytools").iterdir()
            }
            assert found == dict.fromkeys(
                {"DELETE": ["", "-journal"], "WAL": ["", "-wal", "-shm"]}[mode], 12345
            )

    def test_loose_directory(self, rows: Rows) -> None:
        """A directory that others can write is refused for reading and writing."""
        os.chmod(os.path.dirname(rows.location), 0o777)
        fresh = Rows(os.path.dirname(rows.location))
        for use in (lambda: fresh.get(example(1)), lambda: fresh.put(example(1), b"blob")):
            with pytest.raises(UnusableDirectory, match="chmod go-w"):
                use()

    @pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
    def test_read_only(self, tmp_path: Path) -> None:
        """A file that I may only read is read; a put is an error, and the file is not set aside."""
        code = (
            "import os, sys, sqlite3; from kcl.cache.stores.sqlite import Rows;"
            "from store_contract import example;"
            "os.setgid(12345); os.setuid(12345); store = Rows(sys.argv[1]); print(store.get(example(1)))\n"
            "try: store.put(example(1), b'new')\nexcept sqlite3.OperationalError as error: print(error)"
        )
        place = (
            Path("/tmp") / f"kcl-test-{os.getpid()}-{tmp_path.name}"
        )  # tmp_path's ancestors are closed to others
        store = Rows(place)
        store.put(example(1), b"blob")
        try:
            os.chmod(store.location, 0o400)
            os.chown(store.location, 12345, 12345)
            os.chown(place, 12345, 12345)
            os.chmod(place, 0o500)
            output = python(code, str(place)).communicate()[0].splitlines()
            assert output == ["b'blob'", "attempt to write a readonly database"]
            assert not os.path.exists(store.location + ASIDE)
        finally:
            os.unlink(store.location)
            os.rmdir(place)


class TestDatabase:
    def test_same(self, rows: Rows) -> None:
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

    def test_many(self, rows: Rows) -> None:
        """A scan of more rows than one statement reads yields each once, in the order of their making."""
        blobs = [(example(number), b"blob") for number in range(1000, 2200)]
        rows.ask("DELETE FROM dict")
        assert rows.connection is not None
        rows.connection.executemany("INSERT INTO dict VALUES (?, ?)", blobs)
        assert list(rows.scan()) == [place for place, _blob in blobs]

    def test_what_is_no_row_of_kcl(self, rows: Rows) -> None:
        """A row that is no entry's is not listed."""
        with sqlite3.connect(rows.location) as connection:
            connection.execute("INSERT INTO dict VALUES (?, ?)", ("other", b"1"))
        assert len(list(Database(rows.location).scan())) == 10


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


class TestPytools:
    def test_same_file(self, tmp_path: Path) -> None:
        """Table and name are those of the installed pytools, but for the patch release; pytools empties the file."""
        theirs: PersistentDict[str, bytes] = PersistentDict(
            GENERATED, container_dir=str(tmp_path), safe_sync=False
        )
        theirs["key"] = b"value"
        ours = Rows(tmp_path / "ours")
        ours.put(example(1), b"blob")
        python = "{}.{}".format(*sys.version_info)
        name = os.path.basename(ours.location)
        assert os.path.basename(theirs.filename).startswith(name.removesuffix(f"-{python}.sqlite"))
        assert name.endswith(f"-{python}.sqlite")
        command = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('dict')"
        tables = [
            sqlite3.connect(path).execute(command).fetchall()
            for path in (theirs.filename, ours.location)
        ]
        assert tables[0] == tables[1]
        os.replace(ours.location, theirs.filename)
        again: PersistentDict[str, bytes] = PersistentDict(
            GENERATED, container_dir=str(tmp_path), safe_sync=False
        )
        again.clear()
        os.replace(theirs.filename, ours.location)
        assert ours.get(example(1)) is None

    def test_pickles_stay_bytes(self, tmp_path: Path, rows: Rows) -> None:
        """A row that holds a pickle, as pytools would have written it, is handed out as bytes by every method."""
        mark = tmp_path / "unpickled"
        bomb = pickle.dumps((example(1), Bomb(mark)))
        with sqlite3.connect(rows.location) as connection:
            connection.execute("UPDATE dict SET key_value = ?", (bomb,))
        assert rows.get(example(1)) == Database(rows.location).get(example(1)) == bomb
        assert len(list(rows.scan())) == 10
        rows.delete(example(3))
        rows.put(example(4), b"new")
        assert not mark.exists()
        pickle.loads(bomb)
        assert mark.exists()  # it would have gone off


class TestProcesses:
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_fork_then_use(self, tmp_path: Path) -> None:
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

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_threads_that_fork_at_once(self, rows: Rows) -> None:
        """Each thread that forks lets go of what it held back itself, so that a step in any thread goes on."""
        children: list[int] = []

        def fork(_number: int) -> None:
            for _ in range(5):
                child = os.fork()
                if not child:
                    signal.alarm(20)  # ends a child in which the step waits for ever
                    os._exit(rows.get(example(1)) != b"1")
                children.append(child)

        at_once(fork, 6)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 30
        found: list[bytes | None] = []
        thread = threading.Thread(target=lambda: found.append(rows.get(example(1))), daemon=True)
        thread.start()
        thread.join(20)
        assert found == [b"1"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_fork_beside_one_that_takes_long(
        self, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A child opens the file although another thread held its turn for longer than the fork waited for it."""
        monkeypatch.setattr(sqlite, "_FORK_SECONDS", 0.05)
        held, over = threading.Event(), threading.Event()

        def hold() -> None:
            with sqlite._state().turn:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits for ever
            os._exit(rows.get(example(1)) != b"1")
        over.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
