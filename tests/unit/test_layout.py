"""The house: import order, fences, public names."""

import ast
import collections
import functools
import re

import budget
import pytest
import warm_modules
from harness import ROOT
from house import (
    NAMES,
    PACKAGE,
    calling,
    imported,
    imported_late,
    importing,
    inside,
    modules,
    named,
    parsed,
    places,
    using,
)

from kcl import drivers
from kcl.base import settings

# The rooms, from the ground up: a module imports only what lies in its own room or above it in this list, also inside
# of functions and for types. The line, the recipes and the integrations lie below the tools, which listen to events.
ROOMS = [
    "errors",
    "base",
    "option",
    "launch",
    "foreign",
    "cache",
    "code",
    "generate",
    "programs",
    "drivers",
    "frontends",
    "bundle",
    "remote",
    "line",
    "choices",
    "handle",
    "integrations",
    "loopy",
    "recipe",
    "inspect",
    "workers",
    "cli",
    "__main__",
]


def words(text):
    return set(text.split())


def room(name):
    """Return the room of a module: its folder, or the file itself in the root."""
    return name.partition(".")[0]


def rank(name):
    """Return the place of a module's room in the order."""
    assert room(name) in ROOMS, (
        f"kcl.{name} has no place in the import order: add it to ROOMS in {__file__}"
    )
    return ROOMS.index(room(name))


class TestImportOrder:
    def test_every_room_is_there(self):
        """The list names the rooms that there are, and no other."""
        assert {room(name) for name in NAMES} - {"__init__", ""} == set(ROOMS)

    def test_one_way(self):
        """A module imports only what lies in its own room or below, also inside of functions and for types."""
        upward = [
            f"kcl/{path.name}:{line}: kcl.{name} must not import kcl.{target}"
            for path, name in modules()
            for dotted, _typing, line in imported(path, name)
            if "__init__" not in (name, target := inside(dotted)) and target is not None
            if rank(target) > rank(name)
        ]
        assert upward == []

    def test_no_circle(self):
        """No module reaches itself over imports, also inside of functions and for types."""
        edges = {name: set() for name in NAMES}
        for path, name in modules():
            found = {inside(dotted) for dotted, _typing, _line in imported(path, name)}
            edges[name] = found - {None, "__init__", name}
        done, way = set(), []

        def visit(name):
            assert name not in way, " -> ".join([*way[way.index(name) :], name])
            if name in done or name not in edges:
                return
            way.append(name)
            for other in sorted(edges[name]):
                visit(other)
            way.pop()
            done.add(name)

        for name in sorted(NAMES):
            visit(name)


# Modules that compare names with one that lies above them.
COMPARING = {("frontends.pure", "loopy"), ("frontends.loopy.imports", "loopy")}


def test_named_above():
    """No module calls one above itself by a text: such calls go through a port."""
    found = {
        (name, target)
        for path, name in modules()
        for target in filter(None, map(inside, named(path)))
        if "__init__" not in (name, target) and rank(target) > rank(name)
    }
    assert found == COMPARING


# Who asks a layer for entries, beside the look-up, and why.
ASKING = {
    "bundle.contents": "a bundle brings entries of many programs",
    "cache.layer": "sets a damaged entry aside",
    "choices.tuning.table": "a tuning adds rows to a table as it lies on disk",
    "cache.lookup": "the look-up",
    "programs.stage": "an entry of another driver is built again",
    "programs.compilation": "adds the first launches to entries that were just made",
    "drivers.pocl.complete": "the helper publishes what it has completed",
    "drivers.pocl.asking": "sees whether the helper has completed an entry",
    "generate.stage": "tells kcl.prepare whether a kernel is there",
    "handle.questions": "tells kcl.prepare whether a program is there",
    "frontends.loopy.proofs": "proofs belong to a file, and are read before the first kernel",
}
# Who makes a directory of entries, and of what.
DIRECTORIES = {
    "cache.layers": "layers",
    "cache.notes": "small states by name",
    "cache.run_memo": "what one run leaves for the next",
    "drivers.pocl.jobs": "jobs of the helper",
    "inspect.history.records": "counts and misses of processes",
    "inspect.inventory": "whether a store has a file for each entry",
    "inspect.space": "pinned kernels",
    "remote.used": "what runs used, until it is pushed",
}


# Imports inside of functions, by their reason. A module of kcl that a warm start does not import is needed by a miss, a
# tool or a fault only, and may be imported where it is used.

# Packages and parts of Python that need not be there.
ABSENT = words("loopy islpy constantdict platformdirs tomli tomllib grp lzma pwd resource")
# What most processes do without, `import kcl` and the commands among them.
SLOW = words(
    """
    numpy pyopencl pytools difflib gc importlib io linecache logging pkgutil runpy shlex shutil
    sqlite3 subprocess sysconfig tempfile textwrap zipimport
    """
)
# Modules of a warm start that programs without the thing do not import, by the modules that import them.
FIRST = {
    "a kernel, a recipe or the face of loopy": {
        "recipe": "handle",
        "choices.sizes.size": "frontends.loopy.face",
        "frontends": "base.spans",
        "frontends.loopy.imports": """
            frontends.loopy.face frontends.loopy.moment frontends.loopy.recorder frontends.loopy.table
            generate.distributions
        """,
    },
    "a unit or program that was not written for kcl": {
        "integrations": "base.attended base.settings base.spans errors foreign frontends.loopy.imports",
        "integrations.programs": "cache.layers",
        "integrations.runner": "base.events foreign",
        "integrations.pytest_plugin": "__init__ base.events cache.places drivers",
        "frontends.loopy.imports": "cache.layers",
        "frontends.loopy.units": "base.events cache.layers errors frontends.loopy.result",
        "programs": "base.attended cache.layers",
    },
    "a layer of rows, or of files": {"cache.layers": "base.settings.trust cache.stores.sqlite"},
    "a header": {"programs.program_key": "programs.headers"},
    "a command, a report or a worker process": {"inspect": "drivers"},
}


CLI = {name for name in NAMES if name.startswith("cli")}


def constants():
    """Yield each module with the texts in its code."""
    for path, name in modules():
        yield (
            name,
            {
                node.value
                for node in ast.walk(parsed(path))
                if isinstance(node, ast.Constant) and node.value
            },
        )


def classes():
    """Yield each class at the top of a module, with the module's name."""
    for path, name in modules():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                yield name, node


# Packages that these modules alone may import.
IMPORTERS = {
    "the command line": ("click rich", CLI),
    "loopy and what it is made of": (
        "loopy islpy pymbolic genpy cgen constantdict",
        {
            *("frontends.loopy.result", "frontends.loopy.translation"),
            *("frontends.loopy.callables.encoder", "foreign", "loopy"),
        },
    ),
    "what unpickles": ("pickle shelve dill cloudpickle", set()),
    "slow, for a miss or elsewhere": ("dataclasses", CLI | {"drivers.pocl.helper"}),
    "slow, for the settings": ("platformdirs", {"base.settings"}),
}
# Names that these modules use, and no other.
USERS = {
    "the environment, which the child of any interpreter reads too": (
        "os.environ os.environb os.getenv os.getenvb",
        {"base.settings", "base.settings.trust", "foreign", "integrations.children.sitecustomize"},
    ),
    "entries are verified in their own module": ("kcl.cache.entry.Entry.unpack", set()),
    "events are emitted by the look-up": ("kcl.base.events.emit", {"cache.lookup"}),
    "folders of layers are named by the table of layers": (
        "kcl.cache.places.binaries kcl.cache.places.dictionaries kcl.cache.places.generated",
        {"cache.layers"},
    ),
    "directories of entries": ("kcl.cache.stores.directory.Directory", DIRECTORIES.keys()),
    "code objects are read behind a verified entry": (
        "marshal.load marshal.loads",
        {"generate.rows"},
    ),
    "a lock is renewed in a forked child, and its holder may take it again, as a signal handler does": (
        "threading.Lock threading.RLock threading.Condition threading.Semaphore",
        {"base.process"},
    ),
    # The first is listed in a forked child alone, where there is one thread; the last is never listed.
    "a weak set cannot be listed while another thread adds to it": (
        "weakref.WeakSet",
        {"base.process", "cache.stores.sqlite", "line"},
    ),
    # Before Python 3.12 it has a lock. The front end of loopy knows its class.
    "no forked child finds the lock of a cached property": (
        "functools.cached_property",
        {"frontends.loopy.callables.classes", "frontends.loopy.callables.encoder"},
    ),
}


class TestFences:
    @pytest.mark.parametrize(("packages", "allowed"), IMPORTERS.values(), ids=IMPORTERS)
    def test_importers(self, packages, allowed):
        """Some packages are imported by few modules, or by none."""
        assert importing(*packages.split()) <= allowed

    @pytest.mark.parametrize(("names", "users"), USERS.values(), ids=USERS)
    def test_users(self, names, users):
        """Some names are used by the listed modules only, and by each of them."""
        assert using(*names.split()) == users

    def test_builds(self):
        """Programs are built in one module, and by the helper that completes entries."""
        helpers = {name for name in NAMES if name.startswith("drivers.pocl")}
        assert places(r"\blink_program\b|clBuildProgram|clCompileProgram") <= helpers
        assert places(r"\.build\(|\._prg\b") == {
            "programs.compilation",
            "programs.kernels",
            "integrations.programs",
            "integrations.served",
        }

    def test_drivers(self):
        """A driver is asked by its verbs: nobody outside of the drivers imports a file of one."""
        found = {
            name
            for path, name in modules()
            for dotted, _typing, _line in imported(path, name)
            if (inside(dotted) or "").startswith(("drivers.pocl", "drivers.nvidia"))
        }
        # what an application of PyInstaller runs as it starts: it may be the helper
        beside = {"integrations.pyinstaller.rthooks.pyi_rth_kcl"}
        assert {room(name) for name in found - beside} <= {"drivers"}

    def test_hot_path(self):
        """The launcher imports nothing of kcl but its errors."""
        path = PACKAGE / "launch" / "__init__.py"
        assert {inside(dotted) for dotted, _typing, _line in imported(path, "launch")} <= {
            None,
            "errors",
        }

    def test_layers_are_asked_by_the_look_up(self):
        """Entries of a layer are found, published and set aside by the look-up, and by these modules for a reason."""
        assert calling("look_up", "publish", "set_aside") == ASKING.keys()

    def test_platforms(self):
        """A decision by the name of a platform is made in the table of drivers, and nowhere else."""
        names = drivers.TABLE.keys()
        found = {name for name, texts in constants() if names & texts}
        assert found == {
            "drivers",
            "foreign.table",
        }  # the second one says which driver's cache is which, for people

    def test_layers(self):
        """The names of layers stand in one table."""
        assert {name for name, texts in constants() if settings.GENERATOR in texts} == {
            "base.settings"
        }

    def test_launch(self):
        """The closed room imports errors, and nothing else of kcl."""
        inner = [(path, name) for path, name in modules() if room(name) == "launch"]
        found = {
            inside(dotted)
            for path, name in inner
            for dotted, _typing, _line in imported(path, name)
        }
        assert found - {None} <= {"errors"} | {name for _path, name in inner}

    def test_size(self):
        """A newcomer can hold the rooms in mind: at most 24, of them at most 16 folders."""
        folders = {room(name) for name in NAMES if "." in name}
        files = {path.name for path in PACKAGE.glob("*.py")}
        assert len(ROOMS) <= 24  # one is `option`, a public name of a module of base
        assert len(folders) <= 16
        assert len(files) <= 9

    def test_arrows(self):
        """A newcomer can hold the imports between rooms in mind: at most 137, and at most 12 levels of them."""
        arrows = {
            (room(name), room(target))
            for path, name in modules()
            for dotted, _typing, _line in imported(path, name)
            if (target := inside(dotted)) not in (None, "__init__") and room(target) != room(name)
        }

        def level(one):
            return 1 + max([level(below) for above, below in arrows if above == one], default=0)

        assert len(arrows) <= 137
        assert max(level(above) for above, _below in arrows) <= 12

    def test_late_imports(self):
        """An import inside of a function has one of the listed reasons, and each of these is a reason of one."""
        late = {(name, *pair) for path, name in modules() for pair in imported_late(path, name)}
        start = {
            module.partition(".")[2] for module in (*warm_modules.MODULES, *warm_modules.POCL)
        } | {"__init__"}
        assert {package for _name, _inner, package in late if package} == ABSENT | SLOW
        assert {(name, inner) for name, inner, _package in late if inner in start} == {
            (name, target)
            for targets in FIRST.values()
            for name, text in targets.items()
            for target in words(text)
        }


class TestBudget:
    def test_rooms(self):
        """Each room keeps its budget of tokens, with a little slack."""
        rooms = sorted({*budget.ROOMS, *budget.tokens()})
        assert list(filter(None, map(budget.excess, rooms))) == []

    def test_what_counts(self, tmp_path):
        """Comments, docstrings, rows of tables and a formatter's comma are free; a formatted text is one token."""
        place = tmp_path / "module.py"
        place.write_text(
            '"""A docstring."""\n# a comment\nROWS = [\n    (1, 2),\n    (3, 4),\n]\nx = f(\n    f"{ROWS} of", 2,\n)\n'
        )
        assert budget.counted(place) == len(["ROWS", "=", "["]) + len(
            ["x", "=", "f", "(", "text", ",", "2", ")"]
        )

    def test_words(self, monkeypatch):
        """What fails names the room, both numbers, and what to do."""
        monkeypatch.setitem(budget.ROOMS, "cache", 100)
        assert "may hold 100 with 3% of slack: shorten it here, or say" in budget.excess("cache")

    def test_warm_start(self):
        """A warm start imports no more modules, and hardly more tokens, than its budget says."""
        number, held = budget.warm()
        assert number <= budget.WARM_MODULES
        assert held <= budget.WARM_TOKENS * (1 + budget.SLACK)


PARTICIPLES = words(
    """
    Built Chosen Found Given Held Kept Known Left Lost Made Ran Read Said Seen Sent Shown Taken
    Thrown Told Unknown Unmade Unwritten Written
    """
)


class TestNames:
    def test_classes_are_nouns(self):
        """No class has a participle for its name."""
        names = {node.name for _module, node in classes()}
        single = {name for name in names if re.fullmatch("[A-Z][a-z]+", name)}
        assert {name for name in single if name.endswith("ed") or name in PARTICIPLES} == set()

    def test_a_name_means_one_thing(self):
        """No two modules have a public class of one name, but for what a module keeps of a process."""
        counts = collections.Counter(node.name for _module, node in classes())
        public = {name: times for name, times in counts.items() if not name.startswith("_")}
        assert {name for name, times in public.items() if times > 1} == set()


def test_named_tests_exist():
    """The tests that the Makefile and the tools name are there."""
    places = [
        ROOT / "Makefile",
        *(ROOT / "tools").glob("*.py"),
        *(ROOT / "tests" / "support").glob("*.py"),
    ]
    named = {
        name for place in places for name in re.findall(r"\btests/[\w/]+\.py\b", place.read_text())
    }
    assert {name for name in named if not (ROOT / name).exists()} == set()


# The line of a launch, and the value classes that are handed along it: at most twenty.
LINE = (
    "base.events",
    "programs",
    "cache.",
    "code",
    "generate",
    "handle",
    "launch",
    "line",
    "recipe",
    "frontends.source",
)
VALUES = words(
    """
    base.events.Event cache.key.Part cache.layer.Answer cache.lookup.Look
    code.Argument code.Code code.Invoker code.LaunchableCode code.ProgramText
    generate.evidence.Evidence generate.protocol.OpenArguments generate.stage.CallValues
    programs.program_key.BuildOptions programs.program_key.ProgramSlot programs.stage.BuildRequest
    """
)
# Value classes in these rooms that no launch hands on.
BESIDE = {
    "rows of tables": "cache.layers.LayerRow",
    "installed files": """
        generate.distributions.Owner generate.distributions.PackagePlace generate.files.File
    """,
    "the journal, and what explains a miss": """
        base.events.MissNote cache.phrases.Difference
    """,
    "the words for differences": "cache.phrases.About cache.phrases.Origin",
    "the tools of drivers": "programs.open_jobs.OpenJobs",
    "stores": "cache.stores.Stat",
    "the user's declarations of a recipe": """
        generate.declarations.Declarations generate.declarations.RecipeCall
    """,
    "the user's declarations of a kcl.Source": """
        frontends.source.Array frontends.source.Image frontends.source.Local
        frontends.source.Sampler frontends.source.Scalar
    """,
    "the recording of a hot call": """
        launch.write.Form launch.recording.AllocatedOutput launch.recording.Allocation
        launch.recording.Step
    """,
}


class TestValues:
    def test_at_most_twenty(self):
        """A launch hands on at most twenty value classes; the others of these rooms have a reason."""
        public = {
            f"{module}.{node.name}"
            for module, node in classes()
            if module.startswith(LINE)
            and "NamedTuple" in map(ast.unparse, node.bases)
            and not node.name.startswith("_")
        }
        assert public == VALUES | words(" ".join(BESIDE.values()))
        assert len(VALUES) <= 20

    @pytest.mark.parametrize("dotted", sorted(VALUES))
    def test_says_where_it_is_made_and_ends(self, dotted):
        """The docstring of a value class says where it is made, and where it ends."""
        module, _, name = dotted.rpartition(".")
        (node,) = [node for other, node in classes() if (other, node.name) == (module, name)]
        assert re.search(r"\bMade [^;.]*;\s+ends\s[^.]*\.", ast.get_docstring(node))


def mirrored(path):
    """Return where the tests of a module lie; those of a package are called after it."""
    place = path.relative_to(PACKAGE)
    name = (place.parent.name or "kcl") if path.name == "__init__.py" else path.stem
    return ROOT / "tests" / "unit" / place.parent / f"test_{name}.py"


def defines(path):
    """Return True if a module has functions or classes."""
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in parsed(path).body)


class TestMirror:
    def test_every_module_has_its_tests(self):
        """A module with functions or classes has a test file at the mirrored place."""
        missing = {
            name for path, name in modules() if defines(path) and not mirrored(path).exists()
        }
        assert missing == set()

    def test_every_unit_test_has_its_module(self):
        """A unit test lies where its module does, but for three files about several."""
        files = set((ROOT / "tests" / "unit").rglob("test_*.py"))
        strays = files - {mirrored(path) for path, _name in modules()}
        assert {path.name for path in strays} == {
            "test_entries.py",
            "test_layout.py",
        }


@functools.cache
def private_names():
    """Return the private names that modules and classes of kcl define or store."""
    found = set()
    for path, _name in modules():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
    private = {name for name in found if name.startswith("_") and not name.startswith("__")}
    return private - {"_replace"} | {"_kcl_bindings"}


def read_by(path):
    """Return the private names of kcl that a test reads: attributes, imported names and those it replaces."""
    tree = ast.parse(path.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    read = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            read.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kcl"):
            read |= {alias.name for alias in node.names}
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "monkeypatch.setattr"
            and len(node.args) > 1
        ):
            read |= {node.args[1].value} if isinstance(node.args[1], ast.Constant) else set()
    return (read & private_names()) - own


def test_private_names_are_read_by_unit_tests_only():
    """A test outside tests/unit knows kcl by its public names."""
    tests = ROOT / "tests"
    files = [path for path in tests.rglob("*.py") if path.relative_to(tests).parts[0] != "unit"]
    files = [
        path for path in files if "projects" not in path.parts and path.name != "test_benchmarks.py"
    ]
    found = {path.relative_to(tests).as_posix(): read_by(path) for path in files}
    assert {file: names for file, names in found.items() if names} == {}
