"""kcl.frontends.source.result: the invoker that is made from a Source."""

import ast
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


class TestDeclared:
    """Declarations that OpenCL refuses."""

    @pytest.mark.parametrize("count", [1, 3])
    def test_number_of_arguments(self, queue, count):
        """Another number of arguments than the kernel has is a RecipeError with both numbers and the cure."""
        given = dict(zip("xab", (np.zeros(1, np.float32), 1, 2)[:count], strict=False))
        words = rf"'f' declares {count} argument.*kernel has 2; list an Array"
        with pytest.raises(kcl.RecipeError, match=words):
            counted(count)(queue, **given)


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


class TestInvoker:
    """The text that is stored: it needs nothing of kcl, so that another kcl can execute it."""

    def test_imports_nothing_of_kcl(self):
        """No import, and no name of kcl's modules, stands in the text."""
        for recipe in (affine(), structured(), squares(), counted(1)):
            text = (
                SourceUnit(
                    recipe._line.generate._result._call.function(**recipe._chooser.parameters)
                )
                .generate("f", {})
                .invoker.source
            )
            imported = [
                node
                for node in ast.walk(ast.parse(text))
                if isinstance(node, (ast.Import, ast.ImportFrom))
            ]
            assert {ast.unparse(node).split()[1].partition(".")[0] for node in imported} == {
                "numpy",
                "operator",
                "pyopencl",
            }

    def test_alone(self, queue):
        """Where nothing of kcl is at hand a wrong number of arguments is a TypeError with the same words."""
        generated = SourceUnit(counted.function(1)).generate("f", {})
        kernels = cl.Program(queue.context, generated.text.source).build()
        kernels = types.SimpleNamespace(f=kernels.f)
        with pytest.raises(TypeError, match="kernel has 2; list an Array") as raised:
            made_ready(generated).invoke(kernels, queue, x=np.zeros(1, np.float32))
        assert type(raised.value) is TypeError


class TestLaunch:
    def test_numpy(self, queue):
        """Host arrays in, a host array out; the size is found, also where it is no multiple of a work group."""
        event, outputs = affine()(
            queue, x=np.arange(5, dtype=np.float32), b=np.ones(1, np.float32), a=2
        )
        assert isinstance(event, cl.Event)
        assert type(outputs) is tuple
        assert outputs[0].tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]

    def test_device_arrays(self, queue):
        """Device arrays in, a device array out that carries the event; `out_host` decides otherwise."""
        x, b = (cl_array.to_device(queue, np.arange(1, n, dtype=np.float32)) for n in (5, 2))
        event, (y,) = affine()(queue, x=x, b=b, a=2)
        assert isinstance(y, cl_array.Array)
        assert event in y.events
        assert y.get().tolist() == [3.0, 5.0, 7.0, 9.0]
        _event, (host,) = affine()(queue, x=x, b=b, a=2, out_host=True)
        assert isinstance(host, np.ndarray)
        _event, (device,) = affine()(queue, x=x.get(), b=b.get(), a=2, out_host=False)
        assert isinstance(device, cl_array.Array)

    def test_given_outputs(self, queue):
        """An output that is given is the one that comes back, on host and device."""
        x, b, y = np.ones(4, np.float32), np.ones(1, np.float32), np.zeros(4, np.float32)
        _event, (out,) = affine()(queue, x=x, b=b, a=2, y=y)
        assert out is y
        assert y.tolist() == [3.0] * 4
        y = cl_array.zeros(queue, 4, np.float32)
        _event, (out,) = affine()(
            queue, x=cl_array.to_device(queue, x), b=cl_array.to_device(queue, b), a=2, y=y
        )
        assert out is y
        assert y.get().tolist() == [3.0] * 4

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
        _event, (y,) = affine(local)(queue, x=np.ones(6, np.float32), b=np.ones(1, np.float32), a=2)
        assert y.tolist() == [3.0] * 6

    def test_two_dimensions_and_local_memory(self, queue):
        """Sizes of two dimensions; local memory of a computed size; both scalars found from a shape."""
        x = np.arange(24, dtype=np.float32).reshape(4, 6)
        _event, (y,) = transposed()(queue, x=x)
        assert y.tolist() == x.T.tolist()

    def test_structures_complex_numbers_and_vectors(self, queue):
        """Scalars of structure, complex and vector dtypes are passed by value."""
        p, v = np.zeros(1, POINT), np.zeros(1, cltypes.float4)
        q = np.array((1.5, 2, 3.5), POINT)
        for given in (q, q[()], (1.5, 2, 3.5)):
            structured()(queue, p=p, q=given, z=1 + 2j, v=v, w=cltypes.make_float4(1, 2, 3, 4))
        assert p.tolist() == [(4.5, 6, 3 * (3.5 + 21.0))]
        assert [v[0][name] for name in "xyzw"] == [3.0, 6.0, 9.0, 12.0]

    def test_sizes_do_not_wrap_around(self, queue):
        """A size is computed in whole numbers, not in the small type of the scalar."""
        _event, (y,) = squares()(queue, n=np.uint8(20), out_host=True)
        assert y.tolist() == list(range(400))

    def test_nothing_to_do(self, queue):
        """A global size of zero is a launch of nothing."""
        _event, (y,) = squares()(queue, n=0)
        assert y.shape == (0,)

    def test_one_number_for_a_tuple(self, queue):
        """A size of one dimension may be a number."""
        _event, (y,) = squares("n", "n")(queue, n=3, out_host=True)
        assert y.tolist() == [0, 1, 2]


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
        v = np.zeros(1, cltypes.float4)
        words = r"'structured': argument 'q' is one structure: a tuple of 3 values \(x, count, mass\) or one element of"
        with pytest.raises(TypeError, match=words):
            structured()(
                queue,
                p=np.zeros(1, POINT),
                q=given,
                z=1 + 2j,
                v=v,
                w=cltypes.make_float4(1, 2, 3, 4),
            )

    def test_shape_of_itself(self, queue):
        """An output whose shape is its own must be given, and the error says so."""
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
            given = {"x": x.base_data, "b": np.ones(1, np.float32), "a": 2, "n": 4}
            _event, (found,) = affine()(queue, y=y.base_data, **given)
            queue.finish()
            assert isinstance(found, cl_array.Array)
            assert y.get().tolist() == [1, 3, 5, 7]
            y.fill(0)

    def test_size(self, queue):
        """A buffer that is too small is refused with both sizes; one without a size names what is missing."""
        small = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 8)
        b = np.ones(1, np.float32)
        words = r"'x' is a buffer of 8 bytes, but its shape \(4,\) takes 16"
        with pytest.raises(ValueError, match=words):
            affine()(queue, x=small, b=b, a=2, n=4)
        with pytest.raises(TypeError, match="'n' was not given"):
            affine()(queue, x=small, b=b, a=2)

    def test_without_shape(self, queue):
        """A buffer whose shape a declaration needs is refused with the cure."""

        @kcl.kernel
        def copied(shape):
            return kcl.Source(
                "kernel void copied(global float *y, global float *x) { y[get_global_id(0)] = x[get_global_id(0)]; }",
                entry="copied",
                arguments=[
                    kcl.Array("y", np.float32, shape, "out"),
                    kcl.Array("x", np.float32, shape),
                ],
                global_size="x.shape[0]",
            )

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
        one = kcl.Source(
            text,
            entry="one",
            arguments=[kcl.Array("x", np.float32, "(4,)", "out")],
            global_size="(4,)",
            build_options=["-DVALUE=3"],
        )
        made = {
            "one": one,
            "two": one.kernel("two"),
            "third": one.kernel("third", global_size="(2,)", local_size="(2,)"),
        }

        @kcl.kernel
        def chosen(name):
            return made[name]

        found = {
            name: chosen(name)(queue, x=np.zeros(4, np.float32))[1][0].tolist() for name in made
        }
        assert found == {"one": [3] * 4, "two": [6] * 4, "third": [1.5, 1.5, 0, 0]}
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


def identity(code="x[0] = 1;", entry="f", size="(4,)", arguments=None, **more):
    """Return the identity of a Source."""
    text = f"kernel void f(global float *x, local float *t) {{ {code} }}"
    arguments = arguments or [x_declared(), kcl.Local("t", np.float32, "4")]
    return SourceUnit(
        kcl.Source(text, entry=entry, arguments=arguments, global_size=size, **more)
    ).identity()


def x_declared(dtype=np.float32, direction="inout"):
    return kcl.Array("x", dtype, "(4,)", direction)


def test_identity():
    """Everything that is declared counts."""
    local = kcl.Local("t", np.float32, "4")
    others = [
        identity(code="x[0] = 2;"),
        identity(entry="g"),
        identity(size="(8,)"),
        identity(local_size="(2,)"),
        identity(build_options=["-DA"]),
        identity(arguments=[x_declared(direction="out"), local]),
        identity(arguments=[x_declared(np.int32), local]),
        identity(arguments=[x_declared(), kcl.Local("t", np.float32, "8")]),
        identity(arguments=[kcl.Image("x")]),
        identity(arguments=[kcl.Image("x", "image3d_t")]),
        identity(arguments=[kcl.Image("x", direction="out")]),
        identity(arguments=[kcl.Sampler("x")]),
    ]
    assert identity() == identity()
    assert len({identity(), *others}) == len(others) + 1


class TestFiles:
    """Files that are read anew by each Kernel, in one process and on one queue, beside what is bound there."""

    CODE = '#include "amount.h"\nkernel void f(global int *x) { x[get_global_id(0)] += AMOUNT; }\n'

    def write(self, directory, amount=1):
        """Write kernel and header into two directories."""
        for name, text in (("f.cl", self.CODE), ("inc/amount.h", f"#define AMOUNT {amount}\n")):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        return {"path": str(directory / "f.cl"), "directories": (str(directory / "inc"),)}

    def computed(self, queue, **parameters):
        """Launch a new Kernel on zeros."""
        _event, (x,) = from_file(**parameters)(queue, x=np.zeros(4, np.int32))
        assert client.idle(settings.folder("kcl"), 60)
        return x.tolist()

    @pytest.mark.parametrize("kind", [str, pathlib.Path])
    def test_changed(self, queue, tmp_path, kind):
        """A header is found in the include directories; the next Kernel sees a change of it, and one of the file."""
        self.write(tmp_path)
        parameters = {"path": kind(tmp_path / "f.cl"), "directories": (kind(tmp_path / "inc"),)}
        assert self.computed(queue, **parameters) == [1] * 4
        self.write(tmp_path, amount=2)
        assert self.computed(queue, **parameters) == [2] * 4
        (tmp_path / "f.cl").write_text(self.CODE.replace("+=", "-="))
        layers.reset()
        seen = []
        kcl.add_hook(lambda event: seen.append((event.layer, event.outcome, event.reason)))
        assert self.computed(queue, **parameters) == [-2] * 4
        assert seen[0] == ("generator", "miss", "not in the cache")

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
