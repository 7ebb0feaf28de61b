"""kcl.inspect.about_loopy: loopy was imported though nothing was generated, and what helps."""

import pytest

from conftest import PLATFORMS

pytestmark = pytest.mark.one_platform

PROGRAM = """
{above}
import kcl.loopy as lp
{below}
import numpy as np
import pyopencl as cl
context = cl.create_some_context(interactive=False)
knl = lp.make_kernel("{{[i]: 0<=i<n}}", "y[i] = 2*x[i]", lang_version=(2018, 2))
knl.executor(context)(cl.CommandQueue(context), x=np.ones(100))
"""
IMPORT = "loopy was imported though nothing was generated: a module imports it, see python -X importtime; make that `"


@pytest.fixture
def said(child, platform_name):
    """Run a program with one import twice and return what the report of the second run says, in one line."""

    def run(above, below=""):
        (child.directory / "program.py").write_text(PROGRAM.format(above=above, below=below), encoding="utf-8")
        platform = PLATFORMS[platform_name].partition(" ")[0].partition("(")[0]
        for _ in range(2):
            done = child.python("program.py", PYOPENCL_CTX=platform, KCL_REPORT="1")
            assert done.returncode == 0, done.stderr
        return " ".join(done.stderr.split())

    return run


class TestOneImport:
    def test_module_above(self, child, said):
        """A module that imports loopy above the face is told of, with the cure; below the face it imports the face."""
        (child.directory / "shapes.py").write_text("import loopy as lp\n", encoding="utf-8")
        assert IMPORT in said("import shapes")
        assert "loopy was imported" not in said("", "import shapes")


class TestRecipes:
    def test_loopy_imported(self, warm):
        """A driver that imports loopy at its head though nothing is generated is told so, with the cure."""
        warm.edit("driver.py", "import factors\n", "import loopy\nimport factors\n")
        run = warm.run("loopy", KCL_REPORT="1")
        assert run.set("generator") == {"hit"}
        assert IMPORT in " ".join(run.stderr.split())
        warm.edit("driver.py", "import loopy\nimport factors\n", "import kcl.loopy as lp\nimport factors\n")
        assert "loopy was imported" not in warm.run("loopy", KCL_REPORT="1").stderr

    def test_renamed_driver(self, warm):
        """A driver under another name is told why loopy was imported; its next run does not import it."""
        (warm.folder / "renamed.py").write_text((warm.folder / "driver.py").read_text())
        first, second = (warm.run("loopy", command=("renamed.py",), KCL_REPORT="1") for _ in range(2))
        assert first.set("generator") == second.set("generator") == {"hit"}
        said = " ".join(first.stderr.split())
        assert (
            "nothing was generated: no earlier run proved the calls in renamed.py; proofs are kept by the name" in said
        )
        assert "loopy was imported" not in second.stderr
