"""Memory: kernels that are launched and dropped leave a bounded number of bytes behind."""

import many_kernels
import pytest
from harness import PLATFORMS

MIB = 1 << 20


@pytest.mark.slow
def test_ten_thousand(child, platform_name):
    """10,000 kernels of 200 stored programs leave less than 40 MiB more than pyopencl by hand leaves."""

    def grown(launches, way):
        words = (many_kernels.__file__, PLATFORMS[platform_name], 200, launches, way)
        return child.script(*words, timeout=1200)

    grown(200, "kcl")
    assert grown(10_000, "kcl") - grown(10_000, "hand") < 40 * MIB
