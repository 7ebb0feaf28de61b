"""Recipes that reach installed distributions: made up ones, in a private directory of packages."""

import truth_editable
import truth_installed
import truth_single

import kcl
from truth.common import scaled


@kcl.kernel
def version():
    return scaled(truth_installed.factor())


@kcl.kernel
def reinstalled():
    return scaled(truth_single.FACTOR)


@kcl.kernel
def editable():
    return scaled(truth_editable.factor())


@kcl.kernel
def installed_lazily():
    from truth_lazy import factor

    return scaled(factor())


@kcl.kernel
def installed_below():
    return scaled(truth_installed.below())


@kcl.kernel
def installed_by_helper():
    return scaled(truth_editable.through())


@kcl.kernel
def installed_object():
    return scaled(truth_installed.TABLE["n"])
