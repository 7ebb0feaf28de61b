"""kcl.workers.prepare: many kernels made ready, in this process and in workers."""

from multiprocessing import reduction

import numpy as np
import prepare_recipes
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from elementwise import elementwise
from measured import put
from prepare_recipes import filled, scaled

import kcl
from kcl.base import settings
from kcl.choices.tuning.table import Row
from kcl.drivers import devices
from kcl.drivers.pocl.jobs import JobQueue
from kcl.workers import prepare
from kcl.workers.prepare import PreparationItem


def misses(layer="generator"):
    """Return how many look-ups of this process missed."""
    return kcl.stats()[layer]["misses"]


def launched(kernel, context):
    """Return the first number that a kernel writes."""
    return float(kernel(cl.CommandQueue(context), out_host=True)[1][0][0])


class TestHere:
    def test_one_process(self, context):
        """With one process the kernels are made here, and a launch looks nothing up."""
        kernels = [filled(number) for number in (1, 2)]
        kcl.prepare(kernels, context, processes=1)
        assert misses() == misses("binary") == 2
        before = kcl.stats()
        assert [launched(kernel, context) for kernel in kernels] == [1, 2]
        assert kcl.stats() == before

    def test_open_arguments_are_given_by_name_as_dtypes_or_arrays(self, context):
        x = np.ones(3, np.float32)
        kcl.prepare([(scaled(2), {"a": np.float32, "x": x})], context)
        assert misses() == 1
        _event, (y,) = scaled(2)(cl.CommandQueue(context), a=np.float32(3), x=x)
        assert y.tolist() == [6, 6, 6]
        assert misses() == 1

    @pytest.mark.one_platform
    @pytest.mark.parametrize(
        ("given", "error", "words"),
        [
            *(([wrong], TypeError, "pairs") for wrong in (filled, (filled(1), 3), [filled(1), {}])),
            ([filled], TypeError, r"call it: filled\(\)"),
            *(
                (alone, TypeError, r"write kcl.prepare\(\[...\], context\)")
                for alone in (filled, filled(1))
            ),
            ([filled(1)], ValueError, "not 0"),
        ],
    )
    def test_what_is_no_kernel_is_named_and_no_process_is_none(self, context, given, error, words):
        with pytest.raises(error, match=words):
            kcl.prepare(given, context, processes=0 if error is ValueError else None)

    @pytest.mark.one_platform
    def test_errors(self, context):
        """The error names every kernel that could not be prepared; the others are ready."""
        kernels = [filled(number) for number in (1, "a b", "c d", 2)]
        with pytest.raises(kcl.PrepareError, match="2 of 4 kernels could not be") as caught:
            kcl.prepare(kernels, context, processes=1)
        failed = [kernel for kernel, _error in caught.value.errors]
        assert failed == ["filled(number='a b')", "filled(number='c d')"]
        assert "filled(number='c d'): RuntimeError: clBuildProgram failed" in str(caught.value)
        assert isinstance(caught.value.__cause__, cl.RuntimeError)
        before = misses("binary")
        assert [launched(filled(number), context) for number in (1, 2)] == [1, 2]
        assert misses("binary") == before

    @pytest.mark.one_platform
    def test_within_a_worker(self, context, monkeypatch):
        """A module that prepares kernels as it is imported starts no workers of workers."""
        monkeypatch.setattr(prepare._state(), "is_worker", True)
        kcl.prepare([filled(1)], context)
        assert misses() == 0


class TestInWorkers:
    @pytest.mark.slow_platforms
    def test_hits(self, context):
        """Workers generate, build and store; launches in this process hit, and a second call does nothing."""
        kernels = [filled(number) for number in range(4)]
        kcl.prepare(kernels, context, processes=2)
        assert kcl.flush()
        assert [launched(kernel, context) for kernel in kernels] == [0, 1, 2, 3]
        for layer in ("generator", "binary"):
            assert (kcl.stats()[layer]["hits"], misses(layer)) == (4, 0)
        kcl.prepare([filled(number) for number in range(4)], context, processes=2)
        assert misses() == 0

    @pytest.mark.one_platform
    def test_what_workers_cannot_do(self, context):
        """A recipe that workers cannot find is prepared here, and so is what is left when a worker dies."""

        @kcl.kernel
        def local(number):
            return prepare_recipes.source(prepare_recipes.body(number))

        fatal = prepare_recipes.fatal
        kernels = [local(7), fatal(5), fatal(6), filled(3), filled("a b")]
        words = r"\d kernels were prepared by this process alone.*belongs below"
        with pytest.raises(kcl.PrepareError, match="1 of 5") as caught:
            with pytest.warns(kcl.CacheWarning, match=words):
                kcl.prepare(kernels, context, processes=2)
        assert [kernel for kernel, _error in caught.value.errors] == ["filled(number='a b')"]
        assert [launched(kernel, context) for kernel in kernels[:4]] == [7, 5, 6, 3]

    @pytest.mark.one_platform
    def test_layer_off(self, context, monkeypatch):
        """With a layer off all is made in this process: nobody would see what workers store."""
        monkeypatch.setenv("KCL_NO_CACHE", "binary")
        kernels = [filled(number) for number in range(4)]
        kcl.prepare(kernels, context, processes=2)
        assert misses() == 4
        assert [launched(kernel, context) for kernel in kernels] == [0, 1, 2, 3]


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(value=[1, 2, 3]))
def chosen(value=1):
    """Write the chosen value."""
    return elementwise("chosen", f"x[i] = {value};", np.int32, x="inout")


@kcl.kernel(sizes={"n": "x.shape[0]"})
def multiple(n: kcl.Size):
    """Write what divides the size."""
    return elementwise("multiple", f"x[i] = {n.multiple};", np.int32, x="inout")


@pytest.mark.one_platform
@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_launch_would_take(context, processes):
    """Of a kernel that chooses by sizes the choice for the given sizes is prepared, else that for all sizes."""
    queue = cl.CommandQueue(context)
    for size, value in ((64, 2), (100, 3)):
        row = Row((size,), {"value": value}, 0.5, 1, 2, 3, 0.01, "2026-11-26")
        put(chosen(), queue, row, x=np.empty(1, np.int32))
    items = [
        chosen(),
        (chosen(), {"x": np.int32, "n": 64}),
        (chosen(), {"x": np.empty(100, np.int32)}),
        (multiple(), {"n": 64}),
    ]
    kcl.prepare(items, context, processes)
    # PoCL's entries are completed by a helper, which is late on a busy machine.
    kcl.flush()
    before = misses(), misses("binary")
    sizes = ((chosen(), 7, 1), (chosen(), 64, 2), (chosen(), 100, 3), (multiple(), 64, 64))
    for kernel, size, value in sizes:
        _event, (x,) = kernel(queue, x=np.zeros(size, np.int32))
        assert set(x.tolist()) == {value}
    assert (misses(), misses("binary")) == before


@pytest.mark.one_platform
def test_no_content(context):
    """Of arrays and scalars the dtypes are sent, of Python numbers nothing, of parts each."""
    x = cl_array.zeros(cl.CommandQueue(context), 3, np.float32)
    parts = np.empty(2, object)
    parts[:] = [x, np.int32(1)]
    assert prepare._dtypes(x) == prepare._dtypes(np.float32(1)) == np.float32
    assert prepare._dtypes(np.float64) is np.float64
    assert prepare._dtypes(3) is None
    assert prepare._dtypes((x, 2)) == (np.float32, None)
    assert prepare._dtypes(parts).tolist() == [np.float32, np.int32]


@pytest.mark.one_platform
def test_a_kernel_that_was_sent_is_stored(context):
    blob = bytes(reduction.ForkingPickler.dumps((prepare_recipes.filled(9), {})))
    prepare.work_on(devices.places_of(context), blob)
    assert kcl.stats()["generator"]["misses"] == 1
    assert prepare_recipes.filled(9).is_stored()


@pytest.fixture
def items(platform_name):
    """Eight kernels to be prepared, whose entries a helper completes."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    return [PreparationItem(filled(number), {}) for number in range(8)]


@pytest.mark.parametrize("when", ["background", "off"])
def test_after_the_workers(context, monkeypatch, items, when):
    """No helper shares the processors with the workers; their entries are completed whatever `KCL_PROMOTE` says."""
    monkeypatch.setenv("KCL_PROMOTE", when)
    queue, seen = JobQueue(settings.folder("kcl")), []
    noted = prepare.work(
        items, context, 2, lambda done, _kernel: seen.append((done, queue.has_helper()))
    )
    assert noted == []
    assert seen == [(done, False) for done in range(1, 9)]
    assert kcl.flush()
    assert [entry.kernel for entry in kcl.entries("binary")] == ["filled"] * 8


def test_interrupted(context, items):
    """What a worker prepared is completed also where the user interrupts the parent."""

    def said(done, _kernel):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare.work(items, context, 2, said)
    assert kcl.flush()
    assert len(kcl.entries("binary")) >= 4
