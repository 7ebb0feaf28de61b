"""kcl.cache.stores.busy: steps on a file that other processes use end while those work, and not for ever."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress

import pytest

from kcl.cache.stores import busy

WRITER = """
import sqlite3, sys, time
rows, end = sqlite3.connect(sys.argv[1], isolation_level=None), time.monotonic() + float(sys.argv[2])
rows.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
while time.monotonic() < end:
    rows.execute("INSERT INTO dict VALUES (hex(randomblob(8)), 'x')")
    time.sleep(0.2)
    rows.execute("COMMIT")
    rows.execute("BEGIN EXCLUSIVE")
"""

READER = """
import os, sqlite3, sys, time
rows, end = sqlite3.connect(sys.argv[1], isolation_level=None), time.monotonic() + float(sys.argv[2])
rows.execute("BEGIN")
rows.execute("SELECT * FROM dict").fetchall()
print("locked", flush=True)
while time.monotonic() < end:
    os.utime(sys.argv[1])
    time.sleep(0.1)
"""


@pytest.fixture
def path(tmp_path):
    """A database of one row."""
    name = str(tmp_path / "a %b?.sqlite")
    with closing(sqlite3.connect(name)) as made, made:
        made.execute("CREATE TABLE dict (keyhash TEXT NOT NULL PRIMARY KEY, key_value TEXT NOT NULL)")
        made.execute("INSERT INTO dict VALUES ('a', '1')")
    return name


@contextmanager
def beside(code, *arguments):
    """Run code in a process that says when it holds the file."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def keys(connection):
    return {key for (key,) in connection.ask("SELECT keyhash FROM dict")}


class TestConnection:
    def test_others_work(self, path):
        """A writer that leaves the file only for moments, and changes it, is waited for longer than an idle one."""
        with closing(busy.connect(path, "rw")) as connection, beside(WRITER, path, "2.5"):
            connection.ask("INSERT INTO dict VALUES ('b', '2')")
            assert {"a", "b"} <= keys(connection)

    def test_idle(self, path):
        """A holder that does nothing is left behind, and waited for once only."""
        code = WRITER.replace("time.sleep(0.2)", "sys.stdin.readline()")
        with closing(busy.connect(path, "ro")) as connection, beside(code, path, "9"):
            for longest in (50.0, 0.5):  # a second, times those who share a core; then at once
                started = time.monotonic()
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    keys(connection)
                assert time.monotonic() - started < longest

    def test_other_errors(self, path):
        """What is wrong with a statement is raised at once."""
        with (
            closing(busy.connect(path, "ro")) as connection,
            pytest.raises(sqlite3.OperationalError, match="no such column"),
        ):
            connection.ask("SELECT other FROM dict")

    def test_missing(self, path, tmp_path):
        """A file that is not there is not made."""
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            busy.connect(str(tmp_path / "none"), "rw")
        assert os.listdir(tmp_path) == [os.path.basename(path)]

    def test_readers(self, path):
        """A change ends although other threads read all the time."""
        over = threading.Event()

        def read():
            with closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as rows:
                while not over.is_set():
                    rows.execute("BEGIN")
                    rows.execute("SELECT * FROM dict").fetchall()
                    time.sleep(0.02)
                    rows.execute("COMMIT")

        readers = [threading.Thread(target=read) for _ in range(16)]
        for reader in readers:
            reader.start()
        try:
            with closing(busy.connect(path, "rw")) as connection:
                for name in "bcdef":
                    connection.ask(f"INSERT INTO dict VALUES ('{name}', '2')")
                assert keys(connection) == set("abcdef")
        finally:
            over.set()
            for reader in readers:
                reader.join()

    def test_patience_comes_back(self, path):
        """After a wait in vain, a file that works again is waited for as before."""
        code = WRITER.replace("time.sleep(0.2)", "sys.stdin.readline()")
        with closing(busy.connect(path, "rw")) as connection:
            with beside(code, path, "9"), pytest.raises(sqlite3.OperationalError, match="locked"):
                keys(connection)
            assert keys(connection) == {"a"}
            with beside(WRITER.replace("time.sleep(0.2)", "time.sleep(0.5)"), path, "0.1"):
                assert "a" in keys(connection)

    def test_waiting_is_no_work(self, path):
        """Writers who wait for a reader that does nothing do not take each other for the one that works."""
        waiting = """
import sqlite3, sys, time
from kcl.cache.stores import busy
rows, started = busy.connect(sys.argv[1], "rw"), time.monotonic()
try:
    rows.ask("INSERT INTO dict VALUES (hex(randomblob(8)), 'x')")
except sqlite3.OperationalError:
    print(time.monotonic() - started)
"""
        command = [sys.executable, "-c", waiting, path]
        with beside(READER.replace("os.utime(sys.argv[1])", "pass"), path, "90"):
            writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
            seconds = [float(writer.communicate()[0]) for writer in writers]
        assert max(seconds) < 30  # a second, times the number of those who share a core; not the longest wait

    def test_fork(self, path):
        """A child that is forked while a thread waits uses the file."""
        with beside(READER, path, "2"), closing(busy.connect(path, "rw")) as connection:
            thread = threading.Thread(target=connection.ask, args=("INSERT INTO dict VALUES ('b', '2')",))
            thread.start()
            time.sleep(0.5)
            child = os.fork()
            if not child:
                time.sleep(2.5)
                status = 1
                with suppress(BaseException):
                    status = int(keys(busy.connect(path, "rw")) != {"a", "b"})
                os._exit(status)
            thread.join()
            assert os.waitpid(child, 0)[1] == 0

    def test_fork_beside_one_that_takes_long(self, path, monkeypatch):
        """A child opens the file although another thread held the turns for longer than the fork waited for them."""
        monkeypatch.setattr(busy, "_FORK_SECONDS", 0.05)
        connection, held, over = busy.connect(path, "rw"), threading.Event(), threading.Event()

        def hold():
            with busy._state().opening, connection.turn:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits for ever
            os._exit(keys(busy.connect(path, "ro")) != {"a"})
        over.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
        connection.close()
