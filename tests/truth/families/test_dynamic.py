"""Code that is made at run time: modules from a path, dynamic classes, functions of factories, local names."""

from __future__ import annotations

import pytest
from family import LOOPY, SOURCE, Case, Edit, Variables, Write, check, ran, rows

FROM_PATH = """
from importlib.util import module_from_spec, spec_from_file_location


def load(name, file):
    spec = spec_from_file_location(name, pathlib.Path(__file__).parent / file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""
HELPER = "def factor():\n    return {}\n"

CASES = [
    # modules made from a path
    Case(
        "a helper module is made from a path",
        FROM_PATH
        + """
helper = load("NAME_helper", "plugins/helper.py")


@kcl.kernel
def NAME():
    return KERNEL(helper.factor())
""",
        2,
        3,
        Write({"plugins/helper.py": HELPER.format(3)}),
        SOURCE,
        files={"plugins/helper.py": HELPER.format(2)},
    ),
    Case(
        "the recipe makes a module from a path",
        FROM_PATH
        + """
@kcl.kernel
def NAME():
    return KERNEL(load("NAME_helper", "plugins/helper.py").factor())
""",
        2,
        3,
        Write({"plugins/helper.py": HELPER.format(3)}),
        LOOPY,
        files={"plugins/helper.py": HELPER.format(2)},
    ),
    Case(
        "a recipe lies in a module that was made from a path",
        FROM_PATH
        + """
def drive(launch):
    return launch(load("NAME_recipes", "plugins/recipes.py").NAME())
""",
        2,
        3,
        Write({"plugins/recipes.py": "@kcl.kernel\ndef NAME():\n    return KERNEL(3)\n"}),
        LOOPY,
        files={"plugins/recipes.py": "@kcl.kernel\ndef NAME():\n    return KERNEL(2)\n"},
    ),
    Case(
        "two modules made from paths have one name",
        FROM_PATH
        + """
one, two = load("NAME_helper", "plugins/one.py"), load("NAME_helper", "plugins/two.py")


@kcl.kernel
def first():
    return KERNEL(one.factor())


@kcl.kernel
def NAME():
    return KERNEL(two.factor())


def drive(launch):
    return [launch(first()), launch(NAME())]
""",
        [4, 2],
        [4, 3],
        Write({"plugins/two.py": HELPER.format(3)}),
        SOURCE,
        files={"plugins/one.py": HELPER.format(4), "plugins/two.py": HELPER.format(2)},
    ),
    Case(
        "a module is made of a text that a file holds",
        """
        import types

        helper = types.ModuleType("NAME_helper")
        exec((pathlib.Path(__file__).parent / "helper.txt").read_text(), vars(helper))


        @kcl.kernel
        def NAME():
            return KERNEL(helper.factor())
        """,
        2,
        3,
        Write({"helper.txt": HELPER.format(3)}),
        LOOPY,
        files={"helper.txt": HELPER.format(2)},
    ),
    Case(
        "runpy runs a file and the recipe takes what it made",
        """
        import runpy


        @kcl.kernel
        def NAME():
            return KERNEL(runpy.run_path(str(pathlib.Path(__file__).parent / "settings.txt"))["FACTOR"])
        """,
        2,
        3,
        Write({"settings.txt": "FACTOR = 3\n"}),
        SOURCE,
        files={"settings.txt": "FACTOR = 2\n"},
    ),
    Case(
        "a finder of the program makes a module",
        """
        from importlib.abc import Loader, MetaPathFinder
        from importlib.machinery import ModuleSpec


        class Settings(MetaPathFinder, Loader):
            def find_spec(self, name, path=None, target=None):
                return ModuleSpec(name, self) if name == "NAME_settings" else None

            def exec_module(self, module):
                module.FACTOR = int((pathlib.Path(__file__).parent / "factor.txt").read_text())


        sys.meta_path.append(Settings())


        @kcl.kernel
        def NAME():
            import NAME_settings

            return KERNEL(NAME_settings.FACTOR)


        def drive(launch):
            import NAME_settings

            return launch(NAME())
        """,
        2,
        3,
        Write({"factor.txt": "3"}),
        LOOPY,
        files={"factor.txt": "2"},
    ),
    # dynamic classes
    Case(
        "a class is made by type",
        """
        FIELDS = {"factor": int(os.environ["NAME_FACTOR"])}
        Tile = type("Tile", (), FIELDS)


        @kcl.kernel
        def NAME():
            return KERNEL(Tile().factor)
        """,
        2,
        3,
        Variables(NAME_FACTOR="3"),
        SOURCE,
        variables={"NAME_FACTOR": "2"},
    ),
    Case(
        "a dataclass is made by make_dataclass",
        """
        import dataclasses

        Tile = dataclasses.make_dataclass("Tile", [("factor", int, 2)])


        @kcl.kernel
        def NAME():
            return KERNEL(Tile().factor)
        """,
        2,
        3,
        Edit("int, 2", "int, 3"),
        LOOPY,
    ),
    Case(
        "a method was put into a class made by make_dataclass",
        """
        import dataclasses


        def two(self):
            return self.width + 1


        def three(self):
            return self.width + 2


        Tile = dataclasses.make_dataclass("Tile", [("width", int, 1)], namespace={"factor": two})


        @kcl.kernel
        def NAME():
            return KERNEL(Tile().factor())
        """,
        2,
        3,
        Edit('"factor": two', '"factor": three'),
        SOURCE,
    ),
    Case(
        "a class is made anew for each kernel",
        """
        def tile(width):
            class Tile:
                factor = width

                def __call__(self):
                    return self.factor

            return Tile


        @kcl.kernel
        def NAME(kind):
            return KERNEL(kind()())


        def drive(launch):
            return [launch(NAME(tile(4))), launch(NAME(tile(2)))]
        """,
        [4, 2],
        [4, 3],
        Edit("tile(2)", "tile(3)"),
        LOOPY,
    ),
    Case(
        "a named tuple with defaults is made at run time",
        """
        import collections

        Tile = collections.namedtuple("Tile", "width height", defaults=(1, 2))


        @kcl.kernel
        def NAME():
            return KERNEL(Tile().height)
        """,
        2,
        3,
        Edit("(1, 2)", "(1, 3)"),
        LOOPY,
    ),
    # functions made by factories
    Case(
        "a factory makes two recipes of one name",
        """
        def recipe(factor):
            @kcl.kernel
            def NAME():
                return KERNEL(factor)

            return NAME


        def drive(launch):
            return [launch(recipe(4)()), launch(recipe(2)())]
        """,
        [4, 2],
        [4, 3],
        Edit("recipe(2)", "recipe(3)"),
        SOURCE,
    ),
    Case(
        "a factory compiles a function of a text",
        """
        def compiled(text):
            scope = {}
            exec(f"def factor():\\n    return {text}\\n", scope)
            return scope["factor"]


        factor = compiled(os.environ["NAME_TEXT"])


        @kcl.kernel
        def NAME():
            return KERNEL(factor())
        """,
        2,
        3,
        Variables(NAME_TEXT="1 + 2"),
        LOOPY,
        variables={"NAME_TEXT": "1 + 1"},
    ),
    Case(
        "a decorator of a factory holds a mutable cell",
        """
        def counted(start):
            cell = [start]

            def decorate(function):
                def wrapper():
                    return function() + cell[0]

                wrapper.cell = cell
                return wrapper

            return decorate


        @counted(1)
        def factor():
            return 1


        @kcl.kernel
        def NAME():
            return KERNEL(factor())


        def drive(launch):
            first = launch(NAME())
            factor.cell[0] = 3
            return [first, launch(NAME())]
        """,
        [2, 4],
        [2, 5],
        Edit("cell[0] = 3", "cell[0] = 4"),
        SOURCE,
    ),
    Case(
        "methodcaller and attrgetter name what is called",
        """
        import operator


        class Tile:
            def two(self):
                return 2

            def three(self):
                return 3


        factor = operator.methodcaller("two")


        @kcl.kernel
        def NAME():
            return KERNEL(factor(Tile()))
        """,
        2,
        3,
        Edit('methodcaller("two")', 'methodcaller("three")'),
        LOOPY,
    ),
    # packages and classes under a local name
    Case(
        "a package is imported under a local name",
        """
        @kcl.kernel
        def NAME():
            import NAME_package as package

            return KERNEL(package.inner.factor())
        """,
        2,
        3,
        Edit("return 2", "return 3", "NAME_package/inner.py"),
        SOURCE,
        files={
            "NAME_package/__init__.py": "from NAME_package import inner\n",
            "NAME_package/inner.py": HELPER.format(2),
        },
    ),
    Case(
        "a module of a package is taken by a local name of the package",
        """
        import NAME_package.inner


        @kcl.kernel
        def NAME():
            package = NAME_package
            return KERNEL(getattr(package, "in" + "ner").factor())
        """,
        2,
        3,
        Edit("return 2", "return 3", "NAME_package/inner.py"),
        LOOPY,
        files={"NAME_package/__init__.py": "", "NAME_package/inner.py": HELPER.format(2)},
    ),
    Case(
        "a class is used under a local name",
        """
        class Tile:
            factor = 2

            @classmethod
            def make(cls):
                return cls()

            def number(self):
                return type(self).factor


        @kcl.kernel
        def NAME():
            kind = Tile
            made = kind.make()
            return KERNEL(made.number())


        def drive(launch):
            Tile.factor = 2
            return launch(NAME())
        """,
        2,
        3,
        Edit("Tile.factor = 2", "Tile.factor = 3"),
        SOURCE,
    ),
    Case(
        "a class of a package is chosen by a local name",
        """
        @kcl.kernel
        def NAME(which="Two"):
            from NAME_package import inner

            kind = vars(inner)[which]
            return KERNEL(kind.number(kind))
        """,
        2,
        3,
        Edit("return 2", "return 3", "NAME_package/inner.py"),
        LOOPY,
        files={
            "NAME_package/__init__.py": "",
            "NAME_package/inner.py": "class Two:\n    def number(self):\n        return 2\n",
        },
    ),
    Case(
        "a subclass that was registered later is found by its base",
        """
        class Tile:
            pass


        @kcl.kernel
        def NAME():
            (kind,) = Tile.__subclasses__()
            return KERNEL(kind.factor)


        def drive(launch):
            import NAME_kinds

            return launch(NAME())
        """,
        2,
        3,
        Edit("factor = 2", "factor = 3", "NAME_kinds.py"),
        SOURCE,
        files={"NAME_kinds.py": "from NAME import Tile\n\n\nclass Wide(Tile):\n    factor = 2\n"},
    ),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_dynamic(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
