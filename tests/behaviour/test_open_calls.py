"""Calls of a kernel whose dtypes are open are played, and each call computes with the dtypes that it has."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl
from kcl import launch
from kcl.launch import replay

pytestmark = pytest.mark.one_platform


class Tagged(cl_array.Array):
    """An array with an attribute more, as arraycontext has them."""

    tags = ("mine",)


class Shifted(cl_array.Array):
    """An array that says something else of its memory."""

    @property
    def offset(self):
        return self.__dict__.get("offset", 0)

    @offset.setter
    def offset(self, value):
        self.__dict__["offset"] = value


@kcl.kernel
def scaled():
    """Leave the dtypes of array and factor open."""
    import loopy as lp

    knl = lp.make_kernel("{[i]: 0<=i<n}", "z[i] = a*x[i]", lang_version=(2018, 2), name="scaled")
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


@pytest.fixture
def queue(context, monkeypatch):
    """A queue on which calls are played at once; `played` counts the played ones."""
    monkeypatch.setattr(launch, "HOT", 0)
    return cl.CommandQueue(context)


@pytest.fixture
def played(monkeypatch):
    """The results of played calls, None for a call that the invoker takes."""
    seen = []
    learn = replay.learn

    def watched(launcher, queue, values):
        play = learn(launcher, queue, values)
        if play is None:
            return None

        def watching(*given):
            seen.append(play(*given))
            return seen[-1]

        launcher.plays[launch.form_of(values)] = watching
        return watching

    monkeypatch.setattr(replay, "learn", watched)
    return seen


def array(queue, kind=cl_array.Array, dtype=np.float32):
    made = kind(queue, (64,), dtype)
    made.set(np.arange(64, dtype=dtype))
    return made


def test_size(queue, played):
    """A size whose dtype is open does not keep a call from being played."""
    kernel, x = scaled(), array(queue)
    for _ in range(4):
        _event, (z,) = kernel(queue, x=x, a=np.float32(2), n=64)
    assert np.array_equal(z.get(), 2 * np.arange(64))
    assert len(played) == 4
    assert None not in played


def test_other_types(queue):
    """A factor of another type has the code of that type, whatever was played before."""
    kernel, x = scaled(), array(queue)
    factors = [np.float32(0.1), np.float64(0.1), np.int64(2**40)]
    for _ in range(4):
        for factor in (*factors, *factors[:2]):
            _event, (z,) = kernel(queue, x=x, a=factor)
            (fresh,) = scaled()(queue, x=x, a=factor)[1]
            assert z.dtype == fresh.dtype
            assert np.array_equal(z.get(), fresh.get())


def test_subclass(queue, played):
    """Arrays of a subclass that adds an attribute are played, beside plain ones."""
    kernel, x, tagged, z = scaled(), array(queue), array(queue, Tagged), array(queue)
    for _ in range(4):
        for given in (x, tagged):
            z.fill(0)
            kernel(queue, x=given, a=np.float32(2), z=z)
            assert np.array_equal(z.get(), 2 * np.arange(64))
    assert sum(result is not None for result in played) == 8


def test_subclass_that_replaces(queue, played):
    """A subclass that replaces what a launch uses is left to the invoker."""
    kernel, x = scaled(), array(queue, Shifted)
    for _ in range(4):
        _event, (z,) = kernel(queue, x=x, a=np.float32(2))
    assert np.array_equal(z.get(), 2 * np.arange(64))
    assert played == []
