"""Callables that loopy runs while it generates: those of installed packages are keyed right, others refused by name."""

import textwrap
from typing import NamedTuple

import pytest
from beside import Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

OWN = """
import functools

import NAME_pkg as pkg
import numpy as np

import kcl

STATE = THIS
SETUP


@kcl.kernel
def NAME():
    import loopy as lp

    body = lp.CInstruction("i", "y[i] = TIMES*x[i];", assignees=("y[i]",), read_variables=frozenset({"x"}))
    arguments = [lp.GlobalArg("x,y", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    knl = lp.make_kernel("{[i]: 0<=i<n}", [body], arguments, name="NAME", lang_version=(2018, 2))
    return lp.register_preamble_generators(knl, [PREAMBLE])
"""
# How it is launched: by its recipe, and as a unit of a program that was not written for kcl.
LAUNCHES = {
    "": "NAME_own.NAME()(queue, x=X)",
    " of a unit": "NAME_own.NAME.function().executor(context)(queue, x=X)",
}
MAIN = """
import NAME_own

X = np.arange(8, dtype=np.float32)
for _ in range(2):
    _event, (y,) = LAUNCH
    print(y.tolist())
"""
# loopy compares a preamble generator with its pickled self: `Calls` holds what has no such copy.
PACKAGE = """
import logging
import typing

LOG = logging.getLogger(__name__)
LEVEL = 1
__LEVEL = 1


def times(number):
    yield ("10_times", f"#define TIMES {number}")


def closure(number):
    def preamble(_info):
        return times(number)

    return preamble


def several(number, _info):
    return times(number)


def level(_info):
    return times(LEVEL)


def tool(_info):
    return times(Tool().width)


def hidden(_info):
    return times(__LEVEL)


def asks(thing, _info):
    return times(thing.width())


def made(number):
    class Made:
        def __call__(self, _info):
            return times(number)

    return Made()


class Named(typing.NamedTuple):
    width: int = 1


class Tool:
    width = 1


class Object:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return 0

    def __call__(self, info):
        return times(self.number)

    generate = __call__


class Calls(Object):
    def __reduce__(self):
        return type(self), (0,)

    def __call__(self, info):
        return self.number(info)


class Counting(Object):
    def __call__(self, info):
        self.seen = info
        return times(self.number)
"""


class Reads(NamedTuple):
    """A callable whose number is STATE, which differs after the change: what is set up, and the callable itself.

    `refused` is a part of the reason why kcl refuses it; empty where the key holds it.
    """

    preamble: str
    setup: str = ""
    refused: str = ""
    edit: tuple[str, str] = ("", "")  # of the package


KEYED = {
    "a closure": Reads("pkg.Calls(pkg.closure(STATE))"),
    "a partial function": Reads("pkg.Calls(functools.partial(pkg.several, STATE))"),
    "an object": Reads("pkg.Object(STATE)"),
    "a bound method": Reads("pkg.Calls(pkg.Object(STATE).generate)"),
    "a global": Reads("pkg.level", "pkg.LEVEL = STATE"),
    "an attribute of a class": Reads("pkg.tool", "pkg.Tool.width = STATE"),
    "a global with underscores": Reads("pkg.hidden", "setattr(pkg, '__LEVEL', STATE)"),
    "an object of a class that a function made": Reads("pkg.Calls(pkg.made(STATE))"),
    "an edit of the package": Reads("pkg.level", edit=("LEVEL = 1", "LEVEL = THIS")),
    "a word of the program's own": Reads(
        "P(STATE)",
        """
        class P:
            def __init__(self, number):
                self.number = number
            def __eq__(self, other):
                return type(other) is type(self)
            def __hash__(self):
                return 0
            def __call__(self, info):
                return pkg.times(self.number)
            def __kcl_key__(self):
                return self.number
        """,
    ),
    "a file of the program with a word": Reads(
        "P()",
        """
        class P:
            def __eq__(self, other):
                return type(other) is type(self)
            def __hash__(self):
                return 0
            def __call__(self, info):
                return pkg.times(STATE)
            def __kcl_key__(self):
                return 0
        """,
    ),
}
CODE = "is code of the program"
REFUSED = {
    "a function": Reads("own", "def own(_info):\n    return pkg.times(STATE)", CODE),
    "a partial of the program's function": Reads(
        "pkg.Calls(functools.partial(own, STATE))",
        "def own(n, _info):\n    return pkg.times(n)",
        CODE,
    ),
    "an object of the program": Reads(
        "P()", "class P(pkg.Object):\n    def __init__(self):\n        self.number = STATE", CODE
    ),
    "a method of a class": Reads(
        "P.of",
        "class P:\n    @classmethod\n    def of(cls, _info):\n        return pkg.times(STATE)",
        CODE,
    ),
    "a function put into the package": Reads(
        "pkg.level", "pkg.times = lambda _n: [('10_times', f'#define TIMES {STATE}')]", CODE
    ),
    "a method put into a class of the package": Reads(
        "pkg.Object(1)", "pkg.Object.__call__ = lambda self, _info: pkg.times(STATE)", CODE
    ),
    "a method of an object that the package asks": Reads(
        "pkg.Calls(functools.partial(pkg.asks, P()))",
        "class P:\n    def width(self):\n        return STATE",
        CODE,
    ),
    "a method of a member of an enumeration": Reads(
        "pkg.Calls(functools.partial(pkg.asks, P.A))",
        "import enum\nclass P(enum.Enum):\n    A = 1\n    def width(self):\n        return STATE",
        CODE,
    ),
    "a class under a name of the package": Reads(
        "pkg.Calls(P())",
        """
        class P:
            __module__, __qualname__ = "NAME_pkg", "Object"

            def __call__(self, info):
                return pkg.times(STATE)
        """,
        CODE,
    ),
    "a module under the name of the package": Reads(
        "pkg.Calls(functools.partial(pkg.asks, P))",
        "import types\nP = types.ModuleType('NAME_pkg')\nP.width = functools.partial(int, STATE)",
        "cannot be known",
    ),
    "an open file": Reads(
        "pkg.Calls(functools.partial(pkg.several, STATE))",
        "pkg.several.file = open(__file__)",
        "cannot be known",
    ),
    "an object that remembers": Reads("pkg.Counting(STATE)", "", "changed what it reads"),
}


def program(title: str, reads: Reads, how: str = "") -> Program:
    own = OWN.replace("SETUP", textwrap.dedent(reads.setup).strip())
    package = PACKAGE.replace(*reads.edit) if reads.edit[0] else PACKAGE
    files = {
        "NAME_own.py": own.replace("PREAMBLE", reads.preamble),
        "site/NAME_pkg/__init__.py": package,
    }
    main = MAIN.replace("LAUNCH", LAUNCHES[how])
    return Program(title + how, main, "", ("2", "3"), reads.refused, files, warm=not reads.refused)


PROGRAMS = [program(title, reads) for title, reads in [*KEYED.items(), *REFUSED.items()]]
PROGRAMS += [
    program(title, reads, " of a unit") for title, reads in [*KEYED.items(), *REFUSED.items()][::4]
]
test_callables = compared(PROGRAMS, "install")
