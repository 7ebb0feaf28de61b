"""Programs in which a unit comes from elsewhere than a plain recipe, or holds more than plain values.

Each function `(run)` is a program, see `beside.programs` and test_recorded_cases.py.
"""

import importlib

import numpy as np
from beside_driver import Run, quiet  # noqa: F401

import kcl
import kcl.loopy as lp

X = np.arange(1, 17, dtype=np.float32)
_real = importlib.import_module  # gives the real loopy, whoever asks


def scaled(times, loopy=lp, name="scaled", **keywords):
    """Return a unit that multiplies."""
    arguments = [loopy.GlobalArg("x,y", np.float32, shape="n"), loopy.ValueArg("n", np.int32)]
    beside = {"name": name, "lang_version": (2018, 2), **keywords}
    return loopy.make_kernel("{[i]: 0<=i<n}", f"y[i] = {times}*x[i]", arguments, **beside)


# {{{ where the unit comes from

OUTSIDE = scaled(3, name="outside")


@kcl.kernel
def from_outside():
    return OUTSIDE


@kcl.kernel
def split_from_outside(size=4):
    return lp.split_iname(OUTSIDE, "i", size)


@quiet
def made_outside(run):
    kernels = (from_outside(), split_from_outside(), split_from_outside(8), from_outside())
    return [run(kernel) for kernel in kernels]


def made_outside_by_the_real_loopy(run):
    unit = scaled(5, _real("loopy"), name="really")

    @kcl.kernel
    def really():
        return unit

    @kcl.kernel
    def really_split():
        return lp.split_iname(unit, "i", 4)

    return run(really()), run(really_split()), run(really())


@kcl.kernel
def given(unit, size=4):
    return lp.split_iname(unit, "i", size)


@kcl.kernel
def given_and_returned(unit):
    return unit


@quiet
def given_as_a_parameter(run):
    units = [scaled(times, name="parameter") for times in (2, 3)]
    return [run(given(unit)) for unit in units], [run(given_and_returned(unit)) for unit in units]


def given_as_a_real_unit(run):
    unit = scaled(11, _real("loopy"), name="real_parameter")
    return run(given(unit)), run(given_and_returned(unit))


@quiet
def shared_by_two_recipes(run):
    shared = scaled(4, name="shared")

    @kcl.kernel
    def one():
        return lp.tag_inames(lp.split_iname(shared, "i", 4), {"i_inner": "unr"})

    @kcl.kernel
    def other():
        return lp.assume(shared, "n mod 4 = 0")

    return run(one()), run(other()), run(shared)


@quiet
def a_recipe_as_a_helper_of_another(run):
    @kcl.kernel
    def inner(times):
        return scaled(times, name="helped")

    @kcl.kernel
    def outer(times):
        return lp.split_iname(inner.function(times), "i", 4)

    return run(outer(2)), run(outer(3)), run(inner(3))


@quiet
def a_recipe_that_launches(run):
    @kcl.kernel
    def first():
        return scaled(2, name="launched_inside")

    @kcl.kernel
    def second():
        return scaled(int(run(first())), name="launching")

    return run(second())


# }}}

# {{{ several kernels in one unit


def calling(name, times):
    """Return a unit that calls a function, and the unit of that function."""
    inner, version = f"{name}_callee", {"lang_version": (2018, 2)}
    within, outside = ([lp.GlobalArg(one, np.float32, shape=(16,))] for one in ("a,b", "x,y"))
    text = f"b[j] = {times}*a[j]"
    callee = lp.make_function("{[j]: 0<=j<16}", text, within, name=inner, **version)
    text = f"[i]: y[i] = {inner}([i]: x[i])"
    return lp.make_kernel("{[i]: 0<=i<16}", text, outside, name=name, **version), callee


@quiet
def merged(run):
    @kcl.kernel
    def together(times):
        return lp.merge(calling("merged", times))

    return run(together(2)), run(together(3))


def a_registered_kernel(run):
    @kcl.kernel
    def together(times, inline=False):
        caller, callee = calling("registered", times)
        unit = lp.register_callable(caller, "registered_callee", callee["registered_callee"])
        return lp.inline_callable_kernel(unit, "registered_callee") if inline else unit

    return run(together(2)), run(together(3)), run(together(3, inline=True))


def with_kernel(run):
    @kcl.kernel
    def changed(name):
        unit = scaled(6, name="before")
        return unit.with_kernel(unit.default_entrypoint.copy(silenced_warnings=frozenset({name})))

    return run(changed("one")), run(changed("other"))


# }}}

# {{{ what stands in arguments


def a_target_of_the_user(run):
    class Target(lp.PyOpenCLTarget):
        number = 2

        def get_device_ast_builder(self):
            return super().get_device_ast_builder()

    class Other(Target):
        number = 3

    for kind in Target, Other:  # loopy's own caches pickle them by these names
        kind.__qualname__ = kind.__name__
        globals()[kind.__name__] = kind

    @kcl.kernel
    def aimed(kind):
        return scaled(kind.number, name="aimed", target=kind())

    return run(aimed(Target)), run(aimed(Other))


def arguments_of_the_user(run):
    class Mine(_real("loopy").ArrayArg):
        """An argument of another class."""

    space = lp.AddressSpace.GLOBAL

    @kcl.kernel
    def argued(dtype):
        arrays = [
            Mine(name, kind, shape="n", address_space=space)
            for name, kind in {"x": np.float32, "y": dtype}.items()
        ]
        arguments = [*arrays, lp.ValueArg("n", np.int32)]
        return lp.make_kernel(
            "{[i]: 0<=i<n}", "y[i] = x[i]/4", arguments, name="argued", lang_version=(2018, 2)
        )

    return run(argued(np.float32)), run(argued(np.int32))


# }}}
