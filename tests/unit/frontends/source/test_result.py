"""kcl.frontends.source.result: the invoker that is made from a Source."""

import ast
import functools
import pathlib
import types

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.tools as cl_tools
import pytest
from hot_calls import launcher_on
from pyopencl import cltypes

import kcl
from kcl import launch
from kcl.base import settings
from kcl.cache import layers
from kcl.code import made_ready
from kcl.drivers.pocl import client
from kcl.frontends.source.result import SourceUnit

pytestmark = pytest.mark.slow_platforms

POINT = np.dtype([("x", np.float32), ("count", np.int32), ("mass", np.float64)], align=True)


@kcl.kernel
def affine(local=None):
    """y = a*x + b[0], y is allocated, n is found."""
    return kcl.Source(
        """
        kernel void affine(global const float *x, global float *y, global const float *b, float a, int n)
        {
            int i = get_global_id(0);
            if (i < n) y[i] = a*x[i] + b[0];
        }
        """,
        entry="affine",
        arguments=[
            kcl.Array("x", np.float32, "(n,)"),
            kcl.Array("y", np.float32, "x.shape", "out"),
            kcl.Array("b", np.float32, "(1,)"),
            kcl.Scalar("a", np.float32),
            kcl.Scalar("n", np.int32),
        ],
        global_size="((n + 3)//4*4,)",
        local_size=local,
    )


ONE = np.ones(1, np.float32)
GIVEN = {"x": np.ones(4, np.float32), "b": ONE, "a": 2}  # for affine: y is four times 3


@kcl.kernel
def transposed():
    """A transposition in tiles of local memory, two-dimensional."""
    return kcl.Source(
        """
        kernel void transposed(global const float *x, global float *y, int n, int m, local float *tile)
        {
            int i = get_global_id(1), j = get_global_id(0), li = get_local_id(1), lj = get_local_id(0);
            tile[2*li + lj] = x[m*i + j];
            barrier(CLK_LOCAL_MEM_FENCE);
            y[n*(2*get_group_id(0) + li) + 2*get_group_id(1) + lj] = tile[2*lj + li];
        }
        """,
        entry="transposed",
        arguments=[
            kcl.Array("x", np.float32, "(n, m)"),
            kcl.Array("y", np.float32, "(m, n)", "out"),
            kcl.Scalar("n", np.int32),
            kcl.Scalar("m", np.int32),
            kcl.Local("tile", np.float32, "2*2"),
        ],
        global_size="(m, n)",
        local_size="(2, 2)",
    )


@kcl.kernel
def structured():
    """Structures by value and in arrays, a complex number and a vector."""
    return kcl.Source(
        """
        typedef struct { float x; int count; double mass; } point;
        kernel void structured(global point *p, point q, float2 z, global float4 *v, float4 w)
        {
            p[0].x += q.x; p[0].count += q.count; p[0].mass += q.mass + z.x + 10*z.y;
            v[0] += w;
        }
        """,
        entry="structured",
        arguments=[
            kcl.Array("p", POINT, "(1,)", "inout"),
            kcl.Scalar("q", POINT),
            kcl.Scalar("z", np.complex64),
            kcl.Array("v", cltypes.float4, "(1,)", "inout"),
            kcl.Scalar("w", cltypes.float4),
        ],
        global_size="(1,)",
    )


@kcl.kernel
def squares(shape="(n*n,)", size="(n*n,)"):
    """y[i] = i for sizes that are computed."""
    return kcl.Source(
        "kernel void squares(global int *y, uchar n) { y[get_global_id(0)] = get_global_id(0); }",
        entry="squares",
        arguments=[kcl.Array("y", np.int32, shape, "out"), kcl.Scalar("n", np.uint8)],
        global_size=size,
    )


@kcl.kernel
def from_file(path, directories=(), options=()):
    """x += AMOUNT, from a file."""
    return kcl.Source.from_file(
        path,
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(4,)", "inout")],
        global_size="(4,)",
        include_dirs=list(directories),
        build_options=list(options),
    )


@kcl.kernel
def counted(count):
    """A kernel of two parameters that is declared with any number of them."""
    arguments = [
        kcl.Array("x", np.float32, "(1,)", "inout"),
        kcl.Scalar("a", np.float32),
        kcl.Scalar("b", np.float32),
    ]
    code = "kernel void f(global float *x, float a) { x[0] += a; }"
    return kcl.Source(code, entry="f", arguments=arguments[:count], global_size="(1,)")


@pytest.mark.parametrize("count", [1, 3])
def test_number_of_arguments(queue, count):
    given = dict(zip("xab", (ONE.copy(), 1, 2)[:count], strict=False))
    words = rf"'f' declares {count} argument.*kernel has 2; list an Array"
    with pytest.raises(kcl.RecipeError, match=words):
        counted(count)(queue, **given)


class TestInvoker:
    """The text that is stored: it needs nothing of kcl, so that another kcl can execute it."""

    @pytest.mark.parametrize("recipe", [affine, structured, squares, functools.partial(counted, 1)])
    def test_imports_nothing_of_kcl(self, recipe):
        kernel = recipe()
        source = kernel._line.generate._result._call.function(**kernel._chooser.parameters)
        nodes = ast.walk(ast.parse(SourceUnit(source).generate("f", {}).invoker.source))
        lines = [ast.unparse(one) for one in nodes if isinstance(one, (ast.Import, ast.ImportFrom))]
        modules = {line.split()[1].partition(".")[0] for line in lines}
        assert modules == {"numpy", "operator", "pyopencl"}

    def test_alone(self, queue):
        """Where nothing of kcl is at hand a wrong number of arguments is a TypeError with the same words."""
        generated = SourceUnit(counted.function(1)).generate("f", {})
        kernels = cl.Program(queue.context, generated.text.source).build()
        with pytest.raises(TypeError, match="kernel has 2; list an Array") as raised:
            made_ready(generated).invoke(types.SimpleNamespace(f=kernels.f), queue, x=ONE.copy())
        assert type(raised.value) is TypeError


class TestLaunch:
    def test_numpy(self, queue):
        """Host arrays in, a host array out; the size is found, also where it is no multiple of a work group."""
        event, outputs = affine()(queue, x=np.arange(5, dtype=np.float32), b=ONE, a=2)
        assert isinstance(event, cl.Event)
        assert type(outputs) is tuple
        assert outputs[0].tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]

    def test_device_arrays(self, queue):
        """Device arrays in, a device array out that carries the event; `out_host` decides otherwise."""
        x, b = (cl_array.to_device(queue, GIVEN[name]) for name in "xb")
        event, (y,) = affine()(queue, x=x, b=b, a=2)
        assert isinstance(y, cl_array.Array)
        assert event in y.events
        assert y.get().tolist() == [3.0] * 4
        _event, (host,) = affine()(queue, x=x, b=b, a=2, out_host=True)
        assert isinstance(host, np.ndarray)
        _event, (device,) = affine()(queue, **GIVEN, out_host=False)
        assert isinstance(device, cl_array.Array)

    @pytest.mark.parametrize("place", ["host", "device"])
    def test_given_outputs(self, queue, place):
        """An output that is given is the one that comes back."""
        on_device = {name: cl_array.to_device(queue, GIVEN[name]) for name in "xb"}
        given = GIVEN if place == "host" else {**GIVEN, **on_device}
        y = np.zeros(4, np.float32) if place == "host" else cl_array.zeros(queue, 4, np.float32)
        _event, (out,) = affine()(queue, **given, y=y)
        assert out is y
        assert (y if place == "host" else y.get()).tolist() == [3.0] * 4

    def test_allocator_and_events(self, queue):
        """Outputs come from the allocator; the launch waits for what it is given and for what arrays carry."""
        pool = cl_tools.MemoryPool(cl_tools.ImmediateAllocator(queue))
        gates = [cl.UserEvent(queue.context) for _ in range(2)]
        x, b = (cl_array.to_device(queue, np.ones(n, np.float32)) for n in (4, 1))
        queue.finish()
        x.add_event(gates[0])
        wait_for = gates[1:]
        event, (y,) = affine()(queue, x=x, b=b, a=2, allocator=pool, wait_for=wait_for)
        assert y.allocator is pool
        for gate in gates:
            queue.flush()
            assert event.command_execution_status != cl.command_execution_status.COMPLETE
            gate.set_status(cl.command_execution_status.COMPLETE)
        event.wait()
        assert y.get().tolist() == [3.0] * 4
        assert wait_for == gates[1:]

    @pytest.mark.parametrize("local", [None, "(4,)", "(2,)"])
    def test_local_size(self, queue, local):
        """The local size is given by an expression, or left to the driver."""
        _event, (y,) = affine(local)(queue, **GIVEN)
        assert y.tolist() == [3.0] * 4

    def test_two_dimensions_and_local_memory(self, queue):
        """Sizes of two dimensions; local memory of a computed size; both scalars found from a shape."""
        x = np.arange(24, dtype=np.float32).reshape(4, 6)
        _event, (y,) = transposed()(queue, x=x)
        assert y.tolist() == x.T.tolist()

    def test_structures_complex_numbers_and_vectors(self, queue):
        p, v = np.zeros(1, POINT), np.zeros(1, cltypes.float4)
        q = np.array((1.5, 2, 3.5), POINT)
        for given in (q, q[()], (1.5, 2, 3.5)):
            structured()(queue, p=p, q=given, z=1 + 2j, v=v, w=cltypes.make_float4(1, 2, 3, 4))
        assert p.tolist() == [(4.5, 6, 3 * (3.5 + 21.0))]
        assert [v[0][name] for name in "xyzw"] == [3.0, 6.0, 9.0, 12.0]

    @pytest.mark.parametrize(
        ("shape", "n", "right"),
        [("(n*n,)", np.uint8(20), range(400)), ("(n*n,)", 0, ()), ("n", 3, range(3))],
        ids=["do not wrap around", "of nothing", "a number for a tuple"],
    )
    def test_sizes(self, queue, shape, n, right):
        """A size is computed in whole numbers; zero launches nothing; of one dimension it may be a number."""
        _event, (y,) = squares(shape, shape)(queue, n=n, out_host=True)
        assert y.tolist() == [*right]


class TestErrors:
    """The same kinds as loopy's invokers, at a first call and later."""

    @pytest.mark.parametrize("number", [np.int64(2**32 + 3), 2**32 + 3])
    def test_too_large(self, queue, number):
        """A number that the dtype of its argument has no room for is named with it."""
        words = "kernel 'squares': argument 'n' is a whole number of dtype uint8, not the int.*4294967299"
        with pytest.raises(OverflowError, match=words):
            squares("4", "4")(queue, n=number)

    def test_played(self, queue):
        """A kernel that is called often refuses a float for a whole number, alone or bound."""
        y, kernel = cl_array.zeros(queue, 4, np.int32), squares("4", "4")
        for number in range(2 * launch.HOT):
            kernel(queue, y=y, n=number)
        assert launcher_on(queue).hot is not None
        for launches in (lambda **given: kernel(queue, **given), kernel.bind(queue, y=y, n=3)):
            words = "kernel 'squares': argument 'n' is a whole number of dtype uint8, not"
            with pytest.raises(TypeError, match=words):
                launches(y=y, n=3.9)

    @pytest.mark.parametrize(
        "given",
        [
            3,
            {"x": 1.5, "count": 2, "mass": 3.5},
            [1.5, 2, 3.5],
            (1.5, 2),
            (1.5, 2.7, 3.5),
            np.zeros(2, POINT),
            np.zeros((), [("count", np.int32), ("x", np.float32), ("mass", np.float64)])[()],
        ],
        ids=["number", "dict", "list", "short", "fraction", "two", "other fields"],
    )
    def test_structures(self, queue, given):
        """What is no tuple of its fields and no element of its dtype is refused in the place of a structure."""
        words = r"'structured': argument 'q' is one structure: a tuple of 3 values \(x, count, mass\) or one element of"
        p, v, w = np.zeros(1, POINT), np.zeros(1, cltypes.float4), cltypes.make_float4(1, 2, 3, 4)
        with pytest.raises(TypeError, match=words):
            structured()(queue, p=p, q=given, z=1 + 2j, v=v, w=w)

    def test_shape_of_itself(self, queue):
        kernel = squares("y.shape", "y.shape")
        with pytest.raises(RuntimeError, match=r"'y'.*must be supplied"):
            kernel(queue, n=2)
        _event, (y,) = kernel(queue, n=2, y=np.zeros(3, np.int32))
        assert y.tolist() == [0, 1, 2]


class TestBuffers:
    """Buffers in the place of arrays whose shapes the scalars say."""

    def test_in_and_out(self, queue):
        """A kernel reads a buffer and writes into one, beside arrays of both kinds."""
        x = cl_array.to_device(queue, np.arange(4, dtype=np.float32))
        y = cl_array.zeros(queue, 4, np.float32)
        for _ in range(3):
            given = {"x": x.base_data, "b": ONE, "a": 2, "n": 4}
            _event, (found,) = affine()(queue, y=y.base_data, **given)
            queue.finish()
            assert isinstance(found, cl_array.Array)
            assert y.get().tolist() == [1, 3, 5, 7]
            y.fill(0)

    def test_without_shape(self, queue):
        """A buffer whose shape a declaration needs is refused with the cure."""

        code = "kernel void copied(global float *y, global float *x) { y[get_global_id(0)] = x[get_global_id(0)]; }"

        @kcl.kernel
        def copied(shape):
            arguments = [
                kcl.Array("y", np.float32, shape, "out"),
                kcl.Array("x", np.float32, shape),
            ]
            return kcl.Source(code, entry="copied", arguments=arguments, global_size="x.shape[0]")

        x = cl_array.to_device(queue, np.arange(4, dtype=np.float32))
        for shape in ("(x.shape[0],)", "x.size"):
            _event, (y,) = copied(shape)(queue, x=x)
            assert y.get().tolist() == [0, 1, 2, 3]
            for given in ({}, {"y": y}):
                says = "kernel 'copied': argument 'x' is a Buffer, and the declaration of 'y' needs its shape: give a"
                words = rf"{says} pyopencl.array.Array, or declare the size as a scalar"
                with pytest.raises(TypeError, match=words):
                    copied(shape)(queue, x=x.base_data, **given)


class TestKernels:
    """Other kernels of the text of a Source."""

    def test_same_text(self, queue):
        """It takes over all that is not given anew, and is built once."""
        text = "".join(
            f"kernel void {name}(global float *x) {{ x[get_global_id(0)] = VALUE * {number}; }}\n"
            for name, number in (("one", 1), ("two", 2), ("third", 0.5))
        )
        x = kcl.Array("x", np.float32, "(4,)", "out")
        more = {"global_size": "(4,)", "build_options": ["-DVALUE=3"]}
        one = kcl.Source(text, entry="one", arguments=[x], **more)
        sizes = {"global_size": "(2,)", "local_size": "(2,)"}
        made = {"one": one, "two": one.kernel("two"), "third": one.kernel("third", **sizes)}
        chosen = kcl.kernel(lambda name: made[name])
        right = {"one": [3] * 4, "two": [6] * 4, "third": [1.5, 1.5, 0, 0]}
        for name in made:
            _event, (found,) = chosen(name)(queue, x=np.zeros(4, np.float32))
            assert found.tolist() == right[name]
        assert kcl.stats()["binary"]["misses"] == 1

    def test_sizes_of_other_arguments(self):
        """With other arguments no size is inherited: the sizes are those given there, or else those of the call."""
        text = (
            "kernel void one(global int *x, int n) { x[get_global_id(0)] = n; }"
            "kernel void two(global int *sum, int n) { sum[0] += n; }"
        )
        n = kcl.Scalar("n", np.int32)
        first, arguments = (
            [kcl.Array("x", np.int32, "n", "out"), n],
            [kcl.Array("sum", np.int32, 1), n],
        )
        sizes = {"global_size": "round_up(n, 4)", "local_size": 4}
        one = kcl.Source(text, entry="one", arguments=first, **sizes)
        for given in ({}, {"global_size": 1}, {"global_size": 2, "local_size": 2}):
            taken = one.kernel("two", arguments=arguments, **given)
            own = kcl.Source(text, entry="two", arguments=arguments, **given)
            assert SourceUnit(taken).identity() == SourceUnit(own).identity()
        inherited = one.kernel("two")
        assert (inherited.global_size, inherited.local_size) == ("round_up(n, 4)", "4")


def x_declared(dtype=np.float32, direction="inout"):
    return kcl.Array("x", dtype, "(4,)", direction)


LOCAL = kcl.Local("t", np.float32, "4")
OTHERS = [
    {"code": "kernel void f(global float *x) {}"},
    {"entry": "g"},
    {"global_size": "(8,)"},
    {"local_size": "(2,)"},
    {"build_options": ["-DA"]},
    {"arguments": [x_declared(direction="out"), LOCAL]},
    {"arguments": [x_declared(np.int32), LOCAL]},
    {"arguments": [x_declared(), kcl.Local("t", np.float32, "8")]},
    {"arguments": [kcl.Image("x")]},
    {"arguments": [kcl.Image("x", "image3d_t")]},
    {"arguments": [kcl.Image("x", direction="out")]},
    {"arguments": [kcl.Sampler("x")]},
]


def test_identity():
    """Everything that is declared counts."""
    code = "kernel void f(global float *x, local float *t) {}"
    plain = {"code": code, "entry": "f", "global_size": "(4,)", "arguments": [x_declared(), LOCAL]}
    identities = [SourceUnit(kcl.Source(**plain)).identity() for _ in range(2)]
    assert identities[0] == identities[1]
    others = [SourceUnit(kcl.Source(**{**plain, **other})).identity() for other in OTHERS]
    assert len({identities[0], *others}) == len(others) + 1


class TestFiles:
    """Files that are read anew by each Kernel, in one process and on one queue, beside what is bound there."""

    CODE = '#include "amount.h"\nkernel void f(global int *x) { x[get_global_id(0)] += AMOUNT; }\n'

    def write(self, directory, amount=1):
        for name, text in (("f.cl", self.CODE), ("inc/amount.h", f"#define AMOUNT {amount}\n")):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        return {"path": str(directory / "f.cl"), "directories": (str(directory / "inc"),)}

    def computed(self, queue, **parameters):
        _event, (x,) = from_file(**parameters)(queue, x=np.zeros(4, np.int32))
        assert client.idle(settings.folder("kcl"), 60)
        return x.tolist()

    @pytest.mark.parametrize("kind", [str, pathlib.Path])
    def test_changed(self, queue, looks, tmp_path, kind):
        """A header is found in the include directories; the next Kernel sees a change of it, and one of the file."""
        self.write(tmp_path)
        parameters = {"path": kind(tmp_path / "f.cl"), "directories": (kind(tmp_path / "inc"),)}
        assert self.computed(queue, **parameters) == [1] * 4
        self.write(tmp_path, amount=2)
        assert self.computed(queue, **parameters) == [2] * 4
        (tmp_path / "f.cl").write_text(self.CODE.replace("+=", "-="))
        layers.reset()
        looks.clear()
        assert self.computed(queue, **parameters) == [-2] * 4
        assert (looks[0].layer, looks[0].outcome) == ("generator", "miss")
        assert looks[0].reason == "not in the cache"

    def test_missing_file(self, queue, tmp_path):
        """A file that is not there is the recipe's own FileNotFoundError, and is not remembered."""
        path = tmp_path / "f.cl"
        with pytest.raises(FileNotFoundError):
            self.computed(queue, path=str(path))
        self.write(tmp_path)
        assert self.computed(queue, path=str(path), directories=(str(tmp_path / "inc"),)) == [1] * 4


WITHOUT_LOOPY = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import json, numpy as np, pyopencl as cl
    import forbid
    forbid.loopy()
    import test_result as cases
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    try:
        cases.affine()(queue, a=2)
    except RuntimeError as error:
        assert "must be supplied" in str(error)
    _event, (y,) = cases.affine()(queue, x=np.ones(4, np.float32), b=np.ones(1, np.float32), a=2)
    guests = [name for name in sys.modules if name.startswith("kcl.frontends.loopy")]
    print(json.dumps([y.tolist(), guests]))
"""


def test_no_loopy(child):
    """A Source needs no loopy and nothing of its front end, not even cold, and not for its errors."""
    said = child.json(WITHOUT_LOOPY, str(pathlib.Path(__file__).parent))
    assert said == [[3.0] * 4, []]
