"""kcl.cache.places: the name of every folder and file of kcl stands there only."""

import ast
import os
import re

from house import modules

from kcl.base.settings import option
from kcl.cache import places

# Modules before `cache.places` in the import order, with a name of their own each.
BEFORE = {"base.settings": {".kcl_cache", "kcl"}}
# Words that also mean something else: names where they are joined to a path.
PLAIN = {*places.SORTS, *places.FOLDERS}
DISTINCT = {
    *(places.GENERATED, places.BINARIES, places.DICTIONARY + "kcl"),
    *(places.TEMPORARY, places.DAMAGED, ".kcl_cache"),
}
CALLS = {"join", "own", "Directory", "Remembered", "Path"}


def documentation(tree):
    """Return the texts that are statements of their own."""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    return {id(text) for text in texts if isinstance(text, ast.Constant)}


def spelled(tree):
    """Yield the names of places in the code of a module."""
    left_out = documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = {each.value for each in node.args if isinstance(each, ast.Constant)}
            yield from given & PLAIN if name in CALLS else ()
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in left_out
        ):
            yield from (name for name in DISTINCT if name in node.value)
            yield from (name for name in places.SORTS if re.search(rf"/{name}\b", node.value))


class TestNames:
    def test_once(self):
        """No other module spells the name of a folder or file of kcl, and no module is excused without need."""
        found = {name: set(spelled(ast.parse(path.read_text()))) for path, name in modules()}
        assert {places.BINARIES, places.GENERATED} <= found.pop("cache.places")
        assert {name: found.pop(name) for name in BEFORE} == BEFORE
        assert {name for name, names in found.items() if names} == set()

    def test_found(self):
        """The test finds a name in a joined path, in a text with a slash, and none in documentation."""
        code = '"flight"\nos.path.join(folder, "flight")\nf"{folder}/pins/{name}"\n{"pins": 1}\nx = "kcl-binary-v1"'
        assert sorted(spelled(ast.parse(code))) == ["flight", "kcl-binary-v1", "pins"]


class TestPlaces:
    def test_below_the_root(self, tmp_path):
        """Every place lies in one of the three folders below the chosen root."""
        option.cache_dir(tmp_path)
        assert places.own(places.PINS) == os.path.join(places.own(), "pins")
        assert places.own() == str(tmp_path / "kcl")
        assert places.generated() == os.path.join(places.dictionaries(), "kcl-generated-v1")
        assert places.dictionaries().startswith(str(tmp_path / "pytools"))
        assert places.binaries() == str(tmp_path / "pyopencl" / "kcl-binary-v1")

    def test_the_patterns_of_what_belongs_to_kcl_fit_every_name(self):
        owned = {"generator": places.ROWS, "binary": places.PROGRAMS, "kept": places.KEPT}
        of = {cache: re.compile(pattern) for cache, (_folder, pattern) in owned.items()}
        name = f"{places.DICTIONARY}{places.GENERATED}-3.12.1{places.DATABASE}"
        assert not of["generator"].fullmatch("pdict-v5-loopy-x.sqlite")
        assert of["generator"].fullmatch(name)
        assert of["generator"].fullmatch(places.GENERATED)
        assert of["binary"].fullmatch(places.BINARIES)
        assert all(of["kept"].fullmatch(sort) for sort in places.SORTS)
