"""The house: import order, fences, public names."""

from __future__ import annotations

import ast
import re

import pytest

from conftest import ROOT

PACKAGE = ROOT / "kcl"

# The rooms, from the ground up: a module imports only what lies in its own room or above it in this list, also inside
# of functions and for types.
ROOMS = [
    "errors",
    "process",
    "namedtuple",
    "settings",
    "events",
    "launch",
    "caches",
    "cache",
    "record",
    "generate",
    "build",
    "drivers",
    "inspect",
    "line",
    "handle",
    "integrations",
    "loopy",
    "recipe",
    "cli",
    "__main__",
]


def modules():
    """Return path and dotted name below kcl of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        yield path, name


NAMES = {name for _path, name in modules()}


def imported(path, name):
    """Yield (module of kcl, whether for types only, line) for every import in a module."""
    tree = ast.parse(path.read_text())
    typing = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: relative import"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for dotted in found:
            yield dotted, id(node) in typing, node.lineno


def inside(dotted):
    """Return the module of kcl that an imported name lies in, None for another package's."""
    package, _, rest = dotted.partition(".")
    if package != "kcl":
        return None
    while rest and rest not in NAMES:
        rest = rest.rpartition(".")[0]
    return rest or "__init__"


def room(name):
    """Return the room of a module: its folder, or the file itself in the root."""
    return name.partition(".")[0]


def rank(name):
    """Return the place of a module's room in the order."""
    assert room(name) in ROOMS, f"kcl.{name} has no place in the import order: add it to ROOMS in {__file__}"
    return ROOMS.index(room(name))


class TestImportOrder:
    def test_every_room_is_there(self):
        """The list names the rooms that there are, and no other."""
        assert {room(name) for name in NAMES} - {"__init__", ""} == set(ROOMS)

    @pytest.mark.parametrize(("path", "name"), [pair for pair in modules() if pair[1] != "__init__"])
    def test_one_way(self, path, name):
        """A module imports only what lies in its own room or below, also inside of functions and for types."""
        for dotted, _typing, line in imported(path, name):
            target = inside(dotted)
            if target is None or target == "__init__":
                continue
            assert rank(target) <= rank(name), f"kcl/{path.name}:{line}: kcl.{name} must not import kcl.{target}"

    def test_no_circle(self):
        """No module reaches itself over imports at module level."""
        edges = {name: set() for name in NAMES}
        for path, name in modules():
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ImportFrom | ast.Import):
                    dotted = [f"{getattr(node, 'module', '')}.{a.name}".lstrip(".") for a in node.names]
                    edges[name] |= {inside(each) for each in dotted} - {None, "__init__", name}
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


def places(pattern):
    """Return the modules whose code, without comments and texts, matches."""
    found = set()
    for path, name in modules():
        code = ast.unparse(_without_texts(ast.parse(path.read_text())))
        if re.search(pattern, code):
            found.add(name)
    return found


def _without_texts(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return tree


def importing(*packages):
    """Return the modules that import one of these packages, anywhere."""
    return {
        name
        for path, name in modules()
        for dotted, typing, _line in imported(path, name)
        if dotted.partition(".")[0] in packages and not typing
    }


class TestFences:
    def test_environment(self):
        """The environment is read in the settings and in the rows of foreign caches only."""
        readers = places(r"(?<!type\()\bos\.(environ|environb|getenv|getenvb)\b|from os import [^\n]*environ")
        assert readers <= {"settings", "caches", "caches.table"}

    def test_command_line(self):
        """click and rich are imported by the command line only."""
        assert importing("click", "rich") <= {name for name in NAMES if name.startswith("cli")}

    def test_builds(self):
        """Programs are built in one module, and by the helper that completes entries."""
        helpers = {name for name in NAMES if name.startswith("drivers.pocl")}
        assert places(r"\blink_program\b|clBuildProgram|clCompileProgram") <= helpers
        assert places(r"\.build\(|\._prg\b") == {"build.compiler"}

    def test_generators(self):
        """loopy and what it is made of are imported by its front end and its adapter only."""
        allowed = {"generate.frontends.loopy", "record.content", "caches", "loopy"}
        assert importing("loopy", "islpy", "pymbolic", "genpy", "cgen", "constantdict") <= allowed

    def test_hot_path(self):
        """The launcher imports nothing of kcl but its errors."""
        path = PACKAGE / "launch" / "__init__.py"
        assert {inside(dotted) for dotted, _typing, _line in imported(path, "launch")} <= {None, "errors"}

    def test_never_unpickled(self):
        """Nothing unpickles; code objects are unmarshalled in one place, behind a verified entry."""
        assert places(r"\b(pickle|shelve|dill|cloudpickle)\b") == set()
        assert places(r"\bmarshal\.loads?\(") == {"generate.code"}

    def test_slow_imports(self):
        """What is slow to import is imported by no module of the warm path."""
        cli = {name for name in NAMES if name.startswith("cli")}
        assert importing("dataclasses") <= cli | {"drivers.pocl.helper"}  # on a miss, or elsewhere
        assert importing("platformdirs") <= {"settings"}
        assert places(r"from typing import [^\n]*\bNamedTuple\b") == {"namedtuple"}
