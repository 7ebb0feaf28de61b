"""Programs to be rebuilt: entries of kernels that ran here, in a cache that is another one then."""

import os

import numpy as np

import kcl
from kcl import option
from kcl.inspect import inventory

N = 16
FINE = "x[i] += 1;"
HANGS = "while (*(volatile global int *)x == 0) ;"  # on zeros
CRASHES = "x[i + (long)(x[i] - 1) * 1000000000] += 1;"  # on zeros


def kernel(name="moved", body=FINE, options=(), before=""):
    """Return a kernel on an array of ones."""

    def moved():
        code = f"{before}\nkernel void {name}(global int *x) {{ int i = get_global_id(0); {body} }}"
        declared = [kcl.Array("x", np.int32, (N,), "inout")]
        return kcl.Source(
            code, entry=name, arguments=declared, global_size=(N,), build_options=options
        )

    moved.__name__ = name
    return kcl.kernel(moved)()


def entries(queue, folder, *kernels):
    """Launch kernels; return the entries of their programs. The cache is another, empty one then."""
    option.cache_dir(os.path.join(folder, "there"))
    for one in kernels:
        one(queue, x=np.ones(N, np.int32))
    assert kcl.flush()
    found = [one.read([]) for one in inventory.entries("binary")]
    option.cache_dir(os.path.join(folder, "here"))
    return found
