"""Recipes that reach installed distributions: made up ones, in a private directory of packages."""

import truth_editable
import truth_installed
import truth_single

import kcl
from truth.common import scaled


@kcl.kernel(pure=True)
def version():
    return scaled(truth_installed.factor())


@kcl.kernel(pure=True)
def reinstalled():
    return scaled(truth_single.FACTOR)


@kcl.kernel(pure=True)
def editable():
    return scaled(truth_editable.factor())


@kcl.kernel(pure=True)
def installed_lazily():
    from truth_lazy import factor

    return scaled(factor())


@kcl.kernel(pure=True)
def installed_below():
    return scaled(truth_installed.below())


@kcl.kernel(pure=True)
def installed_by_helper():
    return scaled(truth_editable.through())


@kcl.kernel(pure=True)
def installed_object():
    return scaled(truth_installed.TABLE["n"])
