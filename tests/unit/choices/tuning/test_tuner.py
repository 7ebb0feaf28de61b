"""Tunings from end to end: real candidates, real children, and what they leave."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import time

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl
from kcl.base import settings
from kcl.choices.tuning import tuner
from kcl.choices.tuning.table import RankedChoice, Row
from kcl.handle import chooser_of

pytestmark = pytest.mark.slow_platforms

LIMIT = 10.0  # seconds of a candidate that hangs
LONG = {"seconds": 600.0}  # nothing is left out for lack of time

# What a candidate does beside y[i] = 2*x[i], and the outcome.
KINDS = {
    "right": ("y[i] = 2*x[i];", "ok"),
    "null": ("*(global volatile float *) 0 = 1;", "crashes"),
    "endless": ("while (x[i] != -5) y[i] += 1;", "hangs"),
    "no name": ("y[i] = 2*q[i];", "does not build"),
    "one wrong": ("y[i] = i == 77 ? 1 : 2*x[i];", "wrong result"),
    "an input": ("y[i] = 2*x[i]; x[i] = 0;", "wrong result"),
    "behind": ("y[i] = 2*x[i]; if (i == 0) y[n + 3] = 1;", "writes past the end"),
    "even": ("y[i] = n % 2 ? 0 : 2*x[i];", "wrong result"),
    "local": (
        "local float t[1 << 26]; t[i % 4] = x[i]; barrier(1); y[i] = 2*t[i % 4];",
        "needs too much local memory",
    ),
    "raises": ("", "raises"),
    "skips": ("", "skipped"),
}


@kcl.kernel(
    sizes={"n": "x.shape[0]"}, space=kcl.space(kind=[kind for kind in KINDS if kind != "endless"])
)
def doubling(kind="right"):
    """Double, or fail."""
    if kind == "raises":
        raise ValueError("not today")
    if kind == "skips":
        raise kcl.Skip("not here")
    text = f"""kernel void doubling(global float *x, global float *y, int n)
               {{ int i = get_global_id(0); {KINDS[kind][0]} }}"""
    arguments = [
        kcl.Array("x", np.float32, "n", "in"),
        kcl.Array("y", np.float32, "n", "out"),
        kcl.Scalar("n", np.int32),
    ]
    return kcl.Source(text, entry="doubling", arguments=arguments, global_size="n", local_size=1)


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(turns=[1000, 1, 3000], unused=[1, 2]))
def adding(turns=1000, unused=1):
    """Add one in place; the work grows with `turns`."""
    text = f"""kernel void adding(global float *x, int n)
               {{ int i = get_global_id(0); float y = x[i];
                  for (int k = 0; k < {turns}; ++k) y = sin(y);
                  x[i] = y > 2 ? y : x[i] + 1; }}"""
    arguments = [kcl.Array("x", np.float32, "n", "inout"), kcl.Scalar("n", np.int32)]
    assert unused
    return kcl.Source(text, entry="adding", arguments=arguments, global_size="n", local_size=1)


@kcl.kernel(
    sizes={"n": "x.shape[0]"},
    space=kcl.space(block=[16, 64], exact=[False, True]).where(
        lambda block, exact, n: not exact or n % block == 0
    ),
)
def axpy(block=64, exact=False):
    """Assume that the block divides the size, if the choice says so."""
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "z[i] = 2*x[i] + y[i]", lang_version=(2018, 2), name="axpy"
    )
    if exact:
        knl = lp.assume(knl, f"n mod {block} = 0")
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(space=kcl.space(kind=["right", "endless"]))
def hanging(kind="right"):
    """Double, or never end."""
    return doubling.__wrapped__(kind)


@kcl.kernel(
    space=kcl.space(kind=["right", "abort", "stuck", "memory", "raises", "null", "endless"])
)
def ending(kind="right"):
    """Double, or fail as it is generated or launched."""
    if kind == "abort":
        os.abort()
    while kind == "stuck":
        pass
    blocks = [bytearray(1 << 30) for _ in range(16)] if kind == "memory" else []
    return doubling.__wrapped__(kind if kind in KINDS and not blocks else "right")


@kcl.kernel(space=kcl.space(kind=["right", "endless"]))
def never(kind="endless"):
    """Never end with the default."""
    return doubling.__wrapped__(kind)


@kcl.kernel(space=kcl.space(kind=["no name", "right"]))
def failing(kind="no name"):
    """Fail with the default."""
    return doubling.__wrapped__(kind)


@kcl.kernel(space=kcl.space(shift=[0, 1]))
def ticking(shift=0):
    """Compute something else each time."""
    text = f"""kernel void ticking(global ulong *x)
               {{ x[get_global_id(0)] = __builtin_readcyclecounter() << {shift}; }}"""
    return kcl.Source(
        text, entry="ticking", arguments=[kcl.Array("x", np.uint64, 4, "out")], global_size=4
    )


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """The folders of tunings lie in the directory of the test; each tuning has one child at a time."""
    monkeypatch.setattr(settings, "processors", lambda: 1)
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def vectors(n=512):
    """Return arrays on the host."""
    return np.arange(1, n + 1, dtype=np.float32), np.ones(n, np.float32)


# NVIDIA's driver ends a launch that reads astray, and its compiler counts local memory.
ON_NVIDIA = {"null": "does not launch", "local": "does not build"}


def outcomes(found):
    """Return the outcome of each choice by its first value."""
    return {next(iter(one.choice.values())): one.outcome for one in found.tried}


class TestOutcomes:
    def test_each_is_named(self, queue, folders, monkeypatch, platform_name):
        """Candidates that fail are named, none wins, nothing of them stays, and the program goes on."""
        monkeypatch.setattr(settings, "processors", lambda: 2)
        found = tuner.tune(
            chooser_of(doubling()), queue, {"x": vectors()[0]}, level=2, limit=LIMIT, **LONG
        )
        special = ON_NVIDIA if platform_name == "nvidia" else {}
        expected = {
            kind: outcome for kind, (_text, outcome) in KINDS.items() if kind != "endless"
        } | special
        assert outcomes(found) == expected
        assert (found.row.choice, found.row.ratio) == ({"kind": "right"}, 1.0)
        details = {one.choice["kind"]: one.detail for one in found.tried}
        assert details["null"] if special else "SIG" in details["null"]
        assert "'q'" in details["no name"]
        assert details["one wrong"].startswith("y[77] is 1.0, by the default 156.0, 1 of 512")
        assert details["even"].endswith("at n = 511")
        assert (details["behind"], details["raises"], details["skips"]) == (
            "of y",
            "ValueError: not today",
            "not here",
        )
        assert os.listdir(folders) == []
        for kind in outcomes(found):
            assert f"'{kind}'" in str(found)
        x, _y = vectors()
        _event, (y,) = doubling()(queue, x=x)
        assert np.array_equal(y, 2 * x)
        assert {(one.layer, one.kernel) for one in kcl.entries()} <= {
            ("generator", "doubling"),
            ("binary", "doubling"),
            ("tuning", "doubling"),
        }
        assert len([one for one in kcl.entries() if one.layer == "generator"]) <= 2

    @pytest.mark.slow
    def test_endless(self, queue, folders):
        """A candidate that does not end costs the seconds of one candidate, and nothing of it stays."""
        found = tuner.tune(
            chooser_of(hanging()), queue, {"x": vectors()[0]}, level=2, limit=LIMIT, **LONG
        )
        assert outcomes(found) == {"right": "ok", "endless": "hangs"}
        assert os.listdir(folders) == []

    def test_failures_are_believed(self, queue):
        """A failure of an earlier tuning stands for the same code and tolerance, and is not tried again."""
        kernel, given, choice = doubling(), {"x": vectors()[0]}, {"kind": "no name"}
        table = chooser_of(kernel).table(queue)

        def again(**options):
            asked = Given([dict(choice)])
            return tuner.tune(
                chooser_of(kernel), queue, given, limit=LIMIT, search=asked, **options, **LONG
            )

        again()
        (fact,) = table.facts().values()
        assert (fact.outcome, fact.choice, fact.sizes) == ("does not build", choice, (512,))
        for change, options, is_believed in (
            ({}, {}, True),
            ({}, {"again": True}, False),
            ({}, {"tolerance": 0.5}, False),
            ({"codes": ("-",)}, {}, False),
            ({"terms": "-"}, {}, False),
        ):
            table.put_facts([fact._replace(detail="as before", **change)])
            table.put(table.refresh().rows[0]._replace(unfinished=True))
            found = again(**options)
            assert (found.tried[0].detail == "as before") is is_believed
            assert found.known == is_believed

    @pytest.mark.parametrize(
        ("outcome", "days", "seconds", "is_believed"),
        [
            ("crashes", 29, 0.0, True),
            ("crashes", 31, 0.0, False),
            ("hangs", 1, LIMIT, True),
            ("hangs", 1, LIMIT / 2, False),
        ],
    )
    def test_some_failures_are_believed_for_a_while(
        self, queue, outcome, days, seconds, is_believed
    ):
        """A crash is believed for 30 days, and a time-out if it had as much time as there is now."""
        kernel, given = doubling(), {"x": vectors()[0]}
        table = chooser_of(kernel).table(queue)
        tuner.tune(chooser_of(kernel), queue, given, search=Given([{"kind": "even"}]), **LONG)
        (fact,) = table.facts().values()
        day = (datetime.date.today() - datetime.timedelta(days)).isoformat()
        table.put_facts([fact._replace(outcome=outcome, detail="before", day=day, limit=seconds)])
        table.put(table.refresh().rows[0]._replace(unfinished=True))
        asked = Given([{"kind": "even"}])
        found = tuner.tune(chooser_of(kernel), queue, given, search=asked, limit=LIMIT, **LONG)
        assert (found.tried[0].detail == "before") is is_believed
        (fact,) = table.facts().values()
        assert (fact.day == day) is is_believed  # it is not younger for being believed

    @pytest.mark.parametrize("codes", [None, ("-",)])
    def test_failure_without_code_is_believed(self, queue, platform_name, codes):
        """A choice that ends its generation is not generated again, for the same recipe and code of the default."""
        if platform_name != "pocl":
            pytest.skip("the recipes run in this process")
        kernel, choice = ending(), {"kind": "abort"}
        table, given = chooser_of(kernel).table(queue), {"x": vectors()[0]}
        tuner.tune(chooser_of(kernel), queue, given, search=Given([dict(choice)]), **LONG)
        (fact,) = table.facts().values()
        assert (fact.outcome, fact.detail) == ("crashes", "SIGABRT, while generating")
        table.put_facts([fact._replace(detail="before", codes=codes or fact.codes)])
        table.put(table.refresh().rows[0]._replace(unfinished=True))
        found = tuner.tune(chooser_of(kernel), queue, given, search=Given([dict(choice)]), **LONG)
        assert (found.tried[0].detail == "before") is (codes is None)

    def test_output_of_loopy_is_caught(self, queue, capfd):
        """loopy prints a kernel for which it cannot generate code; nobody sees it."""

        @kcl.kernel(space=kcl.space(order=["i", "j"]))
        def reversed_(order="i"):
            import loopy as lp

            knl = lp.make_kernel(
                "{[i,j]: 0<=i,j<8}", "y[i] = i {id=a}", name="reversed_", lang_version=(2018, 2)
            )
            return knl if order == "i" else lp.prioritize_loops(knl, "j,i,k")

        found = tuner.tune(chooser_of(reversed_()), queue, {}, level=2, **LONG)
        assert set(outcomes(found).values()) <= {"ok", "raises"}
        printed = capfd.readouterr()
        assert (printed.out, printed.err) == ("", "")


class TestWinner:
    def test_is_stored_and_served(self, queue):
        """The fastest wins by far; a call takes it, and a second tuning measures nothing."""
        kernel, (x, _y) = adding(), vectors()
        found = kernel.tune(queue, level=2, x=x, **LONG)
        assert found.row.choice == {"turns": 1, "unused": 1}
        assert found.row.ratio < 0.5
        assert (found.row.tried, found.row.of, found.row.level, found.row.ragged) == (6, 6, 2, True)
        assert "turns=1, unused=1, measured" in kernel.explain(queue, x=x)
        again = adding().tune(queue, level=1, x=x, **LONG)
        assert again.tried == ()
        assert again.row == found.row
        assert "tuned before" in str(again)

    def test_arrays_are_not_written(self, queue):
        """Arrays of the caller, on the host and on the device, stay as they are."""
        x, _y = vectors()
        on_device, one = cl_array.to_device(queue, x), {"turns": 1, "unused": 1}
        for given in (x, on_device):  # the default runs twice, in place
            assert (
                adding().tune(queue, search=Given([one]), again=True, x=given, **LONG).row
                is not None
            )
        assert np.array_equal(x, vectors()[0])
        assert np.array_equal(on_device.get(), vectors()[0])

    def test_ragged(self, queue):
        """Choices are compared at n - 1, too, where the space has them there; a row says where it does not."""
        x, y = vectors()
        found = axpy().tune(queue, level=2, x=x, y=y, **LONG)
        assert {tuple(one.choice.values()): one.ragged for one in found.tried} == {
            (16, False): True,
            (16, True): False,
            (64, False): True,
            (64, True): False,
        }
        assert set(outcomes(found).values()) == {"ok"}
        assert "not tried ragged" in str(found._replace(row=found.row._replace(ragged=False)))

    def test_interrupted(self, queue):
        """Ctrl-C keeps what is known and serves nothing; the next tuning goes on, and measures the finalists again."""

        class Impatient(Given):
            def ask(self):
                found = super().ask()
                if not found:
                    raise KeyboardInterrupt
                return found

        kernel, given = adding(), {"x": vectors()[0]}
        asked = [{"turns": 1, "unused": 1}, {"turns": 3000, "unused": 1}]
        with pytest.raises(KeyboardInterrupt):
            kernel.tune(queue, search=Impatient([*asked]), **given, **LONG)
        table = chooser_of(kernel).table(queue)
        assert table.rows == []
        assert {one.outcome for one in table.facts().values()} == {"ok"}
        slow = next(one for one in table.facts().values() if one.choice["turns"] == 3000)
        table.put_facts([slow._replace(ratio=9.0)])
        found = kernel.tune(queue, level=2, **given, **LONG)
        assert (found.known, found.row.tried, found.row.of, found.row.unfinished) == (
            2,
            6,
            6,
            False,
        )
        assert found.row.choice == {"turns": 1, "unused": 1}
        assert "2 of 6 known from before" in str(found)
        # equal code is one trial, which is not measured again
        assert {one.ratio for one in found.tried if one.choice["turns"] == 3000} == {9.0}

    def test_known_winner_is_compared_again(self, queue):
        """What an earlier tuning found right and fast wins only if it is right on the arguments of this one."""

        @kcl.kernel(space=kcl.space(kind=["right", "from one"]))
        def squared(kind="right"):
            work = "for (int k = 0; k < 3000; ++k) z = sin(z);" if kind == "right" else ""
            text = f"""kernel void squared(global float *x, global float *y)
                       {{ int i = get_global_id(0); float z = x[i]; {work}
                          y[i] = z > 2 ? z : {"x[i]*x[i]" if kind == "right" else "x[i]"}; }}"""
            arguments = [kcl.Array("x", np.float32, 64), kcl.Array("y", np.float32, 64, "out")]
            return kcl.Source(text, entry="squared", arguments=arguments, global_size=64)

        kernel, given = squared(), {"x": np.full(64, 0.5, np.float32)}
        tuner.tune(chooser_of(kernel), queue, given, level=2, limit=LIMIT, **LONG)
        table = chooser_of(kernel).table(queue)
        fact = next(one for one in table.facts().values() if one.choice == {"kind": "from one"})
        assert fact.outcome == "wrong result"
        table.put_facts([fact._replace(outcome="ok", ratio=0.01)])
        table.put(table.refresh().rows[0]._replace(unfinished=True))
        found = tuner.tune(chooser_of(kernel), queue, given, level=2, limit=LIMIT, **LONG)
        assert found.row.choice == {"kind": "right"}
        assert table.facts()[tuner.fact_name(fact)].outcome == "wrong result"

    def test_no_time(self, queue):
        """A tuning that had time for no choice stores no row; another one with time tunes."""
        kernel, x = adding(), vectors()[0]
        found = kernel.tune(queue, level=2, seconds=1e-3, x=x)
        assert (found.row, found.tried, found.was_time) == (None, (), False)
        assert "give it more seconds" in str(found)
        assert chooser_of(kernel).table(queue).rows == []
        assert kernel.tune(queue, level=2, x=x, **LONG).row.tried == 6

    @pytest.mark.slow
    def test_unfinished(self, queue):
        """A search that its time ended has a row, and the next tuning goes on with what was not tried."""

        class Late(Given):
            def ask(self):
                found = super().ask()
                if not found:
                    time.sleep(0.7 * seconds)  # until the time of the search is over
                    return [{"turns": 1000, "unused": 2}]
                return found

        kernel, seconds = adding(), 60.0
        asked = Late([{"turns": 1, "unused": 1}])
        found = kernel.tune(queue, level=2, seconds=seconds, search=asked, x=vectors()[0])
        assert found.row.unfinished
        assert "the next tuning goes on with the others" in str(found)
        again = kernel.tune(queue, level=2, x=vectors()[0], **LONG)
        assert (again.known, again.row.tried, again.row.unfinished) == (1, 6, False)

    def test_changed_code_is_tuned_again(self, queue):
        """`tuned before` holds for the code that the winner has now."""
        x = vectors()[0]
        first = adding().tune(queue, search=Given([{"turns": 1, "unused": 1}]), x=x, **LONG)
        table = chooser_of(adding()).table(queue)
        served = first.row.best[0]
        assert "tuned before" in str(adding().tune(queue, x=x, search=Given([])))
        table.put(first.row._replace(best=(served._replace(codes=("-",)),)))
        again = adding().tune(queue, search=Given([{"turns": 1, "unused": 1}]), x=x, **LONG)
        assert again.row.best[0].codes == served.codes

    def test_best(self, queue):
        """A row has the fastest choices in their order, each with the digests of all forms."""
        found = adding().tune(queue, level=2, x=vectors()[0], **LONG)
        (best,) = found.row.best  # 1000 and 3000 turns are as slow as the default, or slower
        assert best.choice == {"turns": 1, "unused": 1}
        (codes,) = {tried.codes for tried in found.tried if tried.choice["turns"] == 1}
        assert best.codes == codes
        assert found.row.dtypes == {}

    def test_typed(self, queue):
        """A row has the dtypes of the arguments that the default left open, and decide it; not those of outputs."""
        x, y = vectors()
        found = axpy().tune(queue, level=2, x=x, y=y, z=np.empty_like(x), **LONG)
        assert found.row.dtypes == {"x": "<f4", "y": "<f4"}

    def test_slow_recipes(self, queue, tmp_path):
        """No recipe runs after the time for building, however many choices a step has."""
        runs = tmp_path / "runs"  # each in the child that generates

        @kcl.kernel(space=kcl.space(part=list(range(100))))
        def slow(part=0):
            with runs.open("a") as stream:
                stream.write(".")
            time.sleep(0.2)
            arguments = [kcl.Array("x", np.float32, 8, "out")]
            text = f"kernel void slow(global float *x) {{ x[get_global_id(0)] = 1; /* {part} */ }}"
            return kcl.Source(text, entry="slow", arguments=arguments, global_size=8)

        found = slow().tune(queue, level=2, seconds=2.0)
        assert runs.stat().st_size < 30
        assert found.row is None or found.row.unfinished


class TestDeadline:
    """The limits on time are guards against a call that hangs: three times what a call may take."""

    def test_bad_choices(self, queue, folders, platform_name):
        """Choices that hang, abort, raise and eat memory, generating and launching, cost the seconds of the call.

        What was tried has its own outcome, or had too little time for that.
        """
        if platform_name != "pocl":
            pytest.skip("the recipes run in this process")
        began = time.monotonic()
        found = tuner.tune(chooser_of(ending()), queue, {"x": vectors()[0]}, level=2, seconds=5.0)
        assert time.monotonic() - began < 3 * 15
        named = {
            "right": "ok",
            "abort": "crashes",
            "stuck": "hangs",
            "memory": "takes too much memory",
            "raises": "raises",
            "null": "crashes",
            "endless": "hangs",
        }
        for kind, outcome in outcomes(found).items():
            assert outcome in (named[kind], "hangs")
        assert os.listdir(folders) == []
        assert multiprocessing.active_children() == []

    def test_endless_default(self, queue, folders):
        """A default that never ends is named, and ends with the call."""
        began = time.monotonic()
        found = tuner.tune(chooser_of(never()), queue, {"x": vectors()[0]}, seconds=0.5)
        assert time.monotonic() - began < 3 * 10.5
        assert (found.row, found.was_time) == (None, False)
        assert "hangs: no result in" in found.why
        assert found.why.endswith("give it more seconds")
        assert os.listdir(folders) == []


class Given:
    """A search that asks for given choices."""

    def __init__(self, choices):
        self.choices, self.told = choices, []

    def ask(self):
        return [self.choices.pop(0)] if self.choices else []

    def tell(self, choice, ratio):
        self.told.append((choice, ratio))


class TestSearch:
    def test_given(self, queue):
        """A search of the user's is asked, and told ratios to the default, None for failures."""
        asked = [{"turns": 1, "unused": 1}, {"turns": 7, "unused": 1}, {"turns": 3000, "unused": 1}]
        searching = Given(list(asked))
        found = adding().tune(queue, search=searching, x=vectors()[0], **LONG)
        assert [choice for choice, _ratio in searching.told] == asked
        first, second, third = [ratio for _choice, ratio in searching.told]
        assert first < 0.5
        assert second is None
        assert third > 1.5
        assert (found.tried[1].outcome, found.tried[1].detail) == (
            "not valid",
            "a value is not in the space",
        )


class TestRefusals:
    def test_level_0(self, queue):
        """Level 0 stands for the defaults: nothing is measured, nothing is stored."""
        found = adding().tune(queue, level=0, x=vectors()[0])
        assert "level 0" in str(found)
        assert chooser_of(adding()).table(queue).rows == []

    def test_a_kernel_that_differs_from_itself(self, queue):
        """A kernel that computes something else each time is not tuned, and that is said."""
        found = ticking().tune(queue, **LONG)
        assert found.row is None
        assert (
            "not tuned: two launches of the default must run, and compute the same: wrong result"
            in str(found)
        )

    def test_a_default_that_fails(self, queue):
        """Nothing can be compared with a default that does not run."""
        found = tuner.tune(chooser_of(failing()), queue, {"x": vectors()[0]}, limit=LIMIT, **LONG)
        assert found.row is None
        assert "does not build" in found.why

    def test_other_arguments(self, queue):
        """An argument that is no contiguous array and no number is named."""
        with pytest.raises(TypeError, match="'x' is of ndarray"):
            adding().tune(queue, x=np.ones(64, np.float32)[::2], **LONG)
        with pytest.raises(TypeError, match="'x' is of Buffer"):
            ticking().tune(queue, x=cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64), **LONG)

    def test_ranks(self, queue, monkeypatch):
        """Under a batch scheduler every rank would tune, unless that is meant."""
        monkeypatch.setenv("SLURM_JOB_ID", "1")
        with pytest.raises(RuntimeError, match=r"SLURM_JOB_ID is set.*anyway=True"):
            adding().tune(queue, x=vectors()[0], **LONG)
        assert "level 0" in adding().tune(queue, level=0, anyway=True, x=vectors()[0]).why

    def test_nothing_to_store(self, queue, monkeypatch):
        """Without a table nothing is measured."""
        monkeypatch.setenv("KCL_NO_CACHE", "tuning")
        found = adding().tune(queue, x=vectors()[0], **LONG)
        assert "nothing can be stored" in found.why


class TestTuning:
    def test_table(self):
        """str() has the choice, what it gains, how long it takes, and how it was found."""
        served = (RankedChoice({"block": 64}, 0.51234, 0.02, ("5e",)),)
        row = Row(
            (512,), {"block": 64}, 0.51234, 1, 3, 12, 0.02, "2026-11-26", ragged=False, best=served
        )
        row = row._replace(seconds=1.23456e-5, gigabytes=21.987)
        said = str(tuner.Tuning("axpy", {"n": 512}, row, seconds=3.21, known=2))
        assert said.splitlines()[0] == (
            "axpy at n = 512: block=64 takes 0.512 of the time of the default: 12.3 us, 22 GB/s; "
            "3 of 12 choices tried in 3.2 s, 2 of 12 known from before; not tried ragged"
        )

    def test_default(self):
        """Where the default stays, str() says of how many it is the fastest."""
        row = Row((512,), {"block": 64}, 1.0, 1, 21, 21, 0.0, "2026-11-26")
        said = str(tuner.Tuning("axpy", {"n": 512}, row))
        assert said.startswith(
            "axpy at n = 512: the default block=64 is the fastest of 21; 21 of 21"
        )
