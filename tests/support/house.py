"""The structure of the package, for tests that hold its rules: modules, imports, and what stands in code."""

import ast
import functools
import re

from harness import ROOT

PACKAGE = ROOT / "kcl"


@functools.cache
def modules():
    """Return path and dotted name below kcl of every module."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths]
    return [(path, name.removesuffix(".__init__")) for path, name in zip(paths, names, strict=True)]


NAMES = {name for _path, name in modules()}


@functools.cache
def parsed(path):
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


@functools.cache
def imported(path, name):
    """Return (module of kcl, whether for types only, line) for every import in a module."""
    return list(_imports(parsed(path), name))


def _imports(tree, name):
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


def named(path):
    """Yield the names of modules of kcl that a module has as texts, to import them or to look for them."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and re.fullmatch(r"kcl(\.\w+)+", str(node.value)):
            yield node.value


def inside(dotted):
    """Return the module of kcl that an imported name lies in, None for another package's."""
    package, _, rest = dotted.partition(".")
    if package != "kcl":
        return None
    while rest and rest not in NAMES:
        rest = rest.rpartition(".")[0]
    return rest or "__init__"


def places(pattern):
    """Return the modules whose code, without comments and texts, matches."""
    return {name for path, name in modules() if re.search(pattern, _code(path))}


@functools.cache
def _code(path):
    return ast.unparse(
        _without_texts(ast.parse(path.read_text()))
    )  # changes the tree, so `parsed` has another one


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


def using(*names):
    """Return the modules that use one of these dotted names, by whatever name they import it."""
    return {name for path, name in modules() if used(path) & set(names)}


@functools.cache
def used(path):
    """Return every dotted name that a module uses, under the name that the defining module gives it."""
    tree, names = parsed(path), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else None
                )
        elif isinstance(node, ast.ImportFrom):
            names |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    found = set(filter(None, names.values()))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            if root in names:
                found.add(f"{names[root] or root}.{rest}")
    return found


def calling(*methods):
    """Return the modules that call a method of one of these names."""
    return {
        name
        for path, name in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in methods
    }


def imported_late(path, name):
    """Yield (module of kcl, name of another package) for every import inside of a function; one of the two is None."""
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(parsed(path)):
        if id(node) in inner and isinstance(node, ast.Import | ast.ImportFrom):
            for dotted, _typing, _line in _imports(node, name):
                yield inside(dotted), None if inside(dotted) else dotted.partition(".")[0]
