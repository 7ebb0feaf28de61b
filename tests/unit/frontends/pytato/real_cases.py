"""Graphs that differ in one thing each, evaluated with the libraries that a machine has; run as a program.

    python real_cases.py FILE [--kcl]

writes the results of all cases by name, and how many chains of calls were carried out.
"""

import functools
import gc
import os
import pickle
import sys
import warnings
import weakref

if "--kcl" in sys.argv:
    import kcl

    kcl.install()

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytato as pt
from arraycontext import PytatoPyOpenCLArrayContext as Plain
from constantdict import constantdict
from meshmode.array_context import PytatoPyOpenCLArrayContext as Meshmode
from pymbolic import primitives as prim
from pytools.tag import Tag, UniqueTag, tag_dataclass

warnings.simplefilter("ignore")
CONTEXT = cl.create_some_context(interactive=False)
QUEUE = cl.CommandQueue(CONTEXT)
ALLOCATOR = cl.tools.ImmediateAllocator(QUEUE)
KEPT = []
CASES = {}
DATA = np.arange(12.0).reshape(3, 4) + 1
x = pt.make_placeholder("x", (3, 4), np.float64)
outputs_of = pt.make_dict_of_named_arrays


def case(function):
    CASES[function.__name__] = function
    return function


def each(*values):
    """Let a function be a case for each of some values."""

    def decorate(function):
        for place, value in enumerate(values):
            CASES[f"{function.__name__} {place}"] = functools.partial(function, value)
        return function

    return decorate


def context(kind=Meshmode, **given):
    KEPT.append(
        kind(QUEUE, allocator=ALLOCATOR, **given)
    )  # some stacks crash as they release memory
    return KEPT[-1]


def compiled(function, *arrays, actx=None):
    actx = actx or context()
    found = actx.compile(function)(*[actx.from_numpy(one) for one in arrays])
    return actx.to_numpy(found)


def bound(outputs, name="direct", changes=()):
    """Return the program of a graph with changes of its unit."""
    import loopy as lp

    options = lp.Options(no_numpy=True, return_dict=True)
    program = pt.generate_loopy(outputs, options=options, function_name=name)
    program = program.bind_to_context(CONTEXT)
    for change in changes:
        program = program.with_transformed_translation_unit(change)
    return program


def launched(program, **given):
    _event, found = program(QUEUE, **given)
    return [(name, one.get(QUEUE)) for name, one in found.items()]


def generated(outputs, name="direct", changes=(), **given):
    return launched(bound(outputs, name, changes), **given)


def on_device(array=DATA):
    return cl.array.to_device(QUEUE, array)


def wrapped(array, **more):
    return pt.make_data_wrapper(on_device(array), **more)


@each("unit", "transformed unit")
def data_that_go_before_the_unit_is_made(what):
    data = on_device()
    known, again = weakref.ref(data), data.copy()
    wrappers = [pt.make_data_wrapper(data) for _ in range(2)]
    outputs = {"out": pt.roll(wrappers[0], 1, 0) + wrappers[1] * x, "other": wrappers[1]}
    changes = [context().transform_loopy_program] if what == "transformed unit" else []
    program = bound(outputs_of(outputs), changes=changes)
    unit, names = program.program.t_unit, [*program.bound_arguments]
    wrappers.clear()
    del data, outputs, program
    gc.collect()
    results = launched(
        unit.executor(CONTEXT),
        x=again,
        **dict.fromkeys(names, again),
    )
    return known() is None, [*unit.default_entrypoint.arg_dict], results


# nodes


def of_arrays(expression, value, *arrays):
    return compiled(lambda *given: expression(*given, value), *arrays)


@each([0, 2], [2, 0])
def indices_apart(index):
    places = wrapped(np.array(index))
    return compiled(lambda x: x[places, places] * 2, DATA)


@each(1, True, 1.0, 0.0, -0.0, 2, np.float64(2), np.int32(2), np.float32(2), float("inf"))
def scalars(value):
    found = compiled(lambda x: value / x if value != 0 else pt.maximum(x * 0, 0) * value, DATA)
    return found, found.dtype, np.signbit(found)


@each(np.float32, np.float64, np.int32, np.int64, np.complex128)
def types(kind):
    return compiled(lambda x: x * 2, DATA.astype(kind))


@each((3, 4), (4, 3), (12,), (6, 2), (0, 4))
def sizes(shape):
    return compiled(lambda x: x + 1, np.arange(float(np.prod(shape))).reshape(shape))


@each(("x", "y"), ("y", "x"))
def lambdas(order):
    x, y = (pt.make_placeholder(f"in{one}", (3, 4), np.float64) for one in range(2))
    names = dict(zip(order, (x, y), strict=True))
    i, j = prim.Variable("_0"), prim.Variable("_1")
    expression = prim.Variable("x")[i, j] - 2 * prim.Variable("y")[i, j]
    made = pt.IndexLambda(
        expr=expression,
        bindings=constantdict(names),
        shape=(3, 4),
        dtype=np.dtype(float),
        axes=(pt.Axis(frozenset()),) * 2,
        tags=frozenset(),
        var_to_reduction_descr=constantdict(),
    )
    first, second = on_device(), on_device(DATA * 7)
    return generated(outputs_of({"out": made}), in0=first, in1=second)


@each("twice", "thrice")
def calls_of_loopy(name):
    import loopy as lp
    from pytato.loopy import call_loopy

    factor = {"twice": 2, "thrice": 3}[name]
    unit = lp.make_kernel(
        "{[i]: 0<=i<12}", f"y[i] = {factor}*x[i]", name="called", lang_version=(2018, 2)
    )
    unit = lp.add_dtypes(unit, {"x": float, "y": float})
    x = pt.make_placeholder("x", (12,), np.float64)
    found = call_loopy(unit, {"x": x}, "called")["y"]
    return generated(outputs_of({"out": found}), x=on_device(DATA.ravel()))


@each(0, 1)
def traced_functions(which):
    def inner(x):
        return x * 3 if which else x + 3

    return compiled(lambda x: pt.trace_call(inner, x) * 2, DATA)


# data


@each("one", "equal", "other", "one object", "swapped")
def shared_data(how):
    a, b = wrapped(DATA), wrapped(DATA * 5)
    if how == "equal":
        b = wrapped(DATA)
    elif how == "one":
        b = a
    elif how == "one object":
        b = pt.make_data_wrapper(a.data)
    elif how == "swapped":
        a, b = b, a
    return compiled(lambda x: x * a - 2 * b, DATA)


@each("rows", "columns", "part")
def strides(how):
    whole = on_device(np.arange(24.0).reshape(6, 4))
    part = {"rows": whole[:3], "columns": whole[3:], "part": whole[1:4]}[how]
    data = pt.make_data_wrapper(part)
    return compiled(lambda x: x + data, DATA)


@each(1, 2, 3)
def many_data(count):
    data = [wrapped(DATA * (one + 1)) for one in range(3)]
    return compiled(lambda x: sum([x * one for one in data[:count]]), DATA)


@case
def data_of_numpy():
    out = x + pt.make_data_wrapper(DATA)
    program = pt.generate_loopy(outputs_of({"out": out}))
    _event, found = program(QUEUE, x=DATA)
    return [(name, one) for name, one in found.items()]


# names, outputs, options


@each(("a", "b"), ("b", "a"), ("a", "c"))
def outputs(names):
    arrays = dict(zip(names, (x + 1, x * 2), strict=True))
    return generated(outputs_of(arrays), x=on_device())


@each("x", "y")
def names_of_inputs(name):
    x = pt.make_placeholder(name, (3, 4), np.float64)
    given = {name: on_device()}
    return generated(outputs_of({"out": x + 1}), **given)


@each("one", "two")
def names_of_functions(name):
    out = outputs_of({"out": x + 1})
    return generated(out, name=name, x=on_device())


@each("clash", "bound twice", "not given")
def errors(what):
    data = wrapped(DATA, tags=frozenset({pt.tags.Named("d")}))
    given = {"d": on_device()} if what == "bound twice" else {}
    try:
        if what == "clash":
            out = x + pt.make_placeholder("x", (4,), np.float64)
        else:
            out = data + 1 if what == "bound twice" else x + 1
        return generated(outputs_of({"out": out}), **given)
    except Exception as error:
        kind = type(error)
        return kind.__mro__[-4].__name__ if what == "not given" else kind.__name__


@case
def unused_input():
    given = {name: on_device() for name in ("x", "unused")}
    return generated(outputs_of({"out": x + 1}), **given)


# tags and axes


class OwnTag(Tag):
    pass


@tag_dataclass
class OwnValue(UniqueTag):
    value: object


class TagWithCode(Tag):
    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return 1


TAGS = (
    frozenset(),
    frozenset({pt.tags.ImplStored()}),
    frozenset({pt.tags.PrefixNamed("p")}),
    frozenset({pt.tags.PrefixNamed("q"), pt.tags.ImplStored()}),
    frozenset({OwnTag()}),
    *(frozenset({OwnValue(one)}) for one in (1, True, np.int64(1), object())),
    frozenset({TagWithCode()}),
)
AXES = (frozenset(), frozenset({OwnTag()}), frozenset({OwnValue("a")}))
FUNCTIONS = ("sin", "cos", "exp", "sqrt", "abs", "tanh", "isnan", "real")
SHAPES = (((4, 3), "C"), ((4, 3), "F"), ((12,), "C"), ((2, 6), "C"))
INDICES = (
    (slice(0, 2), 0),
    (slice(1, 3), 0),
    (0, slice(None)),
    (slice(None, None, 2), 1),
    (-1, -1),
)
COMPARISONS = ("less", "less_equal", "greater", "equal", "not_equal")
NAMED = frozenset({pt.tags.Named("named")})

# Expressions of one array and a value, and of two, with the values for which each is a case.
OF_ONE = {
    "functions": (lambda x, name: getattr(pt, name)(x), FUNCTIONS),
    "reductions": (lambda x, name: getattr(pt, name)(x, axis=0), ("sum", "prod", "amax", "amin")),
    "reduced_axes": (lambda x, axis: pt.sum(x, axis=axis), (0, 1, None, (0, 1))),
    "rolls": (lambda x, shift: pt.roll(x, *shift), ((1, 0), (2, 0), (1, 1), (-1, 1))),
    "transpositions": (lambda x, axes: pt.transpose(x, axes) * 1, ((0, 1), (1, 0))),
    "shapes": (lambda x, shape: pt.reshape(x, shape[0], order=shape[1]) * 1, SHAPES),
    "indices": (lambda x, index: x[index] + 1, INDICES),
    "indices_of_data": (
        lambda x, index: x[wrapped(np.array(index))] * 2,
        ([0, 2], [2, 0], [1, 1]),
    ),
    "odd_scalars": (lambda x, value: x + value, (float("nan"), float("-inf"), 1j, 2 + 0j)),
    "comparisons": (lambda x, name: pt.where(getattr(pt, name)(x, 4.0), x, -x), COMPARISONS),
    "choices": (lambda x, name: getattr(pt, name)(x, 4.0), ("maximum", "minimum")),
    "values_of_data": (lambda x, factor: x + wrapped(DATA * factor), (1.0, 2.0)),
    "data_with_a_name": (lambda x, factor: x + wrapped(DATA * factor, tags=NAMED), (1.0, 2.0)),
    "tags": (lambda x, tags: (pt.sin(x).tagged(tags) + 1) * 2, TAGS),
    "axes": (lambda x, tags: (pt.sin(x).with_tagged_axis(0, tags) + 1) * 2, AXES),
}
OF_TWO = {
    "stacks": (lambda x, y, axis: pt.stack([x, y], axis=axis), (0, 1, 2)),
    "concatenations": (lambda x, y, axis: pt.concatenate([x, y], axis=axis), (0, 1)),
    "einsums": (
        lambda x, y, text: pt.einsum(text, x, y),
        ("ij,kj->ik", "ij,ij->ij", "ij,ij->i", "ij,ij->j", "ij,ij->"),
    ),
    "einsums_of_a_transposed_one": (
        lambda x, y, text: pt.einsum(text, x, pt.transpose(y)),
        ("ij,jk->ik",),
    ),
}
for table, arrays in ((OF_ONE, (DATA,)), (OF_TWO, (DATA, DATA * 2))):
    for name, (expression, values) in table.items():
        for place, value in enumerate(values):
            CASES[f"{name} {place}"] = functools.partial(of_arrays, expression, value, *arrays)


# contexts and transformations


def multiplied(t_unit, factor):
    import loopy as lp

    knl = t_unit.default_entrypoint
    made = [
        one.copy(expression=one.expression * factor)
        for one in knl.instructions
        if isinstance(one, lp.Assignment)
    ]
    return t_unit.with_kernel(knl.copy(instructions=made))


class OwnContext(Meshmode):
    factor = 2

    def transform_loopy_program(self, t_unit):
        return super().transform_loopy_program(multiplied(t_unit, self.factor))


@each(2, 3)
def own_contexts(factor):
    actx = context(OwnContext)
    actx.factor = factor
    return compiled(lambda x: x + 1, DATA, actx=actx)


@each(2, 3)
def patched_methods(factor):
    before = Meshmode.transform_loopy_program
    Meshmode.transform_loopy_program = lambda self, unit: before(self, multiplied(unit, factor))
    try:
        return compiled(lambda x: x + 1, DATA)
    finally:
        Meshmode.transform_loopy_program = before


@each(Plain, Meshmode)
def kinds_of_contexts(kind):
    return compiled(lambda x: x * 3, DATA, actx=context(kind))


@each(None, 4096)
def limits(limit):
    actx = context(Meshmode, _force_svm_arg_limit=limit)
    return compiled(lambda x, y: x * 3 + y, DATA, DATA, actx=actx)


@case
def callback():
    seen = []
    actx = context(
        Meshmode,
        compile_trace_callback=lambda _what, stage, ir: seen.append(
            (stage, type(ir).__mro__[-2].__name__)
        ),
    )
    return compiled(lambda x: x * 5, DATA, actx=actx), [one for one, _kind in seen]


@case
def replaced_unit():
    one, other = (bound(outputs_of({"out": x * factor}), "replaced") for factor in (13, 17))
    one.program = other.program
    return launched(one, x=on_device())


@each(1.0, 2.0, 3.0)
def frozen(factor):
    actx = context()
    x = actx.from_numpy(DATA)
    return actx.to_numpy(actx.freeze_thaw(x * factor + 1) * 2)


@case
def deep():
    def chain(x):
        for place in range(400):
            x = x + float(place % 3) if place % 2 else x * 1.001
        return x

    sys.setrecursionlimit(100000)
    return compiled(chain, DATA)


def main():
    made = []
    if "--kcl" in sys.argv:
        from kcl.frontends.pytato.program import GraphRecord

        own = GraphRecord._carried_out
        GraphRecord._carried_out = lambda *given: (made.append(now), own(*given))[1]
    results = {}
    names = [*CASES]
    if "--reversed" in sys.argv:
        names.reverse()
    for now in names:
        if "--verbose" in sys.argv:
            print(now, flush=True)
        try:
            results[now] = CASES[now]()
        except Exception as error:
            results[now] = f"{type(error).__name__}: {error}"[:300]
    told = {"results": results, "made": made}
    if "--kcl" in sys.argv:
        from kcl.base import events

        told |= {"stats": kcl.stats()["generator"], "notes": [*events.total()["made"]]}
    with open(sys.argv[1], "wb") as stream:
        pickle.dump(told, stream)
    if "--kcl" in sys.argv:
        kcl.uninstall()
    os._exit(0)  # some stacks end in a signal of their own at exit


if __name__ == "__main__":
    main()
