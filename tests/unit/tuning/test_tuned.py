"""kcl.tuning.tuned: a call is served the choice that was measured for its sizes, or the defaults."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from at_once import at_once
from harness import PLATFORMS
from loopy.diagnostic import LoopyError

import kcl
from kcl.base import process
from kcl.tuning import tuned
from kcl.tuning.table import Row

EXACT = (
    kcl.space(block=[16, 64, 256], exact=[False, True])
    .where(lambda block, exact: block < 256 or not exact)
    .where(lambda block, exact, n: not exact or n % block == 0)
)


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=EXACT)
def axpy(block=64, exact=False):
    """Assume that the block divides the size, if the choice says so."""
    import loopy as lp

    knl = lp.make_kernel("{[i]: 0<=i<n}", "z[i] = 2*x[i] + 1", lang_version=(2018, 2), name="axpy")
    if exact:
        knl = lp.assume(knl, f"n mod {block} = 0")
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(
    space=kcl.space(
        value=[1, 2, 3], how=["right", "does not build", "cannot be launched", "raises", "skips"]
    )
)
def filling(value=1, how="right"):
    """Write the chosen value, in a way that may fail."""
    if how == "raises":
        raise ValueError("the recipe has its reasons")
    if how == "skips":
        raise kcl.Skip("not for this device")
    wrong = " +" if how == "does not build" else ""
    text = f"kernel void filling(global int *x) {{ if (get_global_id(0) < 4) x[get_global_id(0)] = {value}{wrong}; }}"
    size = 1 << 20 if how == "cannot be launched" else 4
    arguments = [kcl.Array("x", np.int32, 4, "inout")]
    return kcl.Source(text, entry="filling", arguments=arguments, global_size=size, local_size=size)


@kcl.kernel(sizes={"n": "x.shape[0]", "m": "x.size"}, space=kcl.space(value=[1, 2]))
def both(n: kcl.Size, value=1):
    """Ask for a size itself, beside the choice."""
    text = (
        f"kernel void both(global int *x) {{ x[get_global_id(0)] = {value} + {n.multiple} * 100; }}"
    )
    return kcl.Source(
        text, entry="both", arguments=[kcl.Array("x", np.int32, "(16,)", "inout")], global_size=16
    )


def row(*sizes, ratio=0.5, **choice):
    """Return the row of a choice."""
    return Row(sizes, choice, ratio, 1, 6, 6, 0.01, "2026-11-26", "loopy 2025.2")


def put(kernel, queue, *rows, **arguments):
    """Store rows for a kernel, and have its next call decide by them."""
    table = kernel.table(queue, arguments)
    for one in rows:
        table.put(one)
    kernel.forget()
    return table


def added(kernel, queue, size, dtype=np.float32):
    """Launch `axpy` on a size; return what was decided, in words. The numbers are right."""
    x = np.arange(size, dtype=dtype)
    _event, (z,) = kernel(queue, x=x)
    assert np.array_equal(z, 2 * x + 1)
    return kernel.explain(queue, x=x).splitlines()[-1].partition("tuning: ")[2]


def filled(kernel, queue):
    """Launch `filling`; return the value that it wrote."""
    _event, (x,) = kernel(queue, x=np.zeros(4, np.int32))
    assert len(set(x.tolist())) == 1
    return x[0]


def axpy_table(kernel, queue, *rows, dtype=np.float32):
    return put(kernel, queue, *rows, x=np.empty(1, dtype))


@pytest.mark.one_platform
class TestDispatch:
    def test_untuned(self, queue, tmp_path):
        """Untuned sizes take the defaults, and nothing is written for that."""
        assert (
            added(axpy(), queue, 100)
            == "n = 100: the default block=64, exact=False: nothing is measured"
        )
        assert not (tmp_path / "cache" / "kcl" / "tuning").exists()
        assert (
            kcl.stats()["generator"] | {"misses": 1, "hits": 0, "errors": 0}
            == kcl.stats()["generator"]
        )

    def test_untuned_is_no_miss(self, queue, monkeypatch):
        """`KCL_STRICT=hit` lets an untuned size pass, and raises for a choice whose code is not in the cache."""
        added(axpy(), queue, 100)
        kcl.flush()
        monkeypatch.setenv("KCL_STRICT", "hit")
        process.reset()
        kernel, queue = axpy(), cl.CommandQueue(queue.context)
        added(kernel, queue, 100)
        axpy_table(kernel, queue, row(100, block=16, exact=False))
        with pytest.raises(kcl.CacheMiss, match="axpy"):
            added(kernel, queue, 100)
        assert kernel.table(queue, {"x": np.empty(1, np.float32)}).rows[0].outcome == "ok"

    def test_exact_sizes(self, queue):
        """The row of the same sizes serves a call."""
        kernel = axpy()
        axpy_table(kernel, queue, row(96, block=256, exact=False), row(100, block=16, exact=False))
        words = "n = 100: block=16, exact=False, measured at n=100, takes 0.50 of the time of the default"
        assert added(kernel, queue, 100) == words
        assert "16" in kernel.source(queue, x=np.float32, n=100)

    def test_same_power_of_two(self, queue):
        """Without such a row, that in the same power of two serves; of several the nearest by ratio."""
        kernel = axpy()
        axpy_table(kernel, queue, row(64, block=16, exact=False), row(120, block=256, exact=False))
        assert "block=16" in added(kernel, queue, 80)
        assert "block=256" in added(kernel, queue, 127)
        assert added(kernel, queue, 128) == (
            "n = 128: the default block=64, exact=False: no row is in its power of two; "
            "the nearest is block=256, exact=False, measured at n=120"
        )

    def test_where_is_asked_at_each_size(self, queue):
        """A choice that assumes what does not hold for the sizes of a call never serves it."""
        kernel = axpy()
        rows = [row(1 << power, block=16, exact=True) for power in range(4, 7)]
        axpy_table(kernel, queue, *rows)
        words = {size: added(kernel, queue, size) for size in range(16, 128)}
        assert all(("exact=True" in said.partition(", ")[0]) is False for said in words.values())
        served = {size for size, said in words.items() if " takes " in said}
        assert served == {size for size in range(16, 128) if size % 16 == 0}

    def test_a_new_size_asks_each_choice_once(self, queue):
        """At a new size a predicate is asked once for each choice of the table, however many rows have it."""
        asked = []

        def serves(value, n):
            asked.append(value)
            return value == 1 or n % 16 == 0

        @kcl.kernel(sizes={"n": "x.size"}, space=kcl.space(value=[1, 2, 3]).where(serves))
        def few(value=1):
            return filling.function(value)

        kernel, x = few(), np.zeros(17, np.int32)
        put(kernel, queue, *(row(size, value=2 + size % 2) for size in range(18, 32)), x=x)
        kernel.explain(queue, x=x)
        assert sorted(asked) == [1, 2, 3]
        kernel.explain(queue, x=x)
        assert len(asked) == 3

    def test_defaults_that_a_predicate_refuses(self, queue):
        """Where the defaults are no valid choice, the first valid one runs untuned."""

        @kcl.kernel(sizes={"n": "x.shape[0]"}, space=EXACT)
        def assuming(block=16, exact=True):
            return axpy.function(block, exact)

        assert added(assuming(), queue, 32).startswith("n = 32: the default block=16, exact=True")
        assert added(assuming(), queue, 17).startswith("n = 17: the default block=16, exact=False")

    def test_no_valid_choice(self, queue):
        """If no choice is valid the defaults run, with one warning."""

        @kcl.kernel(
            sizes={"n": "x.shape[0]"}, space=kcl.space(block=[16, 32]).where(lambda n: n > 1000)
        )
        def never(block=64):
            return axpy.function(block)

        with pytest.warns(kcl.CacheWarning, match="has no valid choice for n=17"):
            assert "block=64" in added(never(), queue, 17)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            added(never(), queue, 17)

    def test_lists_declared_now(self, queue):
        """A choice whose value left the list does not count; the next row does."""
        kernel = axpy()
        axpy_table(
            kernel,
            queue,
            row(100, block=32, exact=False),
            row(110, block=16, exact=0),
            row(120, block=16, exact=False),
        )
        assert "measured at n=120" in added(kernel, queue, 100)

    def test_default_stays(self, queue):
        """A row may say that the default stays, though its value is in no list."""

        @kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(block=[16, 64]))
        def own(block=8):
            return axpy.function(block)

        kernel = own()
        axpy_table(kernel, queue, row(100, block=8, ratio=1.0))
        assert (
            added(kernel, queue, 100)
            == "n = 100: block=8, measured at n=100, takes 1.00 of the time of the default"
        )

    def test_given_by_hand(self, queue):
        """A parameter that is given is no choice, has a table of its own, and with all given there is no table."""
        axpy_table(axpy(), queue, row(100, block=16, exact=False))
        kernel = axpy(256)
        assert added(kernel, queue, 100).startswith(
            "n = 100: the default exact=False: nothing is measured"
        )
        assert "256" in kernel.source(queue, x=np.float32, n=100)
        assert type(axpy(32, exact=False)) is kcl.Kernel

    def test_decided_once(self, queue):
        """A size is decided once a process: what another process stores later changes nothing in this one."""
        kernel, other = axpy(), axpy()
        before = added(kernel, queue, 100)
        from kcl.tuning.table import ChoiceTable

        known = kernel.table(queue, {"x": np.empty(1, np.float32)})
        ChoiceTable(known.key, known.about).put(row(100, block=16, exact=False))
        assert added(kernel, queue, 100) == before
        assert added(other, queue, 100) == before
        process.reset()
        assert "block=16" in added(axpy(), cl.CommandQueue(queue.context), 100)

    def test_dtypes(self, queue):
        """Other dtypes have another table."""
        kernel = axpy()
        axpy_table(kernel, queue, row(100, block=16, exact=False))
        assert "block=16" in added(kernel, queue, 100)
        assert "nothing is measured" in added(kernel, queue, 100, np.float64)
        assert "block=16" in added(kernel, queue, 100)

    def test_without_sizes(self, queue):
        """A recipe without sizes has one row."""
        kernel = filling()
        assert filled(kernel, queue) == 1
        put(kernel, queue, row(value=3, how="right"))
        assert filled(kernel, queue) == 3
        assert (
            kernel.explain(queue)
            .splitlines()[-1]
            .endswith("value=3, how='right', measured, takes 0.50 of the time of the default")
        )

    def test_with_kcl_size(self, queue):
        """A size that is a parameter is a kcl.Size; one that is none serves the table."""
        kernel, x = both(), cl_array.zeros(queue, 16, np.int32)
        kernel(queue, x=x)
        assert x.get().tolist() == [1601] * 16
        put(kernel, queue, row(16, 16, value=2), x=x)
        kernel(queue, x=x)
        assert x.get().tolist() == [1602] * 16

    def test_key_leaves_the_generators_out(self, queue):
        """The key of a table names no release of loopy and no text of kcl: the rows do."""
        names = {
            part.name for part in axpy().table(queue, {"x": np.empty(1, np.float32)}).key.parts
        }
        assert {
            "recipe",
            "record",
            "free",
            "size n",
            "dtype x",
            "platform",
            "driver",
            "compute units",
            "threads",
        } <= names
        assert not [
            name for name in names if name.startswith("distribution") or name in ("kcl", "python")
        ]

    def test_threads_of_pocl(self, queue, monkeypatch):
        """Another number of PoCL's threads has another table."""
        axpy_table(axpy(), queue, row(100, block=16, exact=False))
        monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "17")
        assert "nothing is measured" in added(axpy(), queue, 100)

    def test_off(self, queue, monkeypatch):
        """With `KCL_NO_CACHE=tuning`, and with all layers off, the defaults run, and no table is read or written."""
        axpy_table(axpy(), queue, row(100, block=16, exact=False))
        for value in ("tuning", "1"):
            monkeypatch.setenv("KCL_NO_CACHE", value)
            process.reset()
            kernel, queue = axpy(), cl.CommandQueue(queue.context)
            assert (
                added(kernel, queue, 100)
                == f"n = 100: the default block=64, exact=False: off: KCL_NO_CACHE={value}"
            )
            assert kernel.table(queue, {"x": np.empty(1, np.float32)}) is None

    def test_threads(self, queue):
        """Threads that launch other sizes at once each take the choice for their own."""
        kernel = axpy()
        axpy_table(kernel, queue, *(row(16 * size, block=16, exact=True) for size in range(1, 9)))

        def launch(number):
            queue_of_mine = cl.CommandQueue(queue.context)
            assert "exact=True, measured" in added(kernel, queue_of_mine, 16 * number + 16)
            assert "the default" in added(kernel, queue_of_mine, 16 * number + 17)

        at_once(launch)

    def test_hook(self, queue):
        """`tune_untuned` has a function called once a size, before it is decided."""
        seen = []

        def tune(kernel, queue, arguments):
            seen.append(arguments["x"].shape[0])
            axpy_table(kernel, queue, row(arguments["x"].shape[0], block=16, exact=False))

        tuned.tune_untuned(tune)
        kernel = axpy()
        assert "block=16" in added(kernel, queue, 100)
        added(kernel, queue, 100)
        assert seen == [100]
        tuned.tune_untuned(None)
        added(kernel, queue, 300)
        assert seen == [100]


@pytest.mark.one_platform
class TestFailingChoices:
    @pytest.mark.parametrize("how", ["does not build", "cannot be launched", "raises", "skips"])
    def test_defaults_run(self, queue, how):
        """A choice that no longer builds or launches: the defaults run, one event says so, and the row is marked."""
        kernel, seen = filling(), []
        table = put(kernel, queue, row(value=2, how=how))
        remove = kcl.add_hook(seen.append)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert [filled(kernel, queue) for _ in range(3)] == [1, 1, 1]
        remove()
        (event,) = [one for one in seen if "no longer runs" in one.reason]
        assert event.outcome == "error"
        assert event.reason.startswith(
            f"the tuned choice value=2, how={how!r} no longer runs, the defaults do: "
        )
        assert table.rows[0].outcome == "no longer runs"
        assert "no longer runs" in kernel.explain(queue).splitlines()[-1]
        process.reset()
        seen.clear()
        kernel, queue = filling(), cl.CommandQueue(queue.context)
        remove = kcl.add_hook(seen.append)
        assert filled(kernel, queue) == 1
        remove()
        assert not [one for one in seen if "no longer runs" in one.reason or one.outcome == "error"]

    def test_error_of_the_call(self, queue):
        """An error that the defaults raise too is the user's: nothing is marked."""
        kernel = axpy()
        table = axpy_table(kernel, queue, row(100, block=16, exact=False))
        for wrong in ({}, {"x": 4.0}, {"x": np.zeros(100, np.float32), "y": 3}):
            with pytest.raises((LoopyError, TypeError, KeyError)):
                kernel(queue, **wrong)
        with pytest.raises(TypeError, match="by name"):
            kernel(queue, np.zeros(100, np.float32))
        with pytest.raises(TypeError, match=r"CommandQueue"):
            kernel(x=np.zeros(100, np.float32))
        assert table.rows[0].outcome == "ok"
        assert "block=16" in added(kernel, queue, 100)

    def test_some_of_several_kernels(self, queue):
        """Where the first of several kernels may have run, the error is raised: the defaults would use its results."""

        @kcl.kernel(space=kcl.space(block=[64, 1 << 16]))
        def twice(block=64):
            import loopy as lp

            knl = lp.make_kernel(
                "{[i,j]: 0<=i,j<65536}",
                """
                x[i] = x[i] + 1 {id=a}
                ... gbarrier {id=b,dep=a}
                x[j] = 2*x[j] {dep=b}
                """,
                [lp.GlobalArg("x", np.float32, shape=(1 << 16,))],
                lang_version=(2018, 2),
            )
            return lp.split_iname(
                lp.tag_inames(knl, "i:g.0"), "j", block, outer_tag="g.0", inner_tag="l.0"
            )

        kernel, x = twice(), cl_array.zeros(queue, 1 << 16, np.float32)

        def value():
            (found,) = set(x.get().tolist())
            return found

        kernel(queue, x=x)
        assert value() == 2
        table = put(kernel, queue, row(block=1 << 16))
        with pytest.raises(cl.Error):
            kernel(queue, x=x)
        assert value() == 3
        assert table.rows[0].outcome == "no longer runs"
        kernel(queue, x=x)
        assert value() == 8


@pytest.mark.one_platform
class TestHandle:
    def test_bind(self, queue):
        """A bound launch keeps its choice, and refuses sizes for which that is not valid."""
        kernel, z = axpy(), cl_array.zeros(queue, 128, np.float32)
        axpy_table(kernel, queue, row(64, block=16, exact=True))
        x = cl_array.to_device(queue, np.arange(128, dtype=np.float32))
        launch = kernel.bind(queue, x=x[:64], z=z[:64])
        launch(x=x, z=z).wait()
        assert np.array_equal(z.get(), 2 * x.get() + 1)
        with pytest.raises(
            ValueError,
            match=r"bound for n=64 with block=16, exact=True, and not for n=17, as where 2",
        ):
            launch(x=x[:17], z=z[:17])

    @pytest.mark.parametrize("how", ["does not build", "cannot be launched"])
    def test_bind_of_a_failing_choice(self, queue, how):
        """A choice that can be bound or launched no longer: the defaults are bound."""
        kernel, x = filling(), cl_array.zeros(queue, 4, np.int32)
        table = put(kernel, queue, row(value=2, how=how))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            launch = kernel.bind(queue, x=x)
            for _ in range(2):
                launch(x=x).wait()
        assert x.get().tolist() == [1] * 4
        assert table.rows[0].outcome == "no longer runs"

    def test_asked_by_name(self, queue):
        """`prepare`, `source`, `key` and `explain` take sizes by name, or from arrays, on a queue or a context."""
        kernel = axpy()
        axpy_table(kernel, queue, row(64, block=16, exact=True))
        general = kernel.source(queue.context, x=np.float32)
        assert kernel.source(queue.context, x=np.float32, n=64) != general
        assert kernel.source(queue.context, x=np.zeros(64, np.float32)) != general
        assert kernel.key(queue, x=np.float32, n=64) != kernel.key(queue, x=np.float32, n=17)
        kernel.prepare(queue, x=np.float32, n=64)
        assert "takes 0.50" in kernel.explain(queue, x="float32", n=64)

    def test_pickle(self, queue):
        """A handle travels by the name of its recipe, and the free parameters stay free."""
        axpy_table(axpy(block=16), queue, row(100, exact=False, ratio=0.25))
        assert "takes 0.25" in added(pickle.loads(pickle.dumps(axpy(block=16))), queue, 100)

    def test_repr(self):
        assert repr(axpy(block=16)) == "<kcl.TunedKernel axpy: chooses exact>"


class TestDeclaration:
    @pytest.mark.parametrize(
        ("space", "words"),
        [
            (kcl.space(blok=[1]), r"'blok' is no parameter of 'axpy'"),
            (kcl.space(block=[1]).where(lambda m: m), r"where 1 of the space of 'axpy' names 'm'"),
            (kcl.space(block=[1]).where(lambda blok: blok), r"did you mean 'block'"),
            ({"block": [1]}, r"takes a space such as"),
        ],
    )
    def test_refused(self, space, words):
        """What cannot be meant is a TypeError at the decoration, and names what is wrong."""
        with pytest.raises(TypeError, match=words):
            kcl.kernel(sizes={"n": "x.shape[0]"}, space=space)(axpy.function)

    def test_default(self):
        """A parameter of the space has a default: untuned sizes take it."""
        with pytest.raises(TypeError, match="give 'block' of 'bare' a default"):

            @kcl.kernel(space=kcl.space(block=[1]))
            def bare(block):
                return block

    def test_size_and_choice(self):
        """A parameter is a size or a choice."""
        with pytest.raises(TypeError, match="'n' is a size, not a choice"):

            @kcl.kernel(sizes={"n": "x.size"}, space=kcl.space(n=[1]))
            def mixed(n=1):
                return n

    def test_pure(self, queue):
        """A pure recipe may have a space, and sizes that are none of its parameters."""

        @kcl.kernel(
            pure=True, version="1", sizes=kcl.sizes(n="x.size"), space=kcl.space(value=[1, 2])
        )
        def pure(value=1):
            return filling.function(value)

        kernel, x = pure(), np.zeros(4, np.int32)
        put(kernel, queue, row(4, value=2), x=x)
        assert filled(kernel, queue) == 2
        with pytest.raises(TypeError, match="takes no sizes"):
            kcl.kernel(
                pure=True,
                version="1",
                sizes=kcl.sizes(value="x.size"),
                space=kcl.space(how=["right"]),
            )(filling.function)


DRIVER = """
import json, sys
import numpy as np
import pyopencl as cl
import kcl

@kcl.kernel(sizes={"n": "x.shape[0]", "m": "x.size"}, space=kcl.space(block=[16, 64]))
def axpy(n: kcl.Size, block=64):
    import loopy as lp
    knl = n.assume(lp.make_kernel("{[i]: 0<=i<n}", "z[i] = 2*x[i] + 1", lang_version=(2018, 2), name="axpy"))
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")

platform, put = sys.argv[1:]
(device,) = [p for p in cl.get_platforms() if p.name == platform][0].get_devices()[:1]
context = cl.Context([device])
queue = cl.CommandQueue(context)
kernel, x = axpy(), np.ones(100, np.float32)
if put:
    from kcl.tuning.table import Row
    kernel.table(queue, {"x": x}).put(Row((100, 100), {"block": 16}, 0.5, 1, 2, 2, 0.0, "2026-11-26"))
_event, (z,) = kernel(queue, x=x)
assert z.tolist() == [3] * 100
kcl.flush()
found = kcl.stats()
names = ("loopy", "kcl.tuning.tuner", "kcl.tuning.table", "kcl.tuning.views")
imported = [name for name in names if name in sys.modules]
said = kernel.explain(queue, x=x).splitlines()[-1]
print(json.dumps([said, found["generator"]["misses"], found["binary"]["misses"], imported]))
"""


UNTUNED = """
import json, os, sys
import numpy as np
import pyopencl as cl
import kcl

started = []
sys.addaudithook(lambda event, _given: started.append(event) if event in ("subprocess.Popen", "os.fork") else None)
platform, has_space = sys.argv[1:]
given = {}
if has_space:
    given = {"sizes": {"n": "x.shape[0]"}, "space": kcl.space(block=[16, 64]).where(lambda block, n: n >= block)}

@kcl.kernel(**given)
def axpy(block=64):
    import loopy as lp
    knl = lp.make_kernel("{[i]: 0<=i<n}", "z[i] = 2*x[i] + 1", lang_version=(2018, 2), name="axpy")
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")

(device,) = [p for p in cl.get_platforms() if p.name == platform][0].get_devices()[:1]
context = cl.Context([device])
queue = cl.CommandQueue(context)
kernel = axpy()
for size in (100, 100, 200):
    kernel(queue, x=np.ones(size, np.float32))
cache = os.environ["XDG_CACHE_HOME"]
files = sorted(os.path.relpath(folder, cache) for folder, _folders, files in os.walk(cache) for _file in files)
used = kcl.stats()
outcomes = [used[layer][name] for layer in ("generator", "binary") for name in ("hits", "misses", "errors")]
tuning = [name for name in sys.modules if name.startswith("kcl.tuning.")]
print(json.dumps([files, started, outcomes, tuning]))
"""


@pytest.mark.one_platform
class TestNothingTuned:
    def test_costs_nothing(self, child, platform_name):
        """Where a space is declared and nothing is tuned there is no file and no process more, cold and warm.

        The look-ups are the same, and what tunes is not imported.
        """
        (child.directory / "untuned.py").write_text(UNTUNED)
        found = {}
        for has_space in ("", "yes"):
            place = str(child.directory / f"cache{has_space}")
            for run in ("cold", "warm"):
                words = (PLATFORMS[platform_name], has_space)
                found[run, has_space] = child.script(
                    "untuned.py", *words, XDG_CACHE_HOME=place, KCL_PROMOTE="off"
                )
        for run in ("cold", "warm"):
            (*plain, none), (*spaced, imported) = found[run, ""], found[run, "yes"]
            assert spaced == plain
            assert none == []
            assert set(imported) == {"kcl.tuning.space", "kcl.tuning.table", "kcl.tuning.tuned"}
        assert found["warm", "yes"][2][1] == 0


@pytest.mark.one_platform
class TestWarmStart:
    @pytest.mark.parametrize("put", ["", "put"])
    def test_imports_no_loopy(self, child, platform_name, put):
        """A warm start, tuned or not, generates and builds nothing, and imports neither loopy nor what tunes."""
        (child.directory / "driver.py").write_text(DRIVER)
        child.script("driver.py", PLATFORMS[platform_name], put)
        said, *misses, imported = child.script(
            "driver.py", PLATFORMS[platform_name], "", KCL_STRICT="hit"
        )
        assert ("takes 0.50" in said) is bool(put)
        assert misses == [0, 0]
        assert imported == ["kcl.tuning.table"]
