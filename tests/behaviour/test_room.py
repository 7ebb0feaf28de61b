"""The room for what comes next: a front end, a driver, a store and a layer, each in one file, run kernels."""

import contextlib
import inspect
import os

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from opened import over_x
from rooms import blocks, driver, front_end, store
from store_contract import StoreContract

import kcl
from kcl import drivers, frontends
from kcl.base import process, settings
from kcl.cache import faults, layers
from kcl.cache.entry import Entry
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain

pytestmark = pytest.mark.one_platform


@kcl.kernel
def doubled(factor=2):
    return over_x("f", f"*= {factor}", size=8)


@kcl.kernel
def polynomial():
    return front_end.Polynomial(1, 2, 3)


@contextlib.contextmanager
def listening():
    """Within the block, take the outcome in each layer."""
    outcomes = {}
    remove = kcl.add_hook(lambda event: outcomes.update({event.layer: event.outcome}))
    yield outcomes
    remove()


def launched(queue, kernel):
    """Launch on ones; returns the first number, and the outcome in each layer."""
    x = cl_array.zeros(queue, 8, np.float32) + 1
    with listening() as outcomes:
        kernel(queue, x=x)
    return float(x.get()[0]), outcomes


class TestFrontEnd:
    def test_a_file_and_a_row(self, device, monkeypatch):
        """A front end of one file gets its recipes' results; their code is stored and found like any other."""
        monkeypatch.setattr(frontends, "TABLE", [*frontends.TABLE, front_end.ROW])
        for outcome in ("miss", "hit"):
            context = cl.Context([device])
            queue = cl.CommandQueue(context)
            x, y = cl_array.zeros(queue, 4, np.float32) + 2, cl_array.zeros(queue, 4, np.float32)
            with listening() as outcomes:
                polynomial()(queue, x=x, y=y)
            assert y.get().tolist() == [1 + 2 * 2 + 3 * 4] * 4
            assert outcomes["generator"] == outcome
            layers.reset()


@pytest.fixture
def counting(device, monkeypatch):
    monkeypatch.setitem(drivers.TABLE, device.platform.name, driver.ROW)
    drivers.named.cache_clear()
    yield
    drivers.named.cache_clear()


@pytest.mark.usefixtures("counting")
class TestDriver:
    def test_a_file_and_a_row(self, device):
        """A driver of one file is asked for identity and binaries of its platform, and for nobody else's."""
        for outcome in ("miss", "hit"):
            context = cl.Context([device])
            queue = cl.CommandQueue(context)
            assert launched(queue, doubled()) == (2.0, {"generator": outcome, "binary": outcome})
            assert dict(doubled().key(queue)["binary"].parts)["generation"] == "7"
            layers.reset()
        assert {"identity", "completed", "loaded"} <= set(driver.ASKED)


class TestStore(StoreContract):
    def make(self, tmp_path):
        return store.Dbm(tmp_path / "cache")

    def test_a_file(self, queue, tmp_path, monkeypatch):
        """A layer whose row names the store keeps its entries there, and finds them."""
        row = layers.TABLE["generator"]
        stores = [store.Dbm(tmp_path / "near"), store.Dbm(tmp_path / "far")]
        monkeypatch.setitem(layers.TABLE, "generator", row._replace(stores=lambda: list(stores)))
        assert launched(queue, doubled(3))[1]["generator"] == "miss"
        for address in list(stores[0].scan()):  # the second store is only read
            assert stores[1].get(address) is None
            stores[1].put(address, stores[0].get(address))
            stores[0].delete(address)
        assert kcl.flush()
        process.reset()
        assert launched(queue, doubled(3)) == (3.0, {"generator": "hit", "binary": "hit"})


@kcl.kernel
def squared(block):
    code = "kernel void f(global float *x) { x[get_global_id(0)] *= x[get_global_id(0)] * get_local_size(0); }"
    arguments = [kcl.Array("x", "float32", "(8,)", "inout")]
    return kcl.Source(
        code, entry="f", arguments=arguments, global_size="(8,)", local_size=f"({block},)"
    )


@pytest.fixture
def third(monkeypatch):
    monkeypatch.setitem(layers.TABLE, "blocks", blocks.ROW)
    monkeypatch.setattr(settings, "LAYERS", (*settings.LAYERS, "blocks"))
    process.reset()


@pytest.mark.usefixtures("third")
class TestLayer:
    """A row, a name in the list of layers and a stage of at most seventy lines add a layer."""

    def tuned(self, queue):
        """Launch a kernel with the block size that the third layer decides: the number, outcomes, what was asked."""
        asked = []

        def cost(block):
            asked.append(block)
            return abs(block - 3)

        with listening() as outcomes, Lead("squared") as lead:
            block = obtain(blocks.Tune(), ("squared on this device", (1, 2, 8), cost), lead)
            x = cl_array.zeros(queue, 8, np.float32) + 3
            squared(block)(queue, x=x)
        return float(x.get()[0]), outcomes, asked

    def test_a_row_and_a_stage(self, queue):
        """The layer decides once; from then on a kernel is launched with the decision that it finds."""
        missed = dict.fromkeys(("blocks", "generator", "binary"), "miss")
        assert self.tuned(queue) == (18.0, missed, [1, 2, 8])
        layers.reset()
        number, outcomes, asked = self.tuned(queue)
        assert (number, outcomes["blocks"], asked) == (18.0, "hit", [])
        assert {"hits": 1, "misses": 1}.items() <= kcl.stats()["blocks"].items()
        assert len(inspect.getsource(blocks).splitlines()) <= 70

    def test_is_listed_and_removed(self, queue):
        """`kcl.entries` and `kcl.purge` know the layer by its row."""
        self.tuned(queue)
        assert [entry.kernel for entry in kcl.entries("blocks")] == ["squared on this device"]
        assert {entry.layer for entry in kcl.entries()} >= {"blocks", "generator"}
        assert kcl.purge("blocks", kernel="squared*").files == 1
        assert kcl.entries("blocks") == []
        self.tuned(queue)
        assert kcl.purge("blocks").files >= 1
        assert kcl.entries("blocks") == []
        assert self.tuned(queue)[1]["generator"] == "hit"

    def test_is_switched_off_alone(self, queue):
        """Switched off by its name the layer opens no file, and no other is off."""
        with kcl.disabled("blocks"):
            outcomes = self.tuned(queue)[1]
        assert outcomes == {"blocks": "bypass", "generator": "miss", "binary": "miss"}
        assert not os.path.exists(blocks.folder())
        layers.reset()
        number, outcomes, asked = self.tuned(queue)
        assert (number, outcomes["generator"], asked) == (18.0, "hit", [1, 2, 8])

    def test_an_entry_that_cannot_be_used(self, queue):
        """An entry that the stage cannot load is set aside with a warning, and the decision is made again."""
        address, key = blocks.place_of("squared on this device")
        layers.layer("blocks").publish(address, Entry(key, {"kernel": "squared", "worst": 1}, {}))
        with pytest.warns(faults.CacheWarning, match="'best'"):
            number, outcomes, asked = self.tuned(queue)
        assert (number, outcomes["blocks"], asked) == (18.0, "error", [1, 2, 8])
        layers.reset()
        assert self.tuned(queue)[1]["blocks"] == "hit"
