"""Callables that loopy runs while it generates, and what they read: keyed right, or refused by name."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import pytest
from beside import Program, check, ran

OWN = """
import functools
import importlib
import os
import pathlib
import sys
import threading
import time

import numpy as np

import kcl

STATE = THIS
os.environ["NAME_N"] = "THIS"
SETUP


def number_():
    return NUMBER


def preamble(_info):
    yield ("10_times", f"#define TIMES {number_()}")


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
PACKAGE = """
LEVEL = 0
STEPS = []


def set_level(level):
    global LEVEL
    LEVEL = level


def level():
    return LEVEL


class Tool:
    width = 0

    def get(self):
        return self.width
"""


class Reads(NamedTuple):
    """A callable whose number is STATE, which differs after the change: what is set up, and what the callable reads.

    `refused` is the name by which kcl refuses it; empty where the key holds it.
    """

    setup: str
    number: str
    refused: str = ""
    preamble: str = "preamble"


ASSIGNED = """
class C:
    weight = 4

    @functools.cached_property
    def twice(self):
        return 2 * self.weight

thing = C()
thing.twice = STATE
"""

COMPARED = """
    def __eq__(self, other):
        return type(other) is type(self)
    def __hash__(self):
        return 0
"""

KEYED = {
    "how numpy prints": Reads(
        "np.set_printoptions(precision=STATE)", "len(str(np.array([1 / 3]))) - 4"
    ),
    "how numpy treats errors": Reads(
        """
        np.seterr(divide="raise" if STATE == 3 else "ignore")
        def number():
            try:
                np.float64(1) / np.float64(0)
            except FloatingPointError:
                return 3
            return 2
        """,
        "number()",
    ),
    "the longest number in decimal": Reads(
        """
        sys.set_int_max_str_digits(0 if STATE == 2 else 4300)
        def number():
            try:
                return 2 + 0 * len(str(10**5000))
            except ValueError:
                return 3
        """,
        "number()",
    ),
    "an attribute of sys": Reads("sys.NAME_N = STATE", "sys.NAME_N"),
    "an attribute of a class of the library": Reads(
        "import fractions\nfractions.Fraction.NAME_N = STATE", "fractions.Fraction.NAME_N"
    ),
    "a method put into a class of the library": Reads(
        "from fractions import Fraction\nFraction.NAME_of = lambda self, n=STATE: n",
        "Fraction(1, 2).NAME_of()",
    ),
    "a function put into numpy": Reads("np.NAME_of = lambda n=STATE: n", "np.NAME_of()"),
    "a class registered with an abstract one of the library": Reads(
        """
        import collections.abc
        class Own: pass
        if STATE == 3:
            collections.abc.Sequence.register(Own)
        own = Own()
        """,
        "2 + isinstance(own, collections.abc.Sequence)",
    ),
    "a name put into builtins": Reads("import builtins\nbuiltins.NAME_N = STATE", "NAME_N"),
    "a global of an installed package": Reads(
        "import NAME_pkg\nNAME_pkg.set_level(STATE)", "NAME_pkg.level()"
    ),
    "a class of an installed package": Reads(
        "import NAME_pkg\nNAME_pkg.Tool.width = STATE", "NAME_pkg.Tool().get()"
    ),
    "an installed package that the body imports": Reads(
        """
        import NAME_pkg as used
        used.set_level(STATE)
        def number():
            from NAME_pkg import level
            return level()
        """,
        "number()",
    ),
    "an assigned cached property": Reads(ASSIGNED, "thing.twice"),
    "a filled cached property": Reads(
        ASSIGNED.replace("thing.twice = STATE", "C.weight = STATE\nthing.twice\nC.weight = 5"),
        "thing.twice // 2",
    ),
    "a property": Reads(
        "class C:\n    @property\n    def n(self):\n        return LIMIT\nLIMIT = STATE", "C().n"
    ),
    "an attribute of a metaclass": Reads(
        "class Meta(type):\n    pass\nclass C(metaclass=Meta):\n    pass\nMeta.n = STATE", "C.n"
    ),
    "an inherited attribute": Reads(
        "class B:\n    n = 0\nclass C(B):\n    pass\nB.n = STATE", "C().n"
    ),
    "a slot": Reads("class C:\n    __slots__ = ('n',)\nc = C()\nc.n = STATE", "c.n"),
    "an attribute of an object": Reads("class C: pass\nc = C()\nc.n = STATE", "c.n"),
    "a name that is computed": Reads("class C: pass\nc = C()\nc.n = STATE", "getattr(c, chr(110))"),
    "a subclass of a dictionary": Reads("class D(dict): pass\nd = D(n=STATE)", "d['n']"),
    "an attribute of a function": Reads("def get():\n    return get.n\nget.n = STATE", "get()"),
    "a keyword default": Reads("def get(*, n=STATE):\n    return n", "get()"),
    "a default that changed": Reads(
        "def get(n=[]):\n    return len(n)\nget.__defaults__[0].extend(range(STATE))", "get()"
    ),
    "a closure that counts": Reads(
        """
        def make():
            n = 0
            def step():
                nonlocal n
                n += 1
            def get():
                return n
            return step, get
        step, get = make()
        for _ in range(STATE):
            step()
        """,
        "get()",
    ),
    "an array": Reads("A = np.zeros(3, int)\nA[1] = STATE", "A[1]"),
    "a member of an enumeration": Reads(
        "import enum\nclass E(enum.Enum):\n    A = STATE", "E.A.value"
    ),
    "a dataclass": Reads(
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    n: int = STATE", "D().n"
    ),
    "a partial function": Reads("get = functools.partial(max, STATE)", "get(0)"),
    "a bound method": Reads(
        "class C:\n    def get(self):\n        return self.n\nc = C()\nc.n = STATE\nget = c.get",
        "get()",
    ),
    "a hook for attributes": Reads(
        "class C:\n    def __getattr__(self, name):\n        return N\nN = STATE", "C().any"
    ),
    "a context manager": Reads(
        "import contextlib\n@contextlib.contextmanager\ndef held(n=STATE):\n    yield n\n"
        "def number():\n    with held() as n:\n        return n",
        "number()",
    ),
    "an object that is called": Reads(
        "class P:\n    def __init__(self, n):\n        self.n = n"
        + COMPARED
        + "    def __call__(self, info):\n"
        "        yield ('10_times', f'#define TIMES {self.n}')",
        "0",
        preamble="P(STATE)",
    ),
    "a word of the user's own": Reads(
        "class P:\n    def __kcl_key__(self):\n        return STATE"
        + COMPARED
        + "    def __call__(self, info):\n"
        "        yield ('10_times', f'#define TIMES {os.environ[\"NAME_N\"]}')",
        "0",
        preamble="P()",
    ),
}
REFUSED = {
    "the context of decimal": Reads(
        "import decimal\ndecimal.getcontext().prec = STATE",
        "decimal.getcontext().prec",
        "decimal.getcontext",
    ),
    "a decimal that was made before": Reads(
        "import decimal\ndecimal.getcontext().prec = STATE\nONE = decimal.Decimal(1)",
        "len(str(ONE / 3)) - 2",
        "Decimal",
    ),
    "what numpy prints with": Reads(
        "np.set_printoptions(precision=STATE)",
        "np.get_printoptions()['precision']",
        "get_printoptions",
    ),
    "the same by a computed name": Reads(
        "np.set_printoptions(precision=STATE)",
        "getattr(np, 'get_' + 'printoptions')()['precision']",
        "numpy",
    ),
    "the same by the names of a module": Reads(
        "np.set_printoptions(precision=STATE)",
        "np.__dict__['get_printoptions']()['precision']",
        "numpy.__dict__",
    ),
    "the same by an attribute getter": Reads(
        "import operator\nnp.set_printoptions(precision=STATE)",
        "operator.attrgetter('get_printoptions')(np)()['precision']",
        "numpy",
    ),
    "the same by an import in the body": Reads(
        """
        np.set_printoptions(precision=STATE)
        def number():
            import numpy as other
            return other.get_printoptions()["precision"]
        """,
        "number()",
        "get_printoptions",
    ),
    "a logger": Reads(
        "import logging\nLOG = logging.getLogger('NAME')\nLOG.setLevel(STATE)",
        "LOG.level",
        "Logger",
    ),
    "a class of the library that is not listed": Reads(
        "import argparse\nargparse.Namespace.NAME_N = STATE",
        "argparse.Namespace.NAME_N",
        "argparse.Namespace",
    ),
    "the environment": Reads("", "os.environ['NAME_N']", "_Environ"),
    "a variable of the environment": Reads("", "os.getenv('NAME_N')", "os.getenv"),
    "an import of os in the body": Reads(
        "def number():\n    from os import environ\n    return environ['NAME_N']", "number()", "os"
    ),
    "a call of the import": Reads("", "__import__('os').environ['NAME_N']", "__import__"),
    "an import of a name": Reads(
        "", "importlib.import_module('os').environ['NAME_N']", "importlib.import_module"
    ),
    "a filled cache": Reads(
        "@functools.lru_cache\ndef get():\n    return LIMIT\nLIMIT = STATE\nget()\nLIMIT = 9",
        "get()",
        "functools.cache",
    ),
    "eval": Reads("N = STATE", "eval('N')", "builtins.eval"),
    "globals": Reads("N = STATE", "globals()['N']", "builtins.globals"),
    "the table of modules": Reads("N = STATE", "sys.modules['NAME_own'].N", "module"),
    "a frame": Reads("N = STATE", "sys._getframe(0).f_globals['N']", "f_globals"),
    "the globals of a function": Reads(
        "N = STATE\ndef get(): pass", "get.__globals__['N']", "__globals__"
    ),
    "the subclasses of a class": Reads(
        "class B: pass\nKEEP = [type('C', (B,), {}) for _ in range(STATE)]",
        "len(B.__subclasses__())",
        "__subclasses__",
    ),
    "a file": Reads(
        "PATH = pathlib.Path(__file__).with_suffix('.txt')\nPATH.write_text(str(STATE))\n",
        "open(PATH).read()",
        "open",
    ),
    "a loader": Reads(
        "pathlib.Path(__file__).with_suffix('.txt').write_text(str(STATE))\n",
        "__loader__.get_data(__file__[:-3] + '.txt').decode()",
        "SourceFileLoader",
    ),
    "a value of a thread": Reads(
        "LOCAL = threading.local()\nLOCAL.n = STATE", "LOCAL.n", "_thread"
    ),
    "an iterator": Reads("import itertools\nC = iter([STATE])", "next(C, STATE)", "iterator"),
    "a registry of types": Reads(
        "@functools.singledispatch\ndef get(x):\n    return 0\n@get.register\ndef _(x: int):\n    return N\nN = STATE",
        "get(1)",
        "functools",
    ),
    "a class behind a cached property": Reads(
        ASSIGNED.replace("thing.twice = STATE", "C.weight = STATE"),
        "thing.twice // 2",
        "changed what it reads",
    ),
    "a module as a value": Reads(
        "import NAME_pkg\nM = [NAME_pkg]\nNAME_pkg.LEVEL = STATE",
        "M[0].LEVEL",
        "NAME_pkg",
    ),
    "a list that the callable fills": Reads(
        "SEEN = []", "STATE + 0 * len(SEEN.append(1) or SEEN)", "changed what it reads"
    ),
    "a global that the callable counts": Reads(
        "N = 0\ndef number():\n    global N\n    N += 1\n    return STATE",
        "number()",
        "changed what it reads",
    ),
    "a docstring": Reads("def get(): pass\nget.__doc__ = str(STATE)", "get.__doc__", "__doc__"),
    "the time": Reads("", "STATE + int(time.time() < 0)", "time.time"),
    "an object that asks for the time": Reads(
        "class P:\n    n = STATE" + COMPARED + "    def __call__(self, info):\n"
        "        yield ('10_times', f'#define TIMES {self.n + int(time.time() < 0)}')",
        "0",
        "time.time",
        preamble="P()",
    ),
    "a class method that asks for the time": Reads(
        "class P:\n    @classmethod\n    def of(cls, info):\n"
        "        yield ('10_times', f'#define TIMES {STATE + int(time.time() < 0)}')",
        "0",
        "time.time",
        preamble="P.of",
    ),
    "an address": Reads("", "STATE + 0 * id(STATE)", "builtins.id"),
    "a stream": Reads("", "STATE * len([sys.stderr])", "_io.TextIOWrapper"),
    "an attribute of the library's object": Reads(
        "import types\nimport string\nT = string.Formatter()\nT.n = STATE\nclass D:\n    def __get__(self, *_):\n"
        "        return os.environ['NAME_N']\nclass U:\n    n = D()\n",
        "U().n",
        "_Environ",
    ),
}


def program(title: str, reads: Reads, how: str = "") -> Program:
    """Write the program of a callable."""
    own = OWN.replace("SETUP", textwrap.dedent(reads.setup).strip()).replace(
        "PREAMBLE", reads.preamble
    )
    files = {"NAME_own.py": own.replace("NUMBER", reads.number)}
    if "NAME_pkg" in own:
        files["site/NAME_pkg/__init__.py"] = PACKAGE
    main = MAIN.replace("LAUNCH", LAUNCHES[how])
    return Program(title + how, main, "", ("2", "3"), reads.refused, files, warm=not reads.refused)


PROGRAMS = [program(title, reads) for title, reads in [*KEYED.items(), *REFUSED.items()]]
PROGRAMS += [
    program(title, reads, " of a unit") for title, reads in [*KEYED.items(), *REFUSED.items()][::11]
]
told = ran(PROGRAMS, "install")


@pytest.mark.one_platform
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_callables(program, told):
    """The number is that of a process without a cache; a callable that is refused is named, and stores nothing."""
    check(program, told[program.title])
