"""kcl.loopy: the face of loopy under its public name."""

import pytest
from harness import PLATFORMS


@pytest.mark.slow_platforms
def test_of_a_unit_from_elsewhere(child, platform_name):
    """A unit of a module that imported loopy above the face is launched by kcl: the next run hits."""
    (child.directory / "above.py").write_text(
        "import loopy as lp\n\n\ndef unit():\n"
        '    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))\n'
    )
    code = f"""
        import above
        import kcl.loopy as lp
        import numpy as np
        import pyopencl as cl
        (platform,) = [one for one in cl.get_platforms() if one.name == {PLATFORMS[platform_name]!r}]
        context = cl.Context(platform.get_devices())  # Intel's queues need it
        queue = cl.CommandQueue(context)
        unit = lp.split_iname(above.unit(), "i", 16, outer_tag="g.0", inner_tag="l.0")
        event, (y,) = unit.executor(context)(queue, x=np.ones(4))
        assert (y == 2).all()
        """
    for outcome in ("0       1", "1       0"):
        said = child.run(code, KCL_REPORT="1").stderr
        assert f"generator     {outcome}" in said, said
        assert f"binary        {outcome}" in said, said
    assert "nothing was generated: above imports it; move that" in said
