"""The house: import order, fences, public names."""

import ast
import collections
import functools
import graphlib
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


def listed(text):
    return text.split()


# The rooms, from the ground up: a module imports only what lies in its own room or above it in this list, also inside
# of functions and for types. The line, the recipes and the integrations lie below the tools, which listen to events.
ROOMS = listed(
    """
    errors base option launch foreign cache code generate programs drivers frontends bundle remote line
    choices handle integrations loopy recipe inspect workers cli __main__
    """
)


def words(text):
    return set(listed(text))


def room(name):
    """Return the room of a module: its folder, or the file itself in the root."""
    return name.partition(".")[0]


def rank(name):
    """Return the place of a module's room in the order."""
    assert room(name) in ROOMS, f"kcl.{name} has no place in the import order, ROOMS in {__file__}"
    return ROOMS.index(room(name))


class TestImportOrder:
    def test_the_list_names_the_rooms_that_there_are_and_no_other(self):
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
        edges = {name: targets(path, name) - {"__init__", name} for path, name in modules()}
        graphlib.TopologicalSorter(edges).prepare()  # raises an error that names the circle


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
    """Return the texts in the code of each module."""
    return {
        name: {node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)}
        for path, name in modules()
    }


def targets(path, name):
    """Return the modules of kcl that a module imports, also inside of functions and for types."""
    return {inside(dotted) for dotted, _typing, _line in imported(path, name)} - {None}


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
    def test_some_packages_are_imported_by_few_modules_or_by_none(self, packages, allowed):
        assert importing(*packages.split()) <= allowed

    @pytest.mark.parametrize(("names", "users"), USERS.values(), ids=USERS)
    def test_users(self, names, users):
        """Some names are used by the listed modules only, and by each of them."""
        assert using(*names.split()) == users

    def test_builds(self):
        """Programs are built in one module, and by the helper that completes entries."""
        helpers = {name for name in NAMES if name.startswith("drivers.pocl")}
        assert places(r"\blink_program\b|clBuildProgram|clCompileProgram") <= helpers
        builders = words(
            "programs.compilation programs.kernels integrations.programs integrations.served"
        )
        assert places(r"\.build\(|\._prg\b") == builders

    def test_drivers(self):
        """A driver is asked by its verbs: nobody outside of the drivers imports a file of one."""
        own = ("drivers.pocl", "drivers.nvidia")
        found = {
            name
            for path, name in modules()
            if any(target.startswith(own) for target in targets(path, name))
        }
        # What an application of PyInstaller runs as it starts: it may be the helper.
        beside = {"integrations.pyinstaller.rthooks.pyi_rth_kcl"}
        assert {room(name) for name in found - beside} <= {"drivers"}

    def test_layers_are_asked_by_the_look_up(self):
        """Entries of a layer are found, published and set aside by the look-up, and by these modules for a reason."""
        assert calling("look_up", "publish", "set_aside") == ASKING.keys()

    def test_platforms(self):
        """A decision by the name of a platform is made in the table of drivers, and nowhere else."""
        names = drivers.TABLE.keys()
        found = {name for name, texts in constants().items() if names & texts}
        # The second one says which driver's cache is which, for people.
        assert found == {"drivers", "foreign.table"}

    def test_the_names_of_layers_stand_in_one_table(self):
        found = {name for name, texts in constants().items() if settings.GENERATOR in texts}
        assert found == {"base.settings"}

    def test_launch(self):
        """The closed room imports errors, and nothing else of kcl; the launcher nothing of its room either."""
        inner = {name: targets(path, name) for path, name in modules() if room(name) == "launch"}
        assert inner["launch"] <= {"errors"}
        assert set().union(*inner.values()) <= {"errors", *inner}

    def test_size(self):
        """A newcomer can hold the rooms in mind: at most 24, of them at most 16 folders."""
        assert len(ROOMS) <= 24  # one is `option`, a public name of a module of base
        assert len({room(name) for name in NAMES if "." in name}) <= 16
        assert len(list(PACKAGE.glob("*.py"))) <= 9

    def test_arrows(self):
        """A newcomer can hold the imports between rooms in mind: at most 137, and at most 12 levels of them."""
        below = {}
        for path, name in modules():
            others = {room(target) for target in targets(path, name) - {"__init__"}}
            below[room(name)] = below.get(room(name), set()) | others - {room(name)}

        def level(one):
            return 1 + max(map(level, below[one]), default=0)

        assert sum(map(len, below.values())) <= 137
        assert max(map(level, below)) <= 12

    def test_late_imports(self):
        """An import inside of a function has one of the listed reasons, and each of these is a reason of one."""
        late = {(name, *pair) for path, name in modules() for pair in imported_late(path, name)}
        warm = (*warm_modules.MODULES, *warm_modules.POCL)
        start = {"__init__", *(module.partition(".")[2] for module in warm)}
        assert {package for _name, _inner, package in late if package} == ABSENT | SLOW
        reasons = [pair for table in FIRST.values() for pair in table.items()]
        assert {(name, inner) for name, inner, _package in late if inner in start} == {
            (name, target) for name, text in reasons for target in words(text)
        }


class TestBudget:
    def test_each_room_keeps_its_budget_of_tokens_with_a_little_slack(self):
        rooms = sorted({*budget.ROOMS, *budget.tokens()})
        assert list(filter(None, map(budget.excess, rooms))) == []

    def test_what_counts(self, tmp_path):
        """Comments, docstrings, rows of tables and a formatter's comma are free; a formatted text is one token."""
        place = tmp_path / "module.py"
        place.write_text(
            '"""A docstring."""\n# a comment\nROWS = [\n    (1, 2),\n    (3, 4),\n]\nx = f(\n    f"{ROWS} of", 2,\n)\n'
        )
        assert budget.counted(place) == len(listed("ROWS = [ x = f ( text , 2 )"))

    def test_what_fails_names_the_room_both_numbers_and_what_to_do(self, monkeypatch):
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
    def test_no_class_has_a_participle_for_its_name(self):
        names = {node.name for _module, node in classes()}
        single = {name for name in names if re.fullmatch("[A-Z][a-z]+", name)}
        assert {name for name in single if name.endswith("ed") or name in PARTICIPLES} == set()

    def test_a_name_means_one_thing(self):
        """No two modules have a public class of one name, but for what a module keeps of a process."""
        counts = collections.Counter(node.name for _module, node in classes())
        public = {name: times for name, times in counts.items() if not name.startswith("_")}
        assert {name for name, times in public.items() if times > 1} == set()


def test_the_tests_that_the_makefile_and_the_tools_name_are_there():
    tools = [path for folder in ("tools", "tests/support") for path in (ROOT / folder).glob("*.py")]
    text = "".join(path.read_text() for path in (ROOT / "Makefile", *tools))
    named = set(re.findall(r"\btests/[\w/]+\.py\b", text))
    assert {name for name in named if not (ROOT / name).exists()} == set()


# The line of a launch, and the value classes that are handed along it: at most twenty.
LINE = (
    *("base.events", "programs", "cache.", "code", "generate", "handle"),
    *("launch", "line", "recipe", "frontends.source"),
)
VALUES = words(
    """
    base.events.Event cache.key.Part cache.layer.Answer cache.lookup.Look
    code.Argument code.Code code.Invoker code.LaunchableCode code.ProgramText code.WarningFact
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
    "the journal, and what explains a miss": "base.events.MissNote cache.phrases.Difference",
    "the words for differences": "cache.phrases.About cache.phrases.Origin",
    "the tools of drivers": "programs.open_jobs.OpenJobs",
    "stores": "cache.stores.Stat",
    "the user's declarations": """
        generate.declarations.RecipeCall
        frontends.source.Array frontends.source.Image frontends.source.Local
        frontends.source.Sampler frontends.source.Scalar
    """,
    "the recording of a hot call": "launch.write.Form",
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
        tested = [(name, mirrored(path)) for path, name in modules() if defines(path)]
        assert {name for name, place in tested if not place.exists()} == set()

    def test_every_unit_test_has_its_module(self):
        """A unit test lies where its module does, but for two files about several."""
        files = set((ROOT / "tests" / "unit").rglob("test_*.py"))
        strays = files - {mirrored(path) for path, _name in modules()}
        assert {path.name for path in strays} == {"test_entries.py", "test_layout.py"}


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
    left_out = {"unit", "projects", "test_benchmarks.py"}
    files = [path.relative_to(tests) for path in tests.rglob("*.py")]
    found = {str(file): read_by(tests / file) for file in files if not left_out & {*file.parts}}
    assert {file: names for file, names in found.items() if names} == {}
