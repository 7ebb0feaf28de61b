"""Recipes and helpers in packages: ordinarily installed, zipped, editable."""

from __future__ import annotations

import pytest
from family import LOOPY, SOURCE, Case, Edit, Install, Installed, Patch, Write, check, ran, rows

PACKED = 'sys.path.insert(0, str(pathlib.Path(__file__).parent / "packed.zip"))\n'
LAUNCH = """
import NAME_package


def drive(launch):
    return launch(NAME_package.NAME())
"""
HELPED = """
from NAME_package import factor


@kcl.kernel
def NAME():
    return KERNEL(factor())
"""
LAUNCH_PACKED = "import pathlib\nimport sys\n\n" + PACKED + LAUNCH
HELPED_PACKED = "import pathlib\nimport sys\n\n" + PACKED + HELPED
RECIPE = "@kcl.kernel\ndef NAME():\n    return KERNEL({})\n"
HELPER = "def factor():\n    return {}\n"


def recipe(number: str) -> dict[str, str]:
    """Write a package that has the recipe."""
    return {"NAME_package/__init__.py": RECIPE.format(number)}


def helper(number: str) -> dict[str, str]:
    """Write a package that has a helper, in a module that another one imports."""
    return {
        "NAME_package/__init__.py": "from NAME_package.inner import factor\n",
        "NAME_package/inner.py": HELPER.format(number),
    }


def data(number: str) -> dict[str, str]:
    """Write a package that reads its own data."""
    text = "import os\n\n" + HELPER.format('int(open(os.path.join(os.path.dirname(__file__), "factor.txt")).read())')
    return {"NAME_package/__init__.py": text, "NAME_package/factor.txt": number}


LOWER = Installed({"NAME_lower.py": HELPER.format(2)}, name="NAME_lower")
UPPER = Installed(
    {"NAME_package.py": "import NAME_lower\n\n\ndef factor():\n    return NAME_lower.factor()\n"}, requires="NAME_lower"
)
CONFIGURED = {"NAME_package.py": "WIDTH = 1\n\n\n" + RECIPE.format("WIDTH")}
SOURCES = "NAME_source"

CASES = [
    # ordinarily installed
    Case(
        "an installed recipe of another version",
        LAUNCH,
        2,
        3,
        Install(Installed(recipe("3"), version="1.1")),
        SOURCE,
        installed=(Installed(recipe("2")),),
    ),
    Case(
        "an installed recipe that was installed again under its version",
        LAUNCH,
        2,
        3,
        Install(Installed(recipe("3"))),
        LOOPY,
        installed=(Installed(recipe("2")),),
    ),
    Case(
        "an installed helper of another version",
        HELPED,
        2,
        3,
        Install(Installed(helper("3"), version="1.1")),
        LOOPY,
        installed=(Installed(helper("2")),),
    ),
    Case(
        "an installed helper that was edited in its place",
        HELPED,
        2,
        3,
        Patch("NAME_package/inner.py", "return 2", "return 3"),
        SOURCE,
        installed=(Installed(helper("2")),),
    ),
    Case(
        "an installed recipe that was edited in its place",
        LAUNCH,
        2,
        3,
        Patch("NAME_package/__init__.py", "times = 2", "times = 3"),
        LOOPY,
        installed=(Installed(recipe("2")),),
    ),
    Case(
        "an installed package reads its data",
        HELPED,
        2,
        3,
        Install(Installed(data("3"))),
        LOOPY,
        installed=(Installed(data("2")),),
    ),
    Case(
        "an installed package calls a package that it requires",
        HELPED,
        2,
        3,
        Install(LOWER._replace(files={"NAME_lower.py": HELPER.format(3)}, version="1.1")),
        SOURCE,
        installed=(UPPER, LOWER),
    ),
    Case(
        "the driver sets a global of an installed recipe's module",
        """
        import NAME_package


        def drive(launch):
            NAME_package.WIDTH = 2
            return launch(NAME_package.NAME())
        """,
        2,
        3,
        Edit("WIDTH = 2", "WIDTH = 3"),
        LOOPY,
        installed=(Installed(CONFIGURED),),
    ),
    Case(
        "an installed recipe calls what the driver gave it",
        """
        import NAME_package


        def drive(launch):
            NAME_package.hook = lambda: 2
            return launch(NAME_package.NAME())
        """,
        2,
        3,
        Edit("lambda: 2", "lambda: 3"),
        SOURCE,
        installed=(Installed({"NAME_package.py": "hook = None\n\n\n" + RECIPE.format("hook()")}),),
    ),
    Case(
        "a helper in an installed single module",
        HELPED,
        2,
        3,
        Install(Installed({"NAME_package.py": HELPER.format(3)}, version="2.0")),
        SOURCE,
        installed=(Installed({"NAME_package.py": HELPER.format(2)}),),
    ),
    # zipped
    Case(
        "a recipe in an archive",
        LAUNCH_PACKED,
        2,
        3,
        Write({"packed.zip": recipe("3")}),
        SOURCE,
        files={"packed.zip": recipe("2")},
    ),
    Case(
        "a recipe in an archive in loopy",
        LAUNCH_PACKED,
        2,
        3,
        Write({"packed.zip": recipe("3")}),
        LOOPY,
        files={"packed.zip": recipe("2")},
    ),
    Case(
        "a helper in an archive",
        HELPED_PACKED,
        2,
        3,
        Write({"packed.zip": helper("3")}),
        LOOPY,
        files={"packed.zip": helper("2")},
    ),
    Case(
        "a helper that the recipe imports from an archive",
        """
        @kcl.kernel
        def NAME():
            sys.path.insert(0, str(pathlib.Path(__file__).parent / "packed.zip"))
            try:
                from NAME_package.inner import factor
            finally:
                del sys.path[0]
            return KERNEL(factor())
        """,
        2,
        3,
        Write({"packed.zip": helper("3")}),
        SOURCE,
        files={"packed.zip": helper("2")},
    ),
    Case(
        "a package in an archive reads its data by its loader",
        HELPED_PACKED,
        2,
        3,
        Write(
            {
                "packed.zip": {
                    "NAME_package/factor.txt": "3",
                    "NAME_package/__init__.py": (
                        "import pkgutil\n\n" + HELPER.format('int(pkgutil.get_data("NAME_package", "factor.txt"))')
                    ),
                }
            }
        ),
        LOOPY,
        files={
            "packed.zip": {
                "NAME_package/factor.txt": "2",
                "NAME_package/__init__.py": (
                    "import pkgutil\n\n" + HELPER.format('int(pkgutil.get_data("NAME_package", "factor.txt"))')
                ),
            }
        },
    ),
    Case(
        "a class in an archive",
        "import pathlib\nimport sys\n\n"
        + PACKED
        + """
from NAME_package import Tile


@kcl.kernel
def NAME():
    return KERNEL(Tile().factor)
""",
        2,
        3,
        Write({"packed.zip": {"NAME_package.py": "class Tile:\n    factor = 3\n"}}),
        SOURCE,
        files={"packed.zip": {"NAME_package.py": "class Tile:\n    factor = 2\n"}},
    ),
    # editable
    Case(
        "an editable recipe",
        LAUNCH,
        2,
        3,
        Write({f"{SOURCES}/NAME_package/__init__.py": RECIPE.format("3")}),
        SOURCE,
        installed=(Installed(recipe("2"), editable=SOURCES),),
    ),
    Case(
        "an editable recipe in loopy",
        LAUNCH,
        2,
        3,
        Write({f"{SOURCES}/NAME_package/__init__.py": RECIPE.format("3")}),
        LOOPY,
        installed=(Installed(recipe("2"), editable=SOURCES),),
    ),
    Case(
        "an editable helper",
        HELPED,
        2,
        3,
        Edit("return 2", "return 3", f"{SOURCES}/NAME_package/inner.py"),
        LOOPY,
        installed=(Installed(helper("2"), editable=SOURCES),),
    ),
    Case(
        "an editable package reads its data",
        HELPED,
        2,
        3,
        Write({f"{SOURCES}/NAME_package/factor.txt": "3"}),
        SOURCE,
        installed=(Installed(data("2"), editable=SOURCES),),
    ),
    Case(
        "an editable package calls an installed one",
        HELPED,
        2,
        3,
        Install(LOWER._replace(files={"NAME_lower.py": HELPER.format(3)}, version="1.1")),
        LOOPY,
        installed=(UPPER._replace(editable=SOURCES), LOWER),
    ),
    Case(
        "the driver sets a global of an editable recipe's module",
        """
        import NAME_package


        def drive(launch):
            NAME_package.WIDTH = 2
            return launch(NAME_package.NAME())
        """,
        2,
        3,
        Edit("WIDTH = 2", "WIDTH = 3"),
        SOURCE,
        installed=(Installed(CONFIGURED, editable=SOURCES),),
    ),
    Case(
        "an editable package becomes an ordinary one",
        HELPED,
        2,
        2,
        Install(Installed(helper("2"), version="1.1")),
        SOURCE,
        installed=(Installed(helper("2"), editable=SOURCES),),
        still=True,
    ),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_packages(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
