"""The room for what comes next: a front end, a driver, a store and a layer, each in one file, run kernels."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from harness import ROOT
from rooms import driver, front_end, store, tuning

import kcl
from kcl import drivers
from kcl.base import process
from kcl.cache import layers
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.cache.stores.contract import StoreContract
from kcl.generate import frontends

pytestmark = pytest.mark.one_platform


@kcl.kernel
def doubled(factor=2):
    """Return OpenCL C that scales."""
    code = f"kernel void f(global float *x) {{ x[get_global_id(0)] *= {factor}; }}"
    return kcl.Source(code, entry="f", arguments=[kcl.Array("x", "float32", "(8,)", "inout")], global_size="(8,)")


@kcl.kernel
def polynomial():
    """Return what the new front end takes."""
    return front_end.Polynomial(1, 2, 3)


def launched(queue, kernel):
    """Launch on ones; returns the first number, and the outcome in each layer."""
    seen = []
    remove = kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))
    x = cl_array.zeros(queue, 8, np.float32) + 1
    kernel(queue, x=x)
    remove()
    return float(x.get()[0]), dict(seen)


class TestFrontEnd:
    def test_a_file_and_a_row(self, device, monkeypatch):
        """A front end of one file gets its recipes' results; their code is stored and found like any other."""
        monkeypatch.setattr(frontends, "TABLE", [*frontends.TABLE, front_end.ROW])
        seen = []
        kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))
        for outcome in ("miss", "hit"):
            context = cl.Context([device])
            queue = cl.CommandQueue(context)
            x, y = cl_array.zeros(queue, 4, np.float32) + 2, cl_array.zeros(queue, 4, np.float32)
            polynomial()(queue, x=x, y=y)
            assert y.get().tolist() == [1 + 2 * 2 + 3 * 4] * 4
            assert seen.pop(0) == ("generator", outcome)
            seen.clear()
            layers.reset()


class TestDriver:
    def test_a_file_and_a_row(self, device, monkeypatch):
        """A driver of one file is asked for identity and binaries of its platform, and for nobody else's."""
        drivers.named.cache_clear()
        monkeypatch.setitem(drivers.TABLE, device.platform.name, driver.ROW)
        try:
            for outcome in ("miss", "hit"):
                context = cl.Context([device])
                queue = cl.CommandQueue(context)
                assert launched(queue, doubled()) == (2.0, {"generator": outcome, "binary": outcome})
                assert dict(doubled().key(queue)["binary"].parts)["generation"] == "7"
                layers.reset()
        finally:
            drivers.named.cache_clear()
        assert {"identity", "completed", "loaded"} <= set(driver.ASKED)


class TestStore(StoreContract):
    def make(self, tmp_path):
        """Return the store of one file."""
        return store.Dbm(tmp_path / "cache")

    def test_a_file(self, queue, tmp_path, monkeypatch):
        """A layer whose row names the store keeps its entries there, and finds them."""
        row = layers.TABLE["generator"]
        stores = [store.Dbm(tmp_path / "near"), store.Dbm(tmp_path / "far")]
        monkeypatch.setitem(layers.TABLE, "generator", row._replace(stores=lambda: (list(stores), [])))
        assert launched(queue, doubled(3))[1]["generator"] == "miss"
        assert list(stores[0].scan()) == list(stores[1].scan()) != []
        for address in list(stores[0].scan()):
            stores[0].delete(address)
        process.reset()
        assert launched(queue, doubled(3)) == (3.0, {"generator": "hit", "binary": "hit"})


class TestLayer:
    def test_a_row_and_a_stage(self, tmp_path, monkeypatch):
        """A third layer of at most sixty lines decides once, and finds its decision from then on."""
        monkeypatch.setitem(layers.TABLE, "tuning", tuning.row(tmp_path / "tuning"))
        seen, asked = [], []
        kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))

        def cost(block):
            asked.append(block)
            return abs(block - 20)

        for _ in range(2):
            with Lead("matmul") as lead:
                assert obtain(tuning.Tune(), ("matmul on this device", (8, 16, 32), cost), lead) == 16
            layers.reset()
        assert seen == [("tuning", "miss"), ("tuning", "hit")]
        assert asked == [8, 16, 32]
        assert len((ROOT / "tests" / "support" / "rooms" / "tuning.py").read_text().splitlines()) <= 60
