"""What a build reads beside its text: headers wherever they lie, options and variables; for loopy its own."""

from __future__ import annotations

import pytest
from family import LOOPY, SOURCE, Case, Edit, Link, Variables, Write, check, ran, rows

TWO, THREE = "#define FACTOR 2\n", "#define FACTOR 3\n"
DEFAULT = "#ifndef FACTOR\n#define FACTOR 2\n#endif"
TEXT = '''
HERE = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = [kcl.Array("x", np.float32, "(n,)"), kcl.Array("y", np.float32, "(n,)", "out"), kcl.Scalar("n", np.int32)]
CODE = """
kernel void NAME(global const float *x, global float *y, int n)
{
    y[get_global_id(0)] = FACTOR * x[get_global_id(0)];
}
"""


@kcl.kernel
def NAME():
    folders = [os.path.join(HERE, name) for name in ("first", "kernels")]
    return kcl.Source(WRITTEN + CODE, entry="NAME", arguments=ARGUMENTS, global_size="(n,)",
        include_dirs=folders, build_options=OPTIONS)
'''


def source(title, head, change, files=(), options=(), **more):
    """Return a case in OpenCL C whose factor comes of a head of the text, of headers and of options."""
    text = TEXT.replace("WRITTEN", repr(head + "\n")).replace("OPTIONS", repr([*options]))
    return Case(title, text, 2, 3, change, SOURCE, {"first/other.h": "", **dict(files)}, **more)


def header(title, head, name, **more):
    """Return a case whose header is edited."""
    return source(title, head, Edit("2", "3", f"kernels/{name}"), {f"kernels/{name}": TWO}, **more)


LOOPS = """
@kcl.kernel
def NAME():
    import loopy as lp

    code = lp.CInstruction("i", "y[i] = factor(x[i]);", assignees="y[i]", read_variables=frozenset({"x"}))
    knl = lp.make_kernel("{[i]: 0<=i<n}", [code], [lp.GlobalArg("x,y", np.float32, shape="n"), ...],
        MORE,
        name="NAME", lang_version=(2018, 2))
    return lp.set_options(knl, build_options=OPTIONS)
"""


def loops(title, more, options, *edited):
    """Return a case in loopy whose factor comes of a preamble or of an option."""
    text = LOOPS.replace("MORE", more).replace("OPTIONS", repr(options))
    return Case(title, text, 2, 3, Edit(*edited), LOOPY)


CASES = [
    header("a header", '#include "header.h"', "header.h"),
    source(
        "of a header",
        '#include "outer.h"',
        Edit("2", "3", "kernels/inner.h"),
        {"kernels/outer.h": '#include "inner.h"\n', "kernels/inner.h": TWO},
    ),
    source("shadowed", '#include "shadowed.h"', Write({"first/shadowed.h": THREE}), {"kernels/shadowed.h": TWO}),
    source(
        "a link",
        '#include "link.h"',
        Link("kernels/link.h", "three.txt"),
        {"kernels/two.txt": TWO, "kernels/three.txt": THREE},
        links={"kernels/link.h": "two.txt"},
    ),
    source("an option", "", Edit("-DFACTOR=2", "-DFACTOR=3"), options=["-DFACTOR=2"]),
    source(
        "the order of folders",
        '#include "both.h"',
        Edit('("first", "kernels")', '("kernels", "first")'),
        {"first/both.h": TWO, "kernels/both.h": THREE},
    ),
    source("an option of pyopencl", DEFAULT, Variables(PYOPENCL_BUILD_OPTIONS="-DFACTOR=3"), alone=True),
    source("an option of PoCL", DEFAULT, Variables(POCL_EXTRA_BUILD_FLAGS="-DFACTOR=3"), alone=True),
    loops("a preamble", "preambles=[('0', '#define factor(x) (2*x)')]", [], "2*x", "3*x"),
    loops("an option of a unit", "preambles=[]", ["-Dfactor(x)=(2*x)"], "2*x", "3*x"),
]
ROWS = rows(CASES)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(8)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_builds(case, told, platform_name):
    """The number is that of a process without a cache, and what did not change is warm."""
    if "PoCL" in str(case) and platform_name != "pocl":
        pytest.skip("a variable of PoCL's")
    check(case, told[str(case)])
