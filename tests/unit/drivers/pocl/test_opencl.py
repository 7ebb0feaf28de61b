"""kcl.drivers.pocl.opencl: OpenCL through ctypes, on real drivers."""

import os

import numpy as np
import pyopencl as cl
import pytest

from kcl.drivers.pocl.opencl import Library, RefusedCall

SOURCE = b"kernel void one(global int *x) { x[0] = ADDEND; } kernel void two(global int *x) { x[0] = 2; }"
FOLDER = os.path.dirname(cl.__file__)


@pytest.fixture(scope="module")
def library():
    """The library that pyopencl uses."""
    return Library(FOLDER)


@pytest.fixture
def facts(device):
    """What an entry says about platform and device."""
    platform = {"name": device.platform.name, "version": device.platform.version}
    return platform, {"name": device.name, "driver": device.driver_version}


@pytest.fixture
def found(library, facts):
    return library.device(*facts)


class TestLibrary:
    def test_other_device(self, library, facts):
        """A device of another name or version, or of another platform, is not taken for the one that is wanted."""
        platform, device = facts
        assert library.device(platform, {**device, "name": "another"}) is None
        assert library.device(platform, {**device, "driver": "0"}) is None
        assert library.device({**platform, "version": "OpenCL 0"}, device) is None

    def test_a_call_that_opencl_refuses_names_itself_and_the_status(self, library):
        with pytest.raises(RefusedCall, match=r"^clGetPlatformIDs: -30$"):
            library.call("clGetPlatformIDs", 0, None, None)
        with pytest.raises(RefusedCall, match=r"^clCreateKernel: -\d+$"):
            library.make("clCreateKernel", None, b"one")

    def test_the_lack_of_pyopencls_extension_module_is_said(self, tmp_path):
        with pytest.raises(OSError, match="no extension module"):
            Library(str(tmp_path))


class TestProgram:
    def test_kernels(self, found):
        """A program names its kernels, and refuses one that it lacks; source that does not compile is refused."""
        program = found.from_source(SOURCE, b"-DADDEND=1")
        assert sorted(program.kernel_names()) == ["one", "two"]
        program.create_kernels(["one", "two"])
        with pytest.raises(RefusedCall, match="clCreateKernel"):
            program.create_kernels(["three"])
        program.close()
        with pytest.raises(RefusedCall, match="clBuildProgram"):
            found.from_source(SOURCE, b"")

    def test_binary(self, found, context):
        """A binary can be loaded here, and by pyopencl, where it computes what the source says."""
        program = found.from_source(SOURCE, b"-DADDEND=7")
        binary = program.binary()
        program.close()
        again = found.from_binary(binary, b"")
        assert sorted(again.kernel_names()) == ["one", "two"]
        again.close()
        loaded = cl.Program(context, context.devices, [binary]).build()
        queue, result = cl.CommandQueue(context), np.zeros(1, np.int32)
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, result.nbytes)
        loaded.one(queue, (1,), None, buffer)
        cl.enqueue_copy(queue, result, buffer)
        assert result.tolist() == [7]
