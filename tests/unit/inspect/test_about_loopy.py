"""kcl.inspect.about_loopy: who had loopy imported though nothing was generated, and what helps."""

import functools
import shutil

import pytest
from harness import PLATFORMS, Child

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
IMPORTS = "loopy was imported though nothing was generated: "


def run(child, platform_name, above="", below=""):
    """Run a program with one import; return what its report says, in one line."""
    (child.directory / "program.py").write_text(
        PROGRAM.format(above=above, below=below), encoding="utf-8"
    )
    platform = PLATFORMS[platform_name].partition(" ")[0].partition("(")[0]
    # No helper is left, which would write in a cache that is copied.
    done = child.python("program.py", PYOPENCL_CTX=platform, KCL_REPORT="1", KCL_PROMOTE="off")
    assert done.returncode == 0, done.stderr
    return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def first(platform_name, tmp_path_factory):
    child = Child(tmp_path_factory.mktemp("first"))
    run(child, platform_name)
    return child.cache


@pytest.fixture
def said(child, platform_name, first):
    shutil.copytree(first, child.cache)
    return functools.partial(run, child, platform_name)


class TestOneImport:
    def test_module_above(self, child, said):
        """A module that is imported above the face is named, with the cure that fits."""
        (child.directory / "shapes.py").write_text("import loopy as lp\n", encoding="utf-8")
        cure = "shapes imports it; move that import below `import kcl.loopy`, or import shapes by kcl.lazy"
        assert IMPORTS + cure in said("import shapes")
        assert IMPORTS not in said("", "import shapes")

    def test_nobody_shows_it(self, said):
        """If no module holds anything of loopy, the cure is said without a name."""
        cure = "an import needs it; move that import below `import kcl.loopy`, or use kcl.lazy"
        assert IMPORTS + cure in said("__import__('loopy.version')")

    def test_library_below(self, child, said):
        """A library that gets no face is named, wherever it is imported."""
        site = child.directory / "site-packages"
        for name, text in {
            "stencils/__init__.py": "import loopy\n",
            "stencils-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: stencils\nVersion: 1\n",
            "stencils-1.dist-info/RECORD": "stencils/__init__.py,,\n",
        }.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(text)
        cure = "stencils imports it; move that import below `import kcl.loopy`, or import stencils by kcl.lazy"
        below = f"import sys; sys.path.append({str(site)!r}); import stencils"
        assert IMPORTS + cure in said("", below)


class TestRecipes:
    def test_loopy_imported(self, warm):
        warm.edit("driver.py", "import factors\n", "import loopy\nimport factors\n")
        run = warm.run("loopy", KCL_REPORT="1")
        assert run.set("generator") == {"hit"}
        said = " ".join(run.stderr.split())
        cure = "make that `import kcl.loopy as lp`, import it inside recipes, or use kcl.lazy"
        assert f"{IMPORTS}driver.py imports it at its head; {cure}" in said
        warm.edit("driver.py", "import loopy\n", "import kcl.loopy as lp\n")
        assert "loopy was imported" not in warm.run("loopy", KCL_REPORT="1").stderr

    def test_renamed_driver(self, warm):
        """A driver under another name is told why loopy was imported; its next run does not import it."""
        (warm.folder / "renamed.py").write_text((warm.folder / "driver.py").read_text())
        first, second = (warm.run("loopy", command=["renamed.py"], KCL_REPORT="1") for _ in "12")
        assert first.set("generator") == second.set("generator") == {"hit"}
        said = " ".join(first.stderr.split())
        assert f"{IMPORTS}no earlier run proved the calls in renamed.py; proofs are kept by" in said
        assert "import it inside recipes" not in said
        assert "loopy was imported" not in second.stderr

    def test_renamed_with_an_import(self, warm):
        """A driver under another name that imports loopy at its head is told of that import, which stays."""
        text = (warm.folder / "driver.py").read_text()
        (warm.folder / "renamed.py").write_text(f"import loopy\n{text}")
        run = warm.run("loopy", command=("renamed.py",), KCL_REPORT="1")
        assert run.set("generator") == {"hit"}
        assert IMPORTS + "renamed.py imports it at its head" in " ".join(run.stderr.split())
