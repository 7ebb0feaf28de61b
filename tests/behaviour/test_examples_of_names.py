"""Every public name has an example in its docstring, and the example runs, on PoCL in a cache of its own."""

import doctest
import inspect
import os

import numpy as np
import pyopencl as cl
import pytest
from harness import PLATFORMS, platforms

import kcl

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """Return every public name with its object: those of kcl, the methods of its classes, the calls of kcl.option."""
    found = {name: getattr(kcl, name) for name in kcl.__all__}
    for name, value in list(found.items()):
        if inspect.isclass(value):
            members = {
                each: member for each, member in vars(value).items() if not each.startswith("_")
            }
            kinds = (classmethod, staticmethod)
            calls = [
                each
                for each, one in members.items()
                if inspect.isfunction(one) or isinstance(one, kinds)
            ]
            found |= {f"{name}.{each}": getattr(value, each) for each in calls}
    return found | {f"option.{name}": getattr(kcl.option, name) for name in kcl.option.__all__}


PUBLIC = public()


@kcl.kernel
def doubled(factor=2):
    """The recipe of the examples."""
    text = f"kernel void doubled(global float *x) {{ x[get_global_id(0)] *= {factor}; }}"
    arguments = [kcl.Array("x", np.float32, "(4,)", "inout")]
    return kcl.Source(text, entry="doubled", arguments=arguments, global_size="(4,)")


@pytest.fixture(scope="module")
def pocl():
    """A queue on PoCL."""
    assert "pocl" in platforms()
    (platform,) = [one for one in cl.get_platforms() if one.name == PLATFORMS["pocl"]]
    return cl.CommandQueue(cl.Context(platform.get_devices()))


def examples(name):
    """Return the examples in the docstring of a name."""
    return doctest.DocTestParser().get_examples(inspect.getdoc(PUBLIC[name]) or "", name)


@pytest.mark.parametrize("name", PUBLIC)
def test_example(name, pocl, tmp_path, monkeypatch):
    """The example says what happens."""
    assert examples(name), f"the docstring of kcl.{name} has no example"
    monkeypatch.setenv("KCL_PROMOTE", "off")
    monkeypatch.chdir(tmp_path)
    given = {
        "kcl": kcl,
        "np": np,
        "cl": cl,
        "os": os,
        "queue": pocl,
        "context": pocl.context,
        "doubled": doubled,
    }
    given["x"] = np.ones(4, np.float32)
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(PUBLIC[name]), given, name, None, None
    )
    said = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
