"""Every public name has an example in its docstring, and the example runs, on PoCL in a cache of its own."""

import doctest
import inspect
import os
import types

import numpy as np
import pyopencl as cl
import pytest
from harness import PLATFORMS, platforms
from opened import over_x, queue_on

import kcl

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """Return every public name with its object: those of kcl, the methods of its classes, the calls of kcl.option."""
    found = {name: getattr(kcl, name) for name in kcl.__all__}
    for name, value in list(found.items()):
        if inspect.isclass(value):
            kinds = (types.FunctionType, classmethod, staticmethod)
            for each, member in vars(value).items():
                if isinstance(member, kinds) and not each.startswith("_"):
                    found[f"{name}.{each}"] = getattr(value, each)
    return found | {f"option.{name}": getattr(kcl.option, name) for name in kcl.option.__all__}


PUBLIC = public()


@kcl.kernel
def doubled(factor=2):
    return over_x("doubled", f"*= {factor}")


@pytest.fixture(scope="module")
def pocl():
    assert "pocl" in platforms()
    return queue_on(PLATFORMS["pocl"])


@pytest.mark.parametrize("name", PUBLIC)
def test_example(name, pocl, tmp_path, monkeypatch):
    docstring = inspect.getdoc(PUBLIC[name]) or ""
    monkeypatch.setenv("KCL_PROMOTE", "off")
    monkeypatch.chdir(tmp_path)
    given = {"kcl": kcl, "np": np, "cl": cl, "os": os, "doubled": doubled}
    given |= {"queue": pocl, "context": pocl.context, "x": np.ones(4, np.float32)}
    test = doctest.DocTestParser().get_doctest(docstring, given, name, None, None)
    assert test.examples, f"the docstring of kcl.{name} has no example"
    said = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
