"""A block with a cache directory of its own: nothing of the outer cache is found in it, and nothing of it outside."""

import os
import threading
import time
from contextlib import suppress

import numpy as np
import pyopencl as cl
import pytest
from handle_recipes import add, scaled
from harness import PLATFORMS

import kcl
from kcl.inspect.history import journal

pytestmark = pytest.mark.one_platform

MISSED = [("generator", "miss"), ("binary", "miss")]
FOUND = [("generator", "hit"), ("binary", "hit")]


@pytest.fixture
def looked_up(looks):
    """Return what launches a kernel and returns the outcomes of its look-ups."""

    def launched(kernel, queue):
        looks.clear()
        kernel(queue, x=np.zeros(8, np.float32), a=np.float32(1.0))
        return [(event.layer, event.outcome) for event in looks]

    return launched


class TestBlock:
    def test_kernels(self, queue, looked_up, tmp_path):
        """Every kernel is looked up again in the block and after it; a second block finds what the first made."""
        kernel = add()
        assert [looked_up(kernel, queue), looked_up(kernel, queue)] == [MISSED, []]
        assert kcl.flush()
        for expected in (MISSED, FOUND):
            with kcl.option.cache_dir(tmp_path / "private"):
                assert [looked_up(kernel, queue), looked_up(kernel, queue)] == [expected, []]
                assert kcl.flush()
            assert [looked_up(kernel, queue), looked_up(kernel, queue)] == [FOUND, []]

    def test_new_kernel_on_an_old_queue(self, queue, looked_up, tmp_path):
        """A queue that knows the program from outside does not keep a new kernel from being looked up."""
        assert looked_up(add(), queue) == MISSED
        with kcl.option.cache_dir(tmp_path / "private"):
            assert looked_up(add(), queue) == MISSED

    @pytest.mark.usefixtures("installed")
    def test_programs_of_pyopencl(self, context, tmp_path):
        """With the integrations a program on a known context is looked up in the block, too."""
        text = "kernel void f(global float *x) { x[0] = 4711; }"
        cl.Program(context, text).build()
        with kcl.option.cache_dir(tmp_path / "private"):
            kcl.stats(reset=True)
            cl.Program(context, text).build()
            assert kcl.stats()["binary"]["misses"] == 1

    def test_statistics(self, queue, looked_up, tmp_path):
        """Statistics and misses lie where the look-ups were; what was collected before the block lies outside."""
        looked_up(scaled(), queue)
        with kcl.option.cache_dir(tmp_path / "private"):
            looked_up(add(), queue)
            assert {miss.event.kernel for miss in journal.last_misses()} == {"add"}
        assert {miss.event.kernel for miss in journal.last_misses()} == {"scaled"}
        with kcl.option.cache_dir(tmp_path / "private"):
            counted = journal.count_by_day().items()
            misses = {layer: row["misses"] for (_day, layer, _kernel), row in counted}
            assert misses["binary"] == 1

    def test_proofs(self, child, tmp_path):
        """What loopy proved before a block is written outside: the next run carries no call out."""
        code = """
            import sys
            import kcl
            import kcl.loopy as lp
            unit = lp.make_kernel("{[i]: 0<=i<8}", "y[i] = 2*x[i]", lang_version=(2018, 2))
            with kcl.option.cache_dir(sys.argv[1]):
                pass
            print("true" if "loopy.kernel" in sys.modules else "false")
        """
        private = str(tmp_path / "private")
        assert [child.json(code, private) for _ in range(2)] == [True, False]

    def test_nested(self, tmp_path):
        """The inner block's directory counts until it ends, also where an error ends it; a call within ends with it.

        A block within a directory that a call chose leads back to it; the same block may be entered again.
        """
        chosen, outer, inner, within = (
            str(tmp_path / name) for name in ("chosen", "outer", "inner", "within")
        )
        kcl.option.cache_dir(chosen)
        block = kcl.option.cache_dir(outer)
        for _ in range(2):
            with block:
                with suppress(ValueError), kcl.option.cache_dir(inner) as path:
                    assert kcl.option.get_cache_dir() == path == inner
                    kcl.option.cache_dir(within)
                    assert kcl.option.get_cache_dir() == within
                    raise ValueError("ends the block")
                assert kcl.option.get_cache_dir() == outer
            assert kcl.option.get_cache_dir() == chosen
        assert os.listdir(tmp_path) == []

    def test_threads(self, tmp_path):
        """Blocks of two threads that overlap leave nothing behind, whichever ends first."""
        before, entered, may_end = kcl.option.get_cache_dir(), threading.Event(), threading.Event()

        def second():
            with kcl.option.cache_dir(tmp_path / "second"):
                entered.set()
                may_end.wait(60)

        other = threading.Thread(target=second)
        with kcl.option.cache_dir(tmp_path / "first"):
            other.start()
            assert entered.wait(60)
            assert kcl.option.get_cache_dir() == str(tmp_path / "second")
        assert kcl.option.get_cache_dir() == str(tmp_path / "second")
        may_end.set()
        other.join()
        assert kcl.option.get_cache_dir() == before


@pytest.mark.slow
def test_removed_directory(child):
    """After `kcl.flush` the directory can be removed: it does not come back."""
    code = """
        import sys, tempfile
        import numpy as np
        import kcl
        from handle_recipes import add
        from opened import queue_on

        queue = queue_on(sys.argv[1])
        with tempfile.TemporaryDirectory() as folder, kcl.option.cache_dir(folder):
            add()(queue, x=np.zeros(8, np.float32), a=1.0)
            assert kcl.flush()
            assert len(kcl.entries("binary")) == 1
        print(f'"{folder}"')
    """
    folder = child.json(code, PLATFORMS["pocl"])
    time.sleep(2.5)  # the helper lives on for a moment
    assert not os.path.exists(folder)
