"""The budget of tokens: what each room of the house may hold, and what a warm start may import of it.

The budget counts tokens of Python, so that no budget makes a line longer. Comments, docstrings, the rows of tables
and the comma that a formatter sets before a bracket are free. A number is only lowered, except by an issue that brings
something to the room. Run as a program, this module prints both tables.
"""

import ast
import collections
import functools
import io
import tokenize

import warm_modules
from house import modules, parsed

# Tokens of the files of a room; the files in the root are one room.
ROOMS = {
    "root": 5580,
    "handle": 2560,
    "base": 12680,
    "launch": 10030,
    "foreign": 4559,
    "cache": 15720,
    "generate": 9880,
    "frontends": 47600,
    "programs": 9600,
    "drivers": 15169,
    "bundle": 4778,
    "remote": 9130,
    "choices": 27820,
    "inspect": 22554,
    "workers": 1516,
    "integrations": 4440,
    "cli": 15140,
}
SLACK = 0.03  # of a room: an ordinary option fits
# Modules of kcl that a warm start of drivers with recipes of both front ends imports on PoCL, and their tokens.
WARM_MODULES = 61
WARM_TOKENS = 66129

_FREE = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER"}
_LITERALS = ast.Dict | ast.List | ast.Tuple | ast.Set


def tokens():
    """Return the tokens of each room."""
    found = collections.Counter()
    for path, name in modules():
        is_room = "." in name or path.name == "__init__.py"
        found[name.partition(".")[0] if is_room else "root"] += counted(path)
    found["root"] += found.pop("__init__", 0)
    return dict(found)


def warm():
    """Return the number of modules that a warm start imports, and their tokens."""
    names = {*warm_modules.MODULES, *warm_modules.POCL}
    paths = [
        path
        for path, name in modules()
        if f"kcl.{name}" in names or (name == "__init__" and "kcl" in names)
    ]
    return len(names), sum(map(counted, paths))


def excess(name):
    """Return what to do about a room that holds too much; empty if it keeps its budget."""
    held, most = tokens().get(name, 0), ROOMS.get(name, 0)
    if held <= most * (1 + SLACK):
        return ""
    return (
        f"kcl/{name} holds {held} tokens and may hold {most} with {SLACK:.0%} of slack: shorten it here, "
        "or say in the note of the issue why the room needs more, and change its number in tests/support/budget.py"
    )


@functools.cache
def counted(path):
    """Return the tokens of a module that its budget counts. A formatted text between quotes is one token."""
    free = {line for first, last in _free_lines(parsed(path)) for line in range(first, last + 1)}
    found, depth, before = 0, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        kind = tokenize.tok_name[token.type]
        depth -= kind.endswith("STRING_END")  # of Python 3.12 and later: a token for each piece
        is_free = kind in _FREE or kind.endswith("STRING_START") or token.start[0] in free
        if not is_free and not depth:
            found += 1 - (before == "," and token.string in tuple(")]}"))
        depth += kind.endswith("STRING_START")
        before = before if is_free else token.string
    return found


def _free_lines(tree):
    """Yield the first and the last line of each docstring, and of the rows of each table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            yield node.body[0].lineno, node.body[0].end_lineno
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, _LITERALS):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id.isupper():
                yield node.value.lineno + 1, node.value.end_lineno


def table():
    """Return both tables as lines of text."""
    found, (number, read) = tokens(), warm()
    rows = [(name, found.get(name, 0), most) for name, most in ROOMS.items()]
    rows.append(("sum", sum(found.values()), sum(ROOMS.values())))
    rows += [
        ("modules of a warm start", number, WARM_MODULES),
        ("tokens of a warm start", read, WARM_TOKENS),
    ]
    head = "tokens of kcl               now  budget"
    return [head, *(f"{name:<24}{now:7}{most:8}" for name, now, most in rows)]


if __name__ == "__main__":
    print(*table(), sep="\n")
