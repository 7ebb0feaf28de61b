"""A recipe runs in every process: what it reads and where it lies counts as it does without a cache."""

import textwrap

import pytest
from beside import Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

HEAD = """
import pathlib
import threading

import kcl


def made(number):
    text = f"kernel void NAME(global int *y) {{ y[get_global_id(0)] = {number}; }}"
    return kcl.Source(text, entry="NAME", arguments=[kcl.Array("y", np.int32, 4, "out")], global_size=4)


def launch(kernel):
    _event, (y,) = kernel(queue)
    return int(y.get(queue)[0])


"""
MODULE = """
import kcl
import numpy as np


@kcl.kernel
def NAME():
    import loopy as lp

    arguments = [lp.GlobalArg("y", np.int32, shape=(4,), is_input=False)]
    return lp.make_kernel("{[i]: 0<=i<4}", "y[i] = THIS", arguments, name="NAME", lang_version=(2018, 2))
"""
TEXTS = {
    "a thread reads a file": """
        @kcl.kernel
        def NAME():
            found = []
            thread = threading.Thread(target=lambda: found.append(int(pathlib.Path("NAME.txt").read_text())))
            thread.start()
            thread.join()
            return made(found[0])

        print(launch(NAME()))
        """,
    "a recipe of a module that was made from a path": """
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("NAME_recipes", "NAME_plugins.py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        print(launch(module.NAME()))
        """,
    "an installed recipe that is edited": """
        import NAME_package

        print(launch(NAME_package.NAME()))
        """,
}
FILES = {
    "a thread reads a file": {"NAME.txt": "THIS"},
    "a recipe of a module that was made from a path": {"NAME_plugins.py": MODULE},
    "an installed recipe that is edited": {"site/NAME_package/__init__.py": MODULE},
}
PROGRAMS = [
    Program(title, HEAD + textwrap.dedent(text), files=FILES.get(title, {}), warm=True)
    for title, text in TEXTS.items()
]
test_recipes = compared(PROGRAMS, "install")
