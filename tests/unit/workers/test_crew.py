"""kcl.workers.crew: what is sent to workers. `test_prepare` has them work."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

from kcl.workers import crew


class TestDtypes:
    @pytest.mark.one_platform
    def test_no_content(self, context):
        """Of arrays and scalars the dtypes are sent, of Python numbers nothing, of parts each."""
        x = cl_array.zeros(cl.CommandQueue(context), 3, np.float32)
        parts = np.empty(2, object)
        parts[:] = [x, np.int32(1)]
        assert crew._dtypes(x) == crew._dtypes(np.float32(1)) == np.float32
        assert crew._dtypes(np.float64) is np.float64
        assert crew._dtypes(3) is None
        assert crew._dtypes((x, 2)) == (np.float32, None)
        assert crew._dtypes(parts).tolist() == [np.float32, np.int32]


class TestDevices:
    def test_places(self, context):
        """A device is found again by its place."""
        for device, (platform, place, name) in zip(context.devices, crew._devices(context), strict=True):
            found = cl.get_platforms()[platform].get_devices()[place]
            assert (found, name) == (device, device.name)
