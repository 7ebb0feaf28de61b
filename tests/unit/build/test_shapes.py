"""Shapes of a launch: what is recorded, and arguments made of it."""

from __future__ import annotations

import json

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

from kcl.build.shapes import UnknownArgument, described, made

PAIR = np.dtype([("count", np.int32), ("part", np.float32, (2,))])
SCALARS = [7, True, 2.5, 1 + 2j, np.float32(0.1), np.int64(-3), np.complex64(1j), np.array((3, (1, 2)), PAIR)[()]]


def again(queue, arguments):
    """Describe arguments, as an entry keeps that, and make them again."""
    return made(queue, json.loads(json.dumps(described(arguments), allow_nan=False)))


@pytest.mark.one_platform
class TestMade:
    def test_array(self, queue):
        """Arrays have dtype, shape and strides of the first launch, on the host or not; not their content."""
        given = {
            "c": np.ones((3, 4), np.float32),
            "f": np.ones((3, 4), np.float64, order="F"),
            "device": cl_array.zeros(queue, (5,), np.complex64),
            "scalar": np.ones((), np.float32),
            "empty": np.ones((0, 2), np.float32),
        }
        found = again(queue, given)
        for name, array in given.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            if array.size:
                assert found[name].strides == array.strides
                assert (np.abs(found[name].get() - 1) <= 0.5).all()
        assert "1.0" not in json.dumps(described(given))

    def test_offset(self, queue):
        """A view of a device array keeps its offset, and a buffer that is large enough."""
        view = cl_array.zeros(queue, (10, 8), np.float32)[2:, ::2]
        (found,) = again(queue, {"x": view}).values()
        assert (found.offset, found.strides, found.shape) == (view.offset, view.strides, view.shape)
        assert found.base_data.size >= found.offset + 7 * 32 + 3 * 8 + 4

    def test_integers(self, queue):
        """Integers in arrays are zero, those in fields of structures too: they may be indices."""
        found = again(queue, {"i": np.ones(4, np.int32), "b": np.ones(4, bool), "s": np.ones(4, PAIR)})
        assert not found["i"].get().any()
        assert not found["b"].get().any()
        assert not found["s"].get()["count"].any()
        assert found["s"].get()["part"].all()

    def test_same(self, queue):
        """The numbers are the same every time, and differ from name to name."""
        given = {name: np.ones(50, np.float32) for name in "xy"}
        one, other = again(queue, given), again(queue, given)
        assert (one["x"].get() == other["x"].get()).all()
        assert (one["x"].get() != one["y"].get()).any()

    @pytest.mark.parametrize("value", SCALARS, ids=repr)
    def test_scalar(self, queue, value):
        """Scalars are what they were, of the same type."""
        (found,) = again(queue, {"n": value}).values()
        assert found == value
        assert type(found) is type(value)

    def test_buffer(self, queue):
        """A buffer has its size; what was not given stays out."""
        found = again(queue, {"b": cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 24), "none": None})
        assert found.keys() == {"b"}
        assert found["b"].size == 24

    def test_sizes_of_a_launch(self, queue):
        """Sizes are the same numbers, of Python."""
        found = again(queue, {"global_size": (np.int64(4), 2), "local_size": 2, "global_offset": None})
        assert found == {"global_size": (4, 2), "local_size": 2}

    def test_shared_virtual_memory(self, queue):
        """SVM comes back as a buffer of its size."""
        found = again(queue, {"x": cl.SVM(cl.csvm_empty(queue.context, 6, np.float32))})
        assert (type(found["x"]), found["x"].size) == (cl.Buffer, 24)

    @pytest.mark.parametrize(
        "about",
        [
            {"array": "<f4", "shape": [1 << 40], "strides": [4]},
            {"array": "<f4", "shape": [4], "strides": [-4]},
            {"array": "nonsense", "shape": [4], "strides": [4]},
            {"python": "nan"},
            {"shape": [4]},
            {},
        ],
    )
    def test_refused(self, queue, about):
        """What is too large, runs backwards or cannot be read is Unknown, and nothing worse."""
        with pytest.raises(UnknownArgument):
            made(queue, {"x": about})


class TestDescribed:
    @pytest.mark.parametrize("value", ["text", [1], (1.5,), object(), np.array([None])])
    def test_refused(self, value):
        """What is neither array, scalar nor buffer cannot be recorded; the argument is named."""
        assert described({"x": value}) is None
