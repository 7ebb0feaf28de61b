"""Kernels of OpenCL C that run one statement for each element of their arrays."""

import numpy as np

import kcl

_TYPES = {np.float32: "float", np.float64: "double", np.int32: "int"}


def elementwise(name, statement, dtype=np.float32, local_size=None, **directions):
    """Return a Source over arrays of n elements, which are named with their directions; `i` is the element."""
    arrays = ", ".join(f"global {_TYPES[dtype]} *{array}" for array in directions)
    text = f"kernel void {name}({arrays}, int n) {{ int i = get_global_id(0); {statement} }}"
    arguments = [kcl.Array(array, dtype, "n", direction) for array, direction in directions.items()]
    return kcl.Source(
        text,
        entry=name,
        arguments=[*arguments, kcl.Scalar("n", np.int32)],
        global_size="n",
        local_size=local_size,
    )


def one_array(name, statement, dtype=np.float32, size=4, direction="inout", **options):
    """Return a Source over one array x of a fixed size; `i` is the element."""
    text = (
        f"kernel void {name}(global {_TYPES[dtype]} *x) {{ int i = get_global_id(0); {statement} }}"
    )
    arguments = [kcl.Array("x", dtype, size, direction)]
    return kcl.Source(
        text, **{"entry": name, "arguments": arguments, "global_size": size, **options}
    )
