"""kcl.drivers.pocl.stub: the library that stands in for native code that was cut out."""

from __future__ import annotations

import ctypes

import pytest

from kcl.drivers.pocl import stub


class TestStub:
    def test_symbol(self, tmp_path) -> None:
        """The dynamic linker loads the library and finds the one symbol."""
        path = tmp_path / "k.so"
        path.write_bytes(stub.library(stub.symbol_of("k")))
        loaded = ctypes.CDLL(str(path))
        assert hasattr(loaded, "_pocl_kernel_k_workgroup")
        assert not hasattr(loaded, "_pocl_kernel_j_workgroup")

    @pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 200])
    def test_names(self, tmp_path, length: int) -> None:
        """Names of any length fit."""
        path = tmp_path / "k.so"
        path.write_bytes(stub.library("k" * length))
        assert hasattr(ctypes.CDLL(str(path)), "k" * length)
