"""Programs with sizes: each has a recipe, the calls that it makes, and what numpy computes for them.

`python sized_programs.py PLATFORM ORDER [TITLE ...]` prints a line of JSON for each call: program, number of the call,
and the numbers, or class and words of the error. `alone` gives each call a handle of its own; `after` makes all calls,
the last one first, before it prints them; `bound` launches through `bind` where that can be.
"""

import copy
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from opened import queue_on

import kcl

warnings.simplefilter("ignore")


class SizedProgram(NamedTuple):
    """A recipe, and its calls as (arguments, expected outputs); None is expected of a call that is refused."""

    recipe: Any
    calls: list[tuple[dict[str, Any], np.ndarray | None]]


PROGRAMS: dict[str, SizedProgram] = {}


def program(calls: list[tuple[dict[str, Any], Any]], sizes: Any, **declared: Any) -> Any:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        recipe = kcl.kernel(sizes=sizes, **declared)(function)
        PROGRAMS[function.__name__] = SizedProgram(recipe, calls)
        return function

    return add


def floats(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def twice(size: int, n: int) -> np.ndarray:
    """Return what the first n of an array give, in an array of zeros."""
    return np.where(np.arange(size) < n, 2 * floats(size), 0).astype(np.float32)


def part(size: int, n: Any = None, **more: Any) -> tuple[dict[str, Any], Any]:
    """Return a call of a kernel that writes the first n of y."""
    named = {} if n is None else {"n": n}
    call = {"x": floats(size), "y": np.zeros(size, np.float32), **named, **more}
    return call, twice(size, size if n is None else int(n))


def refused(size: int, n: Any = None) -> tuple[dict[str, Any], None]:
    """Return such a call that ends with an error."""
    return part(size, n)[0], None


def free_unit() -> Any:
    """Return a unit whose arrays may have any shape: n is asked of the call."""
    import loopy as lp

    shapes = [lp.GlobalArg("x", np.float32, shape="m"), lp.GlobalArg("y", np.float32, shape="l")]
    return made("y[i] = 2*x[i]", [*shapes, lp.ValueArg("l,m", np.int32), ...])


def made(text: str, arguments: list[Any], domain: str = "{[i]: 0<=i<n}") -> Any:
    import loopy as lp

    return lp.make_kernel(domain, text, arguments, name="made", lang_version=(2018, 2))


def fixed(n: Any) -> Any:
    """Return that unit with a size that is a constant if it may be one."""
    import loopy as lp

    knl = n.assume(free_unit())
    return lp.fix_parameters(knl, n=n.fixed) if n.fixed else knl


def in_groups(knl: Any, block: int = 16) -> Any:
    import loopy as lp

    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


def source(body: str, global_size: Any, *scalars: str) -> Any:
    """Return a Source over x and y of any shape, with more scalars."""
    scalars = ("m", "l", *scalars)
    given = "".join(f", int {one}" for one in scalars)
    text = f"kernel void source(global const float *x, global float *y{given}) {{ int i = get_global_id(0); {body} }}"
    arrays = [kcl.Array("x", np.float32, "m"), kcl.Array("y", np.float32, "l", "inout")]
    arguments = [*arrays, *(kcl.Scalar(one, np.int32) for one in scalars)]
    return kcl.Source(text, entry="source", arguments=arguments, global_size=global_size)


NAMED = [part(64, 63), part(64, 64), part(64, 48), part(64, 1), part(16, 5), part(16, 16)]


@program(NAMED, {"n": "x.shape[0]"})
def assumes(n):
    return in_groups(n.assume(free_unit()))


@program([*NAMED, part(64, np.int64(12)), part(64, np.uint8(17))], {"n": "x.shape[0]"})
def fixes(n):
    import loopy as lp

    knl = free_unit()
    return in_groups(lp.fix_parameters(knl, n=n.fixed) if n.fixed else knl)


@program(NAMED, kcl.sizes(n="x.shape[0]", fixed=64))
def fixes_up_to_64(n):
    return in_groups(fixed(n))


@program([part(64, n) for n in (20, 32, 40, 64, 16)], {"n": "x.shape[0] // 2"})
def is_above_its_text(n):
    return in_groups(n.assume(free_unit()))


UNNAMED = ({"x": floats(4), "y": floats(4)}, None)


@program([*(part(64, n) for n in (12, 16, 64, 33)), UNNAMED], {"n": "n"})
def is_its_own_text(n):
    return in_groups(fixed(n))


@program([part(64, n) for n in (12, 16, 64, 8, 9)], {"n": "x.shape[0]", "half": "n // 2"})
def asks_another_size(n, half):
    body = "y[i] = 2*x[i];" if half.multiple == 1 else "y[i] = x[i] + x[i];"
    assert n is not None
    return source(body, "n", "n")


@program(
    [({"x": floats(n), "y": np.zeros(n, np.float32)}, twice(n, n)) for n in (4, 16, 3, 17, 64)]
    + [({"x": floats(16), "y": np.zeros(16, np.float32), "n": 64}, twice(16, 16))],
    {"n": "x.shape[0]"},
)
def has_no_argument_of_the_name(n):
    return source(f"if ({n.multiple}) y[i] = 2*x[i];", "m")


def _large(n: int) -> tuple[dict[str, Any], Any]:
    """Return a call whose numbers show the variant: with a constant n they do not overflow."""
    product = n << 30 if n <= 16 else (n << 30) % (1 << 32)
    call = {"x": floats(n), "y": np.zeros(n, np.float32), "n": n}
    return call, np.full(n, product >> 10, np.float32)


@program([_large(n) for n in (8, 17, 16, 4, 24, 33, 12)], {"n": "x.shape[0]"})
def overflows_in_the_general_variant(n):
    count = f"{n.fixed}UL" if n.fixed else "(uint) n"
    return source(f"y[i] = (float) (({count} << 30) >> 10);", "m", "n")


@program(
    [_large(n) for n in (8, 16)] + [({**_large(17)[0], "x": floats(17)}, None)] + [_large(4)],
    kcl.sizes(n="x.shape[0] // 2", fixed=16),
)
def overflows_and_raises(n):
    if not n.fixed:
        raise ValueError("general")
    return source(f"y[i] = (float) (({n.fixed}UL << 30) >> 10);", "m")


@program([refused(n) if n in (5, 7) else part(n, n) for n in (4, 5, 6, 7, 5)], {"n": "x.shape[0]"})
def raises_for_some(n):
    if n.fixed in (5, 7):
        raise ValueError(f"not for {n.fixed}")
    return in_groups(n.assume(free_unit()))


def _rows(rows: int, columns: int, **named: int) -> tuple[dict[str, Any], Any]:
    w = floats(rows, columns)
    return {"w": w, **named}, w.sum(axis=1)


@program(
    [_rows(n, k) for n, k in ((4, 2), (16, 3), (5, 40), (64, 2))]
    + [_rows(16, 3, k=3), _rows(16, 40, k=40), _rows(16, 3, n=16, k=3)],
    {"n": "w.shape[0]", "k": "w.shape[1]"},
)
def sums_rows(n, k):
    import loopy as lp

    arguments = [lp.GlobalArg("w", np.float32, shape="n,k"), ...]
    knl = n.assume(made("z[i] = sum(j, w[i,j])", arguments, "{[i,j]: 0<=i<n and 0<=j<k}"))
    if k.fixed:
        knl = lp.tag_inames(lp.fix_parameters(knl, k=k.fixed), "j:unr")
    return in_groups(knl)


@program(
    [
        refused(16, 16.0),
        refused(16),
        ({"x": floats(4), "n": "4", "y": floats(4)}, None),
        ({"x": floats(4), "y": floats(4), "o": 4}, None),
        ({"y": floats(4), "n": 4}, None),
        ({"x": 4.0, "y": floats(4)}, None),
        part(16, 16),
        part(16, 0),
        ({"x": floats(4), "y": np.zeros(4, np.float32), "n": True}, twice(4, 1)),
    ],
    {"n": "x.shape[0]"},
)
def is_called_wrongly(n):
    return in_groups(n.assume(free_unit()))


@program(
    [
        ({"x": floats(n), **named}, 2 * floats(n))
        for n, named in ((16, {}), (17, {}), (16, {"n": 16}), (64, {}))
    ]
    + [
        ({"x": floats(16), "n": 8}, None),
        ({"x": floats(16), "n": 32}, None),
        ({"x": floats(0)}, floats(0)),
    ],
    {"n": "x.shape[0]"},
)
def has_shapes_of_the_size(n):
    """The front end refuses an array of another size, as it does without kcl."""
    import loopy as lp

    knl = n.assume(made("y[i] = 2*x[i]", [lp.GlobalArg("x", np.float32, shape="n"), ...]))
    return in_groups(lp.fix_parameters(knl, n=n.fixed) if n.fixed else knl)


@program([part(64, n) for n in (4, 30, 32, 33, 64)], {"n": "round_up(max(x.shape[0], 4), 16)"})
def has_a_text_of_functions(n):
    return in_groups(n.assume(free_unit()))


BLOCKS = kcl.space(block=[16, 64], exact=[False, True])


@program(
    NAMED,
    {"n": "x.shape[0]"},
    space=BLOCKS.where(lambda exact, block, n: not exact or n % block == 0),
)
def is_tuned(block=16, exact=True):
    """The default is right for some sizes only."""
    import loopy as lp

    knl = free_unit()
    return in_groups(lp.assume(knl, f"n mod {block} = 0") if exact else knl, block)


@program(
    [(call, None if call["n"] == 63 else want) for call, want in NAMED],
    {"n": "x.shape[0]"},
    space=kcl.space(block=[16, 64]).where(lambda block, n: n % block == 0 or n < 60),
)
def is_tuned_and_refuses(block=64):
    """No choice is valid for some sizes."""
    return in_groups(free_unit(), block)


@program(NAMED, {"n": "x.shape[0]"}, space=kcl.space(block=[16, 64]))
def is_tuned_and_fixes(n, block=16):
    return in_groups(fixed(n), block)


@program(
    [({**call, **more}, want) for call, want in NAMED for more in ({}, {"rest": 7})],
    {"n": "x.shape[0]", "rest": "x.shape[0] % 4"},
    space=kcl.space(block=[16, 64]).where(lambda block, rest: block == 16 or rest != 3),
)
def has_a_size_for_where_only(n, block=64):
    return in_groups(n.assume(free_unit()), block)


def said(launch: Callable[..., Any], queue: cl.CommandQueue, given: dict[str, Any]) -> Any:
    """Make a call, and return its numbers, or class and words of its error."""
    try:
        _event, outputs = launch(queue, **copy.deepcopy(given))
        return [one.tolist() for one in outputs]
    except Exception as error:
        return [type(error).__name__, str(error).replace(os.getcwd(), "")]


def bound(kernel: Any) -> Callable[..., Any]:
    """Return a function that launches through `bind` where all arguments can lie on the device."""

    def launch(queue: cl.CommandQueue, **given: Any) -> Any:
        can_lie_there = all(isinstance(one, (np.ndarray, int)) for one in given.values())
        if not can_lie_there or "y" not in given:
            return kernel(queue, **given)
        there = {name: _on_device(queue, one) for name, one in given.items()}
        event = kernel.bind(queue, **there)(**there)
        event.wait()
        return event, (there["y"].get(),)

    return launch


def _on_device(queue: cl.CommandQueue, value: Any) -> Any:
    return cl_array.to_device(queue, value) if isinstance(value, np.ndarray) else value


def main(platform: str, order: str, *titles: str) -> None:
    queue = queue_on(platform)
    chosen = [PROGRAMS[title] for title in titles or PROGRAMS]
    handles = [one.recipe() for one in chosen]
    if order == "after":
        for one, handle in zip(reversed(chosen), reversed(handles), strict=True):
            for given, _want in reversed(one.calls):
                said(handle, queue, given)
    for one, handle in zip(chosen, handles, strict=True):
        for number, (given, _want) in enumerate(one.calls):
            kernel = one.recipe() if order == "alone" else handle
            launch = bound(kernel) if order == "bound" else kernel
            print(json.dumps([one.recipe.__name__, number, said(launch, queue, given)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
