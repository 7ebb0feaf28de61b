"""The family of kernels.py as recipes of kcl, by names under which worker processes find them."""

from __future__ import annotations

from typing import Any

import kernels

import kcl


@kcl.kernel
def vector(variant: int) -> Any:
    return kernels.vector(variant)


@kcl.kernel
def plane(variant: int) -> Any:
    return kernels.plane(variant)


@kcl.kernel
def rows(variant: int) -> Any:
    return kernels.rows(variant)


@kcl.kernel
def stencil(variant: int) -> Any:
    return kernels.stencil(variant)


@kcl.kernel
def product(variant: int) -> Any:
    return kernels.product(variant)


def case(number: int) -> kcl.Kernel:
    """Return kernel ``number`` of the family."""
    recipe, variant = kernels.case(number)
    found: kcl.Kernel = globals()[recipe.__name__](variant)
    return found
