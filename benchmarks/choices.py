"""Recipes with spaces of 60 to 120 choices, and one of 3,000, with the arrays that they are tuned on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kcl

GRID, BATCH, ORDER = 96, 4096, 12  # rows of the stencil's grid; small products, and their rows
SUMS = 4096  # of the kernel that is bound by arithmetic
Arrays = dict[str, np.ndarray[Any, Any]]


class Case(NamedTuple):
    """A recipe, and the shapes and dtype of its arrays; the first one is the output."""

    recipe: Any
    shapes: dict[str, tuple[int, ...]]
    dtype: Any

    @property
    def n(self) -> int:
        """The size of the recipe."""
        return next(iter(self.shapes.values()))[0]

    def arrays(self) -> Arrays:
        """Return arrays for a call."""
        random = np.random.default_rng(1)
        return {
            name: random.random(shape).astype(self.dtype) for name, shape in self.shapes.items()
        }


def _unit(domain: str, statement: str, names: str, dtype: Any) -> Any:
    import loopy as lp

    arguments = [lp.GlobalArg(name, dtype, shape=lp.auto) for name in names]
    return lp.make_kernel(
        domain, statement, [*arguments, ...], name="tuned", lang_version=(2018, 2)
    )


@kcl.kernel(
    sizes={"n": "x.shape[0]"},
    space=kcl.space(
        group=[4, 16, 64, 256], unroll=[1, 4, 16], loop=[1, 8, 64], exact=[False, True]
    ).where(lambda group, unroll, loop, exact, n: not exact or n % (group * unroll * loop) == 0),
)
def axpy(group=64, unroll=1, loop=1, exact=False):
    """Add vectors: work-items of a group, elements of a work-item in a row, and blocks of them."""
    import loopy as lp

    knl = _unit("{[i]: 0<=i<n}", "z[i] = 2*x[i] + y[i]", "zxy", np.float32)
    if exact:
        knl = lp.assume(knl, f"n mod {group * unroll * loop} = 0")
    knl = lp.split_iname(knl, "i", group * unroll * loop, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", group * unroll)
    return lp.split_iname(knl, "i_inner_inner", unroll, outer_tag="l.0", inner_tag="unr")


@kcl.kernel(
    sizes={"n": "a.shape[0]"},
    space=kcl.space(
        rows=[1, 4, 16, 64], columns=[1, 4, 8, 16, 64], along=["i", "j"], exact=[False, True]
    )
    .where(lambda rows, columns: 4 <= rows * columns <= 1024)
    .where(lambda rows, columns, exact, n: not exact or n % max(rows, columns) == 0),
)
def transposed(rows=16, columns=16, along="i", exact=False):
    """Copy a matrix transposed, in tiles."""
    import loopy as lp

    knl = _unit("{[i,j]: 0<=i,j<n}", "b[i,j] = a[j,i]", "ba", np.float32)
    if exact:
        knl = lp.assume(knl, f"n mod {max(rows, columns)} = 0")
    tags = {"i": "l.1", "j": "l.1", along: "l.0"}
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag=tags["i"])
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag=tags["j"])


@kcl.kernel(
    sizes={"n": "z.shape[0]"},
    space=kcl.space(bi=[1, 2, 4, 8], bj=[1, 4, 16], bk=[4, 16, 32, 96], along=["i", "k"]).where(
        lambda bi, bj, bk: bi * bj * bk <= 1024
    ),
)
def stencil(bi=4, bj=4, bk=16, along="k"):
    """Apply the 7-point stencil in blocks."""
    import loopy as lp

    knl = _unit(
        "{[i,j,k]: 0<=i,j,k<n}",
        "z[i,j,k] = x[i,j+1,k+1] + x[i+2,j+1,k+1] + x[i+1,j,k+1] + x[i+1,j+2,k+1] + x[i+1,j+1,k] + x[i+1,j+1,k+2]"
        " - 6*x[i+1,j+1,k+1]",
        "zx",
        np.float64,
    )
    tags = (
        {"i": "l.2", "j": "l.1", "k": "l.0"}
        if along == "k"
        else {"i": "l.0", "j": "l.1", "k": "l.2"}
    )
    knl = lp.split_iname(knl, "i", bi, outer_tag="g.2", inner_tag=tags["i"])
    knl = lp.split_iname(knl, "j", bj, outer_tag="g.1", inner_tag=tags["j"])
    return lp.split_iname(knl, "k", bk, outer_tag="g.0", inner_tag=tags["k"])


@kcl.kernel(
    sizes={"n": "a.shape[0]"},
    space=kcl.space(batch=[1, 4, 16, 64], rows=[1, 4, 12], unroll=[1, 3, 12], along=["e", "i"]),
)
def products(batch=16, rows=12, unroll=1, along="e"):
    """Multiply many small matrices."""
    import loopy as lp

    knl = _unit(
        f"{{[e,i,j,k]: 0<=e<n and 0<=i,j,k<{ORDER}}}",
        "z[e,i,j] = sum(k, a[e,i,k]*b[e,k,j])",
        "zab",
        np.float64,
    )
    tags = {"e": "l.1", "i": "l.1", along: "l.0"}
    knl = lp.split_iname(knl, "e", batch, outer_tag="g.0", inner_tag=tags["e"])
    knl = lp.split_iname(knl, "i", rows, inner_tag=tags["i"])
    return lp.split_iname(knl, "k", unroll, inner_tag="unr")


@kcl.kernel(
    sizes={"n": "a.shape[0]"},
    space=kcl.space(
        inner=["l.0", "ilp.seq", "ilp.unr"], bi=[1, 2, 4, 8, 16], bj=[4, 8, 16, 32, 64]
    ).where(lambda bi, bj: bi * bj <= 256),
)
def matmul(inner="l.0", bi=16, bj=16):
    """Multiply two matrices; the columns of a block are work-items, or sums of one work-item."""
    import loopy as lp

    knl = _unit("{[i,j,k]: 0<=i,j,k<n}", "c[i,j] = sum(k, a[i,k]*b[k,j])", "cab", np.float32)
    knl = lp.split_iname(
        knl, "i", bi, outer_tag="g.1", inner_tag="l.1" if inner == "l.0" else "l.0"
    )
    return lp.split_iname(knl, "j", bj, outer_tag="g.0", inner_tag=inner)


WRITTEN = """
kernel void copied(global float *restrict b, global const float *restrict a, int n) {
    int first_row = get_global_id(1)*HIGH, first_column = get_global_id(0)*WIDE;
    for (int outer = 0; outer < (BY_ROWS ? HIGH : WIDE); ++outer)
        UNROLL
        for (int inner = 0; inner < (BY_ROWS ? WIDE : HIGH); ++inner) {
            int row = first_row + (BY_ROWS ? outer : inner), column = first_column + (BY_ROWS ? inner : outer);
            b[row*n + column] = a[column*n + row];
        }
}
"""


def written(X=16, Y=16, WIDE=1, HIGH=1, BY_ROWS=1, UNROLL=""):
    """Copy a matrix transposed, in OpenCL C: work-items of a group, the elements of each, and their order."""
    given = {"X": X, "Y": Y, "WIDE": WIDE, "HIGH": HIGH, "BY_ROWS": BY_ROWS, "UNROLL": UNROLL}
    return kcl.Source(
        "".join(f"#define {name} {value}\n" for name, value in given.items()) + WRITTEN,
        entry="copied",
        arguments=[
            kcl.Array("b", np.float32, ("n", "n"), "out"),
            kcl.Array("a", np.float32, ("n", "n")),
            kcl.Scalar("n", np.int32),
        ],
        global_size=(f"n//{WIDE}", f"n//{HIGH}"),
        local_size=(X, Y),
    )


def _written(lists: dict[str, list[Any]]) -> Any:
    space = (
        kcl.space(**lists)
        .where(lambda X, Y: X * Y <= 1024)
        .where(lambda X, Y, WIDE, HIGH, n: n % (X * WIDE) == n % (Y * HIGH) == 0)
    )
    return kcl.kernel(sizes={"n": "a.shape[0]"}, space=space)(written)


FEW = {"X": [1, 4, 16, 64], "Y": [1, 4, 16, 64], "WIDE": [1, 4], "HIGH": [1, 4], "BY_ROWS": [0, 1]}
POWERS = [1, 2, 4, 8, 16, 32, 64]
MANY = {
    "X": POWERS,
    "Y": POWERS,
    "WIDE": POWERS[:4],
    "HIGH": POWERS[:4],
    "BY_ROWS": [0, 1],
    "UNROLL": ["", '_Pragma("unroll")'],
}


def _sums(groups: int) -> Any:
    """Return a recipe bound by arithmetic in 1 or 16 work-groups; both take the same processor time."""

    @kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(groups=[1, 16]))
    def sums(groups=groups):
        import loopy as lp

        knl = _unit(
            f"{{[i,j]: 0<=i<{SUMS} and 0<=j<n}}", "z[i] = sum(j, x[j]*(x[j] + i))", "zx", np.float32
        )
        knl = lp.split_iname(knl, "i", SUMS // groups, outer_tag="g.0")
        return lp.split_iname(knl, "i_inner", 64, inner_tag="l.0")

    return sums


def _square(n: int, names: str) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(names, (n, n))


RECIPES = {
    "axpy": Case(axpy, dict.fromkeys("zxy", (1 << 20,)), np.float32),
    "transposed copy": Case(transposed, _square(2048, "ba"), np.float32),
    "stencil": Case(stencil, {"z": (GRID,) * 3, "x": (GRID + 2,) * 3}, np.float64),
    "small products": Case(products, dict.fromkeys("zab", (BATCH, ORDER, ORDER)), np.float64),
    "matmul 256": Case(matmul, _square(256, "cab"), np.float32),
    "matmul 1000": Case(matmul, _square(1000, "cab"), np.float32),
}
CASES = {
    **RECIPES,
    "of 120": Case(_written(FEW), _square(1024, "ba"), np.float32),
    "of 3,000": Case(_written(MANY), _square(1024, "ba"), np.float32),
    **{
        f"{groups} by default": Case(_sums(groups), dict.fromkeys("zx", (SUMS,)), np.float32)
        for groups in (1, 16)
    },
}
