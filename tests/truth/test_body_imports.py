"""Modules that a pure recipe imports inside its body: the key neither runs nor overlooks what decides the number."""

from __future__ import annotations

import py_compile

import pytest

pytestmark = pytest.mark.one_platform

HEAD = """
import sys
import kcl

pure = kcl.kernel(pure=True, version="1")


def kernel(number):
    text = f"kernel void f(global int *x) {{ x[get_global_id(0)] = {number}; }}"
    return kcl.Source(text, entry="f", arguments=[kcl.Array("x", "int32", 4, "out")], global_size=4)


"""
RUN = """
import json, sys
sys.path.insert(0, {folder!r})
import pyopencl as cl
import main
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
print(json.dumps(int(main.made({argument!r})(queue)[1][0].get()[0])))
"""
# name: files, and (argument, what lies in the files from now on, number) of each run
CASES = {
    "a branch that is not taken sets another module": (
        {
            "config.py": "N = 1\n",
            "enable.py": "import config\nconfig.N = 64\n",
            "main.py": "import config\n@pure\ndef made(double):\n    if double:\n"
            "        import enable\n    return kernel(config.N)\n",
        },
        [(False, {}, 1), (False, {}, 1), (True, {}, 64)],
    ),
    "a function that is not called imports a package that sets another module": (
        {
            "config.py": "N = 1\n",
            "gpu/__init__.py": "import config\nconfig.N = 7\n",
            "gpu/thing.py": "x = 1\n",
            "helper.py": "import config\ndef optional():\n    from gpu import thing\n    return thing.x\n"
            "def f():\n    return config.N\n",
            "main.py": "@pure\ndef made(_):\n    import helper\n    return kernel(helper.f())\n",
        },
        [(0, {}, 1), (0, {}, 1)],
    ),
    "a package is asked for a module that nobody imports": (
        {
            "pkg/__init__.py": "",
            "pkg/fast.py": "N = 2\n",
            "main.py": "@pure\ndef made(_):\n    import pkg\n"
            "    return kernel(1 if getattr(pkg, 'fast', None) is None else 2)\n",
        },
        [(0, {}, 1), (0, {}, 1)],
    ),
    "a compiled module in a folder without an init file": (
        {
            "ns/mod.pyc": "def f():\n    return 1\n",
            "main.py": "@pure\ndef made(_):\n    from ns.mod import f\n    return kernel(f())\n",
        },
        [(0, {}, 1), (0, {"ns/mod.pyc": "def f():\n    return 2\n"}, 2)],
    ),
    "a lazy module sets another one": (
        {
            "registry.py": "v = 0\n",
            "eff.py": "import registry\nregistry.v = 1\ndef f():\n    pass\n",
            "main.py": "import registry\neff = kcl.lazy('eff')\n@pure\ndef made(_):\n"
            "    before = registry.v\n    eff.f()\n    return kernel(10 * before + registry.v)\n",
        },
        [(0, {}, 1), (0, {"eff.py": "import registry\nregistry.v = 2\ndef f():\n    pass\n"}, 2)],
    ),
    "a function that is not called imports a package that fails": (
        {
            "gpu/__init__.py": "raise RuntimeError('no GPU')\n",
            "gpu/thing.py": "x = 1\n",
            "helper.py": "def optional():\n    from gpu import thing\n    return thing.x\ndef f():\n    return 1\n",
            "main.py": "@pure\ndef made(_):\n    import helper\n    return kernel(helper.f())\n",
        },
        [(0, {}, 1), (0, {}, 1)],
    ),
}


def write(folder, files):
    """Write the files of a project; one that is called .pyc is compiled."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((HEAD if name == "main.py" else "") + text)
        if path.suffix == ".pyc":
            source = path.with_suffix(".txt")
            path.rename(source)
            py_compile.compile(str(source), cfile=str(path))


@pytest.mark.usefixtures("platform_name")
@pytest.mark.parametrize("name", CASES)
def test_numbers(child, name):
    """Each run computes the number that it computes without a cache."""
    files, runs = CASES[name]
    folder = child.directory / "project"
    write(folder, files)
    for argument, changed, number in runs:
        write(folder, changed)
        code = RUN.format(folder=str(folder), argument=argument)
        assert child.json(code, PYTHONDONTWRITEBYTECODE="1", KCL_NO_CACHE="1") == number
        assert child.json(code, PYTHONDONTWRITEBYTECODE="1") == number
