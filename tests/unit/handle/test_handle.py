"""kcl.handle: what a Kernel shows and keeps, beside what a call returns (test_executor.py)."""

import copy
import gc
import pickle
import re
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from at_once import at_once
from handle_recipes import ADD, add, scaled
from harness import PLATFORMS, SUPPORT

import kcl
from kcl.base import settings
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.drivers.pocl import client
from kcl.inspect.explain import misses
from kcl.inspect.history import journal

pytestmark = pytest.mark.slow_platforms

HERE = str(SUPPORT)


@kcl.kernel
def failing():
    """Fail."""
    return 1 // 0


@kcl.kernel
def for_c():
    """Return a kernel for another target."""
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2.0", target=lp.CTarget())


def stored():
    """Return the addresses in both layers' stores, proofs of single calls left out."""
    generator = layers.generator()
    rows = {
        address: Entry.unpack(generator.stores[0].get(address))
        for address in generator.stores[0].scan()
    }
    codes = [address for address, entry in rows.items() if "proven" not in entry.metadata]
    return [*codes, *layers.binary().stores[0].scan()]


def references(context):
    """Return the driver's count of references to a context."""
    gc.collect()
    return context.get_info(cl.context_info.REFERENCE_COUNT)


PREPARED = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import json, numpy as np, pyopencl as cl
    import forbid, handle_recipes, kcl
    (platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[2]]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    x, found = np.ones(8, np.float32), []
    cases = [
        (handle_recipes.add(), context, {}, {"x": x.copy(), "a": 1}),
        (handle_recipes.add(sizes=(4,)), queue, {}, {"x": x[:4].copy(), "a": 1}),
        (handle_recipes.scaled(), queue, {"x": np.float32, "a": np.dtype(np.float32)}, {"x": x, "a": np.float32(3)}),
        (handle_recipes.scaled(), queue, {"x": "float32", "a": np.float32(0)}, {"x": x, "a": np.float32(3), "n": 8}),
        (handle_recipes.scaled(5), context, {"x": x, "a": "f4", "y": "f8"},
            {"x": x, "a": np.float32(3), "y": np.zeros(8)}),
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


class TestPrepare:
    def test_leaves_nothing_to_run_or_build(self, child, platform_name):
        """After it a launch runs no recipe, generates nothing and builds no program: all of that is forbidden."""
        found, looks = child.json(PREPARED, HERE, PLATFORMS[platform_name])
        assert found == [[2.0] * 8, [2.0] * 4, [6.0] * 8, [6.0] * 8, [15.0] * 8]
        assert looks == []

    def test_takes_a_context_or_a_queue(self):
        """Anything else is a TypeError that says what it got."""
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


class TestElsewhere:
    def test_kernel_of_a_source(self):
        """Who takes another kernel of the text from a Kernel is told that a Source has it."""
        words = r"no attribute 'kernel'; `\.kernel` belongs to kcl\.Source: .*return source\.kernel\(\.\.\.\) from"
        with pytest.raises(AttributeError, match=words):
            add().kernel("other")


class TestShown:
    def test_repr(self, queue):
        """It names recipe and parameters, and says whether something was generated."""
        kernel = add(sizes=(4,))
        assert "add(" in repr(kernel)
        assert "sizes=(4,)" in repr(kernel)
        assert "nothing generated yet" in repr(kernel)
        kernel.prepare(queue)
        assert "1 variant(s) generated" in repr(kernel)

    def test_source(self, context, queue):
        """The OpenCL C is that of the dtypes given."""
        assert add().source(context) == ADD
        kernel = scaled(7)
        single, double = (
            kernel.source(queue, x=dtype, a=dtype) for dtype in (np.float32, np.float64)
        )
        assert "7.0f" in single
        assert "double" not in single
        assert "double" in double

    def test_key(self, context):
        """Equal kernels have equal keys in each layer; a parameter changes those that it must."""
        first, again = add().key(context), add().key(context)
        assert first == again
        assert set(first) == {"generator", "binary"}
        size = add(sizes=(4,)).key(context)
        assert size["generator"] != first["generator"]
        assert size["binary"] == first["binary"]
        code = add(code=ADD + "\n").key(context)
        assert code["binary"] != first["binary"]

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
        """One Kernel serves several contexts and several queues of each, in any order."""
        kernel = add()
        contexts = [
            cl.Context([device]) for _ in range(2)
        ]  # Intel's queues do not keep theirs alive
        queues = [cl.CommandQueue(context) for context in contexts for _ in range(2)]
        for queue in [*queues, *reversed(queues)]:
            x = cl_array.to_device(queue, np.arange(8, dtype=np.float32))
            _event, (out,) = kernel(queue, x=x, a=2)
            assert out.get().tolist() == [float(i + 2) for i in range(8)]

    def test_platforms(self):
        """One Kernel serves every platform that is present in one process."""
        kernel, opened = add(), scaled()
        for platform in [p for p in cl.get_platforms() if p.name in PLATFORMS.values()]:
            context = cl.Context(platform.get_devices()[:1])
            queue = cl.CommandQueue(context)
            _event, (out,) = kernel(queue, x=np.zeros(8, np.float32), a=2)
            assert out.tolist() == [2.0] * 8
            _event, (out,) = opened(queue, x=np.ones(3, np.float32), a=np.float32(4))
            assert out.tolist() == [8.0] * 3

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

    def test_dead_kernel_is_let_go(self, device):
        """A queue that outlives a Kernel's last use still holds what it bound, and no Kernel."""
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        kernel = add()
        kernel(queue, x=np.zeros(8, np.float32), a=1)
        kernel = None
        gc.collect()
        assert not [
            one for one in gc.get_objects() if type(one) is kcl.Kernel and one.name == "add"
        ]


class TestThreads:
    @pytest.mark.parametrize("shared", [True, False], ids=["one queue", "a queue each"])
    def test_launches_do_not_mix(self, queue, shared):
        """Eight threads with different scalars on one Kernel get their own results, from the first call on."""
        kernel, opened = add(), scaled()
        expected, found = {}, {}

        def work(number):
            mine = queue if shared else cl.CommandQueue(queue.context)
            arrays = []
            for repeat in range(60):
                x = cl_array.to_device(
                    mine, np.zeros(8, np.float32)
                )  # no kernel of pyopencl: it shares those
                kernel(mine, x=x, a=100 * number + repeat)
                _event, (y,) = opened(mine, x=x, a=np.float32(number + 1))
                arrays.append((x, y))
            mine.finish()
            found[number] = [(x.get(mine)[0], y.get(mine)[7]) for x, y in arrays]
            sums = [100.0 * number + repeat for repeat in range(60)]
            expected[number] = [(one, 2 * (number + 1) * one) for one in sums]

        at_once(work)
        assert found == expected

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
        kernel = failing()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                kernel(queue)
        assert [(one.layer, one.outcome) for one in looks] == [("generator", "miss")] * 2
        assert stored() == []

    def test_recipe_for_another_target(self, queue):
        """A RecipeError names the target."""
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

    def test_local(self):
        """A recipe that only one call of a function knows is refused, with the reason."""

        @kcl.kernel
        def local():
            raise AssertionError("not run")

        words = r"'local' cannot be pickled .* no function of a module"
        with pytest.raises(TypeError, match=words):
            pickle.dumps(local())

    def test_absent(self, monkeypatch):
        """A kernel whose recipe the other process does not know says so, with the cure."""
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


@pytest.mark.one_platform
@pytest.mark.parametrize("options", [(), ("-m", "kcl", "run")])
def test_frames_of_a_miss(child, platform_name, options):
    """The traceback of a CacheMiss has the user's frames first, and one of kcl: of the call, or of the build."""
    head = (
        "import kcl, pyopencl as cl, numpy as np\n"
        f"(platform,) = [one for one in cl.get_platforms() if one.name == {PLATFORMS[platform_name]!r}]\n"
        "context = cl.Context(platform.get_devices())\n"
    )
    recipe = (
        "@kcl.kernel\ndef halved():\n    import loopy as lp\n"
        "    return lp.make_kernel('{[i]: 0<=i<n}', 'y[i] = x[i]/2', lang_version=(2018, 2))\n"
        "def solve():\n    halved()(cl.CommandQueue(context), x=np.ones(4))\nsolve()\n"
    )
    program = "def solve():\n    cl.Program(context, 'kernel void f(global int *a) { a[0] = 1; }').build()\nsolve()\n"
    for text in (recipe, program) if options else (recipe,):
        path = child.directory / "solver.py"
        path.write_text(head + text)
        said = child.python(*options, path, KCL_STRICT="hit").stderr
        files = re.findall(r'File "([^"]+)", line', said)
        assert "CacheMiss" in said
        assert files[:2] == [str(path)] * 2
        assert len(files) == 3
