"""Program texts, and what the tests of the build stage ask of them."""

import kcl
from kcl import drivers
from kcl.code import ProgramText
from kcl.programs.stage import Build

ADD = "__kernel void add(__global float *x) { x[get_global_id(0)] += ADDEND; }\n"
INCLUDING = '#include "addend.h"\n' + ADD


def generated(source=ADD, options=("-DADDEND=1",), kernels=("add",)):
    """Return what a front end would have made of OpenCL C."""
    return ProgramText("add", source, tuple(options), kernels)


def build_on(context):
    """Return the stage of a context that nothing is known about."""
    return Build(context, drivers.of(context))


def key(context, made):
    """Return the program key on a context that nothing is known about."""
    return build_on(context).slots(made)[0].key


def outcomes():
    """Collect the outcomes of the look-ups from now on."""
    seen = []
    kcl.add_hook(lambda event: seen.append(event.outcome))
    return seen
