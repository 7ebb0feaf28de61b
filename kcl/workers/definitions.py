"""Definitions: the `__main__` of another process, as far as recipes need it.

A script is not run a second time. Its imports, functions, classes and constants are made, each as if it stood alone.
A statement that calls a function is left out, so a script needs no guard; paths, dtypes and texts count as constants. A
recipe that needs a left-out name raises here, and the parent, which has all names, prepares it.
"""

from __future__ import annotations
import __future__

import ast
from types import ModuleType
from typing import Any

from kcl.base import events

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ACTIONS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
# The calls that a constant may make, by full name or last name: they make a value of values, and have no other effect.
_MAKERS = frozenset(
    {"Path", "PurePath", "abs", "bool", "dict", "dtype", "float", "frozenset", "int", "len", "list", "max", "min"}
    | {"range", "round", "set", "sorted", "str", "sum", "tuple", "zip"}
    | {f"{kind}{bits}" for kind in ("float", "int", "uint", "complex") for bits in (8, 16, 32, 64, 128)}
)
_METHODS = frozenset(
    {"abspath", "absolute", "basename", "dirname", "expanduser", "format", "getenv", "join", "joinpath", "lower"}
    | {"realpath", "relative_to", "resolve", "split", "splitlines", "strip", "upper", "with_name", "with_suffix"}
)


class Definitions(ModuleType):
    """A module that makes the definitions of a file when a name of it is first asked for."""

    def __init__(self, path: str, package: str | None) -> None:
        super().__init__("__main__")
        self.__package__ = package
        if path:
            self.__file__ = path
        self._kcl_pending = path

    def __getattr__(self, name: str) -> Any:
        path = self.__dict__.get("_kcl_pending")
        if path and not name.startswith("__"):
            self._kcl_pending = ""
            define(path, self.__dict__)
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"the main module defines no {name!r} here")


def define(path: str, names: dict[str, Any]) -> None:
    """Make the definitions of a file in a namespace; leave out those that cannot be made."""
    try:
        with open(path, "rb") as stream:
            statements = ast.parse(stream.read(), path).body
    except (OSError, SyntaxError, ValueError) as error:
        events.logger().info("no definitions of %s: %s", path, error)
        return
    flags = 0
    for statement in statements:
        flags |= _flags(statement)
        if defines(statement):
            try:
                exec(compile(ast.Module([statement], []), path, "exec", flags, dont_inherit=True), names)
            except Exception as error:
                events.logger().info("%s:%d is left out: %r", path, statement.lineno, error)


def defines(statement: ast.stmt) -> bool:
    """Tell whether a statement imports or defines a name, and calls only decorators, defaults and makers."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            return all(map(_is_name, targets)) and not _acts(value)
        case ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or not _acts(value)
        case ast.If(test=test, body=body, orelse=orelse):
            return not _acts(test) and all(map(defines, [*body, *orelse]))
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            parts = [*body, *orelse, *final, *(one for handler in handlers for one in handler.body)]
            return all(map(defines, parts))
        case ast.Pass():
            return True
    return isinstance(statement, _DEFINITIONS)


def _is_name(target: ast.expr) -> bool:
    return all(isinstance(node, (ast.Name, ast.Tuple, ast.List, ast.expr_context)) for node in ast.walk(target))


def _acts(value: ast.expr) -> bool:
    return any(isinstance(node, _ACTIONS) or (isinstance(node, ast.Call) and _does(node)) for node in ast.walk(value))


def _does(call: ast.Call) -> bool:
    """Tell whether a call may have an effect beside making a value."""
    match call.func:
        case ast.Name(id=name):
            return name not in _MAKERS
        case ast.Attribute(attr=name):
            return name not in _MAKERS | _METHODS
    return True


def _flags(statement: ast.stmt) -> int:
    """Return the compiler flags of `from __future__ import ...`."""
    if not isinstance(statement, ast.ImportFrom) or statement.module != "__future__":
        return 0
    flags = 0
    for alias in statement.names:
        flags |= getattr(__future__, alias.name).compiler_flag
    return flags
