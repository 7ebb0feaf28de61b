"""Calls made up at random: kernels, arguments good and bad, and what came of a call, to be compared."""

import random
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

lp = kcl.lazy("loopy")
DTYPES = ("float32", "float64", "int32", "complex64")
SIZES = (1, 2, 3, 5, 8)
LAYOUTS = ("C", "F", "shifted", "spread", "backwards")


class Form(NamedTuple):
    """A kernel: dtypes of inputs and scalars, axes, and what is special about it."""

    inputs: tuple[str, ...]
    scalars: tuple[str, ...]
    axes: int
    outputs: int
    layout: str  # "plain", or "auto": strides and offsets are found from the arrays
    group: int
    longer: bool  # an output has a length in which a scalar k takes part
    two_steps: bool
    in_place: bool
    options: tuple[tuple[str, bool], ...]


def form(draw: random.Random) -> Form:
    """Make a kernel up."""
    options = [(name, True) for name in ("return_dict", "no_numpy") if draw.random() < 0.2]
    if draw.random() < 0.2:
        options.append(("cl_exec_manage_array_events", False))
    axes = draw.choice((1, 1, 2))
    return Form(
        inputs=tuple(draw.choice(DTYPES) for _ in range(draw.randint(1, 3))),
        scalars=tuple(draw.choice(DTYPES) for _ in range(draw.randint(0, 3))),
        axes=axes,
        outputs=draw.randint(1, 2),
        layout=draw.choice(("plain", "plain", "auto")),
        group=draw.choice((0, 4)),
        longer=draw.random() < 0.4,
        two_steps=draw.random() < 0.2,
        in_place=draw.random() < 0.3,
        options=tuple(options),
    )


@kcl.kernel
def made_up(form):
    """Build the kernel of a form."""
    axes = "ij"[: form.axes]
    names, at = ",".join("nm"[: form.axes]), ",".join(axes)
    terms = [f"x{k}[{at}]" for k in range(len(form.inputs))]
    terms += [f"s{k}" for k in range(len(form.scalars))]
    steps = [f"y{k}[{at}] = {' + '.join(terms)} + {k} {{id=y{k}}}" for k in range(form.outputs)]
    domain = " and ".join(f"0<={axis}<{size}" for axis, size in zip(axes, "nm", strict=False))
    domains = [f"{{[{at}]: {domain}}}"]
    if form.in_place:
        steps.append(f"v[{at}] = 2*v[{at}] + 1 {{id=v}}")
    if form.longer:
        steps.append("z[t] = t {id=z}")
        domains.append("{[t]: 0<=t<n+k}")
    if form.two_steps:
        before = [f"y{k}" for k in range(form.outputs)]
        before += [
            name for name, is_there in (("v", form.in_place), ("z", form.longer)) if is_there
        ]
        steps.append(f"... gbarrier {{id=barrier, dep={':'.join(before)}}}")
        steps.append("w[u] = y0[" + ("u" if form.axes == 1 else "u,0") + "] {id=w, dep=barrier}")
        domains.append("{[u]: 0<=u<n}")
    layout = {"shape": names}
    if form.layout == "auto":
        layout |= {"dim_tags": ",".join(["stride:auto"] * form.axes), "offset": lp.auto}
    wide, only_out = np.complex128, {"is_input": False}
    arguments = [lp.GlobalArg(f"x{k}", np.dtype(d), **layout) for k, d in enumerate(form.inputs)]
    for k in range(form.outputs):
        arguments.append(lp.GlobalArg(f"y{k}", wide, **only_out, **layout))
    if form.in_place:
        arguments.append(lp.GlobalArg("v", np.float64, **layout))
    if form.longer:
        arguments.append(lp.GlobalArg("z", np.int32, shape="n+k", **only_out))
    if form.two_steps:
        arguments.append(lp.GlobalArg("w", wide, shape="n", **only_out))
    arguments += [lp.ValueArg(f"s{k}", np.dtype(d)) for k, d in enumerate(form.scalars)]
    arguments += [lp.ValueArg("k", np.int32)] if form.longer else []
    arguments += [lp.ValueArg(size, np.int32) for size in names.split(",")]
    known = "n>=1" + (" and m>=1" if form.axes == 2 else "") + (" and k>=0" if form.longer else "")
    knl = lp.make_kernel(
        domains, steps, arguments, name="made_up", assumptions=known, lang_version=(2018, 2)
    )
    if form.group and not form.two_steps and not form.longer:
        knl = lp.split_iname(knl, "i", form.group, outer_tag="g.0", inner_tag="l.0")
    return lp.set_options(knl, **dict(form.options)) if form.options else knl


class Given(NamedTuple):
    """An array to be given: where it lies, its dtype, shape and layout, and a number that makes its content."""

    place: str  # "device", "host", "another context"
    dtype: str
    shape: tuple[int, ...]
    layout: str  # "C", "F", "shifted", "spread", "backwards"
    seed: int


class Call(NamedTuple):
    """One call: arguments by name (Given, "same as NAME", or a value), and what is given beside them."""

    arguments: dict[str, Any]
    beside: tuple[str, ...]  # of "allocator", "wait_for", "out_host", "no_out_host"


ODD = (None, "two", [1.0], np.array(2.5), np.array([2.5]), np.longdouble(2.5), 10**400, 2**40, 1j)
ODD += (True, -1, np.nan)
NUMBERS = (1, 2.5, np.float32(1.5), np.float64(2.5), np.int8(3), np.int64(4), np.float16(0.5))
NUMBERS += (np.uint16(7),)


def call(draw: random.Random, form: Form, wild: bool) -> Call:
    """Make up a call; `wild` ones have something wrong or odd, most likely."""
    shape = tuple(draw.choice(SIZES) for _ in range(form.axes))
    layouts = LAYOUTS if form.layout == "auto" else ("C",)

    def array(dtype, shape):
        return Given("device", dtype, shape, draw.choice(layouts), draw.randrange(100))

    arguments: dict[str, Any] = {f"x{k}": array(d, shape) for k, d in enumerate(form.inputs)}
    outputs = {f"y{k}": array("complex128", shape) for k in range(form.outputs)}
    whole = [one for one in NUMBERS if isinstance(one, (int, np.integer))]
    for k, dtype in enumerate(form.scalars):
        arguments[f"s{k}"] = draw.choice(whole if dtype.startswith("int") else NUMBERS)
    if form.in_place:
        arguments["v"] = array("float64", shape)
    if form.longer:
        arguments["k"] = draw.choice((0, 1, 3, np.int32(2)))
        outputs["z"] = Given("device", "int32", (shape[0] + int(arguments["k"]),), "C", 0)
    if form.two_steps:
        outputs["w"] = Given("device", "complex128", shape[:1], "C", 0)
    which = draw.random()
    if which < 0.6:
        arguments |= outputs
    elif which < 0.7:
        arguments |= {name: value for name, value in outputs.items() if draw.random() < 0.5}
    elif which < 0.75:
        arguments |= dict.fromkeys(outputs)
    if draw.random() < 0.2:
        arguments |= dict(zip("nm", shape, strict=False))
    beside: list[str] = []
    if wild:
        for _ in range(draw.choice((1, 1, 2))):
            _spoil(draw, arguments, beside, shape)
    return Call(arguments, tuple(beside))


def twin(call: Call) -> Call:
    """Return the call with another length of the longer output, and all else the same."""
    arguments = dict(call.arguments)
    arguments["k"] = type(call.arguments["k"])(call.arguments["k"] + 1)
    if isinstance(arguments.get("z"), Given):
        arguments["z"] = arguments["z"]._replace(shape=(arguments["z"].shape[0] + 1,))
    return call._replace(arguments=arguments)


def _spoil(draw: random.Random, arguments: dict[str, Any], beside: list[str], shape: Any) -> None:
    """Make something of a call wrong, or odd."""
    arrays = [name for name, value in arguments.items() if isinstance(value, Given)]
    scalars = [name for name in arguments if name[0] == "s"]
    of_arrays = ("dtype", "shape", "layout", "place", "same")
    what = draw.choice((*of_arrays, "scalar", "missing", "more", "size", "beside"))
    if what in of_arrays and arrays:
        name = draw.choice(arrays)
        given = arguments[name]
        other = tuple(size + draw.choice((-1, 0, 1)) for size in given.shape)
        shapes = (other, (0,) * len(other), (*other, 1), other[1:])
        places = ("host", "host", "another context")
        arguments[name] = {
            "dtype": given._replace(dtype=draw.choice((*DTYPES, "complex128", "int64"))),
            "shape": given._replace(shape=draw.choice(shapes)),
            "layout": given._replace(layout=draw.choice(LAYOUTS)),
            "place": given._replace(place=draw.choice(places), layout="C"),
            "same": f"same as {draw.choice(arrays)}",
        }[what]
    elif what == "scalar" and scalars:
        arguments[draw.choice(scalars)] = draw.choice(ODD)
    elif what == "missing":
        arguments.pop(draw.choice(list(arguments)))
    elif what == "more":
        arguments["bogus"] = draw.choice((1, None))
    elif what == "size":
        right = (shape[0], np.int64(shape[0]))
        arguments["n"] = draw.choice((*right, shape[0] + 1, float(shape[0]), None, "n", True, -1))
    else:
        beside.append(draw.choice(("allocator", "wait_for", "out_host", "no_out_host")))


class Made:
    """The arguments of a call for one queue, and what is to be seen of them afterwards."""

    def __init__(self, queue: cl.CommandQueue, elsewhere: cl.CommandQueue, call: Call) -> None:
        self.queue, self.elsewhere = queue, elsewhere
        self.memory: dict[str, tuple[cl.CommandQueue | None, Any]] = {}
        self.keywords: dict[str, Any] = {}
        for name, value in call.arguments.items():
            self.keywords[name] = self._array(name, value) if isinstance(value, Given) else value
        for name, value in call.arguments.items():
            if isinstance(value, str) and value.startswith("same as "):
                self.keywords[name] = self.keywords.get(value.removeprefix("same as "))
        self.asked: list[int] = []
        beside = {
            "allocator": ("allocator", self._allocate),
            "wait_for": ("wait_for", [cl.enqueue_marker(queue)]),
            "out_host": ("out_host", True),
            "no_out_host": ("out_host", False),
        }
        self.beside = dict(beside[one] for one in call.beside)

    def _allocate(self, size: int) -> cl.Buffer:
        self.asked.append(size)
        return cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, size)

    def _array(self, name: str, given: Given) -> Any:
        dtype, draw = np.dtype(given.dtype), np.random.default_rng(given.seed)
        count = int(np.prod(given.shape, dtype=int))
        whole = draw.integers(0, 50, 2 * count + 8).astype(dtype)
        if given.place == "host":
            array = whole[:count].reshape(given.shape)
            self.memory[name] = None, array
            return array
        queue = self.queue if given.place == "device" else self.elsewhere
        if min(given.shape, default=1) <= 0:
            return cl_array.Array(queue, tuple(max(size, 0) for size in given.shape), dtype)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(queue.context, flags, hostbuf=whole)
        self.memory[name] = queue, (buffer, np.empty_like(whole))
        strides = np.empty(given.shape, dtype, order="F" if given.layout == "F" else "C").strides
        offset = {"shifted": 2, "backwards": count - 1}.get(given.layout, 0) * dtype.itemsize
        factor = {"spread": 2, "backwards": -1}.get(given.layout, 1)
        place = {"offset": offset, "strides": tuple(factor * stride for stride in strides)}
        return cl_array.Array(queue, given.shape, dtype, data=buffer, **place)

    def contents(self) -> dict[str, str]:
        """Return the bytes of all memory that was given, gaps included."""
        found = {}
        for name, (queue, memory) in self.memory.items():
            host = memory
            if queue is not None:
                buffer, host = memory
                cl.enqueue_copy(queue, host, buffer)
            found[name] = host.tobytes().hex()
        return found


def outcome(made: Made, launch: Any, only_event: bool = False) -> Any:
    """Call and describe what came of it: the error by its kind, or outputs, memory and events."""
    try:
        if only_event:
            event, outputs = launch(**made.keywords), ()
        else:
            event, outputs = launch(made.queue, **made.keywords, **made.beside)
        event.wait()
        made.queue.finish()
    except Exception as error:
        made.queue.finish()
        return {"error": type(error).__name__, "memory": made.contents()}
    items = outputs.items() if isinstance(outputs, dict) else enumerate(outputs)
    seen = {str(name): _output(made, value, event) for name, value in items}
    events = {
        name: (bool(value.events), event in value.events)
        for name, value in made.keywords.items()
        if isinstance(value, cl_array.Array)
    }
    found = {"container": type(outputs).__name__, "outputs": seen, "events": events}
    return {**found, "memory": made.contents(), "asked": made.asked}


def _output(made: Made, value: Any, event: cl.Event) -> Any:
    on_device = isinstance(value, cl_array.Array)
    same = sorted(name for name, given in made.keywords.items() if given is value)
    layout = [str(value.dtype), value.shape, value.strides, value.size, value.nbytes]
    layout.append(type(value).__name__)
    if on_device:
        layout += [value.offset, value.flags.c_contiguous, value.queue is made.queue]
        layout += [type(value.allocator).__name__, value.context == made.queue.context]
    # What was given is compared by its memory.
    content = "" if same else (_memory(made.queue, value) if on_device else value.tobytes()).hex()
    return layout, content, same, on_device and (len(value.events), event in value.events)[1]


def _memory(queue: cl.CommandQueue, array: cl_array.Array) -> bytes:
    # pyopencl copies no array of a shape in floating-point numbers, which loopy allocates where a size is given so.
    if array.base_data is None:
        return b""
    found = np.empty(array.base_data.size, np.uint8)
    cl.enqueue_copy(queue, found, array.base_data)
    return found.tobytes()
