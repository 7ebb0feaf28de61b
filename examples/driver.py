"""Run ten kernels that people really write, check them against numpy, and show what the caches did.

    python examples/driver.py [--json FILE]

Run it twice: the second process generates nothing, compiles nothing and does not import loopy. Each recipe below is
ordinary loopy (or OpenCL C) and runs in every process: what it imports as loopy is kcl's face of it, which records what
the recipe asks, and the record is the key of the stored code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from typing import Any, NamedTuple

STARTED = time.perf_counter()

import numpy as np  # noqa: E402  (after the clock)
import pyopencl as cl  # noqa: E402

import kcl  # noqa: E402

NO_PLATFORM = """\
driver: no OpenCL platform found, so there is no device to run on.
On Linux x86-64 this installs a CPU device, without root:  pip install pocl-binary-distribution"""


class Outcome(NamedTuple):
    """What a kernel computed, what numpy computes, and how far apart they may be."""

    computed: np.ndarray
    expected: np.ndarray
    tolerance: float = 1e-5


def ramp(*shape: int, dtype: Any = np.float32, seed: int = 1) -> np.ndarray:
    """Return numbers between -0.5 and 0.5 that are the same in every run and on every machine."""
    steps = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (
        (((steps * (2 * seed + 3571) + 11 * seed) % 10007) / 10007 - 0.5)
        .astype(dtype)
        .reshape(shape)
    )


# --- axpy ---------------------------------------------------------------------------------------------------------


@kcl.kernel
def axpy(block=64, dtype=np.float32):
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "z[i] = alpha*x[i] + y[i]",
        [
            lp.GlobalArg("x,y", dtype, shape="n"),
            lp.GlobalArg("z", dtype, shape="n", is_input=False),
            lp.ValueArg("alpha", dtype),
            lp.ValueArg("n", np.int32),
        ],
        name="axpy",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


def run_axpy(queue):
    x, y = ramp(1000), ramp(1000, seed=2)
    _, (z,) = axpy(block=64)(queue, x=x, y=y, alpha=np.float32(2.5))
    return Outcome(z, np.float32(2.5) * x + y)


# --- tiled matrix product -----------------------------------------------------------------------------------------


@kcl.kernel
def matmul(block=16):
    """Multiply square matrices tile by tile; the dtypes of ``a`` and ``b`` are left open."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        name="matmul",
        lang_version=(2018, 2),
    )
    knl = lp.assume(knl, f"n >= {block} and n mod {block} = 0")
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


def run_matmul(queue):
    a, b = ramp(64, 64), ramp(64, 64, seed=3)
    _, (c,) = matmul(block=16)(queue, a=a, b=b)
    return Outcome(c, a @ b)


def run_matmul_double(queue):
    """Launch the same recipe with other dtypes: an entry of its own."""
    a, b = ramp(32, 32, dtype=np.float64), ramp(32, 32, dtype=np.float64, seed=3)
    _, (c,) = matmul(block=16)(queue, a=a, b=b)
    return Outcome(c, a @ b, 1e-13)


# --- 2-D stencil --------------------------------------------------------------------------------------------------


@kcl.kernel
def laplacian(tile=8):
    """Apply the 5-point Laplacian to the inside of a grid, with the tile and its halo in local memory."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        "out[i,j] = u[i,j+1] + u[i+2,j+1] + u[i+1,j] + u[i+1,j+2] - 4*u[i+1,j+1]",
        [
            lp.GlobalArg("u", np.float32, shape="n+2,n+2"),
            lp.GlobalArg("out", np.float32, shape="n,n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
        name="laplacian",
        lang_version=(2018, 2),
    )
    knl = lp.assume(knl, f"n >= {tile} and n mod {tile} = 0")
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(
        knl, "u", ["i_inner", "j_inner"], fetch_bounding_box=True, default_tag="l.auto"
    )


def run_laplacian(queue):
    u = ramp(66, 66, seed=4)
    _, (out,) = laplacian(tile=8)(queue, u=u)
    inside = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    return Outcome(out, inside)


# --- discontinuous Galerkin volume term ---------------------------------------------------------------------------


@kcl.kernel
def dg_volume(directions=3, nodes=10):
    """Differentiate every element's nodal values along each direction: ``D[d,i,j]*u[e,j]``."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[d,e,i,j]: 0<=d<directions and 0<=e<elements and 0<=i,j<nodes}",
        "du[e,d,i] = scale[e,d]*sum(j, D[d,i,j]*u[e,j])",
        [
            lp.GlobalArg("D", np.float64, shape="directions,nodes,nodes"),
            lp.GlobalArg("u", np.float64, shape="elements,nodes"),
            lp.GlobalArg("scale", np.float64, shape="elements,directions"),
            lp.GlobalArg("du", np.float64, shape="elements,directions,nodes", is_input=False),
            lp.ValueArg("elements", np.int32),
        ],
        name="dg_volume",
        lang_version=(2018, 2),
    )
    knl = lp.fix_parameters(knl, directions=directions, nodes=nodes)
    knl = lp.split_iname(knl, "e", 8, outer_tag="g.0", inner_tag="l.1")
    return lp.tag_inames(knl, "i:l.0, d:unr")


def run_dg_volume(queue):
    matrices, u = ramp(3, 10, 10, dtype=np.float64), ramp(50, 10, dtype=np.float64, seed=5)
    scale = ramp(50, 3, dtype=np.float64, seed=6)
    _, (du,) = dg_volume(directions=3, nodes=10)(queue, D=matrices, u=u, scale=scale)
    return Outcome(du, scale[:, :, None] * np.einsum("dij,ej->edi", matrices, u), 1e-13)


# --- row reduction ------------------------------------------------------------------------------------------------


@kcl.kernel
def row_norms(width=32):
    """Sum the squares of each row, one work-group to a row."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i,j]: 0<=i<rows and 0<=j<columns}",
        "norm[i] = sum(j, a[i,j]*a[i,j])",
        [
            lp.GlobalArg("a", np.float32, shape="rows,columns"),
            lp.GlobalArg("norm", np.float32, shape="rows", is_input=False),
            lp.ValueArg("rows,columns", np.int32),
        ],
        name="row_norms",
        silenced_warnings=["write_race(insn)"],  # every lane writes the same sum
        lang_version=(2018, 2),
    )
    knl = lp.split_reduction_outward(lp.split_iname(knl, "j", width, inner_tag="l.0"), "j_inner")
    return lp.tag_inames(knl, "i:g.0")


def run_row_norms(queue):
    a = ramp(40, 100, seed=7)
    _, (norm,) = row_norms(width=32)(queue, a=a)
    return Outcome(norm, (a * a).sum(axis=1))


# --- n-body potential ---------------------------------------------------------------------------------------------


@kcl.kernel
def nbody(block=64):
    """Sum 1/r over all other bodies."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i,j,k]: 0<=i,j<n and 0<=k<3}",
        """
        for i
            <> potential = sum(j, if(i == j, 0.0f, mass[j]*rsqrt(sum(k, (x[i,k] - x[j,k])**2) + 1e-6f)))
            phi[i] = potential
        end
        """,
        [
            lp.GlobalArg("x", np.float32, shape="n,3"),
            lp.GlobalArg("mass", np.float32, shape="n"),
            lp.GlobalArg("phi", np.float32, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
        name="nbody",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, "k:unr")


def run_nbody(queue):
    x, mass = ramp(300, 3, seed=8) * np.float32([1, 1.7, 2.3]), ramp(300, seed=9) + np.float32(1)
    _, (phi,) = nbody(block=64)(queue, x=x, mass=mass)
    squares = ((x[:, None, :].astype(np.float64) - x[None, :, :]) ** 2).sum(axis=2) + 1e-6
    terms = mass / np.sqrt(squares)
    np.fill_diagonal(terms, 0)
    return Outcome(phi, terms.sum(axis=1), 1e-4)


# --- gather by index ----------------------------------------------------------------------------------------------


@kcl.kernel
def gather(block=32):
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = table[index[i]]",
        [
            lp.GlobalArg("table", np.float32, shape="m"),
            lp.GlobalArg("index", np.int32, shape="n"),
            lp.GlobalArg("out", np.float32, shape="n", is_input=False),
            lp.ValueArg("m,n", np.int32),
        ],
        name="gather",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


def run_gather(queue):
    table = ramp(257, seed=10)
    index = (np.arange(500, dtype=np.int32) * 73) % 257
    _, (out,) = gather()(queue, table=table, index=index)
    return Outcome(out, table[index], 0)


# --- complex scaling ----------------------------------------------------------------------------------------------


@kcl.kernel
def phase_shift():
    """Turn every complex number by the same factor; the dtypes come from the arguments."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "w[i] = factor*z[i]",
        [lp.ValueArg("factor", np.complex64), lp.GlobalArg("z", np.complex64, shape="n"), "..."],
        name="phase_shift",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def run_phase_shift(queue):
    z = (ramp(200, seed=11) + 1j * ramp(200, seed=12)).astype(np.complex64)
    factor = np.complex64(0.6 + 0.8j)
    _, (w,) = phase_shift()(queue, z=z, factor=factor)
    return Outcome(w, factor * z)


# --- two sweeps: two device kernels in one program ----------------------------------------------------------------


@kcl.kernel
def smooth():
    """Average neighbours, then average with the mirror image: two device kernels, a global barrier between them."""
    import loopy as lp

    knl = lp.make_kernel(
        ["{[i]: 0<=i<n}", "{[j]: 0<=j<n}"],
        """
        once[i] = 0.25*(u[i] + 2*u[i+1] + u[i+2]) {id=first}
        ... gbarrier {id=between, dep=first}
        out[j] = 0.5*(once[j] + once[n-1-j]) {id=second, dep=between}
        """,
        [
            lp.GlobalArg("u", np.float64, shape="n+2"),
            lp.GlobalArg("once,out", np.float64, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
        name="smooth",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def run_smooth(queue):
    u = ramp(258, dtype=np.float64, seed=13)
    _, (once, out) = smooth()(queue, u=u)
    expected = 0.25 * (u[:-2] + 2 * u[1:-1] + u[2:])
    return Outcome(
        np.concatenate([once, out]),
        np.concatenate([expected, 0.5 * (expected + expected[::-1])]),
        1e-14,
    )


# --- OpenCL C from a file -----------------------------------------------------------------------------------------


@kcl.kernel
def reconstruct(group=64):
    """Hand-written OpenCL C that includes a header; both lie in a folder beside this file."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
    return kcl.Source.from_file(
        os.path.join(folder, "reconstruct.cl"),
        entry="reconstruct",
        arguments=[
            kcl.Array("u", np.float32, shape="(n,)"),
            kcl.Array("face", np.float32, shape="(n,)", direction="out"),
            kcl.Scalar("n", np.int32),
        ],
        global_size=f"((n + {group - 1}) // {group} * {group},)",
        local_size=f"({group},)",
        include_dirs=[folder],
    )


def run_reconstruct(queue):
    u = ramp(1000, seed=14)
    _, (face,) = reconstruct()(queue, u=u, n=np.int32(len(u)))
    left, right = u - np.roll(u, 1), np.roll(u, -1) - u
    smaller = np.where(np.abs(left) < np.abs(right), left, right)
    return Outcome(face, u + np.float32(0.5) * np.where(left * right <= 0, np.float32(0), smaller))


# --- the driver ---------------------------------------------------------------------------------------------------

RUNS = {
    "axpy": run_axpy,
    "matmul": run_matmul,
    "matmul, double": run_matmul_double,
    "laplacian": run_laplacian,
    "dg volume": run_dg_volume,
    "row norms": run_row_norms,
    "n-body": run_nbody,
    "gather": run_gather,
    "phase shift": run_phase_shift,
    "smooth": run_smooth,
    "reconstruct": run_reconstruct,
}


def main() -> int:
    """Run all kernels; return 0, 1 where a number is wrong, 2 without an OpenCL platform."""
    parser = argparse.ArgumentParser(description="Run ten kernels and show what the caches did.")
    parser.add_argument(
        "--json", metavar="FILE", help="also write results, statistics and seconds to FILE"
    )
    options = parser.parse_args()
    if not has_platform():
        print(NO_PLATFORM, file=sys.stderr)
        return 2
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    print(f"on {context.devices[0].name.strip()} ({context.devices[0].platform.name.strip()})")
    wrong, results = [], {}
    for name, run in RUNS.items():
        outcome = run(queue)
        results[name] = checksum(outcome.computed)
        good = np.allclose(
            outcome.computed, outcome.expected, rtol=outcome.tolerance, atol=outcome.tolerance
        )
        print(f"{name:<16}{results[name]:<40}{'as numpy' if good else 'WRONG'}")
        if not good:
            wrong.append(name)
    seconds = time.perf_counter() - STARTED
    print(f"{seconds:.2f} s in all\n\n{kcl.report()}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            record = {
                "results": results,
                "stats": kcl.stats(),
                "seconds": seconds,
                "loopy": "loopy" in sys.modules,
            }
            json.dump(record, stream, indent=1)
    if wrong:
        print(f"driver: not what numpy computes: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def has_platform() -> bool:
    """Return whether any OpenCL platform is visible; the loader raises instead of returning an empty list."""
    try:
        return bool(cl.get_platforms())
    except cl.LogicError:
        return False


def checksum(array: np.ndarray) -> str:
    """Return the sum for people and a CRC over every bit for comparing runs."""
    crc = zlib.crc32(np.ascontiguousarray(array).tobytes())
    return f"sum {array.sum():.6g}, crc {crc:08x}"


if __name__ == "__main__":
    sys.exit(main())
