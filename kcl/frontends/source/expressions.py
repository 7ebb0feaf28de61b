"""The expressions for shapes and sizes in a Source: their grammar, and its check.

sizes  = text | number | tuple of (text | number)
text   = integer arithmetic (// for /), min, max and round_up over
         scalars, `array.shape`, `array.size`, and `image.width`, `.height`, `.depth`
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from kcl.errors import RecipeError, meant

_FUNCTIONS = ("min", "max", "round_up")
_ALLOWED = (
    ast.Expression,
    ast.Tuple,
    ast.BinOp,
    ast.UnaryOp,
    ast.Load,
    ast.Subscript,
    ast.operator,
    ast.unaryop,
)


# The kinds of names in an expression: a scalar or an array, an image, a tuple (sizes of the launch). The kind is empty
# for a name that this expression cannot use although others can.
VALUE, IMAGE, TUPLE = "value", "image", "tuple"


def error(entry: str, words: str) -> RecipeError:
    """Return the error for a wrong declaration of a Source."""
    return RecipeError(f"kcl.Source {entry!r}: {words}")


def written(entry: str, what: str, sizes: Any) -> str:
    """Return declared sizes (integers, texts, or tuples of these) as the text of one expression.

    Raises RecipeError, with `entry` and `what` in its message, for anything else.
    """
    if not isinstance(sizes, (tuple, list)):
        return _part(entry, what, sizes)
    parts = [_part(entry, what, part) for part in sizes]
    for part in parts:
        # Each text must be an expression by itself: "a), (b" would only be one inside the tuple.
        if isinstance(parsed(entry, what, part).body, ast.Tuple):
            raise error(entry, f"{what} has the item {part!r}; write one size an item")
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _part(entry: str, what: str, size: Any) -> str:
    if isinstance(size, str):
        return size
    # `index` accepts integers of numpy and refuses floats.
    try:
        number = operator.index(size)
    except TypeError:
        number = -1
    if number < 0 or isinstance(size, bool):
        raise error(
            entry,
            f"{what} is {size!r}; write a whole number, a text such as 'n', or a tuple of these",
        )
    return str(number)


def check(entry: str, what: str, text: str, kinds: Mapping[str, str]) -> None:
    """Raise RecipeError unless an expression is integer arithmetic over names of these kinds."""
    nodes = list(ast.walk(parsed(entry, what, text)))
    images = [name for name, kind in kinds.items() if kind == IMAGE]
    usable = [name for name, kind in kinds.items() if kind in (VALUE, TUPLE)]
    with_shapes = [name for name, kind in kinds.items() if kind in (VALUE, IMAGE)]
    # For a name before a bracket or a full stop, the names that are allowed there.
    heads: dict[ast.AST, Sequence[str]] = {
        node.func: _FUNCTIONS for node in nodes if isinstance(node, ast.Call)
    }
    heads |= {node.value: with_shapes for node in nodes if isinstance(node, ast.Attribute)}
    if not all(_is_allowed(node, heads.get(node, usable), images) for node in nodes):
        words = ", ".join([*usable, *(f"{name}.width" for name in images)])
        cure = f"use integer arithmetic (// for /), min, max, round_up and shapes over {words}"
        raise error(entry, f"{what} is {text!r}{_undeclared(nodes, kinds)}; {cure}")


def _undeclared(nodes: list[ast.AST], kinds: Mapping[str, str]) -> str:
    """Describe a name that is not declared, with a similar one that is; empty if all are declared."""
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    used = [node.id for node in nodes if isinstance(node, ast.Name) and node not in called]
    for name in used:
        if name not in (*kinds, *_FUNCTIONS):
            usable = [other for other, kind in kinds.items() if kind]
            cure = meant(name, usable) or f": list kcl.Scalar({name!r}, ...) among the arguments"
            return f", and {name!r} is not declared{cure}"
    return ""


def _is_allowed(node: ast.AST, names: Sequence[str], images: Sequence[str]) -> bool:
    if isinstance(node, ast.Constant):
        # Not `isinstance`, since True is an int too.
        return type(node.value) is int
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        of_image = isinstance(node.value, ast.Name) and node.value.id in images
        return node.attr in (("width", "height", "depth") if of_image else ("shape", "size"))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and (
            node.func.id != "round_up" or len(node.args) == 2
        )
    return isinstance(node, _ALLOWED) and not isinstance(node, (ast.Div, ast.MatMult))


def parsed(entry: str, what: str, text: str) -> ast.Expression:
    """Parse the text of an expression; raises RecipeError if it is none."""
    try:
        return ast.parse(text, mode="eval")
    except SyntaxError as fault:
        raise error(entry, f"{what} is no expression: {text!r} ({fault.msg})") from fault
