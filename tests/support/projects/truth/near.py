"""One module away."""

import textwrap

import truth.far as far

__all__ = ["far", "textwrap"]


def helper():
    return 4


def through():
    return far.constant() * 2


def renamed():
    return 8


def other():
    return 9


def relative():
    from .far import REACHED

    return REACHED
