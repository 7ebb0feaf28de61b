"""Libraries that read and decide for the user: by variables, by files, by globals and registries of the driver."""

from __future__ import annotations

import pytest
from family import LOOPY, SOURCE, Case, Edit, Install, Installed, Remove, Variables, Write, check, ran, rows

PLUG_IN = Installed(
    {"NAME_steps.py": "def two():\n    return 2\n\n\ndef three():\n    return 3\n"},
    entry_points="[NAME.steps]\nsteps = NAME_steps:two\n",
)
CASES = [
    Case(
        "an installed library decides by a variable",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.factor())
        """,
        2,
        3,
        Variables(NAME_MODE="fast"),
        SOURCE,
        installed=(
            Installed(
                {
                    "NAME_library.py": """
                    import os


                    def factor():
                        return 3 if os.environ.get("NAME_MODE") == "fast" else 2
                    """
                }
            ),
        ),
    ),
    Case(
        "an installed library has decided by a variable when it was imported",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.WIDTH)
        """,
        2,
        3,
        Variables(NAME_WIDTH="3"),
        LOOPY,
        installed=(
            Installed(
                {
                    "NAME_library.py": """
                    import os

                    WIDTH = int(os.environ.get("NAME_WIDTH", "2"))
                    """
                }
            ),
        ),
    ),
    Case(
        "an installed library decides by the existence of a file",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.factor(pathlib.Path(__file__).parent))
        """,
        2,
        3,
        Write({"tuned": ""}),
        SOURCE,
        installed=(
            Installed(
                {
                    "NAME_library.py": """
                    def factor(folder):
                        return 3 if (folder / "tuned").exists() else 2
                    """
                }
            ),
        ),
    ),
    Case(
        "a library falls back where its file is missing",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.factor())
        """,
        2,
        3,
        Remove("settings.txt"),
        LOOPY,
        files={
            "settings.txt": "2",
            "NAME_library.py": """
            import os

            _FILE = os.path.join(os.path.dirname(__file__), "settings.txt")


            def factor():
                return int(open(_FILE).read()) if os.path.isfile(_FILE) else 3
            """,
        },
    ),
    Case(
        "the driver sets a global of an installed library",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.factor())


        def drive(launch):
            NAME_library.WIDTH = 2
            return launch(NAME())
        """,
        2,
        3,
        Edit("WIDTH = 2", "WIDTH = 3"),
        SOURCE,
        installed=(Installed({"NAME_library.py": "WIDTH = 1\n\n\ndef factor():\n    return WIDTH\n"}),),
    ),
    Case(
        "the driver sets an option by a function of an installed library",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.factor())


        def drive(launch):
            NAME_library.configure(width=2)
            return launch(NAME())
        """,
        2,
        3,
        Edit("width=2", "width=3"),
        LOOPY,
        installed=(
            Installed(
                {
                    "NAME_library/__init__.py": "from NAME_library.options import configure, factor\n",
                    "NAME_library/options.py": """
                    class Options:
                        def __init__(self):
                            self._values = {}


                    _options = Options()


                    def configure(**values):
                        _options._values.update(values)


                    def factor():
                        return _options._values["width"]
                    """,
                }
            ),
        ),
    ),
    Case(
        "the driver registers a function in a registry of an installed library",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.make("tile"))


        def drive(launch):
            NAME_library.register("tile", lambda: 2)
            return launch(NAME())
        """,
        2,
        3,
        Edit("lambda: 2", "lambda: 3"),
        SOURCE,
        installed=(
            Installed(
                {
                    "NAME_library.py": """
                    _makers = {}


                    def register(name, maker):
                        _makers[name] = maker


                    def make(name):
                        return _makers[name]()
                    """
                }
            ),
        ),
    ),
    Case(
        "two recipes are made under two settings of a context manager of a library",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.current())


        def drive(launch):
            numbers = []
            for width in (4, 2):
                with NAME_library.using(width):
                    numbers.append(launch(NAME()))
            return numbers
        """,
        [4, 2],
        [4, 3],
        Edit("(4, 2)", "(4, 3)"),
        LOOPY,
        installed=(
            Installed(
                {
                    "NAME_library.py": """
                    import contextlib

                    _stack = [1]


                    @contextlib.contextmanager
                    def using(width):
                        _stack.append(width)
                        try:
                            yield
                        finally:
                            _stack.pop()


                    def current():
                        return _stack[-1]
                    """
                }
            ),
        ),
    ),
    Case(
        "numpy's print options decide",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(len(str(np.array([1 / 3]))))


        def drive(launch):
            with np.printoptions(precision=2):
                return launch(NAME())
        """,
        6,
        7,
        Edit("precision=2", "precision=3"),
        SOURCE,
    ),
    Case(
        "a decimal's precision decides",
        """
        import decimal


        @kcl.kernel
        def NAME():
            return KERNEL(len(str(decimal.Decimal(1) / 3)))


        def drive(launch):
            with decimal.localcontext() as context:
                context.prec = 4
                return launch(NAME())
        """,
        6,
        7,
        Edit("prec = 4", "prec = 5"),
        LOOPY,
    ),
    Case(
        "the state of numpy's random numbers was set by the driver",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(int(np.random.randint(1, 1000)))


        def drive(launch):
            np.random.seed(2)
            return launch(NAME())
        """,
        None,
        None,
        Edit("seed(2)", "seed(3)"),
        SOURCE,
    ),
    Case(
        "a plug-in is found by its entry point",
        """
        from importlib.metadata import entry_points


        @kcl.kernel
        def NAME():
            (found,) = entry_points(group="NAME.steps")
            return KERNEL(found.load()())
        """,
        2,
        3,
        Install(PLUG_IN._replace(entry_points="[NAME.steps]\nsteps = NAME_steps:three\n")),
        LOOPY,
        installed=(PLUG_IN,),
    ),
    Case(
        "a library decides by the home of the user",
        """
        import NAME_library


        @kcl.kernel
        def NAME():
            return KERNEL(NAME_library.factor())


        def drive(launch):
            before = os.environ["HOME"]
            os.environ["HOME"] = "/nowhere/two"
            try:
                return launch(NAME())
            finally:
                os.environ["HOME"] = before
        """,
        2,
        3,
        Edit("/nowhere/two", "/nowhere/three"),
        SOURCE,
        installed=(
            Installed(
                {
                    "NAME_library.py": """
                    import os


                    def factor():
                        home = os.path.basename(os.path.expanduser("~"))
                        return ["one", "two", "three"].index(home) + 1
                    """
                }
            ),
        ),
    ),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_libraries(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
