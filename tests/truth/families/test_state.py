"""What a program changes inside the generators, in the registry of structures, and in the variables of a driver.

Each program runs as Python alone, twice through kcl, and through kcl after an edit of its change: its numbers are those
of Python alone, and the second run of an unchanged program finds everything, unless it says why nothing may be stored.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest
from family import Case, Installed, Place
from harness import Child

HEAD = """\
import functools
import importlib
import json
import os
import site
import sys
import types
from unittest import mock

site.addsitedir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
if EARLY:
    import loopy
import numpy as np
import pyopencl as cl

events = []
if "FAMILY_KCL" in os.environ:
    import kcl

    kcl.add_hook(lambda event: events.append([event.layer, event.outcome, event.reason]))
    kcl.install()
import loopy as lp

(platform,) = [one for one in cl.get_platforms() if one.name == "Portable Computing Language"]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
X = np.arange(1, 9, dtype=np.float32)


def make(text="y[i] = 7*x[i]", **more):
    arguments = [lp.GlobalArg("x", np.float32, shape="n"), "..."]
    return lp.make_kernel("{[i]: 0<=i<n}", text, arguments, lang_version=(2018, 2), **more)


def launch(unit, x=X, **more):
    _event, (y,) = unit.executor(context)(queue, x=x, **more)
    return float(np.float64(y).sum())


def mapper():
    return importlib.import_module("loopy.target.c.codegen.expression").ExpressionToCExpressionMapper


def creation():
    return importlib.import_module("loopy.kernel.creation")


def times(number, original=None):
    original = original or mapper().map_constant

    def map_constant(self, expr, type_context):
        return original(self, number if expr == 7 else expr, type_context)

    return map_constant


def read(number):
    original = creation().parse_instructions

    def parse_instructions(instructions, *more):
        return original(instructions.replace("7", str(number)), *more)

    return parse_instructions


"""
TAIL = """

print(json.dumps([numbers, events]))
"""
PATCHING = """
from loopy.target.c.codegen.expression import ExpressionToCExpressionMapper

original = ExpressionToCExpressionMapper.map_constant


def map_constant(self, expr, type_context):
    return original(self, NUMBER if expr == 7 else expr, type_context)


ExpressionToCExpressionMapper.map_constant = map_constant
"""


class Program(NamedTuple):
    """A program; NUMBER stands for what the edit changes."""

    text: str
    early: bool = False
    module: str = ""  # of the user
    package: str = ""  # an installed one
    refused: bool = False  # nothing of it may be stored


INSIDES = {
    "a method, between call and launch": Program(
        "unit = make()\nmapper().map_constant = times(NUMBER)\nnumbers = launch(unit)"
    ),
    "a method, for one launch": Program(
        "unit = make()\n"
        "with mock.patch.object(mapper(), 'map_constant', times(NUMBER)):\n"
        "    numbers = [launch(unit)]\n"
        "numbers.append(launch(make('y[i] = 7*x[i] + 1')))"
    ),
    "a function of a module, for the call only": Program(
        "with mock.patch.object(creation(), 'parse_instructions', read(NUMBER)):\n"
        "    unit = make()\n"
        "numbers = [launch(unit), launch(make())]"
    ),
    "a function of a module, after a transformation": Program(
        "unit = lp.assume(make(), 'n mod 4 = 0')\n"
        "creation().parse_instructions = read(NUMBER)\n"
        "numbers = [launch(lp.split_iname(unit, 'i', 4)), launch(make())]"
    ),
    "two changes in one process": Program(
        "numbers = []\n"
        "for number in (NUMBER, 5, NUMBER):\n"
        "    with mock.patch.object(mapper(), 'map_constant', times(number)):\n"
        "        numbers.append(launch(make()))"
    ),
    "the code of a function": Program(
        "one = mapper().map_constant\n"
        "mapper().own_constant = types.FunctionType(one.__code__, one.__globals__)\n"
        "def other(self, expr, type_context):\n"
        "    return self.own_constant(NUMBER if expr == 7 else expr, type_context)\n"
        "one.__code__ = other.__code__\n"
        "numbers = launch(make())"
    ),
    "a global that a patch reads": Program(
        "FACTOR = 5\n"
        "original = mapper().map_constant\n"
        "def map_constant(self, expr, type_context):\n"
        "    return original(self, FACTOR if expr == 7 else expr, type_context)\n"
        "mapper().map_constant = map_constant\n"
        "numbers = [launch(make())]\n"
        "FACTOR = NUMBER\n"
        "numbers.append(launch(make()))"
    ),
    "a table of pymbolic": Program(
        "module = importlib.import_module('pymbolic.parser')\n"
        "module.Parser._COMP_TABLE[module._less] = {2: '<=', 3: '>'}[NUMBER]\n"
        "numbers = launch(make('y[i] = 1 if x[i] < 3 else 0'))"
    ),
    "an item of a list of reductions": Program(
        "module = importlib.import_module('loopy.library.reduction')\n"
        "class Mine(module.SumReductionOperation):\n"
        "    def neutral_element(self, *more, callables_table, **named):\n"
        "        return NUMBER, callables_table\n"
        "module._REDUCTION_OP_PARSERS.append(lambda name: Mine() if name == 'mine' else None)\n"
        "unit = lp.make_kernel('{[i,j]: 0<=i<n and 0<=j<3}', 'y[i] = mine(j, x[i])',\n"
        "    [lp.GlobalArg('x', np.float32, shape='n'), '...'], lang_version=(2018, 2))\n"
        "numbers = launch(unit)"
    ),
    "something without a key, for one launch": Program(
        "lock = open(os.devnull)\n"
        "original = mapper().map_constant\n"
        "def constant(self, expr, type_context):\n"
        "    lock.fileno()\n"
        "    return original(self, NUMBER if expr == 7 else expr, type_context)\n"
        "unit = make()\n"
        "with mock.patch.object(mapper(), 'map_constant', constant):\n"
        "    numbers = [launch(unit)]\n"
        "numbers.append(launch(make()))",
        refused=True,
    ),
    "a module of the user, between call and launch": Program(
        "unit = make()\nimport patching\nnumbers = launch(unit)", module=PATCHING
    ),
    "an installed package that imports loopy before kcl": Program(
        "numbers = launch(make())", early=True, package=PATCHING
    ),
    "a user's module that imports loopy before kcl": Program("numbers = launch(make())", early=True, module=PATCHING),
    "a function for the call only, with loopy imported before kcl": Program(
        "with mock.patch.object(creation(), 'parse_instructions', read(NUMBER)):\n"
        "    unit = make()\n"
        "numbers = [launch(unit), launch(make())]",
        early=True,
    ),
    "a direct call after a change": Program(
        "unit = make()\n"
        "numbers = [float(unit(queue, x=X)[1][0].sum())]\n"
        "mapper().map_constant = times(NUMBER)\n"
        "numbers.append(float(unit(queue, x=X)[1][0].sum()))"
    ),
    "other dtypes after a change": Program(
        "unit = lp.make_kernel('{[i]: 0<=i<n}', 'y[i] = 7*x[i]', lang_version=(2018, 2))\n"
        "numbers = [launch(unit)]\n"
        "mapper().map_constant = times(NUMBER)\n"
        "numbers.append(launch(unit, X.astype(np.float64)))"
    ),
}
STRUCTURED = """
pair = np.dtype([("a", np.float32), ("b", np.float32)])
decl = "typedef struct { float a; float b; } pair2; typedef struct { float b; float a; } pair3;"
pairs = np.zeros(8, pair)
pairs["a"], pairs["b"] = 1, 10


def structured(*arguments):
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i].a", list(arguments) or None, preambles=[("0", decl)],
        name="structured", lang_version=(2018, 2))


def register():
    importlib.import_module("pyopencl.tools").get_or_register_dtype("pairNUMBER", pair)


typed = lp.GlobalArg("x", pair, shape="n"), lp.GlobalArg("y", np.float32, shape="n"), "..."
"""
STRUCTURES = {
    "between call and launch": Program("unit = structured(*typed)\nregister()\nnumbers = launch(unit, pairs)"),
    "for a dtype that the call leaves open": Program(
        "unit = structured('x', lp.GlobalArg('y', np.float32, shape='n'), '...')\nregister()\n"
        "numbers = launch(unit, pairs)"
    ),
    "by the program for a unit that loopy made": Program(
        "unit = structured(*typed)\nstr(unit)\nregister()\nnumbers = launch(unit, pairs)"
    ),
    "with loopy imported before kcl": Program(
        "unit = structured(*typed)\nregister()\nnumbers = launch(unit, pairs)", early=True
    ),
    "in place of another name": Program(
        "unit = structured(*typed)\n"
        "importlib.import_module('pyopencl.tools').get_or_register_dtype('pair2', pair)\n"
        "numbers = [launch(unit, pairs)]\n"
        "register()\n"
        "importlib.import_module('pyopencl.compyte.dtypes').TYPE_REGISTRY.dtype_to_name[pair] = 'pairNUMBER'\n"
        "numbers.append(launch(structured(*typed), pairs))"
    ),
}
BUILT = """
DEFAULT = "\\n#ifndef F\\n#define F 1\\n#endif\\n"
builds = 0


def built():
    global builds
    builds += 1  # PoCL's own cache does not see the variable: the text differs
    text = DEFAULT + "kernel void f(global float *y) { y[get_global_id(0)] = F + 0 * %d; }"
    program = cl.Program(context, text % builds).build()
    y = cl.Buffer(context, cl.mem_flags.READ_WRITE, 32)
    found = np.zeros(8, np.float32)
    program.f(queue, (8,), None, y)
    cl.enqueue_copy(queue, found, y)
    return float(found.sum())


def defining(number):
    os.environ["POCL_EXTRA_BUILD_FLAGS"] = f"-DF={number}"


def defined(scale=1):
    instruction = lp.CInstruction((), f"for (int k = 0; k < 8; ++k) y[k] = {scale} * F * x[k];",
        read_variables=frozenset({"x"}), assignees=("y[0]",))
    return lp.make_kernel([], [instruction], [lp.GlobalArg("x,y", np.float32, shape=8)],
        preambles=[("0", DEFAULT)], lang_version=(2018, 2))
"""
# PoCL reads the variable at each build until it is set, and keeps that value.
VARIABLES = {
    "between two builds": Program("numbers = [built()]\ndefining(NUMBER)\nnumbers.append(built())"),
    "between builds, and back": Program(
        "numbers = [built()]\nfor number in (NUMBER, 5, NUMBER):\n    defining(number)\n    numbers.append(built())"
    ),
    "removed between two builds": Program(
        "defining(NUMBER)\nnumbers = [built()]\ndel os.environ['POCL_EXTRA_BUILD_FLAGS']\nnumbers.append(built())"
    ),
    "for a unit, between call and launch": Program("unit = defined()\ndefining(NUMBER)\nnumbers = launch(unit)"),
    "for one executor": Program(
        "executor = defined().executor(context)\nnumbers = [float(executor(queue, x=X)[1][0].sum())]\n"
        "defining(NUMBER)\nnumbers.append(float(executor(queue, x=X)[1][0].sum()))\n"
        "numbers.append(launch(defined(2)))"
    ),
}
PROGRAMS = {
    **{f"insides: {title}": program for title, program in INSIDES.items()},
    **{f"structures: {name}": one._replace(text=STRUCTURED + one.text) for name, one in STRUCTURES.items()},
    **{f"variables: {name}": one._replace(text=BUILT + one.text) for name, one in VARIABLES.items()},
}
CASE = Case("patching", "", None, None, None)  # type: ignore[arg-type]


class Bench:
    """The folder of one program, and the caches that its runs share."""

    def __init__(self, folder: pathlib.Path, program: Program) -> None:
        self.child = Child(folder)
        self.folder = folder
        self.program = program
        (folder / "site-packages").mkdir()

    def write(self, number: int) -> None:
        """Write the program with a number."""
        program = self.program
        imported = "import patching, loopy" if program.module or program.package else "import loopy"
        head = HEAD.replace("if EARLY:\n    import loopy\n", f"{imported}\n" if program.early else "")
        text = head + program.text + TAIL
        (self.folder / "program.py").write_text(text.replace("NUMBER", str(number)))
        if program.module:
            (self.folder / "patching.py").write_text(program.module.replace("NUMBER", str(number)))
        if program.package:
            files = {"patching.py": program.package.replace("NUMBER", str(number))}
            place = Place(self.folder, self.folder / "site-packages")
            Installed(files, "patching", f"{number}.0").install(CASE, place)

    def run(self, through_kcl: bool = True) -> tuple[object, list[list[str]]]:
        """Run the program: (numbers, look-ups)."""
        variables = {"FAMILY_KCL": "1"} if through_kcl else {"XDG_CACHE_HOME": str(self.folder / "without")}
        variables |= {"PYTHONDONTWRITEBYTECODE": "1"}
        variables |= {} if through_kcl else {"LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1", "POCL_KERNEL_CACHE": "0"}
        done = subprocess.run(
            [sys.executable, "program.py"],
            env=self.child.environment(**variables),
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        numbers, events = json.loads(done.stdout.splitlines()[-1])
        return numbers, events


@pytest.mark.slow_cases(6)
@pytest.mark.parametrize("title", [*PROGRAMS])
def test_numbers(title, tmp_path):
    """The numbers are those of Python alone, and an unchanged program hits in its second run or says why not."""
    program = PROGRAMS[title]
    bench = Bench(tmp_path, program)
    bench.write(2)
    right, _none = bench.run(through_kcl=False)
    first, _cold = bench.run()
    assert first == right, "the first run"
    second, events = bench.run()
    assert second == right, "the second run"
    missed = [event for event in events if event[1] != "hit"]
    if program.refused:
        assert all(outcome == "bypass" and "was changed" in reason for _layer, outcome, reason in missed), missed
    else:
        assert not missed
    bench.write(3)
    changed, _none = bench.run(through_kcl=False)
    assert changed != right, "the case is broken"
    for _time in range(2):
        numbers, events = bench.run()
        assert numbers == changed, "after the edit"
    assert program.refused or not [event for event in events if event[1] != "hit"]


def test_unrelated_structures(tmp_path):
    """Structures that pyopencl registers for itself, as argmax does, make no difference to other kernels."""
    text = "import pyopencl.array\n{0}\nunit = make()\n{1}\nnumbers = launch(unit)\n{2}"
    program = Program("")
    bench = Bench(tmp_path, program)
    register = "importlib.import_module('pyopencl.tools').get_or_register_dtype('other_pair', np.dtype([('a', 'i4')]))"
    for number in range(3):
        bench.program = program._replace(text=text.format(*[register if n == number else "" for n in range(3)]))
        bench.write(2)
        _numbers, events = bench.run()
        assert number == 0 or [event[1] for event in events] == ["hit", "hit"]
