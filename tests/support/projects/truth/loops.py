"""Recipes in loopy, which depend on what loopy itself cannot see."""

import kcl


def kernel(name, factor="3", data=(), **keywords):
    """Return loopy code that multiplies by a factor."""
    import loopy as lp
    import numpy as np

    keywords.setdefault("lang_version", (2018, 2))
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"y[i] = {factor}*x[i]",
        [*data, lp.GlobalArg("x", np.float32, "n"), lp.GlobalArg("y", np.float32, "n", is_input=False), ...],
        name=name,
        **keywords,
    )


def preamble(_info):
    yield ("10_factor", "static float generated(float x) { return 5*x; }")


PREAMBLE = "static float given(float x) { return 6*x; }"
OPTIONS = {"return_dict": False}


@kcl.kernel
def loop_body():
    return kernel("loop_body", "3")


@kcl.kernel
def loop_open():
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 4*x[i]", name="loop_open", lang_version=(2018, 2))


@kcl.kernel
def loop_parameter(factor=6):
    return kernel("loop_parameter", factor)


@kcl.kernel
def loop_split(width=8):
    import loopy as lp

    return lp.split_iname(kernel("loop_split"), "i", width, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel
def loop_transformed():
    from truth import transformations

    return transformations.tiled(kernel("loop_transformed"))


@kcl.kernel
def loop_callable():
    import loopy as lp

    from truth.callables import Called

    return lp.register_callable(kernel("loop_callable", "called(1)"), "called", Called("called"))


@kcl.kernel
def loop_preamble_generator():
    import loopy as lp

    from truth.callables import Bare

    unit = lp.register_callable(kernel("loop_preamble_generator", "generated(1)"), "generated", Bare("generated"))
    return lp.register_preamble_generators(unit, [preamble])


@kcl.kernel
def loop_preamble():
    import loopy as lp

    from truth.callables import Bare

    unit = kernel("loop_preamble", "given(1)", preambles=[("10_given", PREAMBLE)])
    return lp.register_callable(unit, "given", Bare("given"))


@kcl.kernel
def loop_name(name="loop_name"):
    return kernel(name)


@kcl.kernel
def loop_options():
    import loopy as lp

    return lp.set_options(kernel("loop_options"), **OPTIONS)


@kcl.kernel
def loop_build_options():
    import loopy as lp

    from truth.callables import Bare

    unit = lp.register_callable(kernel("loop_build_options", "option(1)"), "option", Bare("option"))
    return lp.set_options(unit, build_options=["-Doption(x)=(2*x)"])


@kcl.kernel
def loop_target(width=None):
    import loopy as lp

    return kernel("loop_target", target=lp.PyOpenCLTarget(limit_arg_size_nbytes=width))


@kcl.kernel
def loop_target_options():
    from truth import transformations

    return kernel("loop_target_options", target=transformations.target())


@kcl.kernel
def loop_language_version():
    from truth import versioned

    return versioned.kernel()


@kcl.kernel
def loop_own_version():
    import loopy as lp
    import numpy as np

    return lp.make_kernel(
        "{[i]: 0<=i<n}", "y[i] = 9*x[i]", [lp.GlobalArg("x", np.float32, "n"), ...], name="loop_own_version"
    )


@kcl.kernel
def loop_argument_checks():
    return kernel("loop_argument_checks")


@kcl.kernel
def loop_optimised():
    return kernel("loop_optimised")


@kcl.kernel
def loop_domain(domain="{[i]: 0<=i<n}"):
    import loopy as lp

    return lp.make_kernel(domain, "y[i] = 2*x[i]", name="loop_domain", lang_version=(2018, 2))


@kcl.kernel
def loop_symbolic(expression=None):
    from pymbolic import parse

    return kernel("loop_symbolic", str(expression or parse("2 + 3")))
