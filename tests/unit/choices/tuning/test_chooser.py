"""kcl.choices.tuning.chooser: a call is served the choice that was measured for its sizes, or the defaults."""

import pickle
import warnings

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from at_once import at_each_line, at_once
from elementwise import elementwise, one_array
from harness import PLATFORMS
from loopy.diagnostic import LoopyError
from measured import put

import kcl
from kcl.base import events, process
from kcl.cache import layers
from kcl.choices.tuning import chooser
from kcl.choices.tuning.table import RankedChoice, Row
from kcl.handle import chooser_of
from kcl.launch import HOT
from kcl.line import Line
from kcl.programs import headers

EXACT = (
    kcl.space(block=[16, 64, 256], exact=[False, True])
    .where(lambda block, exact: block < 256 or not exact)
    .where(lambda block, exact, n: not exact or n % block == 0)
)


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=EXACT)
def axpy(block=64, exact=False):
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
    size = 1 << 20 if how == "cannot be launched" else 4
    sizes = {"global_size": size, "local_size": size}
    return one_array("filling", f"if (i < 4) x[i] = {value}{wrong};", np.int32, **sizes)


@kcl.kernel(sizes={"n": "x.shape[0]", "m": "x.size"}, space=kcl.space(value=[1, 2]))
def both(n: kcl.Size, value=1):
    return elementwise("both", f"x[i] = {value} + {n.multiple} * 100;", np.int32, x="inout")


DEVICES = """
    import json, sys
    import numpy as np, pyopencl as cl, pyopencl.array as cl_array
    import kcl
    from elementwise import elementwise
    from kcl.launch import HOT
    from kcl.choices.tuning.table import Row
    from measured import put

    @kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(value=[1, 2, 3]))
    def placed(value=1):
        return elementwise("placed", f"x[i] = {value};", np.int32, x="inout")

    def launched(queue, size):
        x = cl_array.zeros(queue, size, np.int32)
        kernel(queue, x=x)
        return x.get()[0].item()

    def stored(queue, **choices):
        rows = [Row((int(n[1:]),), {"value": one}, 0.5, 1, 3, 3, 0.01, "") for n, one in choices.items()]
        put(kernel, queue, *rows, x=np.zeros(1, np.int32))

    platform = [one for one in cl.get_platforms() if one.name.startswith("Portable")][0]
    first, second = [cl.CommandQueue(cl.Context([one])) for one in platform.get_devices()]
    kernel = placed()
    stored(first, n4=2)
    stored(second, n64=2, n4=3)
    for _time in range(2 * HOT):
        launched(second, 64)
    print(json.dumps([launched(queue, 4) for queue in [second, first] * 3]))
"""


def valued(value=1):
    return elementwise("valued", f"x[i] = {value};", np.float64, x="inout")


def row(*sizes, ratio=0.5, **choice):
    return Row(sizes, choice, ratio, 1, 6, 6, 0.01, "2026-11-26", "loopy 2025.2")


def added(kernel, queue, size, dtype=np.float32):
    x = np.arange(size, dtype=dtype)
    _event, (z,) = kernel(queue, x=x)
    assert np.array_equal(z, 2 * x + 1)
    return kernel.explain(queue, x=x).splitlines()[-1].partition("tuning: ")[2]


def filled(kernel, queue):
    _event, (x,) = kernel(queue, x=np.zeros(4, np.int32))
    assert len(set(x.tolist())) == 1
    return x[0]


def axpy_table(kernel, queue, *rows):
    return put(kernel, queue, *rows, x=np.empty(1, np.float32))


def begun_anew(queue):
    """Have kcl know as little as in a new process; return another queue."""
    process.reset()
    return cl.CommandQueue(queue.context)


PLAIN = {block: {"block": block, "exact": False} for block in (16, 32, 256)}
UNTUNED_WORDS = "the default block=64, exact=False"


@pytest.mark.one_platform
class TestDispatch:
    @pytest.mark.parametrize(
        ("rows", "decisions"),
        [
            ([], {100: f"{UNTUNED_WORDS}: nothing is measured"}),
            (
                [row(96, **PLAIN[256]), row(100, **PLAIN[16])],
                {
                    100: "block=16, exact=False, measured at n=100, takes 0.5 of the time of the default"
                },
            ),
            (
                [row(64, **PLAIN[16]), row(120, **PLAIN[256])],
                {
                    **dict.fromkeys((80, 32), "block=16"),
                    **dict.fromkeys((127, 240), "block=256"),
                    241: f"{UNTUNED_WORDS}: no row is within a factor of two; "
                    "the nearest is block=256, exact=False, measured at n=120",
                },
            ),
            (
                [row(100, **PLAIN[32]), row(110, block=16, exact=0), row(120, **PLAIN[16])],
                {100: "block=16, exact=False, measured at n=120"},
            ),
        ],
        ids=["untuned", "of these sizes", "within a factor of two", "a value that is not listed"],
    )
    def test_row(self, queue, rows, decisions):
        kernel = axpy()
        axpy_table(kernel, queue, *rows)
        for size, words in decisions.items():
            assert added(kernel, queue, size).startswith(f"n = {size}: {words}")

    def test_untuned_is_no_miss(self, queue, monkeypatch):
        """`KCL_STRICT=hit` lets an untuned size pass, and raises for a choice whose code is not in the cache."""
        added(axpy(), queue, 100)
        assert {"defaults": 1, "hits": 0, "misses": 0}.items() <= kcl.stats()["tuning"].items()
        kcl.flush()
        monkeypatch.setenv("KCL_STRICT", "hit")
        queue, kernel = begun_anew(queue), axpy()
        added(kernel, queue, 100)
        axpy_table(kernel, queue, row(100, block=16, exact=False))
        with pytest.raises(kcl.CacheMiss, match="axpy"):
            added(kernel, queue, 100)
        assert chooser_of(kernel).table(queue).rows[0].outcome == "ok"

    def test_where_is_asked_at_each_size(self, queue):
        """A choice that assumes what does not hold for the sizes of a call never serves it."""
        kernel = axpy()
        rows = [row(1 << power, block=16, exact=True) for power in range(4, 8)]
        axpy_table(kernel, queue, *rows)
        words = {size: added(kernel, queue, size) for size in range(16, 128)}
        assert all(("exact=True" in said.partition(", ")[0]) is False for said in words.values())
        served = {size for size, said in words.items() if " takes " in said}
        assert served == {size for size in range(16, 128) if size % 16 == 0}

    def test_a_new_size_asks_each_choice_once(self, queue):
        asked = []

        def serves(value, n):
            asked.append(value)
            return value == 1 or n % 16 == 0

        space = kcl.space(value=[1, 2, 3]).where(serves)
        kernel, x = kcl.kernel(sizes={"n": "x.size"}, space=space)(valued)(), np.zeros(17)
        put(kernel, queue, *(row(size, value=2 + size % 2) for size in range(18, 32)), x=x)
        asked.clear()
        for _time in range(2):
            kernel.explain(queue, x=x)
            assert sorted(asked) == [1, 2, 3]

    def test_defaults_that_a_predicate_refuses(self, queue):
        """Where the defaults are no valid choice, the first valid one runs untuned. Without any, nothing runs."""

        @kcl.kernel(sizes={"n": "x.shape[0]"}, space=EXACT)
        def assuming(block=16, exact=True):
            return axpy.function(block, exact)

        assert added(assuming(), queue, 32).startswith("n = 32: the default block=16, exact=True")
        assert added(assuming(), queue, 17).startswith("n = 17: the default block=16, exact=False")
        never = kcl.kernel(sizes={"n": "x.size"}, space=EXACT.where(lambda n: n > 1000))(
            axpy.function
        )
        words = r"no valid choice for n=17: for its default block=64, exact=False where 3 .*does not hold"
        with pytest.raises(kcl.RecipeError, match=words):
            never()(queue, x=np.empty(17, np.float32))
        assert "block=64" in added(never(), queue, 1001)

    def test_default_stays(self, queue):
        recipe = kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(block=[16, 32]))(
            axpy.function
        )
        axpy_table(recipe(), queue, row(100, block=64, ratio=1.0))
        words = "n = 100: the default block=64, measured at n=100 as the fastest of 6"
        assert added(recipe(), queue, 100) == words

    def test_given_by_hand(self, queue):
        """A parameter that is given is no choice, has a table of its own, and with all given there is no table."""
        axpy_table(axpy(), queue, row(100, **PLAIN[16]))
        kernel = axpy(256)
        words = "n = 100: the default exact=False: nothing is measured"
        assert added(kernel, queue, 100).startswith(words)
        assert "256" in kernel.source(queue, x=np.float32, n=100)
        assert isinstance(chooser_of(axpy(32, exact=False)), Line)

    def test_missing_argument(self, queue):
        for use in (axpy().tune, axpy().bind):
            with pytest.raises(TypeError, match="kernel 'axpy': missing argument 'x'"):
                use(queue, z=np.empty(4, np.float32))

    def test_size_that_is_an_array(self, queue):
        recipe = kcl.kernel(sizes={"n": "n"}, space=kcl.space(value=[1, 2]))(valued)
        kernel, x = recipe(), np.ones(4)
        for _time in range(2):
            with pytest.raises(TypeError, match="which is no whole number"):
                kernel(queue, x=x, n=np.arange(4))
            kernel(queue, x=x, n=4)

    def test_decided_once(self, queue):
        """A size is decided once a process: what another process stores later changes nothing in this one."""
        kernel = axpy()
        table = axpy_table(kernel, queue, row(100, block=16, exact=False))
        before = added(kernel, queue, 100)
        tuning = layers.layer("tuning")
        entry = tuning.read(table.address)
        tuning.stores[0].put(table.address, entry.with_metadata(rows=[]).pack())
        assert [added(kernel, queue, 100), added(axpy(), queue, 100)] == [before] * 2
        assert "block=16" in before
        assert "the default" in added(axpy(), begun_anew(queue), 100)

    def test_with_kcl_size(self, queue):
        kernel, x = both(), cl_array.zeros(queue, 16, np.int32)
        kernel(queue, x=x)
        assert x.get().tolist() == [1601] * 16
        put(kernel, queue, row(16, 16, value=2), x=x)
        kernel(queue, x=x)
        assert x.get().tolist() == [1602] * 16

    def test_key_leaves_the_generators_out(self, queue, monkeypatch):
        """The key of a table names no release of loopy and no text of kcl: the rows do. PoCL's threads count."""
        names = {part.name for part in axpy_table(axpy(), queue, row(100, **PLAIN[16])).key.parts}
        assert names >= {"recipe", "record", "free", "size n", "platform", "driver"}
        assert names >= {"compute units", "threads"}
        assert not names & {"kcl", "python"}
        assert not [name for name in names if name.startswith("distribution")]
        monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "17")
        assert "nothing is measured" in added(axpy(), queue, 100)

    def test_off(self, queue, monkeypatch):
        """With `KCL_NO_CACHE=tuning`, and with all layers off, the defaults run, and no table is read or written."""
        axpy_table(axpy(), queue, row(100, **PLAIN[16]))
        for value in ("tuning", "1"):
            monkeypatch.setenv("KCL_NO_CACHE", value)
            queue, off = begun_anew(queue), f"off: KCL_NO_CACHE={value}"
            assert added(axpy(), queue, 100) == f"n = 100: {UNTUNED_WORDS}: {off}"
            tuning = axpy().tune(queue, x=np.ones(100, np.float32))
            assert tuning.why == f"nothing can be stored: {off}"

    def test_off_in_a_block(self, queue, looks):
        kernel, x = filling(), cl_array.zeros(queue, 4, np.int32)
        put(kernel, queue, row(value=3, how="right"))
        with kcl.disabled("tuning"):
            for _time in range(2 * HOT):
                kernel(queue, x=x)
            assert x.get().tolist() == [1] * 4
            # It is decided once a block, and noted once.
            assert [look.layer for look in looks].count("tuning") == 1
            assert kernel.explain(queue).endswith("off: kcl.disabled()")
        kernel(queue, x=x)
        assert x.get().tolist() == [3] * 4
        words = "value=3, how='right', measured, takes 0.5 of the time of the default"
        assert kernel.explain(queue).endswith(words)

    def test_threads(self, queue):
        kernel = axpy()
        axpy_table(kernel, queue, *(row(16 * size, block=16, exact=True) for size in range(1, 9)))

        def launch(number):
            queue_of_mine = cl.CommandQueue(queue.context)
            assert "exact=True, measured" in added(kernel, queue_of_mine, 16 * number + 16)
            assert "the default" in added(kernel, queue_of_mine, 16 * number + 17)

        at_once(launch)

    def test_another_thread_forgets(self, queue):
        """A launch goes on while another thread has the handle forget what was decided."""
        kernel = axpy()
        of_kernel = chooser_of(kernel)

        class Forgotten(dict):
            def __setitem__(self, name, value):
                super().__setitem__(name, value)
                of_kernel.forget()

            def setdefault(self, name, value):
                self[name] = value
                return value

        of_kernel._tables, of_kernel._made = Forgotten(), Forgotten()
        assert of_kernel.table(queue).key == chooser_of(axpy()).table(queue).key
        of_kernel._made = Forgotten()
        added(kernel, queue, 100)

    def test_devices(self, child, platform_name):
        if platform_name != "pocl":
            pytest.skip("PoCL alone can be asked for two devices")
        assert child.json(DEVICES, POCL_DEVICES="pthread basic") == [3, 2] * 3

    def test_part_of_a_device(self, device):
        """A queue on a part of a device is served the defaults, if its context has the whole device only."""
        part = device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])[0]
        context = cl.Context([part])
        added(axpy(), cl.CommandQueue(context, part), 100)

    def test_hook(self, queue):
        """`tune_untuned` has a function called once a size, before it is decided, whatever row that stores."""
        seen = []

        def tune(_chooser, queue, arguments):
            size = arguments["x"].shape[0]
            seen.append(size)
            codes = ("other",) if size == 300 else ()
            best = (RankedChoice(PLAIN[16], 0.5, 0.01, codes),)
            axpy_table(kernel, queue, row(size, **PLAIN[16])._replace(best=best))

        chooser.tune_untuned(tune)
        kernel = axpy()
        assert "block=16" in added(kernel, queue, 100)
        added(kernel, queue, 100)
        assert seen == [100]
        x = cl_array.zeros(queue, 200, np.float32)
        kernel.bind(queue, x=x, z=cl_array.zeros_like(x))
        assert seen == [100, 200]
        with pytest.warns(kcl.CacheWarning, match="changed since it was measured"):
            kernel(queue, x=np.empty(300, np.float32))
        assert seen == [100, 200, 300]
        chooser.tune_untuned(None)
        added(kernel, queue, 400)
        assert seen == [100, 200, 300]


def twice(
    slow="2*x[i]",
    fast="2*x[i]",
    faster="2*x[i]",
    launch="n",
    start="slow",
    given=3,
    folder="",
    where=None,
):
    """Return a recipe that doubles, as a file has it before or after an edit: in a slow, a fast and a faster way."""
    space = kcl.space(way=["slow", "fast", "faster"])

    @kcl.kernel(sizes={"n": "x.shape[0]"}, space=space.where(where) if where else space)
    def twice(way=start, factor=given):
        body = {"slow": slow, "fast": fast, "faster": faster}[way].replace("FACTOR", str(factor))
        head = "".join(f'#include "{name}.h"\n' for name in ("slow", "fast") if name in body)
        text = f"""{head}kernel void twice(global const float *x, global float *y, int n)
                   {{ int i = get_global_id(0); if (i < n) y[i] = {body}; /* {way} */ }}"""
        arrays = [kcl.Array("x", np.float32, "n"), kcl.Array("y", np.float32, "n", "out")]
        return kcl.Source(
            text,
            entry="twice",
            arguments=[*arrays, kcl.Scalar("n", np.int32)],
            global_size="n" if way == "slow" else launch,
            build_options=["-I", str(folder)] if folder else [],
        )

    return twice


def doubled_by(kernel, queue, n=64):
    """Launch on ones; return the number that each element is multiplied by, and what was decided."""
    x = np.ones(n, np.float32)
    _event, (y,) = kernel(queue, x=x)
    (factor,) = set(y.tolist())
    return factor, kernel.explain(queue, x=x).splitlines()[-1].partition("tuning: ")[2]


FASTER = tuple(
    RankedChoice({"way": way}, ratio, 0.01, ()) for way, ratio in (("faster", 0.4), ("fast", 0.5))
)


@pytest.mark.one_platform
class TestMeasuredCode:
    @pytest.mark.parametrize(
        ("before", "after", "given", "right", "words"),
        [
            ({}, {"fast": "3*x[i]", "faster": "3*x[i]"}, {}, 2, "the code of way='faster' changed"),
            (
                {},
                {"faster": "3*x[i]"},
                {},
                2,
                "way='fast', measured at n=64, takes 0.5 of the time",
            ),
            ({}, {"slow": "3*x[i]"}, {}, 3, "the default way='slow': its text changed"),
            ({}, {"launch": "n // 2"}, {}, 2, "the code of way='faster' changed since"),
            (
                {},
                {"start": "fast", "fast": "4*x[i]"},
                {},
                4,
                "default way='fast': its text changed",
            ),
            (
                {"fast": "2*x[i] + FACTOR - 3", "faster": "2*x[i] + FACTOR - 3"},
                {},
                {"factor": 4},
                2,
                "the default way='slow': this variant was not measured",
            ),
            (
                {"where": lambda way: way != "slow"},
                {"fast": "3*x[i]"},
                {},
                3,
                "beside another default",
            ),
        ],
        ids=["choices", "first", "default", "launch", "start", "parameter", "valid default"],
    )
    def test_edits(self, queue, before, after, given, right, words):
        """What was edited since it was measured is not served: the next best or the default runs. A warning says so."""
        measured = row(64, way="faster")._replace(best=FASTER)
        axpy_table(twice(**before)(), queue, measured)
        assert "way='faster', measured" in doubled_by(twice(**before)(), queue)[1]
        edited = twice(**{**before, **after})(**given)
        with pytest.warns(kcl.CacheWarning, match="measure again with `kcl tune`"):
            factor, decision = doubled_by(edited, begun_anew(queue))
        assert factor == right
        assert words in decision
        assert any(words in remark for remark in events.remarks())
        # An edit that is taken back is served again.
        assert "way='faster', measured" in doubled_by(twice(**before)(), begun_anew(queue))[1]

    def test_all_changed(self, queue):
        """Where the code of all choices changed, as by another loopy, a few are generated before the default runs."""
        asked = []

        @kcl.kernel(space=kcl.space(value=range(1, 10)))
        def several(value=1):
            asked.append(value)
            return filling.function(value)

        best = [RankedChoice({"value": value}, 0.5, 0.01, ("other",)) for value in range(2, 10)]
        kernel = several()
        put(kernel, queue, row(value=2)._replace(best=tuple(best)), x=np.zeros(4, np.int32))
        asked.clear()
        with pytest.warns(kcl.CacheWarning, match="the code of value=2 changed"):
            assert filled(kernel, queue) == 1
        assert {*asked} - {1} == {2, 3, 4}

    @pytest.mark.parametrize("way", ["slow", "fast"])
    def test_header(self, queue, tmp_path, way):
        """The content of a header counts, that of the default as that of a choice; and a header that now comes first."""
        before = {"folder": tmp_path, way: f"{way}(x[i])"}
        for file in ("slow", "fast"):
            (tmp_path / f"{file}.h").write_text(f"#define {file}(x) (2*(x))")
        measured = row(64, way="fast")
        if way == "slow":
            includes = headers.header_files('#include "slow.h"', [str(tmp_path)])
            assert list(includes) == [str(tmp_path / "slow.h")]
            measured = measured._replace(includes=includes)
        axpy_table(twice(**before)(), queue, measured)
        assert "way='fast', measured" in doubled_by(twice(**before)(), queue)[1]
        (tmp_path / f"{way}.h").write_text(f"#define {way}(x) (3*(x))")
        with pytest.warns(kcl.CacheWarning, match="kcl tune"):
            factor, decision = doubled_by(twice(**before)(), begun_anew(queue))
        assert factor == (3 if way == "slow" else 2)
        words = "with another" if way == "slow" else "the code of way='fast' changed"
        assert words in decision

    def test_dtypes(self, queue):
        kernel, x = axpy(), np.arange(100, dtype=np.float32)
        axpy_table(kernel, queue, row(100, **PLAIN[16]))
        for given in ({"x": x}, {"x": x, "z": np.empty_like(x)}):
            assert np.array_equal(kernel(queue, **given)[1][0], 2 * x + 1)
            assert "block=16, exact=False, measured" in kernel.explain(queue, **given)
        wide = np.arange(100) + 1e-12
        with pytest.warns(kcl.CacheWarning, match="with x of dtype <f4, not <f8"):
            assert np.array_equal(kernel(queue, x=wide)[1][0], 2 * wide + 1)
        for values in (x, wide) * 2:
            assert np.array_equal(kernel(queue, x=values)[1][0], 2 * values + 1)

    def test_sizes_of_the_recipe(self, queue):
        """A variant for another answer of a kcl.Size has other code: it was not measured, and the default runs."""

        @kcl.kernel(sizes={"n": "x.size"}, space=kcl.space(value=[1, 2]))
        def asking(n: kcl.Size, value=1):
            number = value if n.multiple > 1 else 3 - value
            return elementwise("asking", f"x[i] = {number};", np.int32, x="inout")

        kernel, x = asking(), np.zeros(16, np.int32)
        put(kernel, queue, row(16, value=2), x=x)
        assert kernel(queue, x=x)[1][0][0] == 2
        with pytest.warns(kcl.CacheWarning, match="this variant was not measured|beside another"):
            assert kernel(queue, x=np.zeros(17, np.int32))[1][0][0] == 2  # the default, of 17


@pytest.mark.one_platform
class TestFailingChoices:
    @pytest.mark.parametrize("how", ["does not build", "cannot be launched", "raises", "skips"])
    def test_defaults_run(self, queue, looks, how):
        """A choice that no longer builds: the defaults run, an event and a warning say so, and the row is marked."""
        kernel = filling()
        table = put(kernel, queue, row(value=2, how=how))
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            assert [filled(kernel, queue) for _ in range(3)] == [1, 1, 1]
        (words,) = [text for one in heard if "kcl tune" in (text := str(one.message))]
        assert "no longer runs, the defaults do: " in words
        (event,) = [event for event in looks if event.outcome == "error"]
        said = f"the tuned choice value=2, how={how!r} no longer runs, the defaults do: "
        assert event.reason.startswith(said)
        assert "'filling'" in event.reason or how in ("raises", "skips")  # in the user's terms
        assert table.refresh().rows[0].outcome == "no longer runs"
        assert "no longer runs" in kernel.explain(queue).splitlines()[-1]
        queue = begun_anew(queue)
        seen = []
        kcl.add_hook(lambda event: seen.append((event.layer, event.outcome)))
        assert filled(filling(), queue) == 1
        assert ("tuning", "default") in seen
        assert "error" not in {outcome for _layer, outcome in seen}

    def test_want_of_memory(self, queue):
        """A choice that fails for want of memory leaves one call to the defaults, and its row as it is."""
        wants = []

        @kcl.kernel(space=kcl.space(value=[1, 2]))
        def wanting(value=1):
            if value == 2 and wants:
                raise MemoryError(wants.pop())
            return filling.function(value)

        table = put(wanting(), queue, row(value=2))
        wants.append("no memory")
        kernel = wanting()
        assert [filled(kernel, queue) for _ in range(3)] == [1, 2, 2]
        assert table.rows[0].outcome == "ok"

    def test_error_of_the_call(self, queue):
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

            text = """
                x[i] = x[i] + 1 {id=a}
                ... gbarrier {id=b,dep=a}
                x[j] = 2*x[j] {dep=b}
                """
            x = lp.GlobalArg("x", np.float32, shape=(1 << 16,))
            knl = lp.make_kernel("{[i,j]: 0<=i,j<65536}", text, [x], lang_version=(2018, 2))
            knl = lp.tag_inames(knl, "i:g.0")
            return lp.split_iname(knl, "j", block, outer_tag="g.0", inner_tag="l.0")

        kernel, x = twice(), cl_array.zeros(queue, 1 << 16, np.float32)
        kernel(queue, x=x)
        assert {*x.get().tolist()} == {2}
        table = put(kernel, queue, row(block=1 << 16))
        with pytest.raises(cl.Error):
            kernel(queue, x=x)
        assert {*x.get().tolist()} == {3}
        assert table.refresh().rows[0].outcome == "no longer runs"
        kernel(queue, x=x)
        assert {*x.get().tolist()} == {8}


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
        words = r"bound for n=64 with block=16, exact=True, and not for n=33, as where 2"
        with pytest.raises(ValueError, match=words):
            launch(x=x[:33], z=z[:33])

    def test_bind_far_away(self, queue):
        """A bound choice serves sizes within a factor of two of its row; beyond, and from then on, the defaults do."""
        space = kcl.space(value=[1, 2])
        kernel = kcl.kernel(sizes={"n": "x.shape[0]"}, space=space)(valued)()
        x = cl_array.zeros(queue, 9, np.float64)
        put(kernel, queue, row(4, value=2), x=x)
        launch, written = kernel.bind(queue, x=x[:4]), []
        for size in (8, 9, 4):
            launch(x=x[:size]).wait()
            written.append(x[:size].get().tolist())
        assert written == [[2] * 8, [1] * 9, [1] * 4]

    @pytest.mark.parametrize("how", ["does not build", "cannot be launched"])
    def test_bind_of_a_failing_choice(self, queue, how):
        kernel, x = filling(), cl_array.zeros(queue, 4, np.int32)
        table = put(kernel, queue, row(value=2, how=how))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            launch = kernel.bind(queue, x=x)
            for _ in range(2):
                launch(x=x).wait()
        assert x.get().tolist() == [1] * 4
        assert table.refresh().rows[0].outcome == "no longer runs"

    def test_asked(self, queue):
        """Sizes are taken by name, or from arrays, on a queue or a context; a pickled handle keeps what is free."""
        kernel = axpy()
        axpy_table(kernel, queue, row(64, block=16, exact=True))
        general = kernel.source(queue.context, x=np.float32)
        assert kernel.source(queue.context, x=np.float32, n=64) != general
        assert kernel.source(queue.context, x=np.zeros(64, np.float32)) != general
        assert kernel.key(queue, x=np.float32, n=64) != kernel.key(queue, x=np.float32, n=17)
        kernel.prepare(queue, x=np.float32, n=64)
        assert "takes 0.5" in kernel.explain(queue, x="float32", n=64)
        given = axpy(block=16)
        assert repr(given) == "<kcl.Kernel axpy(block=16): chooses exact>"
        axpy_table(given, queue, row(96, exact=True, ratio=0.25))
        assert "takes 0.25" in added(pickle.loads(pickle.dumps(given)), queue, 96)


class TestDeclaration:
    @pytest.mark.parametrize(
        ("space", "words"),
        [
            (kcl.space(blok=[1]), r"'blok' is no parameter of 'axpy'"),
            (kcl.space(block=[1]).where(lambda m: m), r"where 1 of the space of 'axpy' names 'm'"),
            (kcl.space(block=[1]).where(lambda blok: blok), r"did you mean 'block'"),
            ({"block": [1]}, r"takes a space such as"),
            (kcl.space(n=[1]), "'n' is a size, not a choice"),
            (kcl.space(bare=[1]), "give 'bare' of 'axpy' a default"),
        ],
    )
    def test_refused(self, space, words):

        def axpy(bare, block=64, n=1):
            return bare, block, n

        with pytest.raises(TypeError, match=words):
            kcl.kernel(sizes={"n": "x.shape[0]"}, space=space)(axpy)

    def test_pure(self, queue):
        pure, space = {"pure": True, "version": "1"}, kcl.space(value=[1, 2])
        recipe = kcl.kernel(**pure, sizes=kcl.sizes(n="x.size"), space=space)(filling.function)
        put(recipe(), queue, row(4, value=2), x=np.zeros(4, np.int32))
        assert filled(recipe(), queue) == 2
        with pytest.raises(TypeError, match="takes no sizes"):
            kcl.kernel(**pure, sizes=kcl.sizes(value="x.size"), space=space)(filling.function)


DRIVER = """
import json, os, sys
import numpy as np
import pyopencl as cl
import kcl

platform, has_space, first = sys.argv[1:]
started = []
sys.addaudithook(lambda event, _given: started.append(event) if event in ("subprocess.Popen", "os.fork") else None)
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
kernel, x = axpy(), np.ones(100, np.float32)
if first == "put":
    import measured
    from kcl.choices.tuning.table import Row
    measured.put(kernel, queue, Row((100,), {"block": 16}, 0.5, 1, 2, 2, 0.0, "2026-11-26"), x=x)
for size in (100, 100, 200):
    _event, (z,) = kernel(queue, x=np.ones(size, np.float32))
    assert z.tolist() == [3] * size
if first:
    kcl.flush()
cache = os.environ["XDG_CACHE_HOME"]
# the journal is written after a second of work, or as the process ends
places = [os.path.relpath(folder, cache) for folder, _folders, files in os.walk(cache) for _file in files]
files = sorted(place for place in places if "journal" not in place)
used = kcl.stats()
outcomes = [used[layer][name] for layer in ("generator", "binary") for name in ("hits", "misses", "errors")]
imported = [name for name in sys.modules if name == "loopy" or name.startswith("kcl.choices.tuning.")]
print(json.dumps([imported, kernel.explain(queue, x=x).splitlines()[-1], files, started, outcomes]))
"""
OF_A_CALL = {f"kcl.choices.tuning.{name}" for name in ("chooser", "space", "table")}


@pytest.mark.one_platform
class TestPrograms:
    @pytest.fixture
    def run(self, child, platform_name):
        """Return a function that runs the driver, from a path with a change of its text, and returns what it prints."""

        def run(has_space, first="", path="driver.py", statement="2*x[i] + 1", **variables):
            (child.directory / path).parent.mkdir(exist_ok=True)
            (child.directory / path).write_text(DRIVER.replace("2*x[i] + 1", statement))
            return child.script(path, PLATFORMS[platform_name], has_space, first, **variables)

        return run

    def test_nothing_tuned(self, run, child):
        """Where a space is declared and nothing is tuned there is no file, process or look-up more, cold and warm.

        What tunes is not imported.
        """
        place = child.directory / "cache"
        for _turn in ("cold", "warm"):
            (none, _words, *plain), (imported, _words, *spaced) = (
                run(has_space, XDG_CACHE_HOME=f"{place}{has_space}", KCL_PROMOTE="off")
                for has_space in ("", "yes")
            )
            assert spaced == plain
            assert {*none} <= {"loopy"}
            assert {*imported} - {"loopy"} == OF_A_CALL
        assert spaced[2][1] == 0
        run("yes", "flush", XDG_CACHE_HOME=f"{place}yes")
        imported, _words, *_files, outcomes = run(
            "yes", KCL_STRICT="hit", XDG_CACHE_HOME=f"{place}yes"
        )
        assert outcomes == [1, 0, 0, 1, 0, 0]
        assert {*imported} == OF_A_CALL

    def test_warm_start(self, run):
        """A tuned warm start builds nothing, and imports neither loopy nor what tunes; an edit of this file is said."""
        run("yes", "put")
        imported, decision, _files, _started, outcomes = run("yes", KCL_STRICT="hit")
        assert "takes 0.5" in decision
        assert outcomes == [1, 0, 0, 1, 0, 0]
        assert {*imported} == OF_A_CALL
        assert "text changed" in run("yes", statement="1 + 2*x[i]")[1]
        other = run("yes", path="other/driver.py", statement="x[i] + 1 + x[i]")
        assert "text changed" not in other[1]


def test_a_change_while_threads_make_kernels():
    """The place of the tables may change while other threads make Kernels."""
    kernels = [axpy()]
    at_each_line(chooser._state().on_change, lambda: kernels.append(axpy()))
    assert len(kernels) > 1
