"""What recipes do to their kernels."""

import loopy as lp

WIDTH = 16


def tiled(unit):
    return lp.split_iname(unit, "i", WIDTH, outer_tag="g.0", inner_tag="l.0")


def target():
    return lp.PyOpenCLTarget(use_int8_for_bool=True)
