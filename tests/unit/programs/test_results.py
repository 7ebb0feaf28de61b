"""kcl.programs.results: what a stored program computes is compared with what its source computes."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from adding import ADD, add, doubled, launched

import kcl
from kcl import option
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.drivers.pocl import client
from kcl.programs import results

pytestmark = pytest.mark.slow_platforms


def exchange(binaries, wrong):
    """Put the binary of another kernel into every entry that has not that one's source."""
    entries = {
        address: Entry.unpack(binaries.stores[0].get(address))
        for address in binaries.stores[0].scan()
    }
    (bad,) = [entry for entry in entries.values() if wrong in entry.parts["source.cl"]]
    for address, entry in entries.items():
        if entry is not bad:
            entry.parts["binary"] = bad.parts["binary"]
            binaries.stores[0].put(address, entry.pack())
    layers.reset()


class TestResults:
    @pytest.fixture
    def wrong(self, device):
        """Queues on new contexts, with a stored binary that computes something else than its source."""

        contexts = []  # Intel's queues do not keep theirs alive

        def queue():
            contexts.append(cl.Context([device]))
            return cl.CommandQueue(contexts[-1])

        for code in (ADD, ADD.replace("+=", "-=")):
            launched(queue(), add(code))
        exchange(layers.binary(), b"-=")
        return queue

    def test_without(self, wrong):
        """What it is for: such an entry computes."""
        assert launched(wrong(), add())[0] == -1.0

    @pytest.mark.parametrize("host", [True, False])
    @pytest.mark.faults
    def test_found(self, wrong, under, host):
        """The difference is an error that names kernel and argument; the right number comes out and is stored."""
        under(KCL_VERIFY="results")
        queue, kernel, seen = wrong(), add(), []
        x = (
            np.full(4, 3, np.float32)
            if host
            else cl_array.to_device(queue, np.full(4, 3, np.float32))
        )
        remove = kcl.add_hook(lambda event: seen.append((event.layer, event.outcome, event.reason)))
        with pytest.warns(
            kcl.CacheWarning,
            match=r"kernel 'add': the stored binary computes something else.*x\[0\] is 2",
        ):
            _event, (y,) = kernel(queue, x=x, a=1)
        remove()
        assert (y if host else y.get()).tolist() == [4.0] * 4
        assert [event[:2] for event in seen if event[0] == "binary"] == [
            ("binary", "hit"),
            ("binary", "error"),
        ]
        _event, (y,) = kernel(queue, x=x, a=1)
        assert (y if host else y.get()).tolist() == [5.0] * 4
        assert client.idle(option.folder("kcl"), 60)
        under(KCL_VERIFY="")
        number, events = launched(wrong(), add())
        assert (number, events[-1][:2]) == (1.0, ("binary", "hit"))

    def test_strict(self, wrong, under):
        """KCL_STRICT=fault raises."""
        under(KCL_VERIFY="results", KCL_STRICT="fault")
        with pytest.raises(kcl.CacheFault, match="computes something else"):
            launched(wrong(), add())

    def test_equal(self, device, under):
        """Right binaries say nothing, in whatever form arguments come, and every argument is as it should be."""

        def launch():
            context = cl.Context([device])
            queue = cl.CommandQueue(context)
            kernel, found = doubled(), []
            whole = cl_array.to_device(queue, np.arange(8, dtype=np.float32))
            for x in (np.arange(8, dtype=np.float32), whole):
                _event, (y,) = kernel(queue, x=x)
                found.append((y if isinstance(y, np.ndarray) else y.get()).tolist())
            found.append(launched(queue, add(), 5)[0])
            return found

        cold = launch()
        assert client.idle(option.folder("kcl"), 60)
        under(KCL_VERIFY="results", KCL_STRICT="hit,fault")
        assert launch() == cold

    def test_untouched_elements(self, device, under):
        """Elements of an output that a kernel leaves alone do not differ."""

        def launch():
            context = cl.Context([device])
            queue = cl.CommandQueue(context)
            _event, (y,) = first_only()(queue, out_host=True)
            return float(y[0])

        assert launch() == 1.0
        assert client.idle(option.folder("kcl"), 60)
        under(KCL_VERIFY="results", KCL_STRICT="hit,fault")
        assert launch() == 1.0


@kcl.kernel
def first_only():
    """Write one element of many."""
    return kcl.Source(
        "kernel void first(global float *y) { y[0] = 1; }",
        entry="first",
        arguments=[kcl.Array("y", np.float32, "(5000,)", "out")],
        global_size="(1,)",
    )


class TestDifference:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (np.float32(1), np.nextafter(np.float32(1), np.float32(2))),
            (np.float64("nan"), np.float64("nan")),
            (np.float64("inf"), np.float64("inf")),
            (
                np.complex64(1 + 2j),
                np.complex64(1 + np.nextafter(np.float32(2), np.float32(3)) * 1j),
            ),
            (np.int64(2**62), np.int64(2**62)),
            (np.float32(0.0), np.float32(-0.0)),
        ],
    )
    def test_equal(self, one, other):
        """Floating point may differ in the last places."""
        assert not results.difference({"x": np.array([one])}, {"x": np.array([other])})

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (np.float32(1), np.float32(1.00001)),
            (np.float64("nan"), np.float64(1)),
            (np.float64("inf"), np.float64(1e308)),
            (np.complex64(1 + 2j), np.complex64(1 - 2j)),
            (np.int64(2**62), np.int64(2**62 + 1)),
        ],
    )
    def test_different(self, one, other):
        """Anything more is a difference that names argument, place, numbers and how many."""
        said = results.difference({"x": np.array([[one, one]])}, {"x": np.array([[one, other]])})
        assert said.startswith("x[0, 1] is ")
        assert said.endswith("1 of 2 elements")

    def test_structures(self):
        """Fields are compared each by its kind, gaps are not."""
        dtype = np.dtype([("a", np.int8), ("b", np.float64)], align=True)
        one, other = (np.frombuffer(bytes([1, *[gap] * 7, *[0] * 8]), dtype) for gap in (0, 9))
        assert not results.difference({"s": one}, {"s": other})
        other = other.copy()
        other["b"] = 1
        assert results.difference({"s": one}, {"s": other}).startswith(
            "s.b[0] is 0.0, by the source 1.0"
        )
