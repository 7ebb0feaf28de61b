"""What a program changes inside the generators, in the registry of structures, and in the variables of a driver.

Each program runs as Python alone, twice through kcl, and through kcl after an edit of its change: its numbers are those
of Python alone, and the second run of an unchanged program finds everything. While something inside a generator is
changed nothing is stored, and the program says so.
"""

from typing import Any

import pytest
from beside import Group, Program, compared, differences
from harness import Child

pytestmark = pytest.mark.slow

HEAD = """\
import functools
import importlib
import os
from unittest import mock

import loopy as lp

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
PATCHING = """
from loopy.target.c.codegen.expression import ExpressionToCExpressionMapper

original = ExpressionToCExpressionMapper.map_constant


def map_constant(self, expr, type_context):
    return original(self, THIS if expr == 7 else expr, type_context)


ExpressionToCExpressionMapper.map_constant = map_constant
"""

# A loader of the program that gives a module another code than its file has.
LOADING = """
import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Loader(SourceFileLoader):
    def get_code(self, name):
        head, line, rest = self.get_data(self.path).decode().partition("    def map_constant(")
        first, rest = rest.split(":\\n", 1)
        change = "        if isinstance(expr, int) and expr == 7: expr = THIS\\n"
        return compile(f"{head}{line}{first}:\\n{change}{rest}", self.path, "exec", dont_inherit=True)


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "loopy.target.c.codegen.expression":
            spec = PathFinder.find_spec(name, path)
            spec.loader = Loader(name, spec.origin)
            return spec


sys.meta_path.insert(0, Finder())
"""


def program(text: str, refused: bool = False, **more: Any) -> Program:
    """Make a program; of a refused one nothing may be stored."""
    more |= {"alone": True, "platform": "pocl", "bypass": "was changed" if refused else ""}
    return Program("", text, this=("2", "3"), warm=not refused, **more)


INSIDES = {
    "a method, between call and launch": program(
        "unit = make()\nmapper().map_constant = times(THIS)\nnumbers = launch(unit)", refused=True
    ),
    "a method, for one launch": program(
        "unit = make()\n"
        "with mock.patch.object(mapper(), 'map_constant', times(THIS)):\n"
        "    numbers = [launch(unit)]\n"
        "numbers.append(launch(make('y[i] = 7*x[i] + 1')))",
        refused=True,
    ),
    "other bases of a class, for one launch": program(
        "class Mixed(mapper()):\n"
        "    map_constant = times(THIS)\n"
        "kind = importlib.import_module('loopy.target.opencl').ExpressionToOpenCLCExpressionMapper\n"
        "before, kind.__bases__ = kind.__bases__, (Mixed,)\n"
        "numbers = [launch(make())]\n"
        "kind.__bases__ = before\n"
        "numbers.append(launch(make('y[i] = 7*x[i] + 1')))",
        refused=True,
    ),
    "a function of a module, for the call only": program(
        "with mock.patch.object(creation(), 'parse_instructions', read(THIS)):\n"
        "    unit = make()\n"
        "numbers = [launch(unit), launch(make())]"
    ),
    "something without a key, for one launch": program(
        "lock = open(os.devnull)\n"
        "original = mapper().map_constant\n"
        "def constant(self, expr, type_context):\n"
        "    lock.fileno()\n"
        "    return original(self, THIS if expr == 7 else expr, type_context)\n"
        "unit = make()\n"
        "with mock.patch.object(mapper(), 'map_constant', constant):\n"
        "    numbers = [launch(unit)]\n"
        "numbers.append(launch(make()))",
        refused=True,
    ),
    "a module of the user, between call and launch": program(
        "unit = make()\nimport patching\nnumbers = launch(unit)",
        refused=True,
        files={"patching.py": PATCHING},
    ),
    "an installed package that imports loopy before kcl": program(
        "numbers = launch(make())",
        refused=True,
        early=("patching", "loopy"),
        files={"site/patching/__init__.py": PATCHING},
    ),
    "a loader of the program": program(
        "numbers = launch(make())",
        refused=True,
        early=("loading",),
        files={"loading.py": LOADING},
    ),
    "a direct call after a change": program(
        "unit, other = make(), make('y[i] = 7*x[i] + 1')\n"
        "numbers = [float(unit(queue, x=X)[1][0].sum())]\n"
        "mapper().map_constant = times(THIS)\n"
        "numbers.append(float(other(queue, x=X)[1][0].sum()))",
        refused=True,
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
    importlib.import_module("pyopencl.tools").get_or_register_dtype("pairTHIS", pair)


typed = lp.GlobalArg("x", pair, shape="n"), lp.GlobalArg("y", np.float32, shape="n"), "..."
"""
STRUCTURES = {
    "between call and launch": program(
        "unit = structured(*typed)\nregister()\nnumbers = launch(unit, pairs)"
    ),
    "for a dtype that the call leaves open": program(
        "unit = structured('x', lp.GlobalArg('y', np.float32, shape='n'), '...')\nregister()\n"
        "numbers = launch(unit, pairs)"
    ),
    "by the program for a unit that loopy made": program(
        "unit = structured(*typed)\nstr(unit)\nregister()\nnumbers = launch(unit, pairs)"
    ),
    "with loopy imported before kcl": program(
        "unit = structured(*typed)\nregister()\nnumbers = launch(unit, pairs)", early=("loopy",)
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
    "between two builds": program("numbers = [built()]\ndefining(THIS)\nnumbers.append(built())"),
    "removed between two builds": program(
        "defining(THIS)\nnumbers = [built()]\ndel os.environ['POCL_EXTRA_BUILD_FLAGS']\nnumbers.append(built())"
    ),
    "for a unit, between call and launch": program(
        "unit = defined()\ndefining(THIS)\nnumbers = launch(unit)"
    ),
    "for one executor": program(
        "executor = defined().executor(context)\nnumbers = [float(executor(queue, x=X)[1][0].sum())]\n"
        "defining(THIS)\nnumbers.append(float(executor(queue, x=X)[1][0].sum()))\n"
        "numbers.append(launch(defined(2)))"
    ),
}
GROUPS = {
    "insides": ("", INSIDES),
    "structures": (STRUCTURED, STRUCTURES),
    "variables": (BUILT, VARIABLES),
}
PROGRAMS = [
    one._replace(title=f"{group}: {title}", text=f"{HEAD}{before}{one.text}\nprint(numbers)\n")
    for group, (before, programs) in GROUPS.items()
    for title, one in programs.items()
]
test_numbers = compared(PROGRAMS, "install")


@pytest.mark.slow
def test_unrelated_structures(tmp_path):
    """Structures that pyopencl registers for itself, as argmax does, make no difference to other kernels."""
    register = "importlib.import_module('pyopencl.tools').get_or_register_dtype('other_pair', np.dtype([('a', 'i4')]))"
    text = f"{HEAD}if THIS == 2:\n    {register}\nunit = make()\nif THIS == 3:\n    {register}\nprint(launch(unit))"
    one = program(text)._replace(title="unrelated")
    said = Group([one], Child(tmp_path), "pocl", ["install"]).run()["unrelated"]
    assert not differences(one, said)
    assert [look[1] for look in said["install changed"].looks] == ["hit", "hit"]
