"""kcl.inspect.variants: kernels of one name without parameters, told apart by what differs in their calls."""

import pytest

import kcl
from kcl import option
from kcl.inspect import kernels

pytestmark = pytest.mark.one_platform

TILES = """
    import numpy as np
    import pyopencl as cl
    import loopy as lp

    context = cl.create_some_context(interactive=False)
    queue, x = cl.CommandQueue(context), np.ones(64, np.float32)


    def scaled(name, iname, array):
        arguments = [lp.GlobalArg(f"x,{array}", np.float32, shape="n"), ...]
        domain, instruction = f"{{[{iname}]: 0<={iname}<n}}", f"{array}[{iname}] = 2*x[{iname}]"
        return lp.make_kernel(domain, instruction, arguments, name=name, lang_version=(2018, 2))


    for tile in (8, 16):
        tiled = lp.split_iname(scaled("arakawa", "i", "y"), "i", tile, outer_tag="g.0", inner_tag="l.0")
        tiled.executor(context)(queue, x=x)
    fused = lp.fuse_kernels([scaled("one", "i", "y"), scaled("other", "j", "z")])
    fused.executor(context)(queue, x=x)
"""
TYPED = """
    import numpy as np
    import pyopencl as cl
    import loopy as lp

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    for tile in (8, 16):
        arguments = [lp.GlobalArg("x,y", shape="n"), ...]
        unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", arguments, name="arakawa", lang_version=(2018, 2))
        call = lp.split_iname(unit, "i", tile, outer_tag="g.0", inner_tag="l.0").executor(context)
        for kind in (np.float32, np.float64):
            call(queue, x=np.ones(64, kind))
"""
NAMES = ["arakawa(split_iname 8)", "arakawa(split_iname 16)", "one_and_other"]


def test_told_apart(child):
    (child.directory / "tiles.py").write_text(TILES.replace("\n    ", "\n"))
    child.output("-m", "kcl", "run", "tiles.py", KCL_PROMOTE="off")
    with option.cache_dir(child.cache):
        assert kernels.name_rows(kernels.find_last_run().rows) == NAMES
        said = [str(miss).partition(", ")[0] for miss in kcl.explain()]
        assert sorted(said) == sorted([*NAMES, *NAMES])
        listed = [(one.kernel, dict(one.parameters)) for one in kcl.entries("generator")]
        assert ("arakawa", {"split_iname 8": ""}) in listed
        assert ("one_and_other", {}) in listed


def test_told_apart_with_dtypes(child):
    (child.directory / "typed.py").write_text(TYPED.replace("\n    ", "\n"))
    child.output("-m", "kcl", "run", "typed.py", KCL_PROMOTE="off")
    with option.cache_dir(child.cache):
        names = kernels.name_rows(kernels.find_last_run().rows)
    assert names == [
        f"arakawa(split_iname {tile}) x, y: {kind}"
        for tile in (8, 16)
        for kind in ("float32", "float64")
    ]
