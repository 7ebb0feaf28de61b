"""State that a walk leaves out: properties set by hand, names like hashes, registries, the machine, orders, names."""

from __future__ import annotations

import os

import pytest
from family import LOOPY, SOURCE, Case, Edit, Move, Variables, check, ran, rows

CASES = [
    # an overridden cached property
    Case(
        "a cached property of an object was set by hand",
        """
        class Tile:
            @functools.cached_property
            def factor(self):
                return 1


        TILE = Tile()


        @kcl.kernel
        def NAME():
            return KERNEL(TILE.factor)


        def drive(launch):
            TILE.factor = 2
            return launch(NAME())
        """,
        2,
        3,
        Edit("TILE.factor = 2", "TILE.factor = 3"),
        SOURCE,
    ),
    Case(
        "a cached property of a parameter was set by hand",
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
        "a cached property was computed before what it is computed from changed",
        """
        class Tile:
            width = 2

            @functools.cached_property
            def factor(self):
                return self.width


        TILE = Tile()


        @kcl.kernel
        def NAME():
            return KERNEL(TILE.factor)


        def drive(launch):
            assert "early" == "early" or TILE.factor
            TILE.width = 3
            return launch(NAME())
        """,
        3,
        2,
        Edit('"early" == "early" or', '"early" == "late" or'),
        SOURCE,
    ),
    # names that look like hashes
    Case(
        "an attribute has the name of a remembered hash",
        """
        class Tile:
            def __init__(self, factor):
                self._hash_value = factor


        TILE = Tile(2)


        @kcl.kernel
        def NAME():
            return KERNEL(TILE._hash_value)
        """,
        2,
        3,
        Edit("Tile(2)", "Tile(3)"),
        LOOPY,
    ),
    Case(
        "a parameter has an attribute with the name of a memoised method",
        """
        class Tile:
            def __init__(self, factor):
                self._memoize_dict_factors = factor
                self._cached_hash_of_tile = 1


        @kcl.kernel
        def NAME(tile):
            return KERNEL(tile._memoize_dict_factors + tile._cached_hash_of_tile)


        def drive(launch):
            return launch(NAME(Tile(1)))
        """,
        2,
        3,
        Edit("Tile(1)", "Tile(2)"),
        SOURCE,
    ),
    Case(
        "an attribute begins like a digest of pytools",
        """
        class Tile:
            pass


        TILE = Tile()
        TILE._pytools_persistent_hash_width = 2


        @kcl.kernel
        def NAME():
            return KERNEL(TILE._pytools_persistent_hash_width)
        """,
        2,
        3,
        Edit("hash_width = 2", "hash_width = 3"),
        LOOPY,
    ),
    # registries that one recipe fills for the next
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
        "one recipe registers a function with a decorator for the next",
        """
        STEPS = []


        def step(function):
            STEPS.append(function)
            return function


        @kcl.kernel
        def first():
            @step
            def made():
                return 2

            return KERNEL(10)


        @kcl.kernel
        def NAME():
            return KERNEL(STEPS[-1]())


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [10, 2],
        [10, 3],
        Edit("return 2", "return 3"),
        LOOPY,
    ),
    Case(
        "one recipe sets a variable for the next",
        """
        @kcl.kernel
        def first():
            os.environ["NAME_STEP"] = "2"
            return KERNEL(10)


        @kcl.kernel
        def NAME():
            return KERNEL(int(os.environ["NAME_STEP"]))


        def drive(launch):
            return [launch(first()), launch(NAME())]
        """,
        [10, 2],
        [10, 3],
        Edit('= "2"', '= "3"'),
        LOOPY,
    ),
    Case(
        "one recipe writes a file for the next",
        """
        PATH = pathlib.Path(__file__).parent / "step.txt"


        @kcl.kernel
        def first():
            PATH.write_text("2")
            return KERNEL(10)


        @kcl.kernel
        def NAME():
            return KERNEL(int(PATH.read_text()))


        def drive(launch):
            PATH.unlink(missing_ok=True)
            return [launch(first()), launch(NAME())]
        """,
        [10, 2],
        [10, 3],
        Edit('write_text("2")', 'write_text("3")'),
        SOURCE,
    ),
    # the device and the machine
    Case(
        "the number of compute units of the driver's device decides",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(min(DEVICE.max_compute_units, 2))


        def drive(launch):
            import pyopencl as cl

            global DEVICE
            DEVICE = launch.queue.device
            return launch(NAME())
        """,
        2,
        1,
        Edit(
            "DEVICE = launch.queue.device\n",
            "DEVICE = launch.queue.device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])[0]\n",
        ),
        LOOPY,
    ),
    Case(
        "the limits of the process decide",
        """
        import resource


        @kcl.kernel
        def NAME():
            return KERNEL(resource.getrlimit(resource.RLIMIT_CORE)[0] + 2)


        def drive(launch):
            before = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
            try:
                return launch(NAME())
            finally:
                resource.setrlimit(resource.RLIMIT_CORE, before)
        """,
        2,
        3,
        Edit("(0, before[1])", "(1, before[1])"),
        SOURCE,
    ),
    Case(
        "the processors of the process decide",
        """
        @kcl.kernel
        def NAME():
            return KERNEL(min(len(os.sched_getaffinity(0)), 2))


        def drive(launch):
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, sorted(before)[:2])
            try:
                return launch(NAME())
            finally:
                os.sched_setaffinity(0, before)
        """,
        2,
        1,
        Edit("[:2]", "[:1]"),
        LOOPY,
    ),
    Case(
        "the time zone decides",
        """
        import time


        @kcl.kernel
        def NAME():
            return KERNEL(2 - time.timezone // 3600)


        def drive(launch):
            before = os.environ.get("TZ")
            os.environ["TZ"] = "UTC-1"
            time.tzset()
            try:
                return launch(NAME())
            finally:
                os.environ.pop("TZ")
                os.environ |= {"TZ": before} if before else {}
                time.tzset()
        """,
        3,
        4,
        Edit('"UTC-1"', '"UTC-2"'),
        SOURCE,
    ),
    # orders
    Case(
        "the order of a set decides",
        """
        NAMES = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}


        @kcl.kernel
        def NAME():
            return KERNEL(sum(i * i * len(name) for i, name in enumerate(NAMES)) % 1009)
        """,
        None,
        None,
        Variables(PYTHONHASHSEED="12345"),
        SOURCE,
        variables={"PYTHONHASHSEED": "1"},
        alone=True,
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
        "the order of a dictionary decides",
        """
        class Steps:
            pass


        STEPS = Steps()
        STEPS.one, STEPS.two = 2, 3


        @kcl.kernel
        def NAME():
            return KERNEL(next(iter(vars(STEPS).values())))
        """,
        2,
        3,
        Edit("STEPS.one, STEPS.two = 2, 3", "STEPS.two, STEPS.one = 3, 2"),
        LOOPY,
    ),
    # a folder's name
    Case(
        "the name of the recipe's folder decides",
        """
        sys.path.insert(0, str(next(pathlib.Path(__file__).parent.glob("level-*"))))
        import NAME_recipe

        del sys.path[0]


        def drive(launch):
            return launch(NAME_recipe.NAME())
        """,
        2,
        3,
        Move("level-2", "level-3"),
        SOURCE,
        files={
            "level-2/NAME_recipe.py": """
            @kcl.kernel
            def NAME():
                return KERNEL(int(os.path.basename(os.path.dirname(__file__))[-1]))
            """
        },
    ),
    Case(
        "the name of the folder of a helper decides",
        """
        sys.path.insert(0, str(next(pathlib.Path(__file__).parent.glob("level-*"))))
        from NAME_helper import HERE

        del sys.path[0]


        @kcl.kernel
        def NAME():
            return KERNEL(int(HERE.name.partition("-")[2]))
        """,
        2,
        3,
        Move("level-2", "level-3"),
        LOOPY,
        files={"level-2/NAME_helper.py": "import pathlib\n\nHERE = pathlib.Path(__file__).parent\n"},
    ),
    # attribute names that are not escaped
    Case(
        "an attribute's name reads like two attributes",
        """
        class Tile:
            pass


        TILE = Tile()
        vars(TILE).update({"a": 1, "b": 2})


        @kcl.kernel
        def NAME():
            return KERNEL(len(vars(TILE)) + 1)
        """,
        3,
        2,
        Edit('{"a": 1, "b": 2}', '{"a=1, b": 2}'),
        SOURCE,
    ),
    Case(
        "a parameter's attribute has a name that reads like the end of an object",
        """
        class Tile:
            def __init__(self, **attributes):
                vars(self).update(attributes)


        @kcl.kernel
        def NAME(tiles):
            return KERNEL(len(tiles[0].__dict__) + 1)


        def drive(launch):
            return launch(NAME([Tile(a=1, b=2)]))
        """,
        3,
        2,
        Edit("Tile(a=1, b=2)", 'Tile(**{"a=1, b": 2})'),
        LOOPY,
    ),
    Case(
        "an attribute of a namespace has a name with a dot",
        """
        import types

        SETTINGS = types.SimpleNamespace(**{"tile.width": 2})


        @kcl.kernel
        def NAME():
            return KERNEL(getattr(SETTINGS, "tile" + "." + "width"))
        """,
        2,
        3,
        Edit('"tile.width": 2', '"tile.width": 3'),
        SOURCE,
    ),
]
PROCESSORS = ("the number of compute units", "the processors of the process")
ROWS = rows(case for case in CASES if (os.cpu_count() or 1) > 1 or not case.title.startswith(PROCESSORS))
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_state_left_out(case, told):
    """The number is that of a process without a cache, and what did not change is warm."""
    check(case, told[str(case)])
