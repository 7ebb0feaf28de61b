"""kcl.programs: the lines that build programs of pyopencl outside of kcl."""

import pytest
from harness import PLATFORMS


@pytest.mark.one_platform
@pytest.mark.parametrize("first", ["", "import pyopencl"])
def test_lines(child, platform_name, first):
    """It names the lines that had pyopencl build a program, however deep in a library, and `kcl.install()`.

    It names no line of a block where the layer is off.
    """
    lines = [
        *(
            first,
            "import kcl.loopy as lp",
            "import numpy as np",
            "import pyopencl as cl",
            "import pyopencl.array",
        ),
        f"(platform,) = [one for one in cl.get_platforms() if one.name == {PLATFORMS[platform_name]!r}]",
        "context = cl.Context(platform.get_devices())",
        "queue = cl.CommandQueue(context)",
        "array = cl.array.to_device(queue, np.ones(4))",
        "for _ in range(2): doubled = array * 2",  # line 10
        "unit = lp.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]', lang_version=(2018, 2))",
        "event, (y,) = unit.executor(context)(queue, x=array)",
        "import kcl",
        "with kcl.disabled('binary'): cubes = array * array * array",
        "kcl.install()",
        "cl.Program(context, 'kernel void f(global int *a) { a[0] = 1; }').build()",
    ]
    (child.directory / "solver.py").write_text("\n".join(lines))
    said = child.python("solver.py", KCL_REPORT="1").stderr
    words = "a program of pyopencl was built outside of kcl (solver.py:10); kcl.install() caches it"
    assert " ".join(said.split()).count(words) == said.count("built outside") == 1


def test_beside_install(child):
    """What puts that note in place does not outlive `kcl.uninstall()`, and does not keep it from its work."""
    code = """
        import pyopencl as cl
        before = cl.Program.build
        import kcl
        kcl.install()
        import kcl.loopy
        kcl.uninstall()
        assert cl.Program.build is before
        """
    assert child.run(code).stderr == ""
