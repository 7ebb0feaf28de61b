"""Units of loopy that differ in what they consist of, for the tests of the content key."""

import functools
import warnings

import numpy as np
import pymbolic.primitives as p
from loopys_own import loopy as lp
from pytools.tag import Tag, tag_dataclass

AtomicUpdate, ScalarCallable, Reduction = lp.AtomicUpdate, lp.ScalarCallable, lp.Reduction
ScalarReductionOperation = lp.library.reduction.ScalarReductionOperation

make = functools.partial(lp.make_kernel, lang_version=(2018, 2))
function = functools.partial(lp.make_function, lang_version=(2018, 2))


@tag_dataclass
class Note(Tag):
    """A tag of the user."""

    text: str


class Twice(ScalarCallable):
    """A callable of the user."""

    def with_types(self, arg_id_to_dtype, callables_table):
        if 0 not in arg_id_to_dtype:
            return self.copy(arg_id_to_dtype=arg_id_to_dtype), callables_table
        dtype = arg_id_to_dtype[0]
        return self.copy(
            name_in_target="twice", arg_id_to_dtype={0: dtype, -1: dtype}
        ), callables_table

    def generate_preambles(self, target):
        del target
        yield ("10_twice", "float twice(float x) { return 2*x; }")


def mangler(_kernel, name):
    """Know one symbol."""
    return (lp.to_loopy_type(np.float32), "AMOUNT") if name == "amount" else None


class Largest(ScalarReductionOperation):
    """A reduction of the user."""

    def neutral_element(self, *dtypes, callables_table, target):
        del dtypes, target
        return -10, callables_table

    def __call__(self, dtypes, operand1, operand2, callables_table, target):
        del dtypes, target
        return p.Max((operand1, operand2)), callables_table


class Kept(lp.Assignment):
    """An instruction of the user."""


class Preamble:
    """A preamble generator that is an object."""

    def __init__(self, amount):
        self.amount = amount

    def __call__(self, _info):
        yield ("10_amount", f"#define AMOUNT {self.amount}")


def plain():
    code = "y[i] = 2*x[i] + 1.5f*z {id=first}\nw[i] = y[i]**2 {dep=first}"
    return make("{[i]: 0<=i<n}", code, name="plain")


def prefetch():
    domain, code = "{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<m}", "c[i,j] = sum(k, a[i,k]*b[k,j])"
    unit = lp.add_dtypes(make(domain, code, name="product"), {"a": np.float32, "b": np.float32})
    unit = lp.assume(unit, "n mod 16 = 0 and n >= 16 and m >= n")
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.1")
    unit = lp.split_iname(unit, "j", 16, outer_tag="g.1", inner_tag="l.0")
    unit = lp.split_iname(unit, "k", 16)
    return lp.add_prefetch(unit, "a", ["k_inner", "i_inner"], default_tag="l.auto")


def reductions():
    code = "big[i], at[i] = argmax(j, abs(x[i,j]), j)\ns[i] = sum(j, x[i,j]) + product(j, x[i,j]) + max(j, x[i,j])"
    unit = make("{[i,j]: 0<=i<4 and 0<=j<n}", code, name="reductions")
    return lp.add_dtypes(unit, {"x": np.float32})


def callables():
    inner = function("{[j]: 0<=j<4}", "b[j] = 2*a[j]", name="inner")
    code = "[j]: y[i,j] = inner([j]: x[i,j])\n[k]: z[i,k] = inner([k]: y[i,k])"
    outer = make("{[i,j,k]: 0<=i<n and 0<=j,k<4}", code, name="outer")
    return lp.merge([lp.add_dtypes(outer, {"x": np.float32}), inner])


def structures():
    fields = {"names": ["re", "im"], "formats": [np.float32, np.int32]}
    pair = np.dtype({**fields, "offsets": [0, 4], "itemsize": 12})
    arguments = [lp.GlobalArg("x", pair, shape="n"), lp.GlobalArg("y", np.float32, shape="n"), ...]
    return make("{[i]: 0<=i<n}", "y[i] = x[i].re + x[i].im", arguments, name="structures")


def initializers():
    shared = {"read_only": True, "address_space": lp.AddressSpace.GLOBAL}
    large = np.arange(400.0).reshape(20, 20)
    variables = [
        lp.TemporaryVariable("large", initializer=large, **shared),
        lp.TemporaryVariable("small", initializer=np.array([1, 2], np.int8), **shared),
    ]
    code = "y[i] = large[i,i] + small[i]"
    return make("{[i]: 0<=i<2}", code, [*variables, ...], name="initializers")


def instructions_in_c():
    reads = {"read_variables": frozenset({"x"}), "assignees": "y[i]", "id": "fill"}
    instruction = lp.CInstruction("i", "y[i] = AMOUNT*x[i];", **reads)
    arguments = [
        lp.GlobalArg("y", np.float32, shape=(4,), is_input=False),
        lp.GlobalArg("x", np.float32, shape=(4,)),
    ]
    more = {"name": "in_c", "preambles": [("1", "#define AMOUNT 3")]}
    unit = make("{[i]: 0<=i<4}", [instruction], arguments, **more)
    return lp.set_options(unit, build_options=["-DA", "-DB"])


def predicates():
    code = """
        for i
            <> inside = i > 3 and i < n - 3
            if inside
                y[i] = if(x[i] < 0, -x[i], 1 // (i + 1))
            else
                y[i] = i % 3
            end
        end
    """
    return make("{[i]: 0<=i<n}", code, name="predicates")


def atomics():
    update = lp.Assignment(
        "out[i%4]", "out[i%4] + 2*x[i]", atomicity=(AtomicUpdate("out"),), id="update"
    )
    arguments = [
        lp.GlobalArg("out", np.float32, shape=(4,), for_atomic=True),
        lp.GlobalArg("x", np.float32),
        ...,
    ]
    return lp.tag_inames(make("{[i]: 0<=i<16}", [update], arguments, name="atomics"), "i:l.0")


def barriers():
    code = """
        y[i] = 2*x[i] {id=first, nosync=last}
        ... gbarrier {id=wait, dep=first}
        z[j] = y[15-j] {id=last, dep=wait, priority=3, groups=g, conflicts=h}
    """
    unit = make(["{[i]: 0<=i<16}", "{[j]: 0<=j<16}"], code, name="barriers", seq_dependencies=False)
    return lp.tag_inames(unit, "i:g.0, j:g.0")


def options():
    more = {"assumptions": "n >= 4", "silenced_warnings": "a*"}
    unit = make("{[i,j]: 0<=i,j<n}", "y[i,j] = x[j,i]", name="options", **more)
    unit = lp.prioritize_loops(lp.set_options(unit, return_dict=True, no_numpy=True), "i,j")
    return lp.split_iname(unit, "i", 4, slabs=(0, 1))


def users_callable():
    unit = make("{[i]: 0<=i<4}", "y[i] = twice(x[i])", name="users")
    return lp.add_dtypes(lp.register_callable(unit, "twice", Twice("twice")), {"x": np.float32})


def generators():
    arguments = [..., lp.GlobalArg("y", np.float32)]
    unit = make("{[i]: 0<=i<4}", "y[i] = amount*x[i] {id=only}", arguments, name="generators")
    shared = Preamble(3)
    preambles = [shared, Preamble(4), shared]
    kernel = unit["generators"].copy(symbol_manglers=[mangler], preamble_generators=preambles)
    return unit.with_kernel(kernel)


def users_nodes():
    unit = make(
        "{[i,j]: 0<=i,j<n}", "y[i] = sum(j, x[i,j]) {id=s}\nz[i] = x[i,i] {id=t}", name="nodes"
    )
    kernel = unit["nodes"]
    first, second = kernel.instructions
    first = first.copy(expression=p.Sum((Reduction(Largest(), ("j",), first.expression.expr), 1)))
    second = Kept(second.assignee, second.expression, id="t", within_inames=second.within_inames)
    return unit.with_kernel(kernel.copy(instructions=[first, second]))


def random_numbers():
    code = """
        <> key = make_uint2(i, 324830944)
        <> ctr = make_uint4(0, 1, 2, 3)
        <> values, more = philox4x32_f32(ctr, key)
        y[i] = values.s0
    """
    return make("{[i]: 0<=i<n}", code, name="random_numbers", seq_dependencies=True)


def tagged():
    rules = "square(a) := a*a\n"
    unit = make(
        "{[i,j]: 0<=i<n and 0<=j<8}",
        rules + "<float32> t = square(x[i,j]) {tags=mine}\ny[i,j] = t",
        name="tagged",
    )
    unit = lp.tag_inames(unit, {"i": [Note("outer"), Note("slow")], "j": "unr"})
    return lp.tag_instructions(unit, "other")


def linearized():
    unit = lp.split_iname(
        lp.add_dtypes(plain(), {"x": np.float32, "z": np.float32}), "i", 16, inner_tag="l.0"
    )
    return lp.linearize(lp.preprocess_program(lp.infer_unknown_types(unit, expect_completion=True)))


def complex_numbers():
    code = "<> t = real(x[i])\ny[i] = cast(np.float64, t) + floor(t) + 1j"
    arguments = [lp.GlobalArg("x", np.complex64, shape="n", tags=frozenset({Note("input")})), ...]
    return make("{[i]: 0<=i<n}", code, arguments, name="complex")


UNITS = [plain, prefetch, reductions, callables, structures, initializers, instructions_in_c]
UNITS += [predicates, atomics, barriers, options, users_callable, users_nodes, generators]
UNITS += [random_numbers, tagged, linearized, complex_numbers]


def built(builder):
    """Build a unit; what loopy warns about is none of these tests' business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder()
