"""A program of the small language: what its environment asks for; prints results as JSON.

python driver.py LANGUAGE CASE[,CASE...] [VALUE] [then CASE...]

What stands after each `then` runs as a process of its own, after the one before: all are forked from what was imported.
"""

import functools
import gc
import hashlib
import json
import os
import sys
import warnings
import weakref
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])

import kcl
from kcl.base import events

if "late" not in sys.argv:
    kcl.install()

import arraycontext
import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytato as pt
from carried import calls
from loopy.tools import LoopyKeyBuilder
from pytools.persistent_dict import PersistentDict

if "late" in sys.argv:
    kcl.install()

requests = [text.split("\n") for text in "\n".join(sys.argv[2:]).split("\nthen\n")]
for request in requests if requests[1:] else ():
    if not (child := os.fork()):
        sys.argv[2:] = request
        break
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
else:
    if requests[1:]:
        sys.exit()

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
OPTIONS = lp.Options(no_numpy=True, return_dict=True)
value = float(sys.argv[3]) if sys.argv[3:] else 2.0
is_asking = "ask" in sys.argv
told = {}
x = pt.make_placeholder("x", 4)


def array(factor=1.0):
    return cl.array.to_device(queue, np.arange(4.0) * factor)


def graph(factor=2.0, data=None):
    data = array() if data is None else data
    return outputs_of(out=pt.Sum((x, pt.Scaled(pt.make_data_wrapper(data), factor))))


def outputs_of(**outputs):
    return pt.make_dict_of_named_arrays(outputs)


def launched(program, **given):
    return numbers(program(queue, **(given or {"x": array()})))


def numbers(result):
    _event, outputs = result
    return {name: outputs[name].get(queue).tolist() for name in sorted(outputs)}


def made(outputs, *changes, **more):
    program = pt.generate_loopy(outputs, options=OPTIONS, function_name="launched", **more)
    program = program.bind_to_context(context)
    for change in changes:
        program = program.with_transformed_translation_unit(change)
    return program


def transformed(factor=value, *given, **more):
    """Return the program of a graph that the method of a context transforms."""
    return made(graph(**more), arraycontext.Context(queue, factor, *given).transform_loopy_program)


def freed():
    data = array()
    known = weakref.ref(data)
    program = transformed(2.0, data=data)
    launched(program)
    del data, program
    gc.collect()
    return known() is None


def released():
    """The data go while the unit lives; the unit is asked for afterwards."""
    data = array()
    known = weakref.ref(data)
    program = transformed(2.0, data=data)
    unit, (name,) = program.program.t_unit, program.bound_arguments
    del data, program
    gc.collect()
    before = [known() is None, *calls]
    result = numbers(unit.executor(context)(queue, x=array(), **{name: array(3.0)}))
    return before, unit.default_entrypoint.name, result, [*calls]


def named():
    program = transformed()
    return program.program.entrypoint, launched(program)


def refused():
    program = made(graph())
    try:
        program.with_transformed_translation_unit(arraycontext.refused)
    except ValueError as error:
        return str(error)


def asked():
    program = made(graph())
    found = isinstance(program, pt.target.loopy.BoundPyOpenCLExecutable), launched(program)
    before = [*calls]
    return found, before, program.kernel.name, launched(program), [*calls]


def patched():
    before = arraycontext.scaled
    arraycontext.scaled = lambda unit, factor: before(unit, factor * value)
    return launched(transformed(2.0))


def with_constant(constant):
    arraycontext.EXTRA = constant
    return launched(transformed(2.0))


def with_code():
    arraycontext.scaled.__defaults__ = (value,)
    return launched(transformed(2.0))


def uninstalled():
    kcl.uninstall()
    return launched(made(graph()))


def placed(value=value):
    """A graph of which one node has the place that made it."""
    frames = (
        SimpleNamespace(filename=__file__, lineno=10),
        SimpleNamespace(filename=pt.__file__, lineno=5),
    )
    tag = SimpleNamespace(traceback=SimpleNamespace(frames=frames))
    # the language hashes no fields
    node = pt.Scaled(x, value, non_equality_tags=(tag,))
    others = pt.Scaled(x, 7.0), *([pt.Scaled(x, 8.0)] if value > 2 else []), pt.Scaled(x, 9.0)
    return launched(made(outputs_of(out=pt.Sum((*others, node)))))


def large():
    """A graph of many different nodes with long tags."""

    def tags(number):
        return tuple(hashlib.sha256(b"%d %d" % (number, one)).hexdigest() for one in range(20))

    parts = [pt.Scaled(x, 1, tags=tags(number)) for number in range(100)]
    sums = [pt.Sum((*parts[start : start + 10],)) for start in range(0, 100, 10)]
    return launched(made(outputs_of(out=pt.Sum((*sums,)))))


def steps():
    first = int(value)
    return [launched(made(graph(float(one)))) for one in range(first, first + 6)]


def outputs():
    """A program that waits, or is made, is launched after its outputs were changed."""
    given = {"out": pt.Scaled(x, 2.0)}
    first, second = made(pt.DictOfNamedArrays(given)), made(pt.DictOfNamedArrays(given))
    given["out"] = pt.Scaled(x, 5.0)
    results = [launched(second)]
    if is_asking:
        results.append(first.kernel.name)
    return [*results, launched(first)]


def parted():
    """The order of outputs, and so that of the arguments, is one of a set."""
    data = {name: array(number) for number, name in enumerate("abcdef", 1)}
    program = made(outputs_of(**{name: pt.make_data_wrapper(data[name]) for name in {*data}}))
    names = [program.kernel.name] if is_asking else []
    return numbers(program(queue)), names


def owner():
    scaling = arraycontext.Scaling(2.0)
    programs = [made(graph(), one) for one in (scaling.scaled, scaling.scaled, scaling.in_list)]
    scaling.np, scaling.factors[0] = 7.0, 7.0
    names = [one.kernel.name for one in programs] if is_asking else []
    return [launched(one) for one in programs], names


def ranks():
    """A unit that is transformed by the rank, and one that is transformed by a message."""
    from mpi4py import MPI

    told["numbers"] = []
    results = []
    for name in ("by_rank", "agreed"):
        context = arraycontext.RanksContext(queue, MPI.COMM_WORLD)
        before = len(calls)
        results.append(launched(made(graph(), getattr(context, name))))
        told["numbers"].append(calls[before:].count("scaled"))
        assert context.communicator is MPI.COMM_WORLD
    return results


def too_late():
    program = made(graph(), arraycontext.warned, arraycontext.by_constant)
    arraycontext.EXTRA = 9
    try:
        return program.kernel.name
    except kcl.RecipeError as error:
        return str(error)


def counting():
    scaling = arraycontext.Scaling(1.0)
    return [launched(made(graph(), scaling.counting)) for _ in range(3)], scaling.np


def tuned():
    if value > 2:
        folder = PersistentDict("tests of factors", LoopyKeyBuilder(), container_dir=sys.argv[4])
        folder["one"] = value
    change = functools.partial(arraycontext.tuned, folder=sys.argv[4])
    return launched(made(graph(), change))


CASES = {
    **{one.__name__: one for one in (freed, released, named, refused, asked, patched)},
    **{one.__name__: one for one in (uninstalled, placed, large, steps, outputs, parted, owner)},
    **{one.__name__: one for one in (ranks, too_late, counting, tuned)},
    "plain": lambda: launched(made(graph(value))),
    "data": lambda: launched(made(graph(data=array(value)))),
    "transformed": lambda: launched(transformed()),
    "cached": lambda: launched(transformed(value, None, sys.argv[4])),
    "device": lambda: launched(made(graph(), cl_device=queue.device)),
    "warned": lambda: launched(made(graph(), arraycontext.warned)),
    "own_function": lambda: launched(made(graph(), lambda unit: arraycontext.scaled(unit, value))),
    "constant": lambda: with_constant(value),
    "code": with_code,
    "put_back": lambda: [with_constant(5), with_constant(1)],
    "twice": lambda: [launched(made(graph(one))) for one in (2.0, 3.0, 2.0)],
    "moving": lambda: [placed(value + 2 * step) for step in range(5)],
}

with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    results = [CASES[case]() for case in sys.argv[2].split(",")]
told["result"] = results if results[1:] else results[0]
told["calls"] = calls
told["warnings"] = [
    [one.category.__name__, str(one.message), one.filename.rpartition("/")[2], one.lineno]
    for one in heard
    if "device" in str(one.message) or "stays" in str(one.message)
]
told["made"] = events.total()["made"]
told["stats"] = kcl.stats()["generator"]
told["report"] = " ".join(str(kcl.report()).split())
print(json.dumps(told))
