"""kcl.sized: what a recipe may ask of the sizes of a call, and the variant that serves a call."""

from __future__ import annotations

import pickle

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from loopy.diagnostic import LoopyError

import kcl
from kcl.base import process

AXPY = ("{[i]: 0<=i<n}", "z[i] = 2*x[i] + 1")
PRODUCT = ("{[e,i,j]: 0<=e<n and 0<=i,j<k}", "z[e,i] = sum(j, a[e,i,j]*x[e,j])")


@kcl.kernel(sizes={"n": "x.shape[0]"})
def axpy(n, block=64):
    """Ask what divides the size."""
    import loopy as lp

    knl = n.assume(lp.make_kernel(*AXPY, lang_version=(2018, 2)))
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(sizes={"n": "a.shape[0]", "k": "a.shape[2]"})
def product(n, k):
    """Ask for a small extent; of `n` nothing."""
    import loopy as lp

    assert n is not None
    knl = lp.make_kernel(*PRODUCT, lang_version=(2018, 2), name="product")
    if k.fixed:
        knl = lp.tag_inames(lp.fix_parameters(knl, k=k.fixed), "j:unr")
    return lp.split_iname(knl, "e", 16, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(sizes=kcl.sizes(n="x.size", most=2))
def filling(n, value=7):
    """Write the constant that it was given, 0 for none."""
    text = f"kernel void filling(global int *x, int m) {{ x[get_global_id(0)] = {n.fixed or 0} + {value}; }}"
    arguments = [kcl.Array("x", np.int32, "m", "inout"), kcl.Scalar("m", np.int32)]
    return kcl.Source(text, entry="filling", arguments=arguments, global_size="m")


def added(kernel, queue, size):
    """Launch `axpy`; return True if the numbers are right."""
    x = np.arange(size, dtype=np.float32)
    _event, (z,) = kernel(queue, x=x)
    return np.array_equal(z, 2 * x + 1)


def multiplied(kernel, queue, elements, extent):
    """Launch `product`; return True if the numbers are right."""
    a = np.arange(elements * extent * extent, dtype=np.float64).reshape(elements, extent, extent)
    x = np.ones((elements, extent))
    _event, (z,) = kernel(queue, a=a, x=x)
    return np.array_equal(z, a.sum(axis=2))


def variants(kernel):
    """Return the number of variants of a handle, as its repr has it."""
    return int(repr(kernel).split(": ")[1].split()[0])


class TestDeclaration:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"m": "x.shape[0]"}, "'m', which is no parameter"),
            ({"n": "4"}, "names no argument"),
            ({"n": "x.shape["}, "is no expression"),
            ({"n": "x.shape[0] if x else 0"}, "integer arithmetic"),
            ({"n": "open(x)"}, "integer arithmetic"),
            ({"n": 4}, "write an expression"),
            ({}, "takes a dictionary"),
            ("x.shape[0]", "takes a dictionary"),
        ],
    )
    def test_refused(self, given, words):
        """What cannot be meant is a TypeError at the decoration."""
        with pytest.raises(TypeError, match=words):
            kcl.kernel(sizes=given)(lambda n: n)

    def test_pure(self):
        """A body that is skipped asks nothing."""
        with pytest.raises(TypeError, match="takes no sizes"):
            kcl.kernel(pure=True, version="1", sizes={"n": "x.size"})(lambda n: n)

    def test_most(self):
        with pytest.raises(TypeError, match="whole number"):
            kcl.sizes(n="x.size", most=-1)

    def test_given_by_hand(self):
        """A size is no parameter that a person gives, by name or by position."""
        with pytest.raises(TypeError, match="'n' is a size"):
            axpy(n=4)
        with pytest.raises(TypeError, match="beside the sizes are: block"):
            axpy(64, 64)
        with pytest.raises(TypeError, match="beside the sizes are: block"):
            axpy(blok=64)


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

    def test_fixed(self, queue):
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
        process.reset()
        kernel = product()
        with_another = cl.CommandQueue(queue.context)
        for extent in (5, 4, 3):
            assert multiplied(kernel, with_another, 10, extent)
        assert variants(kernel) == 1
        assert kcl.stats()["binary"]["misses"] == 0

    def test_most(self, queue):
        """`most` values are constants."""
        kernel, found = filling(), []
        for size in (8, 9, 10, 8):
            _event, (x,) = kernel(queue, x=np.zeros(size, np.int32))
            found.append(int(x[0]))
        assert found == [15, 16, 7, 15]

    def test_nothing_is_written_with_the_layers_off(self, queue, monkeypatch, tmp_path):
        """With all layers off nothing is remembered."""
        monkeypatch.setenv("KCL_NO_CACHE", "1")
        process.reset()
        assert multiplied(product(), queue, 10, 4)
        assert not (tmp_path / "cache" / "kcl").exists()

    def test_shapes_off(self, queue, monkeypatch):
        """`KCL_NO_CACHE=shapes` fixes nothing."""
        monkeypatch.setenv("KCL_NO_CACHE", "shapes")
        process.reset()
        kernel = product()
        assert multiplied(kernel, queue, 10, 4)
        assert "not fixed" in kernel.explain(queue, n=10, k=4)

    def test_bundle(self, queue, monkeypatch, tmp_path):
        """A bundle carries what a recipe has seen."""
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
        """A call without the argument, or with another kind of it, gets the error of the kernel."""
        with pytest.raises(LoopyError, match="x"):
            axpy()(queue)
        with pytest.raises(LoopyError, match="x"):
            axpy()(queue, x=4.0)

    def test_no_integer(self, queue):
        @kcl.kernel(sizes={"n": "n"})
        def asking(n):
            raise AssertionError(n)

        with pytest.raises(TypeError, match=r"the size n is 4\.5"):
            asking()(queue, n=4.5)


@pytest.mark.one_platform
class TestHandle:
    def test_bind(self, queue):
        """A bound launch refuses sizes of another variant."""
        x = cl_array.to_device(queue, np.ones(64, np.float32))
        launch = axpy().bind(queue, x=x, z=cl_array.zeros_like(x))
        other = cl_array.to_device(queue, np.ones(128, np.float32))
        z = cl_array.zeros_like(other)
        launch(x=other, z=z).wait()
        assert z.get().tolist() == [3] * 128
        with pytest.raises(ValueError, match="n = 64: multiple 64, and not for n = 60"):
            launch(x=other[:60], z=z[:60])

    def test_asked_by_name(self, context):
        """`source`, `key` and `prepare` take sizes by name; without them they mean the general variant."""
        kernel = axpy()
        general, divided = (
            kernel.source(context, x=np.float32, **sizes) for sizes in ({}, {"n": 64})
        )
        assert "if (" in general
        assert "if (" not in divided
        kernel.prepare(context, x=np.float32, n=64)
        assert kernel.key(context, x=np.float32, n=64) != kernel.key(context, x=np.float32)

    def test_explain(self, context):
        """It says what the recipe asked of its sizes."""
        assert axpy().explain(context, x=np.float32, n=80).endswith("sizes: n = 80: multiple 16")
        assert "k = 4: fixed, one of at most 1" in product().explain(context, k=4)

    def test_pickle(self, queue):
        """A handle travels by the name of its recipe."""
        assert added(pickle.loads(pickle.dumps(axpy(block=32))), queue, 100)
