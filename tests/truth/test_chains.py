"""Random chains of loopy's transformations, made by loopy and recorded through a recipe: one text, and no shared key.

A chain is a list of calls, each with plain arguments. It is carried out with loopy itself, and by a recipe; both texts
are compared in one process, since what loopy generates depends a little on PYTHONHASHSEED. What loopy refuses must be
refused in the recipe too.
"""

import os
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopys_own import loopy as lp

import kcl

CHAINS = int(os.environ.get("KCL_TRUTH_CHAINS", "12"))
DOMAIN = "{[i,j]: 0<=i<n and 0<=j<16}"
INSTRUCTIONS = """
<> t = 2*b[j] {id=first,inames=i:j}
out[i,j] = a[i,j] + t {id=second,dep=first}
"""


class Call(NamedTuple):
    """A call of a function of loopy, after the unit that it transforms."""

    function: str
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()


class Plan:
    """A chain as it grows, with what later calls may name."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.calls: list[Call] = []
        self.inames = ["i", "j"]
        self.free = ["i", "j"]  # without a tag
        self.tags = ["g.0", "g.1", "l.0", "unr", "ilp"]
        self.typed: set[str] = set()
        self.names = 0

    def call(self, function: str, *arguments: Any, **keywords: Any) -> None:
        self.calls.append(Call(function, arguments, tuple(keywords.items())))

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"


def split(plan: Plan) -> None:
    iname = plan.dice.choice(plan.free)
    keywords = plan.dice.choice([{}, {}, {"slabs": (0, 1)}, {"do_tagged_check": True}])
    plan.call("split_iname", iname, plan.dice.choice([2, 3, 4, 8]), **keywords)
    for names in (plan.inames, plan.free):
        names.remove(iname)
        names += [f"{iname}_outer", f"{iname}_inner"]


def tag(plan: Plan) -> None:
    iname, word = plan.dice.choice(plan.free), plan.dice.choice(plan.tags)
    plan.free.remove(iname)
    if word[0] in "gl":
        plan.tags.remove(word)
    plan.call("tag_inames", plan.dice.choice([f"{iname}:{word}", {iname: word}, [(iname, word)]]))


def rename(plan: Plan) -> None:
    iname, new = plan.dice.choice(plan.free), plan.name()
    plan.call("rename_iname", iname, new)
    for names in (plan.inames, plan.free):
        names[names.index(iname)] = new


def prioritize(plan: Plan) -> None:
    order = plan.dice.sample(plan.inames, 2)
    plan.call("prioritize_loops", plan.dice.choice([",".join(order), tuple(order), order]))


def prefetch(plan: Plan) -> None:
    array = plan.dice.choice("ab")
    iname = plan.dice.choice([iname for iname in plan.free if iname != "i"] or plan.free)
    plan.call("add_prefetch", array, [iname], default_tag=plan.dice.choice([None, "l.auto"]))


def option(plan: Plan) -> None:
    switches = ("return_dict", "no_numpy", "ignore_boostable_into")
    choices = [{name: True} for name in (*switches, "enforce_variable_access_ordered")]
    choices += [{"build_options": [f"-DX={number}"]} for number in (1, 2)]
    plan.call("set_options", **plan.dice.choice(choices))


def fix(plan: Plan) -> None:
    plan.call("fix_parameters", n=plan.dice.choice([16, 32, 64]))


def assume(plan: Plan) -> None:
    plan.call("assume", plan.dice.choice(["n >= 8", "n mod 4 = 0", "n mod 16 = 0 and n >= 16"]))


def dtypes(plan: Plan) -> None:
    array = plan.dice.choice(sorted({"a", "b"} - plan.typed) or ["a"])
    plan.typed.add(array)
    kinds = [np.float32, np.float64, np.dtype("float32"), np.dtype("int32")]
    plan.call("add_dtypes", {array: plan.dice.choice(kinds)})


def duplicate(plan: Plan) -> None:
    iname, new = plan.dice.choice(plan.free), plan.name()
    within = plan.dice.choice(["id:first", "writes:out", "id:second"])
    plan.call("duplicate_inames", iname, within, [new])
    plan.inames.append(new)


def axes(plan: Plan) -> None:
    plan.call("tag_array_axes", "a", plan.dice.choice(["N1,N0", "N0,N1", "stride:1,stride:n"]))


def argument(plan: Plan) -> None:
    plan.call("rename_argument", "out", plan.name())


def space(plan: Plan) -> None:
    plan.call("set_temporary_address_space", "t", plan.dice.choice(["private", "local", "global"]))


def unroll(plan: Plan) -> None:
    iname = plan.dice.choice(plan.free)
    plan.call("split_iname", iname, plan.dice.choice([2, 4]), inner_tag="unr")
    for names in (plan.inames, plan.free):
        names.remove(iname)
    plan.inames += [f"{iname}_outer", f"{iname}_inner"]
    plan.free.append(f"{iname}_outer")


STEPS = (split, split, tag, tag, rename, prioritize, prefetch, option, fix, assume, dtypes)
STEPS += (duplicate, axes, argument, space, unroll)


def chain_of(plan: Plan) -> tuple[Call, ...]:
    """End a chain: what is still open gets a dtype, so that there is one text."""
    for name in sorted({"a", "b"} - plan.typed):
        plan.call("add_dtypes", {name: np.float32})
    return tuple(plan.calls)


def composed(dice: random.Random) -> tuple[Call, ...]:
    plan = Plan(dice)
    for _ in range(dice.randint(1, 6)):
        if plan.free:
            dice.choice(STEPS)(plan)
    return chain_of(plan)


def carried_out(loopy: Any, chain: tuple[Call, ...]) -> Any:
    """Make the unit, by loopy or by what a recipe takes for it."""
    unit = loopy.make_kernel(DOMAIN, INSTRUCTIONS, name="chained", lang_version=(2018, 2))
    for call in chain:
        unit = getattr(loopy, call.function)(unit, *call.arguments, **dict(call.keywords))
    return unit


@kcl.kernel
def chained(chain):
    import loopy

    return carried_out(loopy, chain)


def by_loopy(chain: tuple[Call, ...], context: Any) -> str | Exception:
    """Return the text that loopy makes of a chain, or what it says against it."""
    try:
        with lp.CacheMode(False):
            unit = carried_out(lp, chain)
            target = lp.PyOpenCLTarget(context.devices[0])
            return lp.generate_code_v2(unit.copy(target=target)).device_code()
    except Exception as error:
        return error


class Compared:
    """The chains of a test: what their keys are, and how many loopy refused."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.chains: dict[str, str] = {}
        self.refused = 0

    def compare(self, chain: tuple[Call, ...]) -> None:
        """Compare texts; no other chain may have the key."""
        right = by_loopy(chain, self.context)
        kernel = chained(chain)
        if isinstance(right, Exception):
            self.refused += 1
            with pytest.raises(Exception):  # noqa: B017
                kernel.source(self.context)
            return
        assert kernel.source(self.context) == right, chain
        key = kernel.key(self.context)["generator"]
        assert key is not None, f"no key: {chain}"
        other = self.chains.setdefault(key.digest, repr(chain))
        assert other == repr(chain), f"two chains have one key:\n{other}\n{chain}"


pytestmark = [pytest.mark.one_platform, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("step", dict.fromkeys(STEPS), ids=lambda step: step.__name__)
@pytest.mark.slow_cases(4)
def test_each_transformation(step, context):
    """A transformation with other arguments has another key, and the text is loopy's."""
    compared = Compared(context)
    for seed in range(4):
        plan = Plan(random.Random(seed))
        step(plan)
        compared.compare(chain_of(plan))
    assert compared.chains, "loopy refuses all of them"


def test_order(context):
    """The same calls in another order have another key."""
    compared = Compared(context)
    order = Call("prioritize_loops", ("i_outer,j",))
    first = [Call("assume", ("n >= 8",)), Call("split_iname", ("i", 4)), order]
    types = Call("add_dtypes", ({"a": np.float32, "b": np.float32},))
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
        compared.compare((*[first[place] for place in order], types))
    compared.compare((types, *first))
    assert len(compared.chains) == 4


def test_chains(context):
    compared = Compared(context)

    @settings(
        max_examples=CHAINS,
        deadline=None,
        database=None,
        derandomize="KCL_TRUTH_CHAINS" not in os.environ,
        suppress_health_check=[*HealthCheck],
    )
    @given(st.randoms(use_true_random=False))
    def tried(dice):
        compared.compare(composed(dice))

    tried()
    assert compared.chains
