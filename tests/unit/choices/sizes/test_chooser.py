"""kcl.choices.sizes.chooser: the variant that serves a call."""

import pickle

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from loopy.diagnostic import LoopyError

import kcl
from kcl.base import process
from kcl.choices.sizes.chooser import CallSizes

AXPY = ("{[i]: 0<=i<n}", "z[i] = 2*x[i] + 1")
PRODUCT = ("{[e,i,j]: 0<=e<n and 0<=i,j<k}", "z[e,i] = sum(j, a[e,i,j]*x[e,j])")


@kcl.kernel(sizes={"n": "x.shape[0]"})
def axpy(n, block=64):
    import loopy as lp

    knl = n.assume(lp.make_kernel(*AXPY, lang_version=(2018, 2)))
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(sizes=kcl.sizes(n="a.shape[0]", k="a.shape[2]", fixed="auto"))
def product(n, k):
    """Ask for a small extent, by what was seen; of `n` nothing."""
    import loopy as lp

    assert n is not None
    knl = lp.make_kernel(*PRODUCT, lang_version=(2018, 2), name="product")
    if k.fixed:
        knl = lp.tag_inames(lp.fix_parameters(knl, k=k.fixed), "j:unr")
    return lp.split_iname(knl, "e", 16, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(sizes=kcl.sizes(n="x.size", fixed="auto", most=2))
def filling(n, value=7):
    """Write the constant that it was given, 0 for none."""
    text = f"kernel void filling(global int *x, int m) {{ x[get_global_id(0)] = {n.fixed or 0} + {value}; }}"
    arguments = [kcl.Array("x", np.int32, "m", "inout"), kcl.Scalar("m", np.int32)]
    return kcl.Source(text, entry="filling", arguments=arguments, global_size="m")


@kcl.kernel(sizes={"n": "x.shape[0]"})
def some(n):
    """Write the first n of x, whatever shapes x and y have; a constant n is no argument of the code."""
    import loopy as lp

    shapes = [lp.GlobalArg("x", np.float32, shape="m"), lp.GlobalArg("y", np.float32, shape="l")]
    arguments = [*shapes, lp.ValueArg("l,m", np.int32), ...]
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", arguments, lang_version=(2018, 2))
    knl = n.assume(knl)
    if n.fixed:
        knl = lp.fix_parameters(knl, n=n.fixed)
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def written(kernel, queue, size, **named):
    """Launch `some` on an x of a size; return how many elements were written. Their numbers are right."""
    x = np.arange(1, size + 1, dtype=np.float32)
    _event, (y,) = kernel(queue, x=x, y=np.zeros(size, np.float32), **named)
    count = int(np.count_nonzero(y))
    assert np.array_equal(y[:count], 2 * x[:count])
    return count


def added(kernel, queue, size):
    x = np.arange(size, dtype=np.float32)
    _event, (z,) = kernel(queue, x=x)
    return np.array_equal(z, 2 * x + 1)


def multiplied(kernel, queue, elements, extent):
    a = np.arange(elements * extent * extent, dtype=np.float64).reshape(elements, extent, extent)
    x = np.ones((elements, extent))
    _event, (z,) = kernel(queue, a=a, x=x)
    return np.array_equal(z, a.sum(axis=2))


def variants(kernel):
    return int(repr(kernel).split(": ")[1].split()[0])


@pytest.mark.one_platform
class TestVariants:
    def test_classes(self, queue):
        """Sizes of one class share a variant, and each class has one at most."""
        kernel = axpy()
        for size in range(1, 101):
            assert added(kernel, queue, size)
        assert variants(kernel) == 4

    def test_equal_code(self, queue):
        """Variants of equal code are built once: only a multiple of the block changes it."""
        kernel = axpy(block=16)
        assert all(added(kernel, queue, size) for size in (64, 32, 5, 20))
        assert kcl.stats()["binary"]["misses"] == 2

    def test_fixed(self, queue, tmp_path):
        """`fixed` is the value up to 16, or up to what the declaration says, whatever was seen before, here or earlier."""
        seen = []

        def asking(n):
            seen.append(n.fixed)
            return axpy.function(n)

        recipes = [
            kcl.kernel(sizes=kcl.sizes(n="x.shape[0]", **fixed))(asking)
            for fixed in ({}, {"fixed": 64}, {"fixed": 0})
        ]
        for recipe in recipes:
            assert all(added(recipe(), queue, size) for size in (65, 64, 17, 16, 1))
        assert seen == [None, None, None, 16, 1, None, 64, 17, 16, 1, *[None] * 5]
        kernel = recipes[0]()
        assert all(added(kernel, queue, size) for size in (17, 64, 65, 16, 16, 15))
        # There is one for each constant, and two differ by what divides the size.
        assert variants(kernel) == 4
        kernel = some()
        assert all(written(kernel, queue, size) == size for size in (4, 5, 6))
        process.reset()
        kernel, with_another = some(), cl.CommandQueue(queue.context)
        assert written(kernel, with_another, 4) == 4
        assert "fixed, at most 16" in kernel.explain(with_another, n=4)
        assert not (tmp_path / "cache" / "kcl" / "shapes").exists()

    def test_first_values(self, queue):
        """The first value is a constant, the second makes a general variant, and the first keeps its own."""
        kernel = product()
        assert multiplied(kernel, queue, 10, 4)
        assert "int const k" not in kernel.source(queue, n=10, k=4, a=np.float64, x=np.float64)
        for elements, extent in ((10, 4), (11, 4), (10, 3), (10, 5), (3, 4)):
            assert multiplied(kernel, queue, elements, extent)
        assert variants(kernel) == 2

    def test_remembered(self, queue):
        """The next run begins where the last one ended: no constant after two values."""
        for extent in (4, 3):
            assert multiplied(product(), queue, 10, extent)
        kcl.flush()
        process.reset()
        kernel = product()
        with_another = cl.CommandQueue(queue.context)
        for extent in (5, 4, 3):
            assert multiplied(kernel, with_another, 10, extent)
        assert variants(kernel) == 1
        assert kcl.stats()["binary"]["misses"] == 0

    def test_most(self, queue):
        kernel = filling()
        firsts = [kernel(queue, x=np.zeros(size, np.int32))[1][0][0] for size in (8, 9, 10, 8)]
        assert firsts == [15, 16, 7, 15]

    @pytest.mark.parametrize("off", ["1", "shapes", "generator,binary"])
    def test_memory_off(self, queue, monkeypatch, tmp_path, off):
        monkeypatch.setenv("KCL_NO_CACHE", off)
        process.reset()
        kernel = product()
        assert multiplied(kernel, queue, 10, 4)
        assert "not fixed" in kernel.explain(queue, n=10, k=4)
        assert not (tmp_path / "cache" / "kcl" / "shapes").exists()

    def test_bundle(self, queue, monkeypatch, tmp_path):
        for extent in (4, 3):
            assert multiplied(product(), queue, 10, extent)
        data, info = kcl.save_artifacts()
        assert len(info.artifacts["shapes"]) == 1
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        process.reset()
        assert kcl.load_artifacts(data).artifacts["shapes"] == info.artifacts["shapes"]
        kernel = product()
        assert multiplied(kernel, cl.CommandQueue(queue.context), 10, 5)
        assert "not fixed" in kernel.explain(queue, n=10, k=5)

    def test_unknown_sizes(self, queue):
        with pytest.raises(LoopyError, match="x"):
            axpy()(queue)
        with pytest.raises(LoopyError, match="x"):
            axpy()(queue, x=4.0)

    @pytest.mark.parametrize("given", [{}, {"space": kcl.space(value=[1, 2])}])
    def test_no_integer_beside_its_integer(self, queue, given):
        """A text that gives 64.0 is refused before 64 was seen, and after that."""

        def asking(value=1):
            arguments = [kcl.Array("x", np.float64, 1, "inout"), kcl.Scalar("m", np.float64)]
            text = "kernel void asking(global double *x, double m) { x[0] = m; }"
            return kcl.Source(text, entry="asking", arguments=arguments, global_size=value)

        def sized(n):
            assert n.multiple == 64
            return asking()

        kernel = kcl.kernel(sizes={"n": "2*m"}, **given)(asking if given else sized)()
        for _time in range(2):
            with pytest.raises(TypeError, match=r"the size n is 64\.0, which is no whole number"):
                kernel(queue, x=np.zeros(1), m=32.0)
            assert kernel(queue, x=np.zeros(1), m=32)[1][0][0] == 32


@pytest.mark.one_platform
class TestNamed:
    def test_is_the_size(self, queue):
        """A value that the call names is the size, below its text, equal to it and above it."""
        kernel = some()
        calls = [(64, 63), (64, 64), (64, 48), (64, 1), (16, 9), (16, 16), (32, np.int64(7))]
        for _again in range(2):
            assert [written(kernel, queue, size, n=n) for size, n in calls] == [n for _, n in calls]
        words = r"shape mismatch on argument 'x' \(got: \(64,\), expected: \(128,\)"
        with pytest.raises(ValueError, match=words):
            axpy()(queue, x=np.ones(64, np.float32), n=128)

    def test_is_left_out_of_code_without_it(self, queue):
        """A variant with a constant in the place of the argument takes the name in each call, a hot one too."""
        kernel, x = some(), cl_array.to_device(queue, np.ones(16, np.float32))
        for _number in range(100):
            y = cl_array.zeros(queue, 16, np.float32)
            kernel(queue, x=x, y=y, n=8)
            assert y.get().tolist() == [2] * 8 + [0] * 8
        assert "int const n" not in kernel.source(queue, n=8)
        assert "int const n" in kernel.source(queue, n=17)
        with pytest.raises(TypeError, match="takes no argument 'o'; its arguments are"):
            kernel(queue, x=x, y=y, n=8, o=8)

    def test_code_without_any_size(self, queue):
        kernel = filling()
        _event, (x,) = kernel(queue, x=np.zeros(8, np.int32), n=3)
        assert x.tolist() == [10] * 8

    def test_no_integer(self, queue):
        with pytest.raises(RuntimeError, match="argument 'n' is a whole number"):
            written(some(), queue, 16, n=8.0)


@pytest.mark.one_platform
class TestHandle:
    def test_bind(self, queue):
        x = cl_array.to_device(queue, np.ones(128, np.float32))
        z = cl_array.zeros_like(x)
        launch = axpy().bind(queue, x=x[:64], z=z[:64])
        launch(x=x, z=z).wait()
        assert z.get().tolist() == [3] * 128
        with pytest.raises(ValueError, match="n = 64: multiple 64, and not for n = 60"):
            launch(x=x[:60], z=z[:60])
        z.fill(0)
        launch = some().bind(queue, x=x, y=z, n=8)
        launch(x=x, y=z, n=8).wait()
        assert z.get().tolist() == [2] * 8 + [0] * 120
        words = "n = 8: multiple 4, fixed, at most 16, and not for n = 9"
        with pytest.raises(ValueError, match=words):
            launch(x=x, y=z, n=9)

    def test_asked_by_name(self, context):
        kernel = axpy()
        assert "if (" in kernel.source(context, x=np.float32)
        assert "if (" not in kernel.source(context, x=np.float32, n=64)
        assert kernel.explain(context, x=np.float32, n=80).endswith("sizes: n = 80: multiple 16")
        kernel.prepare(context, x=np.float32, n=64)
        assert kernel.key(context, x=np.float32, n=64) != kernel.key(context, x=np.float32)
        assert "k = 4: fixed, one of at most 1" in product().explain(context, k=4)

    def test_is_stored(self, queue):
        assert not axpy().is_stored()
        assert added(axpy(), queue, 7)
        assert axpy().is_stored()
        assert added(pickle.loads(pickle.dumps(axpy())), queue, 100)

    def test_tune(self, queue):
        words = r"'axpy' has no space of choices: write @kcl.kernel\(space="
        with pytest.raises(TypeError, match=words):
            axpy().tune(queue, x=np.ones(4, np.float32))


class TestCallSizes:
    @pytest.mark.parametrize(
        ("texts", "arguments", "sizes"),
        [
            ({"n": "x.shape[0]"}, {"x": np.ones((4, 3))}, (4,)),
            ({"n": "x.shape[0]"}, {"x": np.ones(4), "n": np.int32(3)}, (3,)),
            ({"n": "x.shape[0]", "m": "2*x.size"}, {}, (0, 0)),
            ({"n": "n", "m": "x.size"}, {"x": np.ones(4)}, (0, 4)),
            ({"n": "n.shape[0] + round_up(m, 4)"}, {"n": np.ones(4), "m": 3}, (8,)),
            ({"n": "max(shape . size, -size)"}, {"shape": np.ones(4), "size": -9}, (9,)),
            ({"n": "8 // m"}, {"m": 0}, (0,)),
        ],
    )
    def test_of(self, texts, arguments, sizes):
        """A size is what the call names, or what the text says of the arguments; 0 where one is not known."""
        assert CallSizes("axpy", texts).compute(arguments) == sizes
