"""Units that are edited in place between launches: an executor launches what its unit is as it generates."""

import pytest
from beside import Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

MAIN = """
import numpy as np
import NAME_lib as lib

X = np.arange(8, dtype=np.float32)


def shown(result):
    return result[1][0].tolist()


"""
LIBRARY = """
import dataclasses

import loopy as lp
import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag


def unit(*, number=2, open=False, **more):
    dtype = None if open else np.float32
    return lp.make_kernel(
        "{[i]: 0<=i<8}",
        [f"<>t = {number}*x[i] {{id=first}}", "y[i] = t + 1 {id=second,dep=first}"],
        [lp.GlobalArg("x,y", dtype, shape=8)],
        name="NAME",
        lang_version=(2018, 2),
        **more,
    )


def put(holder, name, value):
    object.__setattr__(holder, name, value)


def kernel(unit):
    return unit["NAME"]


def insn(unit, id):
    return kernel(unit).id_to_insn[id]


"""
# Each edits a unit in place, so that it computes with THIS.
EDITS = {
    "an expression": """
def edit(unit):
    put(insn(unit, "second"), "expression", insn(unit, "second").expression + THIS)
""",
    "the list of instructions": """
def edit(unit):
    knl = kernel(unit)
    new = [one.copy(expression=one.expression + THIS) if one.id == "second" else one for one in knl.instructions]
    if isinstance(knl.instructions, list):
        knl.instructions[:] = new
    else:
        put(knl, "instructions", new)
""",
    "a value in a dictionary of the table": """
def edit(unit):
    knl = kernel(unit)
    for value in (vars(knl.temporary_variables["t"]), vars(insn(unit, "second"))):
        if "expression" in value:
            value["expression"] = value["expression"] + THIS
""",
}
WAYS = {
    "through executors": """
    unit = lib.unit()
    print(shown(unit.executor(queue.context)(queue, x=X, y=np.zeros_like(X))))
    lib.edit(unit)
    print(shown(unit.executor(queue.context)(queue, x=X, y=np.zeros_like(X))))
""",
    "called directly": """
    unit = lib.unit()
    print(shown(unit(queue, x=X, y=np.zeros_like(X))))
    lib.edit(unit)
    print(shown(unit(queue, x=X, y=np.zeros_like(X))))
""",
}
# What a program does, with an edit of the expression.
DRIVES = {
    "an edit that is taken back": """
    unit = lib.unit(open=True)
    before = lib.insn(unit, "second").expression
    runs = [unit.executor(queue.context)]
    print(shown(runs[0](queue, x=X)))
    lib.edit(unit)
    runs.append(unit.executor(queue.context))
    print(shown(runs[1](queue, x=X)), shown(runs[0](queue, x=X.astype(np.float64))))
    lib.put(lib.insn(unit, "second"), "expression", before)
    runs.append(unit.executor(queue.context))
    print([shown(run(queue, x=x)) for run in runs for x in (X, X.astype(np.float64))])
""",
    "a copy shares what is edited": """
    unit = lib.unit()
    other = unit.copy()
    print(shown(other(queue, x=X)))
    lib.edit(unit)
    print(shown(other(queue, x=X)), shown(unit(queue, x=X)))
""",
    "a deep copy has parts of its own": """
    import copy

    unit = lib.unit()
    other = copy.deepcopy(unit)
    lib.edit(unit)
    print(shown(other(queue, x=X)), shown(unit(queue, x=X)))
    print(shown(copy.deepcopy(unit)(queue, x=X)), shown(copy.deepcopy(other)(queue, x=X)))
    names = [lib.lp.ValueArg("n", np.int32), lib.lp.GlobalArg("x", np.float32, shape=4)]
    for argument in names:
        copies = [copy.copy(argument), copy.deepcopy([argument])[0]]
        argument.name = "other"
        copies += [copy.copy(argument), copy.deepcopy(argument)]
        argument.name = "third"
        print([one.name for one in (argument, *copies)])
""",
    "an argument of an executor": """
    unit = lib.unit()
    run = unit.executor(queue.context)
    print(shown(run(queue, x=X)))
    lib.edit(run.t_unit)
    print(shown(unit(queue, x=X)), shown(run(queue, x=X)))
""",
    "a recipe of the library's unit": """
    import kcl

    unit = lib.unit(open=True)

    @kcl.kernel
    def NAME():
        return unit

    one = NAME()
    print(shown(one(queue, x=X)))
    lib.edit(unit)
    print(shown(one(queue, x=X.astype(np.float64))), shown(NAME()(queue, x=X)))
""",
}


def main(body: str) -> str:
    return f"{MAIN}def main(queue):{body}"


OWN = """
import sys

lib = sys.modules[__name__]
"""


def own(text: str, library: str) -> str:
    """Put a library into the program itself: its calls of loopy are recorded."""
    return library + OWN + text.replace("import NAME_lib as lib\n", "")


BY_EXPRESSION = LIBRARY + EDITS["an expression"]
IN_LIBRARIES = [
    *[
        Program(f"{what} {how}", main(body), LIBRARY + edit)
        for what, edit in EDITS.items()
        for how, body in WAYS.items()
    ],
    *[Program(title, main(body), BY_EXPRESSION) for title, body in DRIVES.items()],
]
PROGRAMS = [
    *IN_LIBRARIES,
    *[Program(f"{one.title} in the program", own(one.text, one.library)) for one in IN_LIBRARIES],
]
test_edited_units = compared(PROGRAMS, "run")
