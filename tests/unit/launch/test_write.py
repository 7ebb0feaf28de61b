"""kcl.launch.write: a recording becomes Python, which is run here on real arrays and kernels."""

from __future__ import annotations

import threading

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from hot_calls import on

from kcl.launch import events
from kcl.launch.placeholders import Allocation, Allocator, Mark, NotPlayable, QueueMark
from kcl.launch.recording import AllocatedOutput, Recording, Step
from kcl.launch.write import Form, script

CODE = (
    "kernel void f(global const float *x, global float *y, float a) { y[get_global_id(0)] = a * x[get_global_id(0)]; }"
)
FORM = Form(("x", "y", "a"), ("x", "y"), (), ("a",), (), in_order=True, bound=False)
BOUND = FORM._replace(bound=True)
ARRAYS = {index: ("_set_arg_multi", (Mark(f"{name}.base_data"),)) for index, name in enumerate("xy")}


def recording(size=4, number="_kcl_float(a)", **beside):
    """Return a recording of a call of the kernel above."""
    last = Mark(number) if isinstance(number, str) else number
    step = Step("f", {**ARRAYS, 2: ("_set_arg_multi", (last,))}, ((size,), None, None), ())
    return Recording([], [step], ["x", "y"], ["y"], ("y",), {})._replace(**beside)


def function(written, queue, kernel, *arrays):
    """Make the function of a script for calls with arrays like these; what it cannot play goes to a list."""
    left, names = [], {f"_kcl_{one.__name__}": one for one in (Exception, IndexError, NotPlayable, globals, len, type)}
    for i, array in enumerate(arrays):
        names |= {f"_kcl_a{i}": type(array), f"_kcl_d{i}": array.dtype, f"_kcl_s{i}": array.shape}
        names |= {f"_kcl_t{i}": array.strides, f"_kcl_o{i}": array.offset}

    def choose(*_signature):
        raise NotPlayable

    names |= {f"_kcl_c{i}": value for i, value in enumerate(written.cells)}
    names |= {"_kcl_Array": cl_array.Array, "_kcl_float": np.float32, "_kcl_numbers": (float,), "_kcl_choose": choose}
    names |= {"_kcl_k0": kernel, "_kcl_k0_set_arg_multi": kernel._set_arg_multi, "_kcl_busy": False, "_kcl_own": {}}
    names |= {"_kcl_enqueue": cl.enqueue_nd_range_kernel, "_kcl_mask": 255, "_kcl_queue": queue}
    names |= {"_kcl_ident": threading.get_ident, "_kcl_thread": threading.get_ident()}
    names |= {"_kcl_slow": lambda **given: left.append(sorted(given))}
    names["_kcl_waits"] = lambda queue, lists: events.waits(names["_kcl_own"], queue, lists)
    names["_kcl_leave"] = lambda array, event: events.leave(names["_kcl_own"], array, event)
    for _kernel, setter, items in written.constants:
        getattr(kernel, setter)(items)
    exec(compile(written.text, "script", "exec"), names)
    return names["launch"], names, left


@pytest.fixture
def kernel(context):
    """The kernel above."""
    return cl.Program(context, CODE).build().f


@pytest.mark.one_platform
class TestLaunch:
    def test_played(self, queue, kernel):
        """The function sets arguments, enqueues, leaves the event on what was written and returns both."""
        x, y = on(queue, range(4)), on(queue, [0] * 4)
        launch, names, _left = function(script(FORM, recording()), queue, kernel, x, y)
        event, (out,) = launch(queue, None, {"x": x, "y": y, "a": 3.0})
        assert out is y
        assert (y.events, x.events) == ([event], [])
        assert list(names["_kcl_own"]) == [event]
        assert y.get(queue).tolist() == [0.0, 3.0, 6.0, 9.0]

    def test_left_to_the_invoker(self, queue, kernel):
        """A call with other names, types, dtypes or layouts is not played, and the next one is."""
        x, y = on(queue, range(4)), on(queue, [0] * 4)
        launch, _names, _left = function(script(FORM, recording()), queue, kernel, x, y)
        given = {"x": x, "y": y, "a": 3.0}
        others = [{"a": 3}, {"x": x.get()}, {"x": x.astype(np.float64)}, {"x": on(queue, range(5))}, {"b": 1}]
        assert [launch(queue, None, {**given, **other}) for other in others] == [None] * len(others)
        assert launch(queue, None, {"x": x, "y": y}) is None
        assert launch(queue, None, given) is not None

    def test_within_a_call(self, queue, kernel):
        """A call from within a call would set the same arguments, and is left alone."""
        x, y = on(queue, range(4)), on(queue, [0] * 4)
        launch, names, _left = function(script(FORM, recording()), queue, kernel, x, y)
        names["_kcl_busy"] = True
        assert launch(queue, None, {"x": x, "y": y, "a": 3.0}) is None

    def test_bound(self, queue, kernel):
        """A bound function takes keywords, leaves events alone, and gives other calls and threads to the invoker."""
        x, y = on(queue, range(4)), on(queue, [0] * 4)
        launch, _names, left = function(script(BOUND, recording()), queue, kernel, x, y)
        launch(x=x, y=y, a=2.0).wait()
        assert (y.events, left) == ([], [])
        assert y.get(queue).tolist() == [0.0, 2.0, 4.0, 6.0]
        launch(x=x, y=y, a=None)
        thread = threading.Thread(target=launch, kwargs={"x": x, "y": y, "a": 2.0})
        thread.start()
        thread.join()
        assert left == [["a", "x", "y"]] * 2

    def test_set_once(self, queue, kernel):
        """An argument that is a number of the signature is set once, outside of the function."""
        written = script(FORM, recording(number=np.float32(5)))
        assert written.constants == (("f", "_set_arg_multi", (2, np.float32(5))),)
        x, y = on(queue, range(4)), on(queue, [0] * 4)
        launch, _names, _left = function(written, queue, kernel, x, y)
        launch(queue, None, {"x": x, "y": y, "a": 3.0})
        assert y.get(queue).tolist() == [0.0, 5.0, 10.0, 15.0]


class TestText:
    def test_serves_every_signature(self):
        """Sizes are no part of the text."""
        one, other = script(FORM, recording(4)), script(FORM, recording(9))
        assert one.text == other.text
        assert (one.cells, other.cells) == (((4,), None, None), ((9,), None, None))
        assert (one.kernels, one.setters) == (("f",), (("f", "_set_arg_multi"),))

    def test_out_of_order(self):
        """On a queue that is not in order every event is waited for, and none is taken for done."""
        text = script(FORM._replace(in_order=False), recording()).text
        assert "_kcl_w = [*_kcl_e0, *_kcl_e1]" in text
        assert "_kcl_own" not in text

    def test_outputs_by_name(self):
        """Outputs that the invoker returns by name are returned by name."""
        assert "return _kcl_evt, {'out': y}" in script(FORM, recording(outputs={"out": "y"})).text


def allocated(value):
    """Return an output that is made of this size."""
    return AllocatedOutput(
        "_kcl_made0", (QueueMark("_kcl_queue"), value, "f4"), {"allocator": Allocator("_kcl_allocator")}, {}, 0
    )


class TestUnusual:
    @pytest.mark.parametrize(
        ("form", "beside", "said"),
        [
            (FORM._replace(names=("x", "y", "_kcl_a")), {}, "a name of ours"),
            (FORM, {"waited": ["x"]}, "without waiting"),
            (BOUND, {"made": [allocated((4,))]}, "allocates"),
            (FORM, {"made": [allocated(Mark("n"))]}, "by what is not known"),
        ],
    )
    def test_unusual(self, form, beside, said):
        """What cannot be written is named."""
        with pytest.raises(NotPlayable, match=said):
            script(form, recording(**beside))

    def test_allocation(self):
        """An output is allocated by the allocator of the call, in the bytes of the signature."""
        made = allocated((4,))
        made = made._replace(keywords={**made.keywords, "data": Allocation(64)})
        written = script(FORM, recording(made=[made]))
        assert "data=_kcl_allocator(_kcl_c" in written.text
        assert {(4,), "f4", 64} <= {*written.cells}
