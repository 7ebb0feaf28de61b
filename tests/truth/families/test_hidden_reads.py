"""Reads that are hidden: after a change of folder, in threads, through loaders, descriptors and C libraries."""

from __future__ import annotations

import pathlib
import sqlite3
import sys
import tempfile

import pytest
from family import LOOPY, SOURCE, Case, Edit, Interpreter, Link, Variables, Write, check, ran, rows


def database(number: int) -> bytes:
    """Return the file of a database that holds a number."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "steps.sqlite")
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("CREATE TABLE steps (factor INTEGER)")
            connection.execute("INSERT INTO steps VALUES (?)", (number,))
        connection.close()
        return path.read_bytes()


CASES = [
    # after a change of folder
    Case(
        "a relative file is read after the recipe went to its folder",
        """
        @kcl.kernel
        def NAME():
            os.chdir(pathlib.Path(__file__).parent / "deep")
            return KERNEL(int(open("factor.txt").read()))
        """,
        2,
        3,
        Write({"deep/factor.txt": "3"}),
        SOURCE,
        files={"deep/factor.txt": "2"},
    ),
    Case(
        "the driver goes to a folder that a variable names and the recipe reads a relative file",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(int(pathlib.Path("factor.txt").read_text()))


        def drive(launch):
            os.chdir(pathlib.Path(__file__).parent / os.environ["NAME_WHERE"])
            return launch(NAME())
        """,
        2,
        3,
        Variables(NAME_WHERE="two"),
        LOOPY,
        files={"one/factor.txt": "2", "two/factor.txt": "3"},
        variables={"NAME_WHERE": "one"},
    ),
    Case(
        "the process starts in another folder",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(int(pathlib.Path("factor.txt").read_text()))


        def drive(launch):
            there = pathlib.Path(__file__).parent / ("two" if pathlib.Path.cwd().name == "NAME" else "one")
            os.chdir(there)
            return launch(NAME())
        """,
        2,
        3,
        Interpreter(folder="NAME"),
        SOURCE,
        files={"one/factor.txt": "2", "two/factor.txt": "3"},
        alone=True,
    ),
    Case(
        "a helper opens by a descriptor of its folder",
        """
        def factor():
            folder = os.open(pathlib.Path(__file__).parent / "deep", os.O_RDONLY)
            try:
                with open(os.open("factor.txt", os.O_RDONLY, dir_fd=folder)) as stream:
                    return int(stream.read())
            finally:
                os.close(folder)


        @kcl.kernel
        def NAME():
            return KERNEL(factor())
        """,
        2,
        3,
        Write({"deep/factor.txt": "3"}),
        LOOPY,
        files={"deep/factor.txt": "2"},
    ),
    # in threads
    Case(
        "a thread of the recipe reads a file",
        """
        @kcl.kernel
        def NAME():
            found = []
            path = pathlib.Path(__file__).parent / "factor.txt"
            thread = threading.Thread(target=lambda: found.append(int(path.read_text())))
            thread.start()
            thread.join()
            return KERNEL(found[0])
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        SOURCE,
        files={"factor.txt": "2"},
    ),
    Case(
        "a pool of threads reads variables",
        """
        from concurrent.futures import ThreadPoolExecutor


        @kcl.kernel
        def NAME():
            with ThreadPoolExecutor(2) as pool:
                one, two = pool.map(os.environ.get, ["NAME_ONE", "NAME_TWO"])
            return KERNEL(int(one) + int(two))
        """,
        12,
        13,
        Variables(NAME_TWO="3"),
        LOOPY,
        variables={"NAME_ONE": "10", "NAME_TWO": "2"},
    ),
    Case(
        "a thread that the driver started has read the file by the time it is asked",
        """
        import queue

        asked, answered = queue.Queue(), queue.Queue()


        def reader():
            for path in iter(asked.get, None):
                answered.put(int(path.read_text()))


        @kcl.kernel
        def NAME():
            asked.put(pathlib.Path(__file__).parent / "factor.txt")
            return KERNEL(answered.get())


        def drive(launch):
            thread = threading.Thread(target=reader)
            thread.start()
            try:
                return launch(NAME())
            finally:
                asked.put(None)
                thread.join()
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        LOOPY,
        files={"factor.txt": "2"},
    ),
    Case(
        "a variable of the context carries a number into the recipe",
        """
        import contextvars

        FACTOR = contextvars.ContextVar("FACTOR")


        @kcl.kernel
        def NAME():
            return KERNEL(FACTOR.get())


        def drive(launch):
            FACTOR.set(2)
            return launch(NAME())
        """,
        2,
        3,
        Edit("FACTOR.set(2)", "FACTOR.set(3)"),
        SOURCE,
    ),
    Case(
        "each thread of the driver has settings of its own",
        """
        SETTINGS = threading.local()


        @kcl.kernel
        def NAME():
            return KERNEL(SETTINGS.factor)


        def drive(launch):
            numbers = {}

            def work(factor):
                SETTINGS.factor = factor
                numbers[factor] = launch(NAME())

            for factor in (4, 2):
                thread = threading.Thread(target=work, args=(factor,))
                thread.start()
                thread.join()
            return list(numbers.values())
        """,
        [4, 2],
        [4, 3],
        Edit("in (4, 2)", "in (4, 3)"),
        LOOPY,
    ),
    # through loaders
    Case(
        "pkgutil.get_data reads the file of a package",
        """
        import pkgutil


        @kcl.kernel
        def NAME():
            return KERNEL(int(pkgutil.get_data("NAME_package", "factor.txt")))
        """,
        2,
        3,
        Write({"NAME_package/factor.txt": "3"}),
        SOURCE,
        files={"NAME_package/__init__.py": "", "NAME_package/factor.txt": "2"},
    ),
    Case(
        "importlib.resources reads the file of a package in an archive",
        """
        from importlib import resources


        @kcl.kernel
        def NAME():
            sys.path.insert(0, str(pathlib.Path(__file__).parent / "packed.zip"))
            try:
                return KERNEL(int(resources.files("NAME_package").joinpath("factor.txt").read_text()))
            finally:
                del sys.path[0]
        """,
        2,
        3,
        Write({"packed.zip": {"NAME_package/__init__.py": "", "NAME_package/factor.txt": "3"}}),
        LOOPY,
        files={"packed.zip": {"NAME_package/__init__.py": "", "NAME_package/factor.txt": "2"}},
    ),
    Case(
        "the loader of a module says its source",
        """
        import re

        import NAME_table


        @kcl.kernel
        def NAME():
            text = NAME_table.__loader__.get_source("NAME_table")
            return KERNEL(int(re.search(r"factor (\\d+)", text)[1]))
        """,
        2,
        3,
        Write({"NAME_table.py": "# factor 3\n"}),
        SOURCE,
        files={"NAME_table.py": "# factor 2\n"},
    ),
    Case(
        "inspect reads a comment of a function",
        """
        import inspect
        import re


        def table():
            # factor 2
            return 0


        @kcl.kernel
        def NAME():
            return KERNEL(int(re.search(r"factor (\\d+)", inspect.getsource(table))[1]))
        """,
        2,
        3,
        Edit("# factor 2", "# factor 3"),
        LOOPY,
    ),
    # descriptors
    Case(
        "a descriptor reads the file when the attribute is asked for",
        """
        class FromFile:
            def __get__(self, instance, owner):
                return int((pathlib.Path(__file__).parent / "factor.txt").read_text())


        class Settings:
            factor = FromFile()


        SETTINGS = Settings()


        @kcl.kernel
        def NAME():
            return KERNEL(SETTINGS.factor)


        def drive(launch):
            assert SETTINGS.factor
            return launch(NAME())
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        SOURCE,
        files={"factor.txt": "2"},
    ),
    Case(
        "a stream that the driver opened is read by the recipe",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(int(os.pread(DESCRIPTOR, 10, 0)))


        def drive(launch):
            global DESCRIPTOR
            DESCRIPTOR = os.open(pathlib.Path(__file__).parent / "factor.txt", os.O_RDONLY)
            try:
                return launch(NAME())
            finally:
                os.close(DESCRIPTOR)
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        LOOPY,
        files={"factor.txt": "2"},
    ),
    Case(
        "a pipe that the driver filled is read by the recipe",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(int(os.read(READING, 10)))


        def drive(launch):
            global READING
            READING, writing = os.pipe()
            os.write(writing, b"2")
            os.close(writing)
            return launch(NAME())
        """,
        2,
        3,
        Edit('b"2"', 'b"3"'),
        SOURCE,
    ),
    # C libraries
    Case(
        "ctypes asks the C library for a variable",
        """
        import ctypes

        LIBC = ctypes.CDLL(None)
        LIBC.getenv.restype = ctypes.c_char_p


        @kcl.kernel
        def NAME():
            return KERNEL(int(LIBC.getenv(b"NAME_FACTOR")))
        """,
        2,
        3,
        Variables(NAME_FACTOR="3"),
        LOOPY,
        variables={"NAME_FACTOR": "2"},
    ),
    Case(
        "ctypes opens and reads a file",
        """
        import ctypes


        def factor():
            libc = ctypes.CDLL(None)
            text = ctypes.create_string_buffer(10)
            descriptor = libc.open(os.fsencode(pathlib.Path(__file__).parent / "factor.txt"), os.O_RDONLY)
            libc.read(descriptor, text, 9)
            libc.close(descriptor)
            return int(text.value)


        @kcl.kernel
        def NAME():
            return KERNEL(factor())
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        SOURCE,
        files={"factor.txt": "2"},
    ),
    Case(
        "a number lies in memory of the C library that the driver has set",
        """
        import ctypes

        CELL = ctypes.c_int()
        POINTER = ctypes.pointer(CELL)


        @kcl.kernel
        def NAME():
            return KERNEL(POINTER.contents.value)


        def drive(launch):
            CELL.value = 2
            return launch(NAME())
        """,
        2,
        3,
        Edit("CELL.value = 2", "CELL.value = 3"),
        LOOPY,
    ),
    Case(
        "a database that was opened before is asked",
        """
        import sqlite3


        @kcl.kernel
        def NAME():
            return KERNEL(CONNECTION.execute("SELECT factor FROM steps").fetchone()[0])


        def drive(launch):
            global CONNECTION
            CONNECTION = sqlite3.connect(pathlib.Path(__file__).parent / "steps.sqlite")
            try:
                return launch(NAME())
            finally:
                CONNECTION.close()
        """,
        2,
        3,
        Write({"steps.sqlite": database(3)}),
        SOURCE,
        files={"steps.sqlite": database(2)},
    ),
    Case(
        "the file is behind a link that the C library resolves",
        """
        import ctypes


        def factor():
            libc = ctypes.CDLL(None)
            text = ctypes.create_string_buffer(10)
            libc.readlink(os.fsencode(pathlib.Path(__file__).parent / "current"), text, 9)
            return int(text.value)


        @kcl.kernel
        def NAME():
            return KERNEL(factor())
        """,
        2,
        3,
        Link("current", "3"),
        LOOPY,
        links={"current": "2"},
    ),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.skipif(sys.platform == "win32", reason="descriptors, links and the C library of POSIX")
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_hidden_reads(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
