"""kcl.launch.first: the first launch of a kernel, noted and launched again."""

import json

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl
from kcl.launch import first

N = 32


def source(body, *more, local_size=None):
    """Return a kernel with this body, on an array `x` of `n` elements."""

    @kcl.kernel
    def moved():
        names = "".join(f", {text}" for text, _declared in more)
        text = f"kernel void moved(global float *x, int n{names}) {{ int i = get_global_id(0); {body} }}"
        declared = [kcl.Array("x", np.float32, "n", "inout"), kcl.Scalar("n", np.int32)]
        declared += [one for _text, one in more]
        sizes = {"global_size": "n", "local_size": local_size}
        return kcl.Source(text, entry="moved", arguments=declared, **sizes)

    return moved()


def launched(kernel, queue, **arguments):
    """Launch a kernel; return its launcher, and the launches of the call as an entry has them."""
    kernel(queue, **arguments)
    (launcher,) = queue._kcl_bindings.launchers.values()
    noted = first.noted(launcher.invoke, launcher.kernels, arguments)
    return launcher.program.program, json.loads(json.dumps(noted))


@pytest.fixture
def x():
    return np.ones(N, np.float32)


class TestNoted:
    def test_of_the_host(self, queue, x):
        """Arrays of the host count by their bytes on the device, scalars by their value."""
        _program, noted = launched(source("x[i] = 2;"), queue, x=x)
        assert noted == {"moved": [[N], None, None, [4 * N, np.int32(N).tobytes().hex()]]}

    def test_of_the_device(self, queue):
        """Of an array that begins inside of its memory, the whole memory counts."""
        whole = cl_array.to_device(queue, np.zeros(2 * N, np.float32))
        _program, noted = launched(source("x[i] = 2;"), queue, x=whole[:N])
        assert noted["moved"][3][0] == 8 * N

    def test_local_memory_counts_by_its_bytes(self, queue, x):
        more = ("local float *t", kcl.Local("t", np.float32, 8))
        kernel = source("t[0] = 1; x[i] = t[0];", more, local_size=1)
        _program, noted = launched(kernel, queue, x=x)
        assert noted["moved"][1:] == [[1], None, [4 * N, np.int32(N).tobytes().hex(), [32]]]

    @pytest.mark.slow_platforms
    def test_loopy(self, queue, x):
        """Outputs that loopy's invoker allocates count, and so do a complex number and groups."""

        @kcl.kernel
        def scaled():
            import loopy as lp

            arguments = [lp.ValueArg("f", np.complex64), ...]
            knl = lp.make_kernel(
                "{[i]: 0<=i<n}", "y[i] = f*x[i]", arguments, name="scaled", lang_version=(2018, 2)
            )
            return lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")

        program, noted = launched(scaled(), queue, x=x, f=np.complex64(2j))
        size, local, _offset, arguments = noted["scaled"]
        assert (size, local) == ([N], [8])
        numbers = [number.tobytes().hex() for number in (np.complex64(2j), np.int32(N))]
        assert sorted(map(str, arguments)) == sorted([*numbers, str(4 * N), str(8 * N)])
        assert first.launch(queue, program, noted) == ""

    def test_of_a_call_that_is_refused_nothing_is_noted(self):
        assert first.noted(lambda **_named: 1 // 0, None, {"x": 1}) == {}


class TestLaunch:
    @pytest.mark.parametrize("by", [-1, 3])
    def test_a_write_before_or_behind_an_array_is_found(self, queue, x, by):
        more = ("int by", kcl.Scalar("by", np.int32))
        program, noted = launched(source("x[i + by] = 1;", more), queue, x=x, by=0)
        noted["moved"][3][2] = np.int32(by).tobytes().hex()
        assert first.launch(queue, program, noted) == "moved writes outside of its arrays"

    @pytest.mark.parametrize("body", ["x[i] += n;", "x[at[i]] = 1;"])
    def test_again(self, queue, x, body):
        """The launch runs again, and is fine; arrays begin as zeros, which are indices of every array."""
        more = ("global int *at", kcl.Array("at", np.int32, "n", "in"))
        at = np.arange(N, dtype=np.int32)
        program, noted = launched(source(body, more), queue, x=x, at=at)
        assert first.launch(queue, program, noted) == ""

    def test_unfit(self, queue, x):
        """A launch that needs too much memory is named, and not tried; one that does not fit is an error of OpenCL's."""
        program, noted = launched(source("x[i] = 2;"), queue, x=x)
        noted["moved"][3].append(4)
        with pytest.raises(cl.Error):
            first.launch(queue, program, noted)
        noted["moved"][3][0] = first.MOST_BYTES
        assert "above the limit" in first.launch(queue, program, noted)
