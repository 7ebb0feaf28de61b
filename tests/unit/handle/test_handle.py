"""kcl.handle: what a Kernel shows and keeps, beside what a call returns (test_executor.py)."""

import copy
import gc
import pickle
import re
import sys
import weakref

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from at_once import at_once
from handle_recipes import ADD, add, scaled
from harness import PLATFORMS

import kcl
from kcl.base import settings
from kcl.cache import layers
from kcl.drivers.pocl import client
from kcl.inspect.explain import misses
from kcl.inspect.history import journal

pytestmark = pytest.mark.slow_platforms


def stored():
    """Return the addresses in both layers' stores, proofs of single calls left out."""
    generator, binary = layers.generator(), layers.binary().stores[0]
    codes = [
        one for one in generator.stores[0].scan() if "proven" not in generator.read(one).metadata
    ]
    return [*codes, *binary.scan()]


def references(context):
    """Return the driver's count of references to a context."""
    gc.collect()
    return context.get_info(cl.context_info.REFERENCE_COUNT)


PREPARED = """
    import json, sys, numpy as np, pyopencl as cl
    import forbid, handle_recipes, kcl
    (platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    x, found = np.ones(8, np.float32), []
    three = {"x": x, "a": np.float32(3)}
    cases = [
        (handle_recipes.add(), context, {}, {"x": x.copy(), "a": 1}),
        (handle_recipes.add(sizes=(4,)), queue, {}, {"x": x[:4].copy(), "a": 1}),
        (handle_recipes.scaled(), queue, {"x": np.float32, "a": np.dtype(np.float32)}, three),
        (handle_recipes.scaled(), queue, {"x": "float32", "a": np.float32(0)}, {**three, "n": 8}),
        (handle_recipes.scaled(5), context, {"x": x, "a": "f4", "y": "f8"}, {**three, "y": np.zeros(8)}),
    ]
    for kernel, holder, given, _arguments in cases:
        kernel.prepare(holder, **given)
    forbid.compilation()
    import loopy
    loopy.make_kernel = loopy.codegen.generate_code_v2 = None
    looks = []
    kcl.add_hook(lambda event: looks.append(event.layer) if event.outcome != "hit" else None)
    for kernel, _holder, _given, arguments in cases:
        _event, (out,) = kernel(queue, **arguments)
        found.append(out.tolist())
    print(json.dumps([found, looks]))
"""


def test_prepare(child, platform_name):
    """After it a launch runs no recipe, generates nothing and builds no program: all of that is forbidden."""
    found, looks = child.json(PREPARED, PLATFORMS[platform_name])
    assert found == [[2.0] * 8, [2.0] * 4, [6.0] * 8, [6.0] * 8, [15.0] * 8]
    assert looks == []
    with pytest.raises(TypeError, match=r"Context or CommandQueue.*42"):
        add().prepare(42)


class TestCall:
    @pytest.mark.parametrize("off", ["", "1"])
    def test_second_call_looks_nothing_up(self, queue, looks, under, off):
        """What is bound is used again, for other scalars, and with all layers off: switches stop the stores alone."""
        under(KCL_NO_CACHE=off)
        kernel = add()
        x = np.zeros(8, np.float32)
        kernel(queue, x=x, a=1)
        looks.clear()
        for a in range(5):
            kernel(queue, x=x, a=a)
        assert looks == []
        assert x.tolist() == [11.0] * 8

    def test_refused_first_call_costs_no_entry(self, queue):
        """A first call with a wrong shape is refused; the next one works, and its entry is completed all the same."""
        kernel = add()
        with pytest.raises(ValueError, match="shape mismatch"):
            kernel(queue, x=np.zeros(9, np.float32), a=1)
        kernel(queue, x=np.zeros(8, np.float32), a=1)
        assert client.idle(settings.folder("kcl"), 60)
        assert len([*layers.binary().stores[0].scan()]) == 1


class TestShown:
    def test_repr(self, queue):
        """It names recipe and parameters, and says whether something was generated."""
        kernel = add(sizes=(4,))
        for words in ("add(", "sizes=(4,)", "nothing generated yet"):
            assert words in repr(kernel)
        kernel.prepare(queue)
        assert "1 variant(s) generated" in repr(kernel)

    def test_the_opencl_c_is_that_of_the_dtypes_given(self, context, queue):
        assert add().source(context) == ADD
        single = scaled(7).source(queue, x=np.float32, a=np.float32)
        double = scaled(7).source(queue, x=np.float64, a=np.float64)
        assert "7.0f" in single
        assert ("double" in single, "double" in double) == (False, True)

    def test_key(self, context):
        """Equal kernels have equal keys in each layer; a parameter changes those that it must."""
        first, again = add().key(context), add().key(context)
        assert first == again
        assert first.keys() == {"generator", "binary"}
        for other, same in ((add(sizes=(4,)), {"binary"}), (add(code=ADD + "\n"), set())):
            key = other.key(context)
            assert {layer for layer in key if key[layer] == first[layer]} == same

    def test_explain(self, context, looks):
        """It says what each layer holds and where, before and after; and it is no look-up."""
        pure_add = kcl.kernel(pure=True, version="1")(add.function)
        before = pure_add().explain(context)
        assert "kernel add" in before
        assert "generator: miss" in before
        assert "first time seen" in before
        pure_add().prepare(context)
        assert client.idle(settings.folder("kcl"), 60)
        after = pure_add().explain(context)
        assert "generator: hit" in after
        assert "binary: hit" in after
        assert layers.binary().place in after
        assert not [one for one in looks if (one.layer, one.outcome) == ("binary", "hit")]
        said = pure_add(sizes=(4,)).explain(context)
        assert "\n    parameter sizes: (8,) -> (4,)\n" in said
        pure_add(sizes=(4,)).prepare(context)
        told = misses.explain_looks(journal.of_this_run()[1], journal.last_misses())
        by_command = next(one for one in reversed(told) if one.layer == "generator")
        assert "".join(f"\n  {line}" for line in by_command.words[1:]) in said  # as kcl explain


class TestHolders:
    def test_contexts_and_queues(self, device):
        """A Kernel serves several contexts, on every platform that is here, and several queues of each, in any order."""
        kernel, opened = add(), scaled()
        platforms = [p for p in cl.get_platforms() if p.name in PLATFORMS.values()]
        # Intel's queues do not keep their contexts.
        contexts = [cl.Context(platform.get_devices()[:1]) for platform in platforms]
        contexts += [cl.Context([device]) for _ in range(2)]
        queues = [cl.CommandQueue(context) for context in contexts for _ in range(2)]
        for queue in [*queues, *reversed(queues)]:
            x = cl_array.to_device(queue, np.arange(8, dtype=np.float32))
            _event, (out,) = kernel(queue, x=x, a=2)
            assert out.get().tolist() == [float(i + 2) for i in range(8)]
            _event, (y,) = opened(queue, x=np.ones(3, np.float32), a=np.float32(4))
            assert y.tolist() == [8.0] * 3

    def test_dead_context_is_let_go(self, device):
        """After the user's queue and arrays are gone nobody else holds the context."""
        context = cl.Context([device])
        before = references(context)
        queue = cl.CommandQueue(context)
        kernel, opened = add(), scaled()
        x = cl_array.zeros(queue, 8, np.float32)
        kernel(queue, x=x, a=1)[0].wait()
        opened(queue, x=x, a=np.float32(1))[0].wait()
        assert references(context) > before
        queue.finish()
        x = queue = None
        assert references(context) == before

    def test_prepared_context_is_let_go(self, device):
        """What `prepare` keeps for a context dies with the user's context object."""
        context = cl.Context([device])
        observer = cl.Context.from_int_ptr(context.int_ptr, True)
        add().prepare(context)
        assert references(observer) > 1
        context = None
        assert references(observer) == 1

    def test_dead_kernel_is_let_go(self, queue):
        """A queue that outlives a Kernel's last use still holds what it bound, and no Kernel."""
        kernel = add()
        kernel(queue, x=np.zeros(8, np.float32), a=1)
        kernel = weakref.ref(kernel)
        gc.collect()
        assert kernel() is None


class TestThreads:
    @pytest.mark.parametrize("shared", [True, False], ids=["one queue", "a queue each"])
    def test_launches_do_not_mix(self, queue, shared):
        """Eight threads with different scalars on one Kernel get their own results, from the first call on."""
        kernel, opened, found = add(), scaled(), {}

        def work(number):
            mine = queue if shared else cl.CommandQueue(queue.context)
            arrays = []
            for repeat in range(60):
                # No kernel of pyopencl fills the array: threads share those.
                x = cl_array.to_device(mine, np.zeros(8, np.float32))
                kernel(mine, x=x, a=100 * number + repeat)
                _event, (y,) = opened(mine, x=x, a=np.float32(number + 1))
                arrays.append((x, y))
            mine.finish()
            found[number] = [(x.get(mine)[0], y.get(mine)[7]) for x, y in arrays]

        at_once(work)
        for number in range(8):
            sums = [100.0 * number + repeat for repeat in range(60)]
            assert found[number] == [(one, 2 * (number + 1) * one) for one in sums]

    def test_contexts_at_once(self, device):
        """Threads that each begin a context of their own do not disturb one another."""

        def work(number):
            for _ in range(4):
                context = cl.Context([device])
                queue = cl.CommandQueue(context)
                _event, (out,) = kernel(queue, x=np.zeros(8, np.float32), a=number)
                assert out.tolist() == [float(number)] * 8

        kernel = add()
        at_once(work)


class TestFailures:
    def test_recipe_that_raises(self, queue, looks):
        """Its own error comes through every time, is one miss each, and nothing is stored."""
        failing = kcl.kernel(lambda: 1 // 0)()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                failing(queue)
        assert [(one.layer, one.outcome) for one in looks] == [("generator", "miss")] * 2
        assert stored() == []

    def test_a_recipeerror_names_the_target(self, queue):

        @kcl.kernel
        def for_c():
            import loopy as lp

            return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2.0", target=lp.CTarget())

        with pytest.raises(kcl.RecipeError, match=r"'for_c'.*CTarget"):
            for_c()(queue)
        assert stored() == []


class TestPickle:
    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
    )
    def test_same_kernel(self, queue, copied):
        """A copy is the kernel of the same recipe with the same parameters, and hits."""
        kernel = numbered(number=4)
        before = kernel(queue, out_host=True)[1][0].tolist()
        again = copied(kernel)
        assert again is not kernel
        assert repr(again) == "<kcl.Kernel numbered(number=4): nothing generated yet>"
        assert again(queue, out_host=True)[1][0].tolist() == before == [4, 4]
        assert kcl.stats()["generator"]["misses"] == 1

    def test_unknown(self, monkeypatch):
        """A recipe that only one call of a function knows, or that the other process does not know, is refused."""
        words = r"'<lambda>' cannot be pickled .* no function of a module"
        with pytest.raises(TypeError, match=words):
            pickle.dumps(kcl.kernel(lambda: None)())
        sent = pickle.dumps(numbered(number=4))
        monkeypatch.delattr(sys.modules[__name__], "numbered")
        words = r"'numbered' cannot be unpickled: .* define the recipe in a module"
        with pytest.raises(kcl.RecipeError, match=words):
            pickle.loads(sent)


@kcl.kernel
def numbered(number):
    """Fill with a number."""
    text = f"kernel void numbered(global int *x) {{ x[get_global_id(0)] = {number}; }}"
    arguments = [kcl.Array("x", np.int32, "(2,)", "out")]
    return kcl.Source(text, entry="numbered", arguments=arguments, global_size="(2,)")


HEAD = """
import kcl, pyopencl as cl, numpy as np
(platform,) = [one for one in cl.get_platforms() if one.name == {!r}]
context = cl.Context(platform.get_devices())
"""
RECIPE = """
@kcl.kernel
def halved():
    import loopy as lp
    return lp.make_kernel('{[i]: 0<=i<n}', 'y[i] = x[i]/2', lang_version=(2018, 2))
def solve():
    halved()(cl.CommandQueue(context), x=np.ones(4))
solve()
"""
PROGRAM = """
def solve():
    cl.Program(context, 'kernel void f(global int *a) { a[0] = 1; }').build()
solve()
"""


@pytest.mark.one_platform
@pytest.mark.parametrize(
    ("options", "text"),
    [((), RECIPE), (("-m", "kcl", "run"), RECIPE), (("-m", "kcl", "run"), PROGRAM)],
)
def test_frames_of_a_miss(child, platform_name, options, text):
    """The traceback of a CacheMiss has the user's frames first, and one of kcl: of the call, or of the build."""
    path = child.directory / "solver.py"
    path.write_text(HEAD.format(PLATFORMS[platform_name]) + text)
    said = child.python(*options, path, KCL_STRICT="hit").stderr
    files = re.findall(r'File "([^"]+)", line', said)
    assert "CacheMiss" in said
    assert files[:2] == [str(path)] * 2
    assert len(files) == 3
