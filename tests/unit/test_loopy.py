"""kcl.loopy: the face of loopy under its public name."""

from __future__ import annotations

import importlib

import pytest
from harness import PLATFORMS

import kcl.loopy as lp


def test_nothing_is_imported(child):
    """Naming a function, and making a unit in no recipe, is left to loopy; the import alone is not."""
    code = """
        import json, sys
        import kcl.loopy as lp
        lp.make_kernel, lp.split_iname
        print(json.dumps("loopy" in sys.modules))
        """
    assert child.json(code) is False


def test_same_function():
    """A function of the face is one object."""
    assert lp.split_iname is lp.split_iname


def test_unknown_name():
    """A name that loopy lacks is an AttributeError."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lp.no_such_name
    assert not hasattr(lp, "__no_such_name__")


def test_listed():
    """The names are loopy's."""
    assert set(importlib.import_module("loopy").__all__) <= set(dir(lp))


class TestReport:
    """`KCL_REPORT=1` of a program with `import kcl.loopy` alone."""

    def test_without_a_kernel(self, child):
        """A program that asks for no kernel is told so."""
        assert child.run("import kcl.loopy", KCL_REPORT="1").stderr == "kcl: no kernel was asked for\n"

    @pytest.mark.parametrize("first", ["", "import pyopencl"])
    @pytest.mark.parametrize("off", ["", "1"])
    def test_of_programs_outside(self, child, platform_name, first, off):
        """It names the lines that had pyopencl build a program, however deep in a library, and `kcl.install()`."""
        lines = [
            *(first, "import kcl.loopy as lp", "import numpy as np", "import pyopencl as cl", "import pyopencl.array"),
            f"(platform,) = [one for one in cl.get_platforms() if one.name == {PLATFORMS[platform_name]!r}]",
            "context = cl.Context(platform.get_devices())",
            "queue = cl.CommandQueue(context)",
            "array = cl.array.to_device(queue, np.ones(4))",
            "for _ in range(2): doubled = array * 2",  # line 10
            "unit = lp.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]', lang_version=(2018, 2))",
            "event, (y,) = unit.executor(context)(queue, x=array)",
            "import kcl; kcl.install()",
            "cl.Program(context, 'kernel void f(global int *a) { a[0] = 1; }').build()",
        ]
        (child.directory / "solver.py").write_text("\n".join(lines))
        said = child.python("solver.py", KCL_REPORT="1", KCL_NO_CACHE=off).stderr
        words = "a program of pyopencl was built outside of kcl (solver.py:10); kcl.install() caches it"
        assert " ".join(said.split()).count(words) == (not off)
        assert said.count("built outside") == (not off)

    def test_beside_install(self, child):
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

    def test_of_a_unit_from_elsewhere(self, child, platform_name):
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
