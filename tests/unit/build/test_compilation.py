"""kcl.build.compilation: programs from source; `test_stage.py` builds them through the layer."""

import pyopencl as cl
import pytest
from program_texts import generated

from kcl.build import compilation


@pytest.mark.one_platform
def test_failed(context):
    """What does not compile raises pyopencl's own error with log and source."""
    made = generated("__kernel void add(__global float *x) { x[0] = undeclared_name; }\n")
    with pytest.raises(cl.RuntimeError, match="undeclared_name") as raised:
        compilation.from_source(context, made, made.source)
    assert "-DADDEND=1" in str(raised.value)
