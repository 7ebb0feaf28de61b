"""The kernels that every benchmark launches: a numbered family in which each program differs from all others.

A recipe is an ordinary function that builds a loopy kernel and imports loopy inside, so that the same function serves
loopy alone and `kcl.kernel`. `case` tells which recipe, and which variant of it, kernel ``number`` is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

Recipe = Callable[[int], Any]

VECTOR = 1024
PLANE = 64

# Problem sizes under the names that they have in every kernel; loopy and kcl find them from shapes, the floor has them.
SIZES = {"n": VECTOR, "m": PLANE}


def declared(inputs: str, size: str, output: str) -> list[Any]:
    """Declare single-precision ``inputs`` and ``out`` of these shapes, and the size that both are made of."""
    import loopy as lp

    return [
        lp.GlobalArg(inputs, np.float32, shape=size),
        lp.GlobalArg("out", np.float32, shape=output, is_input=False),
        lp.ValueArg(size[0], np.int32),
    ]


def vector(variant: int) -> Any:
    """Combine two vectors, axpy-like, with a number of terms that varies."""
    import loopy as lp

    terms = " + ".join(
        f"{variant + 2 * term + 1}*{'xy'[term % 2]}[i]" for term in range(2 + variant % 5)
    )
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"out[i] = {terms}",
        declared("x,y", "n", "n"),
        name=f"vector_{variant}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 32 << variant % 3, outer_tag="g.0", inner_tag="l.0")


def plane(variant: int) -> Any:
    """Combine a matrix with the transpose of another, point by point."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i,j]: 0<=i,j<m}",
        f"out[i,j] = {variant % 7 + 1}*a[i,j] - {variant + 1}*b[j,i]*a[i,j]",
        declared("a,b", "m,m", "m,m"),
        name=f"plane_{variant}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", 4 << variant % 2, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 8 << variant % 2, outer_tag="g.0", inner_tag="l.0")


def rows(variant: int) -> Any:
    """Reduce every row of a matrix."""
    import loopy as lp

    operation = ("sum", "max", "min")[variant % 3]
    knl = lp.make_kernel(
        "{[i,j]: 0<=i,j<m}",
        f"out[i] = {operation}(j, a[i,j]*{variant + 1} + b[j,i])",
        declared("a,b", "m,m", "m"),
        name=f"rows_{variant}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 16 << variant % 2, outer_tag="g.0", inner_tag="l.0")


def stencil(variant: int) -> Any:
    """Weigh the neighbours of every inner point."""
    import loopy as lp

    reach = 1 + variant % 3
    points = " + ".join(f"{variant + shift + 4}*x[i+{shift}]" for shift in range(2 * reach + 1))
    knl = lp.make_kernel(
        f"{{[i]: 0<=i<n-{2 * reach}}}",
        f"out[i] = {points}",
        declared("x", "n", "n"),
        name=f"stencil_{variant}",
        lang_version=(2018, 2),
    )
    knl = lp.assume(knl, f"n >= {2 * reach + 1}")
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def product(variant: int) -> Any:
    """Multiply two matrices tile by tile with prefetches: the expensive one to generate."""
    import loopy as lp

    block = 8 << variant % 2
    knl = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<m}",
        f"out[i,j] = sum(k, a[i,k]*b[k,j]) + {variant}",
        declared("a,b", "m,m", "m,m"),
        name=f"product_{variant}",
        lang_version=(2018, 2),
    )
    knl = lp.assume(knl, f"m >= {block} and m mod {block} = 0")
    knl = lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", block, outer_tag="g.1", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", block)
    outer = "i_outer,j_outer,k_outer"
    knl = lp.add_prefetch(
        knl, "a", ["k_inner", "i_inner"], fetch_outer_inames=outer, default_tag="l.auto"
    )
    return lp.add_prefetch(
        knl, "b", ["j_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto"
    )


# recipe, names of its inputs, shape of its output
FAMILY: tuple[tuple[Recipe, tuple[str, ...], tuple[int, ...]], ...] = (
    (vector, ("x", "y"), (VECTOR,)),
    (plane, ("a", "b"), (PLANE, PLANE)),
    (rows, ("a", "b"), (PLANE,)),
    (stencil, ("x",), (VECTOR,)),
    (product, ("a", "b"), (PLANE, PLANE)),
)


def case(number: int) -> tuple[Recipe, int]:
    """Return the recipe of kernel ``number`` and the variant to call it with."""
    return FAMILY[number % len(FAMILY)][0], number // len(FAMILY)


class Arguments:
    """Device arrays for every kernel: inputs shared by all, an output for each."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue
        shapes: dict[str, tuple[int, ...]] = {
            "x": (VECTOR,),
            "y": (VECTOR,),
            "a": (PLANE, PLANE),
            "b": (PLANE, PLANE),
        }
        self.inputs = {
            name: cl_array.to_device(queue, _ramp(shape, seed))
            for seed, (name, shape) in enumerate(shapes.items())
        }
        self.outputs: list[cl_array.Array] = []

    def of(self, number: int) -> dict[str, cl_array.Array]:
        """Return the arrays that kernel ``number`` takes, a new output of zeros among them."""
        _, inputs, shape = FAMILY[number % len(FAMILY)]
        out = cl_array.to_device(self.queue, np.zeros(shape, np.float32))
        self.outputs.append(out)
        return {name: self.inputs[name] for name in inputs} | {"out": out}

    def checksum(self) -> str:
        """Wait for every launch and return a CRC over all outputs."""
        self.queue.finish()
        crc = 0
        for out in self.outputs:
            crc = zlib.crc32(out.get().tobytes(), crc)
        return f"{crc:08x}"


def _ramp(shape: tuple[int, ...], seed: int) -> np.ndarray:
    steps = np.arange(int(np.prod(shape)), dtype=np.int64)
    return ((steps * (2 * seed + 3571) % 10007) / 10007 - 0.5).astype(np.float32).reshape(shape)
