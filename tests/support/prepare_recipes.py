"""Recipes of the tests of `kcl.prepare`, in a module that worker processes import."""

import os
import sys

import numpy as np

import kcl

IN_WORKER = any("multiprocessing.spawn" in word for word in sys.orig_argv)


def source(text: str) -> kcl.Source:
    return kcl.Source(
        text,
        entry="filled",
        arguments=[kcl.Array("x", np.float32, "(4,)", "out")],
        global_size="(4,)",
    )


def body(value: object) -> str:
    return f"kernel void filled(global float *x) {{ x[get_global_id(0)] = {value}; }}"


@kcl.kernel
def filled(number):
    return source(body(number))


@kcl.kernel
def fatal(number):
    """End a worker, and nothing else."""
    if IN_WORKER:
        os._exit(1)
    return source(body(number))


@kcl.kernel
def scaled(factor):
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {factor}*a*x[i]", name="scaled")
