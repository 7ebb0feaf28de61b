"""Callables that no key can hold: their kernels are generated in every run, and the report says why."""

from __future__ import annotations

import pytest
from beside import Program, check, ran

MAIN = """
import numpy as np
import NAME_lib as lib

X = np.arange(8, dtype=np.float32)


def main(queue):
    run = lib.unit().executor(queue.context)
    for _ in range(2):
        _event, (y,) = run(queue, x=X)
        print(y.tolist())
"""
DIRECT = """
import numpy as np
import NAME_lib as lib

X = np.arange(8, dtype=np.float32)


def main(queue):
    unit = lib.unit()
    for _ in range(2):
        _event, (y,) = unit(queue, x=X)
        print(y.tolist())
"""
LIBRARY = """
import functools
import random
import sys
import time

import loopy as lp
import numpy as np

{}


def unit():
    knl = lp.make_kernel(
        "{{[i]: 0<=i<8}}",
        [lp.CInstruction("i", "y[i] = WEIGHT*x[i];", read_variables=frozenset(["x"]), assignees="y[i]")],
        [lp.GlobalArg("x,y", np.float32, shape=8)],
        name="NAME",
        lang_version=(2018, 2),
    )
    return lp.register_preamble_generators(knl, [preamble])
"""
CALLABLES = {
    "the time": """
def preamble(info):
    yield "10", f"#define WEIGHT {THIS + int(time.time() < 0)}"
""",
    "random numbers of a fixed seed": """
def preamble(info):
    yield "10", f"#define WEIGHT {random.Random(1).randint(0, 9) + THIS}"
""",
    "code made at run time": """
def preamble(info):
    yield "10", f"#define WEIGHT {eval('1 + THIS')}"
""",
    "a name looked up at run time": """
NUMBER = THIS


def preamble(info):
    yield "10", f"#define WEIGHT {globals()['NUM' + 'BER']}"
""",
    "an address": """
def preamble(info):
    yield "10", f"#define WEIGHT {THIS + 0*id(info)}"
""",
    "a result that a cache remembers": """
@functools.cache
def weight(number):
    return number + int(time.time() < 0)


def preamble(info):
    yield "10", f"#define WEIGHT {weight(THIS)}"
""",
    "an object that asks for the time": """
class Weight:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return type(self) is type(other) and self.number == other.number

    def __hash__(self):
        return hash(self.number)

    def __call__(self, info):
        yield "10", f"#define WEIGHT {self.number + THIS + int(time.time() < 0)}"


preamble = Weight(1)
""",
    "a class method that asks for the time": """
class Weight:
    @classmethod
    def of(cls, info):
        yield "10", f"#define WEIGHT {THIS + int(time.time() < 0)}"


preamble = Weight.of
""",
    "a clock given by default": """
def preamble(info, clock=time.monotonic):
    yield "10", f"#define WEIGHT {THIS + int(clock() < 0)}"
""",
    "a stream": """
def preamble(info):
    yield "10", f"#define WEIGHT {THIS*len([sys.stderr])}"
""",
    "the frame of the caller": """
def preamble(info):
    yield "10", f"#define WEIGHT {THIS if sys._getframe(1) else 0}"
""",
}


PROGRAMS = [
    *[Program(title, MAIN, LIBRARY.format(text), bypass=" ") for title, text in CALLABLES.items()],
    *[
        Program(f"{title} called directly", DIRECT, LIBRARY.format(text), bypass=" ")
        for title, text in list(CALLABLES.items())[:3]
    ],
]
told = ran(PROGRAMS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(7)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_refused_callables(program, told):
    """Every run says what Python alone says, before and after the edit, and its event names the reason."""
    check(program, told[program.title])
