"""Programs made up at random: modules of constants, functions, classes and closures, of which a recipe reaches some.

Every thing has a number, and the text that the recipe returns holds the number of everything that it reaches. So
it is known which change of the program changes the text. A thing may keep its number in a file or a variable.
"""

from __future__ import annotations

import ast
import copy
import pathlib
import random
from typing import NamedTuple

MODULES = ("deep.low", "deep.high", "middle", "main")  # each may import those before it

# How a constant is written, and how it is read as text; {n} is its number.
CONSTANTS = {
    "integer": ("{n}", "str({x})"),
    "float": ("{n}.5", "str({x})"),
    "text": ("'s{n}'", "{x}"),
    "bytes": ("b'{n}'", "str({x})"),
    "complex": ("{n}j", "str({x})"),
    "tuple": ("({n}, 1)", "str({x})"),
    "list": ("[1, [{n}]]", "str({x})"),
    "dictionary": ("{{'b': {n}, 'a': 1}}", "str({x})"),
    "set": ("{{1000, {n}, 2000}}", "str(sorted({x}))"),
    "frozenset": ("frozenset({{1000, {n}}})", "str(sorted({x}))"),
    "range": ("range({n})", "str({x})"),
    "fraction": ("fractions.Fraction({n}, 7919)", "str({x})"),
    "array": ("np.array([1, {n}])", "str({x}.tolist())"),
    "scalar": ("np.float32({n})", "repr({x})"),
    "structure": ("np.dtype([('a', np.int8), ('b', np.float32, ({n},))])", "str({x})"),
    "deque": ("collections.deque([{n}])", "str({x})"),
    "namespace": ("types.SimpleNamespace(v={n})", "str({x}.v)"),
    "slice": ("slice({n})", "str({x})"),
    "pattern": ("re.compile('a{n}')", "{x}.pattern"),
}


def _things(file: str) -> dict[str, tuple[str, str]]:
    """Read how each kind of thing is written, and how it is used."""
    listed = pathlib.Path(__file__).with_name(file).read_text().split("\n--- ")[1:]
    heads = [
        (head.partition(": "), text.strip("\n") + "\n") for head, _, text in (one.partition("\n") for one in listed)
    ]
    return {kind: (text, use) for (kind, _, use), text in heads}


THINGS = _things("truth_things.txt")
HIDDEN = _things("truth_hidden.txt")
EVERY = THINGS | HIDDEN

HEAD = """\
import collections
import contextlib
import dataclasses
import enum
import fractions
import functools
import re
import types
import typing
"""
HEAD_OF_HIDDEN = """\
import codecs
import concurrent.futures
import configparser
import contextvars
import decimal
import importlib.util
import linecache
import os
import pathlib
import threading
"""
NUMPY = """\

import numpy as np
"""
RECIPE = """\
import zlib

import kcl

ARGUMENTS = [kcl.Array("x", np.float32, "(n,)"), kcl.Array("y", np.float32, "(n,)", "out"), kcl.Scalar("n", np.int32)]
RAN = []


@kcl.kernel{declared}
def build(number={n}, *, order="{n}"):
    {log}
    text = f"{{number}} {{order}}" + {body}
    factor = zlib.crc32(text.encode()) % 997 + 1
{made}"""
LOG = "RAN.append(number)"
MADE = {
    "opencl": '''\
    code = f"""// {text!r}
    kernel void build(global const float *x, global float *y, int n)
    {{
        y[get_global_id(0)] = x[get_global_id(0)] * {factor};
    }}
    """
    return kcl.Source(code, entry="build", arguments=ARGUMENTS, global_size="(n,)")
''',
    "loopy": """\
    import loopy as lp
    arguments = [lp.GlobalArg("x,y", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    unit = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {factor}*x[i]", arguments, name="build", lang_version=(2018, 2))
    return lp.tag_inames(unit, "i:g.0") if number % 2 else lp.split_iname(unit, "i", 10)
""",
}


class Thing:
    """One definition."""

    def __init__(self, index: int, kind: str, module: int, number: int) -> None:
        self.kind = kind
        self.name = f"thing{index}"
        self.module = module
        self.number = number
        self.references: list[tuple[Thing, str]] = []  # each with how it is imported
        self.annotated = self.documented = False
        self.comment = ""
        self.front_end = "opencl"

    def reach(self) -> set[Thing]:
        """Return this and all that it refers to."""
        found = {self}
        for other, _way in self.references:
            found |= other.reach()
        return found

    def text(self) -> str:
        """Write the definition."""
        if self.kind in CONSTANTS:
            text = f"{self.name} = {CONSTANTS[self.kind][0].format(n=self.number)}\n"
        elif self.kind == "recipe":
            made = MADE[self.front_end]
            text = RECIPE.format(n=self.number, body=self.body(), declared="", log=LOG, made=made)
        else:
            text = (
                EVERY[self.kind][0]
                .replace("THING", self.name)
                .replace("4242", str(self.number))
                .replace("BODY", self.body())
            )
        return self.comment + _dressed(text, self.annotated, self.documented, self.local_imports())

    def keeps(self, pattern: str) -> bool:
        """Tell whether the definition names a file or variable of its own."""
        return self.kind in HIDDEN and pattern in HIDDEN[self.kind][0]

    def body(self) -> str:
        """Write an expression for what the references say."""
        return " + ".join([f"'{self.name}'", *(other.use(self.module, way) for other, way in self.references)])

    def use(self, module: int, way: str) -> str:
        """Write an expression for the text of this thing, from a module that imports it in some way."""
        pattern = CONSTANTS[self.kind][1] if self.kind in CONSTANTS else EVERY[self.kind][1].replace("THING", "{x}")
        home = MODULES[self.module]
        if module == self.module:
            return pattern.format(x=self.name)
        named = {"import": f"{home}.{self.name}", "as": f"m_{home.replace('.', '_')}.{self.name}"}
        named |= {"from": self.name, "from as": f"also_{self.name}", "local": self.name, "getattr": ""}
        if way == "getattr":
            return pattern.format(x=f"getattr(m_{home.replace('.', '_')}, '{self.name}')")
        return pattern.format(x=named[way])

    def local_imports(self) -> list[str]:
        """List the import statements that stand in the body."""
        return [
            f"from {MODULES[other.module]} import {other.name}"
            for other, way in self.references
            if way == "local" and other.module != self.module
        ]


def _dressed(text: str, annotated: bool, documented: bool, imports: list[str]) -> str:
    """Add docstrings, annotations and local imports to every function in a text."""
    if not (annotated or documented or imports):
        return text
    tree = ast.parse(text)
    # An annotation inside a function is code that runs, and may be read by whoever gets the inner function.
    outer = [inner for node in tree.body for inner in (node, *(node.body if isinstance(node, ast.ClassDef) else ()))]
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        added: list[ast.stmt] = list(ast.parse("\n".join(imports)).body)
        if documented:
            added.insert(0, ast.Expr(ast.Constant("Say what this is for.")))
        node.body[:0] = added
        if annotated and node in outer:
            node.returns = ast.Constant("typing.Any")
            for argument in node.args.args:
                argument.annotation = argument.annotation or ast.Constant("object")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class Program:
    """Things in modules; the recipe is the last of them."""

    def __init__(self) -> None:
        self.things: list[Thing] = []
        self.unreached = ""  # text added to each module
        self.reprinted = False

    @property
    def recipe(self) -> Thing:
        return self.things[-1]

    def files(self) -> dict[str, str]:
        """Write every module."""
        files = {"deep/__init__.py": ""}
        for number, name in enumerate(MODULES):
            own = [thing for thing in self.things if thing.module == number]
            imports: dict[str, None] = {}
            for thing in own:
                for other, way in thing.references:
                    if other.module != number:
                        imports[_import(MODULES[other.module], other.name, way)] = None
            hidden = HEAD_OF_HIDDEN if any(thing.kind in HIDDEN for thing in own) else ""
            head = HEAD + hidden + NUMPY + "".join(f"{line}\n" for line in imports if line)
            text = "\n\n".join([head, self.unreached, *(thing.text() for thing in own)])
            if self.reprinted:
                text = ast.unparse(ast.parse(text)) + "\n"
            files[f"{name.replace('.', '/')}.py"] = text
        for thing in self.things:
            for file, text in (("THING.txt", f"{thing.number}"), ("THING.py", f"NUMBER = {thing.number}\n")):
                if thing.keeps(file):
                    folder = pathlib.PurePosixPath(MODULES[thing.module].replace(".", "/")).parent
                    files[str(folder / file.replace("THING", thing.name))] = text
        return files

    def variables(self) -> dict[str, str]:
        """Say the environment variables."""
        return {f"TRUTH_{thing.name}": str(thing.number) for thing in self.things if thing.keeps("TRUTH_THING")}


def _import(module: str, name: str, way: str) -> str:
    alias = f"m_{module.replace('.', '_')}"
    return {
        "import": f"import {module}",
        "as": f"import {module} as {alias}",
        "getattr": f"import {module} as {alias}",
        "from": f"from {module} import {name}",
        "from as": f"from {module} import {name} as also_{name}",
        "local": "",
    }[way]


def compose(dice: random.Random, front_end: str = "opencl") -> Program:
    """Make up a program."""
    program = Program()
    kinds = [*CONSTANTS, *THINGS, *HIDDEN]
    for module in range(len(MODULES)):
        for _ in range(dice.randint(1, 4)):
            thing = Thing(len(program.things), dice.choice(kinds), module, dice.randint(10, 99))
            if thing.kind in EVERY:
                _refer(dice, thing, program.things, 2)
            program.things.append(thing)
    recipe = Thing(len(program.things), "recipe", len(MODULES) - 1, dice.randint(10, 99))
    recipe.front_end = front_end
    _refer(dice, recipe, program.things, 4)
    program.things.append(recipe)
    return program


def _refer(dice: random.Random, thing: Thing, others: list[Thing], most: int) -> None:
    if not others:
        return
    for other in dict.fromkeys(dice.choice(others) for _ in range(dice.randint(1, most))):
        ways = ["import", "as", "from", "from as", "getattr"]
        # A lambda, a method and a table have no body of their own to import in, or several.
        if thing.kind in ("function", "loop", "default", "exception", "recipe"):
            ways.append("local")
        thing.references.append((other, dice.choice(ways)))


class Mutated(NamedTuple):
    """A changed program, what was changed, and whether the recipe's text is another."""

    program: Program
    what: str
    matters: bool


def mutate(dice: random.Random, program: Program) -> Mutated:
    """Change one reached thing or one unreached one, or what is noise wherever it stands."""
    changed = copy.deepcopy(program)
    reached = sorted(changed.recipe.reach(), key=lambda thing: thing.name)
    return dice.choice([_matter, _noise])(dice, changed, reached)


def _matter(dice: random.Random, changed: Program, reached: list[Thing]) -> Mutated:
    thing = dice.choice(reached)
    how = dice.choice(["number", "number", "number", "references", "kind"])
    if how == "references" and len(thing.references) > 1:
        thing.references.reverse()
        return Mutated(changed, f"order of the references of {thing.name}", True)
    if how == "references" and thing.references:
        thing.references.pop()
        return Mutated(changed, f"a reference of {thing.name} gone", True)
    if how == "kind" and thing.kind == "integer":
        thing.kind = "float"
        return Mutated(changed, f"type of {thing.name}", True)
    thing.number += 100
    return Mutated(changed, f"number of {thing.kind} {thing.name}", True)


def _noise(dice: random.Random, changed: Program, reached: list[Thing]) -> Mutated:
    free = [thing for thing in changed.things if thing not in reached]
    how = dice.choice(["number", "number", "number", "unreached", "comment", "docstring", "annotation", "layout"])
    if how == "number" and free:
        thing = dice.choice(free)
        thing.number += 100
        return Mutated(changed, f"number of unreached {thing.kind} {thing.name}", False)
    if how == "unreached":
        changed.unreached = "import json\n\n\ndef nobody(a=1):\n    return json, a\n\n\nNOTHING = [nobody]\n"
        return Mutated(changed, "unreached definitions added", False)
    thing = dice.choice(reached)
    if how == "docstring":
        thing.documented = True
        return Mutated(changed, f"docstring of {thing.kind} {thing.name}", False)
    if how == "annotation":
        thing.annotated = True
        return Mutated(changed, f"annotations of {thing.kind} {thing.name}", False)
    if how == "layout":
        changed.reprinted = True
        return Mutated(changed, "layout", False)
    thing.comment = "# a comment\n\n\n\n"
    return Mutated(changed, f"comment on {thing.kind} {thing.name}", False)
