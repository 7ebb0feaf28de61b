"""Functions of loopy that a program replaces, wraps, hands on and puts back: what it calls is what it put there."""

import textwrap

import pytest
from beside import UNITS, Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

WRAPPER = """
import functools

original = lp.split_iname


@functools.wraps(original)
def mine(kernel, iname, length, **more):
    print("split", iname, length)
    return original(kernel, iname, 2 * length, **more)

"""
CALL = """
show(lp.split_iname(unit(), "i", 2))
"""
TEXTS = {
    "a wrapper, taken away again": f"{CALL}{WRAPPER}lp.split_iname = mine{CALL}lp.split_iname = original{CALL}",
    "names that were imported before the replacement, and after it": """
        from loopy import split_iname as before
        original = lp.split_iname
        lp.split_iname = lambda kernel, iname, length: print("mine", length) or original(kernel, iname, length)
        from loopy import split_iname as after
        show(before(unit(), "i", 2))
        show(after(unit(), "i", 2))
        print(after is lp.split_iname, before is after)
        """,
    "a replacement in the module of the function": """
        import loopy.transform.iname
        module = loopy.transform.iname
        original = module.split_iname
        module.split_iname = lambda kernel, iname, length: print("mine", length) or original(kernel, iname, length)
        show(lp.split_iname(unit(), "i", 2))
        show(module.split_iname(unit(), "i", 2))
        from loopy.transform.iname import split_iname
        show(split_iname(unit(), "i", 4))
        module.split_iname = original
        show(module.split_iname(unit(), "i", 2))
        """,
    "a replacement through `sys.modules`": """
        import importlib
        real = importlib.import_module("loopy")
        original = real.make_kernel
        def mine(domains, text, *rest, **more):
            return original(domains, text.replace("2*", "6*"), *rest, **more)
        real.make_kernel = mine
        show(unit())
        real.make_kernel = original
        show(unit())
        """,
    "a replacement of a method of the unit": """
        import functools
        original = lp.TranslationUnit.executor
        waits = unit()
        @functools.wraps(original)
        def mine(self, *rest, **more):
            print("executor of", sorted(self.entrypoints))
            return original(self, *rest, **more)
        lp.TranslationUnit.executor = mine
        show(waits)
        show(unit(3))
        lp.TranslationUnit.executor = original
        show(unit(3))
        """,
    "a wrapper of the launch of loopy's executor": """
        import functools
        from loopy.target.pyopencl_execution import PyOpenCLExecutor
        original = PyOpenCLExecutor.__call__
        waits = unit()
        @functools.wraps(original)
        def mine(self, queue, **more):
            print("launch")
            return original(self, queue, **more)
        PyOpenCLExecutor.__call__ = mine
        show(waits)
        show(unit(3))
        unit(4)(queue)
        PyOpenCLExecutor.__call__ = original
        show(waits)
        show(unit(3))
        """,
    "a name that is deleted and set again": """
        original = lp.split_iname
        del lp.split_iname
        print(hasattr(lp, "split_iname"))
        try:
            lp.split_iname
        except AttributeError as error:
            print(error)
        lp.split_iname = original
        show(lp.split_iname(unit(), "i", 2))
        """,
}
PROGRAMS = [
    Program(title, UNITS + textwrap.dedent(text), alone=True) for title, text in TEXTS.items()
]
test_replacements = compared(PROGRAMS, "face", "run", "late")
