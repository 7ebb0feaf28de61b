"""Calls that kcl must answer as loopy's executor does: recipes, and what is done with each. Run in children.

A case is a function `(launch, queue)` that launches, by loopy's executor or by a kcl.Kernel, and returns what it saw
as JSON; `main` prints what all of them saw. See test_executor.py.
"""

import functools
import json
import re
import sys

import forbid
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.tools as cl_tools
from opened import queue_on

import kcl

lp = kcl.lazy("loopy")
CASES = {}


def case(recipe, **parameters):
    """Add a case for the Kernel `recipe(**parameters)`."""

    def add(function):
        CASES[function.__name__] = (recipe, parameters, function)
        return function

    return add


def seen(queue, result, **given):
    """Describe the result of a launch, and the events on the arrays that it was given."""
    event, outputs = result
    event.wait()
    queue.finish()
    items = outputs.items() if isinstance(outputs, dict) else enumerate(outputs)
    found = {"event": type(event).__name__, "container": type(outputs).__name__}
    found["outputs"] = {str(name): _array(queue, value, event, given) for name, value in items}
    arrays = {name: one for name, one in given.items() if isinstance(one, cl_array.Array)}
    return {**found, "events": {name: _events(one, event) for name, one in arrays.items()}}


def _array(queue, value, event, given):
    host = value.get(queue) if isinstance(value, cl_array.Array) else value
    return {
        "type": f"{type(value).__module__}.{type(value).__name__}",
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "strides": list(value.strides),
        "offset": getattr(value, "offset", 0),
        "values": repr(host.tolist()),
        "is": sorted(name for name, other in given.items() if other is value),
        "events": _events(value, event),
    }


def _events(value, event):
    events = getattr(value, "events", [])
    return [len(events), event in events]


def error_of(function):
    """Describe the error that `function` raises; its classes by name, most special first."""
    try:
        function()
    except Exception as error:
        # A unit is called by its own name, a recipe's kernel by that of the recipe.
        message = re.sub(r"^kernel '\w+': ", "", str(error))
        return {"classes": [one.__name__ for one in type(error).__mro__[:-2]], "message": message}
    return None


def host(n, dtype=np.float32):
    """Return 1, 2, 3, ... on the host."""
    return (np.arange(n) + 1).astype(dtype)


def dev(queue, n, dtype=np.float32):
    """Return 1, 2, 3, ... on the device, without an event."""
    array = cl_array.to_device(queue, host(n, dtype))
    queue.finish()
    return array


def vector(statement, name, dtype=np.float32, more=(), **keywords):
    """Return a unit that makes y of x, element by element."""
    arguments = [lp.GlobalArg("x,y", dtype, shape="n"), *more, lp.ValueArg("n", np.int32)]
    return lp.make_kernel("{[i]: 0<=i<n}", statement, arguments, name=name, **keywords)


# {{{ numpy, device arrays, allocators, events


@kcl.kernel(pure=True, version="1")
def scale(options=(), events=True):
    """y = a*x + 1, all dtypes known."""
    knl = vector("y[i] = a*x[i] + 1", "scale", more=[lp.ValueArg("a", np.float32)])
    if options:
        knl = lp.set_options(knl, **dict.fromkeys(options, True))
    return knl if events else lp.set_options(knl, cl_exec_manage_array_events=False)


@case(scale)
def numpy_in_and_out(launch, queue):
    x = host(5)
    return seen(queue, launch(queue, x=x, a=2), x=x)


@case(scale)
def device_in_and_out(launch, queue):
    x = dev(queue, 5)
    return seen(queue, launch(queue, x=x, a=2), x=x)


@case(scale)
def events_to_wait_for(launch, queue):
    gate = cl.UserEvent(queue.context)
    waiting = [gate]
    x, y = dev(queue, 5), dev(queue, 5)
    event, _outputs = launch(queue, x=x, y=y, a=2, wait_for=waiting)
    queue.flush()
    before = event.command_execution_status == cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    again = launch(queue, x=x, y=y, a=3, wait_for=[])
    return [before, y.get().tolist(), len(waiting), seen(queue, again, x=x, y=y)]


@case(scale, options=("skip_arg_checks",))
def skip_arg_checks(launch, queue):
    x = dev(queue, 5)
    return [seen(queue, launch(queue, x=x, a=2, **size), x=x) for size in ({}, {"n": 3})]


# }}}

# {{{ scalars and dtypes


@case(scale)
def scalars_of_every_type(launch, queue):
    given = [{"a": a} for a in (2, 2.5, True, np.float32(2.5), np.float64(2.5), np.int64(2))]
    given += [{"a": np.array(2.5, np.float32)}]
    given += [{"a": 2, "n": n} for n in (5, np.int32(5), np.int64(5))]
    return [seen(queue, launch(queue, x=host(5), **one)) for one in given]


@kcl.kernel(pure=True, version="1")
def typed(dtype=np.float32):
    """y = a*x + b[0], one dtype."""
    more = [lp.GlobalArg("b", dtype, shape=(1,)), lp.ValueArg("a", dtype)]
    return vector("y[i] = a*x[i] + b[0]", "typed", dtype, more)


def _typed(launch, queue, dtype, scalars):
    x, b = host(4, dtype), host(1, dtype)
    if np.dtype(dtype).kind == "c":
        x, b = x * dtype(1 + 2j), b * dtype(3 - 1j)
    found = [seen(queue, launch(queue, x=x, b=b, a=a)) for a in scalars]
    x, b = (cl_array.to_device(queue, array) for array in (x, b))
    return [*found, seen(queue, launch(queue, x=x, b=b, a=scalars[0]), x=x, b=b)]


TYPED = {
    np.complex64: [2, 1j, 2 - 1j, np.complex64(1 + 1j), np.float32(2), np.complex128(1j)],
    np.complex128: [2, 1j, np.complex64(1 + 1j), np.complex128(1j)],
    np.float64: [2, 0.1, np.float32(0.1), np.float64(0.1)],
    np.int8: [2, np.int8(-3)],
    np.int64: [2, -(2**40), np.int64(2**40), np.int32(7)],
    np.uint16: [2, np.uint16(60000)],
}
for one, scalars in TYPED.items():
    function = functools.partial(_typed, dtype=one, scalars=scalars)
    CASES[one.__name__] = (typed, {"dtype": one}, function)


@kcl.kernel(pure=True, version="1")
def opened(name="opened"):
    """y = a*x, every dtype left open; under a name, so that each case begins without an entry."""
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", name=name)


@case(opened)
def open_dtypes(launch, queue):
    found = []
    for dtype in (np.float32, np.float64, np.int32):
        for a in (dtype(2), np.float64(2)):
            found.append(seen(queue, launch(queue, x=host(3, dtype), a=a)))
    return found


@case(opened)
def open_scalars_without_dtype(launch, queue):
    """A Python scalar decides nothing: the executor says what it cannot infer."""
    return error_of(lambda: launch(queue, x=host(3), a=2))


@case(opened, name="sizes")
def open_sizes_given_or_not(launch, queue):
    x, a = host(3), np.float32(2)
    sizes = [{}, {"n": 3}, {"n": np.int32(3)}, {"n": None}]
    return [seen(queue, launch(queue, x=x, a=a, **size)) for size in sizes]


@case(opened, name="outputs")
def open_outputs_given_or_not(launch, queue):
    x, a = dev(queue, 3), np.float32(2)
    found = [seen(queue, launch(queue, x=x, a=a), x=x)]
    y = dev(queue, 3)
    found.append(seen(queue, launch(queue, x=x, a=a, y=y), x=x, y=y))
    found.append(seen(queue, launch(queue, x=x, a=a, y=None), x=x))
    y = np.zeros(3, np.float32)
    return [*found, seen(queue, launch(queue, x=x, a=a, y=y), x=x, y=y)]


@case(opened, name="another")
def open_output_of_another_dtype(launch, queue):
    x, a = host(3), np.float32(2.5)
    found = [seen(queue, launch(queue, x=x, a=a, y=np.zeros(3, np.float64)))]
    found.append(seen(queue, launch(queue, x=x, a=a)))
    found.append(seen(queue, launch(queue, x=x, a=a, y=np.zeros(3, np.float32))))
    return [*found, seen(queue, launch(queue, x=x, a=a, y=np.zeros(3, np.int32)))]


@kcl.kernel(pure=True, version="1")
def half_open():
    """x is known, c is not; z follows from both."""
    arguments = [lp.GlobalArg("x", np.float64, shape="n"), ...]
    return lp.make_kernel("{[i]: 0<=i<n}", "z[i] = x[i] + c[i]", arguments, name="half_open")


@case(half_open)
def partly_open_dtypes(launch, queue):
    x = host(3, np.float64)
    dtypes = (np.float32, np.int32, np.complex64)
    return [seen(queue, launch(queue, x=x, c=host(3, dtype))) for dtype in dtypes]


# }}}

# {{{ layouts


@kcl.kernel(pure=True, version="1")
def strided():
    """y = 2 x with strides found from the arrays."""
    layout = {"shape": "n,m", "dim_tags": "stride:auto,stride:auto"}
    x = lp.GlobalArg("x", np.float32, offset=lp.auto, **layout)
    arguments = [x, lp.GlobalArg("y", np.float32, **layout), lp.ValueArg("n,m", np.int32)]
    domain = "{[i,j]: 0<=i<n and 0<=j<m}"
    return lp.make_kernel(domain, "y[i,j] = 2*x[i,j]", arguments, name="strided")


@case(strided)
def automatic_strides(launch, queue):
    found = [seen(queue, launch(queue, x=host(6).reshape(2, 3)))]
    whole = cl_array.to_device(queue, host(24).reshape(4, 6))
    for x in (whole, whole[1:3], whole[1:3, 2:5], whole[:, 1:2]):
        found.append(seen(queue, launch(queue, x=x), x=x))
    y = cl_array.Array(queue, (4, 6), np.float32, order="F")
    return [*found, seen(queue, launch(queue, x=whole, y=y), x=whole, y=y)]


@kcl.kernel(pure=True, version="1")
def separated(dtype=np.float32):
    """Planes of an array are arguments of their own."""
    arguments = [lp.GlobalArg("x,y", dtype, shape=(2, "n"), dim_tags="sep,C"), ...]
    domain, text = "{[i,k]: 0<=i<n and 0<=k<2}", "y[k,i] = 2*x[k,i] {inames=i:k}"
    knl = lp.make_kernel(domain, text, arguments, name="separated")
    return lp.tag_inames(knl, "k:unr")


def _planes(arrays):
    packed = np.empty(len(arrays), dtype=object)
    packed[:] = arrays
    return packed


@case(separated)
def object_arrays(launch, queue):
    x = _planes([dev(queue, 3), dev(queue, 3)])
    found = [seen(queue, launch(queue, x=x, n=3))]
    y = _planes([dev(queue, 3), dev(queue, 3)])
    found.append(seen(queue, launch(queue, x=x, y=y, n=3), y0=y[0], y1=y[1]))
    return [*found, seen(queue, launch(queue, x=_planes([host(3), host(3)]), n=3))]


@case(typed)
def zero_size(launch, queue):
    empty = cl_array.Array(queue, (0,), np.float32)
    return [
        error_of(lambda: launch(queue, x=np.zeros(0, np.float32), b=host(1), a=2)),
        error_of(lambda: launch(queue, x=empty, b=host(1), a=2)),
        error_of(lambda: launch(queue, x=empty, y=empty, b=dev(queue, 1), a=2)),
    ]


# }}}

# {{{ programs


@kcl.kernel(pure=True, version="1")
def two_steps():
    """Two device kernels with a temporary in global memory between them."""
    knl = lp.make_kernel(
        "{[i,ii,j,jj]: 0<=i,ii,j,jj<n}",
        """
        for i
            t[i] = 2*x[i] {id=first}
        end
        ... gbarrier {id=barrier, dep=first}
        for j
            y[j] = t[n-1-j] + 1 {id=second, dep=barrier}
        end
        """,
        [
            lp.GlobalArg("x,y", np.float32, shape="n"),
            lp.TemporaryVariable("t", np.float32, shape="n", address_space=lp.AddressSpace.GLOBAL),
            lp.ValueArg("n", np.int32),
        ],
        name="two_steps",
        seq_dependencies=True,
        assumptions="n>=1",
    )
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")


@case(two_steps)
def several_device_kernels(launch, queue):
    sizes = []

    def allocator(size):
        sizes.append(size)
        return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)

    x = dev(queue, 9)
    found = [seen(queue, launch(queue, x=host(9))), seen(queue, launch(queue, x=x), x=x)]
    return [*found, seen(queue, launch(queue, x=x, allocator=allocator), x=x), sizes]


@kcl.kernel(pure=True, version="1")
def points():
    """A structure that the recipe registers."""
    dtype = np.dtype([("mass", np.float64), ("count", np.int32)], align=True)
    cl_tools.get_or_register_dtype("kcl_case_point", dtype)
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        "y[i] = p[i].mass*p[i].count",
        [lp.GlobalArg("p", dtype, shape="n"), lp.GlobalArg("y", np.float64, shape="n"), ...],
        name="points",
        preambles=[("00_point", "typedef struct { double mass; int count; } kcl_case_point;")],
    )


@case(points)
def structures(launch, queue):
    dtype = np.dtype([("mass", np.float64), ("count", np.int32)], align=True)
    p = np.zeros(3, dtype)
    p["mass"], p["count"] = [1, 2, 3], [3, 2, 1]
    there = cl_array.to_device(queue, p)
    return [seen(queue, launch(queue, p=points)) for points in (p, there)]


@kcl.kernel(pure=True, version="1")
def called():
    """A loopy function called by the entry point."""
    inner = lp.make_function("{[j]: 0<=j<4}", "b[j] = 2*a[j]", name="double_it")
    outer = lp.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<4}",
        "[j]: y[i,j] = double_it([j]: x[i,j])",
        [lp.GlobalArg("x,y", np.float32, shape="n,4"), lp.ValueArg("n", np.int32)],
        name="called",
    )
    return lp.merge([outer, inner])


# }}}

# {{{ errors


@case(opened, name="first")
def errors_of_a_first_open_call(launch, queue):
    x, a = host(3), np.float32(2)
    bad = [
        {"x": x, "a": a, "n": 4},
        {"x": x.reshape(1, 3), "a": a},
        {"x": x, "a": a, "y": np.zeros(4, np.float32)},
    ]
    found = [error_of(lambda call=call: launch(queue, **call)) for call in bad]
    return [*found, seen(queue, launch(queue, x=x, a=a))]


@case(separated)
def errors_of_object_arrays(launch, queue):
    x = _planes([dev(queue, 3), dev(queue, 3)])
    short = _planes([dev(queue, 2), dev(queue, 3)])
    bad = ({"x": short, "n": 3}, {"x": _planes([x[0]]), "n": 3}, {"n": 3}, {})
    launch(queue, x=x, n=3)[0].wait()
    return [error_of(lambda call=call: launch(queue, **call)) for call in bad]


# }}}


def main(arguments) -> None:
    """Run every case; arguments: platform name, "cold" or "warm". Prints JSON.

    Warm, each is run three times more on one Kernel and one queue, where every call is a hot one.
    """
    platform_name, mode = arguments
    if mode == "warm":
        forbid.compilation()
        allowed = forbid.loopy()
    context, looks, found = queue_on(platform_name).context, [], {}
    kcl.add_hook(lambda one: looks.append([one.layer, one.kernel, one.outcome, one.reason]))
    # Cases whose errors are loopy's own come last: to raise them kcl may import loopy.
    for name in sorted(CASES, key=lambda name: name in LOOPYS_OWN):
        if mode == "warm" and name in LOOPYS_OWN:
            allowed()
        found[name] = {}
        for by in ("loopy", "kcl") if mode == "cold" else ("kcl",):
            looks.clear()
            found[name][by] = _outcome(by, CASES[name], context)
        found[name]["looks"] = list(looks)
        if mode == "warm":
            found[name]["hot"], found[name]["played"] = _hot(CASES[name], context)
    if mode == "cold":
        from kcl.base import settings
        from kcl.drivers.pocl import client

        found["idle"] = client.idle(settings.folder("kcl"), 120.0)
    print(json.dumps(found))


LOOPYS_OWN = ("errors_of_object_arrays", "open_scalars_without_dtype")


def _outcome(by, one, context, queue=None):
    import traceback

    recipe, parameters, function = one
    queue = queue or cl.CommandQueue(context)
    try:
        if by != "loopy":
            return function(recipe(**parameters), queue)
        with lp.CacheMode(False):
            return function(recipe.function(**parameters).executor(context), queue)
    except BaseException as error:
        return {"failed": type(error).__name__, "traceback": traceback.format_exc()}


def _hot(one, context):
    """Run a case three times on one Kernel and one queue: (the last outcome, how many kinds of calls were played)."""
    from kcl import launch
    from kcl.line import bindings_of

    kernel, queue, usual = one[0](**one[1]), cl.CommandQueue(context), launch.HOT
    launch.HOT = 0
    try:
        for _ in range(3):
            outcome = _outcome("hot", (lambda: kernel, {}, one[2]), context, queue)
    finally:
        launch.HOT = usual
    launchers = bindings_of(queue).launchers.values()
    plays = [play for launcher in launchers for play in launcher.plays.values()]
    return outcome, sum(play is not None for play in plays)


if __name__ == "__main__":
    main(sys.argv[1:])
