"""A recipe runs in every process: what it reads and where it lies counts as it does without a cache."""

from __future__ import annotations

import pytest
from family import LOOPY, SOURCE, Case, Edit, Install, Installed, Patch, Variables, Write, check, ran, rows

LAUNCH = "import NAME_package\n\n\ndef drive(launch):\n    return launch(NAME_package.NAME())\n"
IN_ARCHIVE = f"import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).with_name('packed.zip')))\n{LAUNCH}"


def recipe(number: int) -> dict[str, str]:
    """Write a package that has the recipe."""
    return {"NAME_package/__init__.py": f"@kcl.kernel\ndef NAME():\n    return KERNEL({number})\n"}


CASES = [
    Case(
        "a thread reads a file",
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
        "a variable was read before",
        """
        @functools.lru_cache
        def factor():
            return int(os.environ["NAME_FACTOR"])


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
        Variables(NAME_FACTOR="3"),
        LOOPY,
        variables={"NAME_FACTOR": "2"},
    ),
    Case(
        "one recipe fills a registry for the next",
        """
        REGISTRY = {}


        @kcl.kernel
        def first():
            REGISTRY["step"] = 2
            return KERNEL(10)


        @kcl.kernel
        def NAME():
            return KERNEL(REGISTRY["step"])


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [10, 2],
        [10, 3],
        Edit('["step"] = 2', '["step"] = 3'),
        SOURCE,
    ),
    Case(
        "a global changes between two kernels",
        """
        FACTOR = 4


        @kcl.kernel
        def NAME():
            return KERNEL(FACTOR)


        def drive(launch):
            global FACTOR
            first = launch(NAME())
            FACTOR = 2
            return [first, launch(NAME())]
        """,
        [4, 2],
        [4, 3],
        Edit("    FACTOR = 2", "    FACTOR = 3"),
        LOOPY,
    ),
    Case(
        "parameters differ in what a cached property holds",
        """
        class Tile:
            width = 1

            @functools.cached_property
            def factor(self):
                return self.width


        @kcl.kernel
        def NAME(tile):
            return KERNEL(tile.factor)


        def drive(launch):
            one, two = Tile(), Tile()
            one.factor, two.factor = 4, 2
            return [launch(NAME(one)), launch(NAME(two))]
        """,
        [4, 2],
        [4, 3],
        Edit("4, 2", "4, 3"),
        LOOPY,
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
    Case(
        "a log is written",
        """
        @kcl.kernel
        def NAME(k):
            with open(pathlib.Path(__file__).parent / "log.txt", "a") as stream:
                stream.write(f"making kernel {k}")
            return KERNEL(2 * k)


        def drive(launch):
            return sorted(launch(NAME(k)) for k in (1, 2, 3))
        """,
        [2, 4, 6],
        [2, 4, 6],
        Edit("(1, 2, 3)", "(3, 2, 1)"),
        LOOPY,
        still=True,
    ),
    Case(
        "the order of a set does not decide",
        """
        NAMES = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}


        @kcl.kernel
        def NAME():
            return KERNEL(sum(len(name) for name in NAMES))
        """,
        38,
        38,
        Variables(PYTHONHASHSEED="12345"),
        LOOPY,
        variables={"PYTHONHASHSEED": "1"},
        alone=True,
        still=True,
    ),
    Case(
        "a recipe of a module that was made from a path",
        """
        from importlib.util import module_from_spec, spec_from_file_location


        def drive(launch):
            spec = spec_from_file_location("NAME_recipes", pathlib.Path(__file__).parent / "plugins.py")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return launch(module.NAME())
        """,
        2,
        3,
        Write({"plugins.py": recipe(3)["NAME_package/__init__.py"]}),
        LOOPY,
        files={"plugins.py": recipe(2)["NAME_package/__init__.py"]},
    ),
    Case(
        "a recipe in an archive",
        IN_ARCHIVE,
        2,
        3,
        Write({"packed.zip": recipe(3)}),
        LOOPY,
        files={"packed.zip": recipe(2)},
    ),
    Case(
        "an installed recipe of another version",
        LAUNCH,
        2,
        3,
        Install(Installed(recipe(3), version="1.1")),
        SOURCE,
        installed=(Installed(recipe(2)),),
    ),
    Case(
        "an installed recipe that is edited",
        LAUNCH,
        2,
        3,
        Patch("NAME_package/__init__.py", "times = 2", "times = 3"),
        LOOPY,
        installed=(Installed(recipe(2)),),
    ),
    Case(
        "an editable recipe",
        LAUNCH,
        2,
        3,
        Write({"NAME_source/NAME_package/__init__.py": recipe(3)["NAME_package/__init__.py"]}),
        LOOPY,
        installed=(Installed(recipe(2), editable="NAME_source"),),
    ),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(5)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_recipes(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
