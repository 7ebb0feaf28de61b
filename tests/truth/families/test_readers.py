"""Readers that remember: what one recipe has read, another gets without a read."""

from __future__ import annotations

import pytest
from family import LOOPY, SOURCE, Case, Edit, Move, Variables, Write, check, ran, rows

CASES = [
    Case(
        "a function with lru_cache has read the file for another recipe",
        """
        @functools.lru_cache
        def factor():
            return int((pathlib.Path(__file__).parent / "factor.txt").read_text())


        @kcl.kernel
        def first():
            return KERNEL(factor() + 10)


        @kcl.kernel
        def NAME():
            return KERNEL(factor())


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Write({"factor.txt": "3"}),
        SOURCE,
        files={"factor.txt": "2"},
    ),
    Case(
        "a function with lru_cache was called by the driver",
        """
        @functools.lru_cache(maxsize=None)
        def factor(name):
            return int((pathlib.Path(__file__).parent / name).read_text())


        @kcl.kernel
        def NAME():
            return KERNEL(factor("factor.txt"))


        def drive(launch):
            assert factor("factor.txt")
            return launch(NAME())
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        LOOPY,
        files={"factor.txt": "2"},
    ),
    Case(
        "a cached property of a shared object has read a variable for another recipe",
        """
        class Settings:
            @functools.cached_property
            def factor(self):
                return int(os.environ["NAME_FACTOR"])


        SETTINGS = Settings()


        @kcl.kernel
        def first():
            return KERNEL(SETTINGS.factor + 10)


        @kcl.kernel
        def NAME():
            return KERNEL(SETTINGS.factor)


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Variables(NAME_FACTOR="3"),
        LOOPY,
        variables={"NAME_FACTOR": "2"},
    ),
    Case(
        "a module that two recipes import reads its file when it is imported",
        """
        @kcl.kernel
        def first():
            import NAME_shared

            return KERNEL(NAME_shared.FACTOR + 10)


        @kcl.kernel
        def NAME():
            import NAME_shared

            return KERNEL(NAME_shared.FACTOR)


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Write({"factor.txt": "3"}),
        SOURCE,
        files={
            "factor.txt": "2",
            "NAME_shared.py": """
                import pathlib

                FACTOR = int((pathlib.Path(__file__).parent / "factor.txt").read_text())
            """,
        },
    ),
    Case(
        "a module that was imported by the driver has read a variable",
        """
        import NAME_shared


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_shared.factor())
        """,
        2,
        3,
        Variables(NAME_FACTOR="3"),
        LOOPY,
        files={
            "NAME_shared.py": """
                import os

                _READ = dict(os.environ)


                def factor():
                    return int(_READ["NAME_FACTOR"])
            """
        },
        variables={"NAME_FACTOR": "2"},
    ),
    Case(
        "a class keeps what its first instance has read",
        """
        class Table:
            _text = None

            def __init__(self):
                if Table._text is None:
                    Table._text = (pathlib.Path(__file__).parent / "factor.txt").read_text()

            def factor(self):
                return int(self._text)


        @kcl.kernel
        def first():
            return KERNEL(Table().factor() + 10)


        @kcl.kernel
        def NAME():
            return KERNEL(Table().factor())


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Write({"factor.txt": "3"}),
        SOURCE,
        files={"factor.txt": "2"},
    ),
    Case(
        "a closure remembers what it has read",
        """
        def reading(path):
            text = None

            def read():
                nonlocal text
                if text is None:
                    text = path.read_text()
                return int(text)

            return read


        factor = reading(pathlib.Path(__file__).parent / "factor.txt")


        @kcl.kernel
        def first():
            return KERNEL(factor() + 10)


        @kcl.kernel
        def NAME():
            return KERNEL(factor())


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Write({"factor.txt": "3"}),
        LOOPY,
        files={"factor.txt": "2"},
    ),
    Case(
        "linecache has read the file for another recipe",
        """
        import linecache


        def factor():
            return int(linecache.getline(str(pathlib.Path(__file__).parent / "factor.txt"), 1))


        @kcl.kernel
        def first():
            return KERNEL(factor() + 10)


        @kcl.kernel
        def NAME():
            return KERNEL(factor())


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Write({"factor.txt": "3"}),
        SOURCE,
        files={"factor.txt": "2"},
    ),
    Case(
        "a function with lru_cache has listed a folder",
        """
        @functools.lru_cache
        def names():
            return sorted(path.name for path in (pathlib.Path(__file__).parent / "steps").iterdir())


        @kcl.kernel
        def first():
            return KERNEL(int(names()[0]) + 10)


        @kcl.kernel
        def NAME():
            return KERNEL(int(names()[0]))


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [12, 2],
        [13, 3],
        Move("steps/2", "steps/3"),
        LOOPY,
        files={"steps/2": ""},
    ),
    Case(
        "a reader that remembers has read the same file a second time",
        """
        @functools.lru_cache
        def factor():
            return int((pathlib.Path(__file__).parent / "factor.txt").read_text())


        @kcl.kernel
        def first():
            return KERNEL(factor())


        @kcl.kernel
        def NAME():
            factor.cache_clear()
            return KERNEL(factor())


        def drive(launch):
            before = launch(first())
            (pathlib.Path(__file__).parent / "factor.txt").write_text("7")
            after = launch(NAME())
            (pathlib.Path(__file__).parent / "factor.txt").write_text("2")
            return [before, after]
        """,
        [2, 7],
        [2, 8],
        Edit('write_text("7")', 'write_text("8")'),
        SOURCE,
        files={"factor.txt": "2"},
    ),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_readers_that_remember(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
