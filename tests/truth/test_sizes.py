"""Recipes with sizes compute what loopy computes, whatever sizes a call has.

Calls are made up from a seed: sizes of all classes, again and anew, by a call and by a bound launch. `KCL_TRUTH_SIZES`
says how many calls of each recipe, `KCL_TRUTH_SEED` the seed.
"""

import os
import random

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl

CALLS = int(os.environ.get("KCL_TRUTH_SIZES", "100"))
SEED = int(os.environ.get("KCL_TRUTH_SEED", "1"))
SIZES = (1, 2, 3, 4, 5, 8, 16, 17, 32, 48, 63, 64, 65, 100, 128, 192)
EXTENTS = (1, 2, 3, 4, 5, 16)
ONE, BOTH = "{[i]: 0<=i<n}", "{[i,j]: 0<=i<n and 0<=j<k}"
# name: (domain, statement, the block of n, how the inner loop is tagged, what is done with k)
FORMS = {
    "groups": (ONE, "z[i] = 2*x[i]", 64, "l.0", ""),
    "small groups": (ONE, "z[i] = 2*x[i]", 4, "l.0", ""),
    "unrolled": (ONE, "z[i] = x[i] + 1", 16, "unr", ""),
    "in turns": (ONE, "z[i] = x[i] - 3", 64, None, ""),
    "lanes": (ONE, "z[i] = x[i]*x[i]", 4, "ilp", ""),
    "sum": (BOTH, "z[i] = sum(j, w[i,j])", 16, "l.0", "unr"),
    "sum of few": (BOTH, "z[i] = sum(j, w[i,j]*w[i,j])", 64, "l.0", "fixed"),
    "product": (BOTH, "z[i] = sum(j, w[i,j]*v[j])", 4, "unr", "unr"),
    "row": (BOTH, "y[i,j] = w[i,j] + x[i] {id=a}", 16, "l.0", "fixed"),
    "scaled": (BOTH, "y[i,j] = w[i,j]*v[j]", 64, None, "unr"),
}


@kcl.kernel(sizes=kcl.sizes(n="w.shape[0]", k="w.shape[1]", fixed="auto", most=2))
def both(n, k, form):
    return built(form, n, k)


@kcl.kernel(sizes={"n": "x.shape[0]"})
def one(n, form):
    return built(form, n, None)


def built(form, n=None, k=None):
    """Return the unit of a form; without sizes it is the general one."""
    import loopy as lp

    domain, statement, block, tag, what = FORMS[form]
    knl = lp.make_kernel(domain, statement, name="made", lang_version=(2018, 2))
    if n is not None:
        knl = n.assume(knl)
    if k is not None and what and k.fixed:
        knl = lp.fix_parameters(knl, k=k.fixed)
        if what == "unr":
            knl = lp.tag_inames(knl, "j:unr")
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag=tag)


def arrays(queue, form, n, k):
    """Return the arguments of a call, on the device."""
    shapes = {"x": (n,), "v": (k,), "w": (n, k), "z": (n,), "y": (n, k)}
    used = [name for name in shapes if f"{name}[" in FORMS[form][1]]
    values = np.random.default_rng(n * 100 + k)
    return {
        name: cl_array.to_device(queue, values.integers(0, 9, shapes[name]).astype(np.float32))
        for name in used
    }


@pytest.mark.slow
@pytest.mark.one_platform
@pytest.mark.parametrize("form", FORMS)
def test_sizes(context, form):
    """Each call, and each bound launch that is not refused, gives the numbers of loopy's general kernel."""
    import loopy as lp

    queue, choices = cl.CommandQueue(context), random.Random(f"{SEED} {form}")
    kernel = (both if FORMS[form][4] else one)(form=form)
    with lp.CacheMode(False):
        general = built(form).executor(context)
    bound = refused = 0
    launch = None
    for number in range(CALLS):
        n, k = choices.choice(SIZES), choices.choice(EXTENTS)
        given = arrays(queue, form, n, k)
        (name,) = given.keys() & {"z", "y"}
        general(queue, **given)
        expected = given[name].get()
        given[name].fill(-1)
        if launch is None or number % 10 == 0:
            launch = kernel.bind(queue, **given)
        if choices.random() < 0.5:
            kernel(queue, **given)
        else:
            try:
                launch(**given)
                bound += 1
            except ValueError as error:
                assert "bind again" in str(error)  # noqa: PT017
                refused += 1
                continue
        assert np.array_equal(given[name].get(), expected), (n, k)
    assert bound
    assert refused
