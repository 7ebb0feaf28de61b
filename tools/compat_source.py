"""loopy's source archive: fetched, unpacked, and copied with imports of kcl's face."""

from __future__ import annotations

import ast
import functools
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

KEPT = ("test", "examples", "doc")  # of the archive; the loopy that runs is the installed one
PROMPT = re.compile(r"^(\s*(?:>>>|\.\.\.)\s+)(.*)$")


def prepare(place: pathlib.Path, version: str) -> None:
    """Put the folders of the archive into `place`/original and, rewritten, into `place`/face."""
    original, face = place / "original", place / "face"
    if not original.exists():
        unpack(fetch(place / "archive", version), original)
    shutil.rmtree(face, ignore_errors=True)
    shutil.copytree(original, face, ignore=shutil.ignore_patterns("__pycache__"))
    for path in sorted([*face.glob("test/*.py"), *face.glob("examples/python/*.py")]):
        path.write_text(rewritten(path.read_text(encoding="utf-8"), str(path)), encoding="utf-8")
    page = face / "doc" / "tutorial.rst"
    page.write_text(rewritten_page(page.read_text(encoding="utf-8")), encoding="utf-8")


def fetch(folder: pathlib.Path, version: str) -> pathlib.Path:
    """Return the source archive, downloaded by pip, which asks its build backend for metadata and builds nothing."""
    command = [
        "pip",
        "download",
        "--quiet",
        "--no-binary",
        "loopy",
        "--no-deps",
        "--dest",
        str(folder),
        f"loopy=={version}",
    ]
    subprocess.run([sys.executable, "-m", *command], check=True)
    (archive,) = folder.glob("loopy-*.tar.gz")
    return archive


def unpack(archive: pathlib.Path, target: pathlib.Path) -> None:
    """Unpack the folders in KEPT, whole or not at all."""
    staged = target.with_name("unpacking")
    shutil.rmtree(staged, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(staged, filter="data")
    (top,) = staged.iterdir()
    chosen = target.with_name("chosen")
    shutil.rmtree(chosen, ignore_errors=True)
    chosen.mkdir()
    for name in KEPT:
        (top / name).rename(chosen / name)
    chosen.rename(target)
    shutil.rmtree(staged)


def rewritten(text: str, name: str) -> str:
    """Return a program in which everything that it imports of loopy comes from kcl.loopy.

    Classes at the head of the module that inherit from a class of loopy would import loopy for every test: each is
    moved into the functions that use it.
    """
    changed = moved(turned(text))
    tree = ast.parse(changed, name)
    left = [node.lineno for node in ast.walk(tree) if is_import(node)]
    if left and face_has_modules():
        raise ValueError(f"{name}: imports of loopy are left in lines {left}")
    return changed


def turned(text: str) -> str:
    """Turn imports of loopy into imports of kcl.loopy; lines keep their numbers."""
    lines = text.splitlines(keepends=True)
    nodes = [node for node in ast.walk(ast.parse(text)) if is_import(node)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        first, last = node.lineno - 1, node.end_lineno - 1
        before, after = cut(lines[first], node.col_offset)[0], cut(lines[last], node.end_col_offset)[1]
        segment = ast.get_source_segment("".join(lines), node)
        lines[first : last + 1] = [before + turned_statement(node, segment) + after]
    return "".join(lines)


def turned_statement(node: ast.stmt, segment: str) -> str:
    """Turn one import statement."""
    if isinstance(node, ast.Import):
        return "; ".join(f"import {of_alias(alias)}" for alias in node.names)
    if node.module == "loopy" or face_has_modules():
        return re.sub(r"^from(\s+)loopy\b", r"from\1kcl.loopy", segment)
    shown = [alias for alias in node.names if is_shown(alias.name)]
    others = [alias for alias in node.names if not is_shown(alias.name)]
    pairs = [(f"kcl.{node.module.partition('.')[0]}", shown), (node.module, others)]
    parts = [ast.ImportFrom(module, names, 0) for module, names in pairs if names]
    return "; ".join(map(ast.unparse, parts))


@functools.cache
def face_has_modules() -> bool:
    """Tell whether the face has loopy's modules too, kcl.loopy.symbolic for one."""
    try:
        return importlib.util.find_spec("kcl.loopy.version") is not None
    except ModuleNotFoundError:
        return False


def is_shown(name: str) -> bool:
    """Tell whether the face itself has a name: one of loopy's, a version of its language, or its commonest warning."""
    return name in public_names() or name.startswith("LOOPY_USE_") or name == "DirectCallUncachedWarning"


@functools.cache
def public_names() -> frozenset[str]:
    """Return the public names of loopy, which is imported in another process."""
    command = [sys.executable, "-c", "import loopy; print(*loopy.__all__)"]
    return frozenset(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def of_alias(alias: ast.alias) -> str:
    """Return what follows the word import; `import loopy.options` binds loopy, of which options is an attribute."""
    if alias.name.split(".")[0] != "loopy":
        return f"{alias.name} as {alias.asname}" if alias.asname else alias.name
    return f"kcl.{alias.name} as {alias.asname}" if alias.asname else "kcl.loopy as loopy"


def is_import(node: ast.AST) -> bool:
    """Tell whether a statement imports loopy or something in it."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] == "loopy"
    return isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "loopy" for alias in node.names)


def cut(line: str, column: int) -> tuple[str, str]:
    """Cut a line at a column as ast counts them, in bytes."""
    data = line.encode()
    return data[:column].decode(), data[column:].decode()


def moved(text: str) -> str:
    """Move classes that inherit from loopy's from the head of a module of tests into the functions that use them."""
    tree = ast.parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and inherits(node)]
    if not functions or not classes or not any(node.name.startswith("test_") for node in functions):
        return text
    lines = text.splitlines(keepends=True)
    changes = []  # line, lines to remove, lines to insert; from the end on
    for one in classes:
        body = lines[one.lineno - 1 : one.end_lineno]
        changes.append((one.lineno - 1, len(body), []))
        indented = ["    " + line if line.strip() else line for line in body]
        changes += [(node.body[0].lineno - 1, 0, indented) for node in functions if mentions(node, one.name)]
    for line, removed, inserted in sorted(changes, reverse=True):
        lines[line : line + removed] = inserted
    return "".join(lines)


def inherits(node: ast.ClassDef) -> bool:
    """Tell whether a base is written as an attribute of loopy."""
    return any(ast.unparse(base).split(".")[0] in ("lp", "loopy") for base in node.bases)


def mentions(node: ast.FunctionDef, name: str) -> bool:
    """Tell whether a function uses a name."""
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


def rewritten_page(text: str) -> str:
    """Return a page whose blocks import kcl.loopy."""
    return "\n".join(turned_line(line) for line in text.split("\n"))


def turned_line(line: str) -> str:
    """Turn a line of a block that is an import."""
    found = PROMPT.match(line)
    if not found or not re.match(r"\s*(import|from)\s", found[2]):
        return line
    return found[1] + turned(found[2])
