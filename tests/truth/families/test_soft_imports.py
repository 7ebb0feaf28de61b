"""Libraries that use kcl if it is there: the program beside them has loopy itself, as without kcl."""

import textwrap

import pytest
from beside import Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

SOFT = """
try:
    import kcl.loopy as lp
except ImportError:
    import loopy as lp
"""
HEAD = """
import os
import sys
if "KCL_NO_CACHE" in os.environ:  # Python alone
    sys.modules["kcl"] = None
LIBRARY
import loopy as lp
import loopy


def whose(module):
    return type(module).__name__, module is sys.modules.get("loopy")


"""
TAIL = """
print(whose(loopy), type(lp.make_kernel).__name__)
print(type(lp.make_kernel("{[i]: 0<=i<8}", "y[i] = 2*i", lang_version=(2018, 2))).__module__)
"""


def program(title: str, library: str, text: str = TAIL, module: str = SOFT, **more: str) -> Program:
    files = {"site/soft/__init__.py": module}
    files |= {f"site/{name.replace('__', '/', 1)}.py": body for name, body in more.items()}
    return Program(
        title, HEAD.replace("LIBRARY", library) + textwrap.dedent(text), files=files, alone=True
    )


def soft(text: str) -> str:
    """Write a module that does something if kcl is there."""
    return f"try:\n{textwrap.indent(text, '    ')}\nexcept ImportError:\n    import loopy as lp\n"


RECIPE = """
import kcl

@kcl.kernel{}
def recipe():
    import loopy as lp
    return lp
"""
PROGRAMS = [
    program("a library's soft import", "import soft"),
    program("after the program's import", "import loopy\nimport soft"),
    program("from a module of the package", "import soft.inner", module="", soft__inner=SOFT),
    program("by `from kcl import loopy`", "import soft", module=soft("from kcl import loopy")),
    program(
        "by importlib",
        "import soft",
        module=soft("import importlib\nlp = importlib.import_module('kcl.loopy')"),
    ),
    program("twice, by two libraries", "import soft, other", other____init__=SOFT),
    program("of a name", "import soft", module=soft("from kcl.loopy import make_kernel")),
    program("with a recipe in the library", "import soft", module=soft(RECIPE.format(""))),
    program("with `kcl.lazy`", "import soft", module=soft("import kcl\nlp = kcl.lazy('loopy')")),
    program(
        "classes and replacements of the program",
        "import soft",
        """
        original = lp.split_iname
        lp.split_iname = print
        lp.split_iname("mine")
        lp.split_iname = original
        print(issubclass(lp.PyOpenCLTarget, lp.TargetBase), lp.split_iname is original, type(lp.ArrayArg).__name__)
        print(type(lp.ValueArg("n", "int32")) is lp.ValueArg, lp.ValueArg is sys.modules["loopy"].ValueArg)
        """,
    ),
]
test_soft_imports = compared(PROGRAMS, "plain")
