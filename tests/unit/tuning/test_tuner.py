"""Tunings from end to end: real candidates, real children, and what they leave."""

from __future__ import annotations

import datetime
import os
import time

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl
from kcl.base import settings
from kcl.tuning import tuner
from kcl.tuning.table import Row

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
    return {next(iter(one.choice.values())): one.verdict.outcome for one in found.tried}


class TestOutcomes:
    def test_each_is_named(self, queue, folders, monkeypatch, platform_name):
        """Candidates that fail are named, none wins, nothing of them stays, and the program goes on."""
        monkeypatch.setattr(settings, "processors", lambda: 2)
        found = tuner.tune(doubling(), queue, {"x": vectors()[0]}, level=2, limit=LIMIT, **LONG)
        special = ON_NVIDIA if platform_name == "nvidia" else {}
        expected = {
            kind: outcome for kind, (_text, outcome) in KINDS.items() if kind != "endless"
        } | special
        assert outcomes(found) == expected
        assert (found.row.choice, found.row.ratio) == ({"kind": "right"}, 1.0)
        details = {one.choice["kind"]: one.verdict.detail for one in found.tried}
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
        }
        assert len([one for one in kcl.entries() if one.layer == "generator"]) <= 2

    @pytest.mark.slow
    def test_endless(self, queue, folders):
        """A candidate that does not end costs the seconds of one candidate, and nothing of it stays."""
        found = tuner.tune(hanging(), queue, {"x": vectors()[0]}, level=2, limit=LIMIT, **LONG)
        assert outcomes(found) == {"right": "ok", "endless": "hangs"}
        assert os.listdir(folders) == []

    def test_failures_are_believed(self, queue):
        """A failure of an earlier tuning is not tried again as long as its program is the same."""
        kernel, given = doubling(), {"x": vectors()[0]}
        table = kernel.table(queue, given)
        found = tuner.tune(
            kernel, queue, given, level=2, limit=LIMIT, search=Given([{"kind": "no name"}]), **LONG
        )
        (fact,) = table.facts().values()
        assert (fact.outcome, fact.choice, fact.sizes) == (
            "does not build",
            {"kind": "no name"},
            (512,),
        )
        table.put_facts([fact._replace(detail="as before")])
        asked = Given([{"kind": "no name"}])
        found = tuner.tune(
            kernel, queue, given, level=2, limit=LIMIT, search=asked, again=True, **LONG
        )
        assert found.tried[0].verdict.detail != "as before"  # again
        table.put_facts([fact._replace(detail="as before")])
        table.put(found.row._replace(level=1))
        found = tuner.tune(
            kernel, queue, given, level=2, limit=LIMIT, search=Given([{"kind": "no name"}]), **LONG
        )
        assert found.tried[0].verdict == ("does not build", "as before")

    def test_crashes_are_believed_for_a_month(self, queue):
        """A crash is believed for 30 days, and for its own program only."""
        kernel, given = doubling(), {"x": vectors()[0]}
        table = kernel.table(queue, given)
        found = tuner.tune(kernel, queue, given, search=Given([{"kind": "even"}]), **LONG)
        (fact,) = table.facts().values()
        for days, program, is_believed in ((29, "", True), (31, "", False), (1, "-", False)):
            day = (datetime.date.today() - datetime.timedelta(days)).isoformat()
            crash = fact._replace(
                outcome="crashes", detail="long ago", day=day, program=fact.program + program
            )
            table.put_facts([crash])
            table.put(found.row._replace(level=1))
            found = tuner.tune(
                kernel, queue, given, level=2, search=Given([{"kind": "even"}]), **LONG
            )
            assert (found.tried[0].verdict.detail == "long ago") == is_believed

    def test_output_of_loopy_is_caught(self, queue, capfd):
        """loopy prints a kernel for which it cannot generate code; nobody sees it."""

        @kcl.kernel(space=kcl.space(order=["i", "j"]))
        def reversed_(order="i"):
            import loopy as lp

            knl = lp.make_kernel(
                "{[i,j]: 0<=i,j<8}", "y[i] = i {id=a}", name="reversed_", lang_version=(2018, 2)
            )
            return knl if order == "i" else lp.prioritize_loops(knl, "j,i,k")

        found = tuner.tune(reversed_(), queue, {}, level=2, **LONG)
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
        on_device = cl_array.to_device(queue, x)
        for given in (x, on_device):  # the default runs twice, in place
            assert (
                adding().tune(queue, search=Given([]), again=True, x=given, **LONG).row is not None
            )
        assert np.array_equal(x, vectors()[0])
        assert np.array_equal(on_device.get(), vectors()[0])

    def test_ragged(self, queue):
        """Choices are compared at n - 1, too, where the space has them there; a row says where it does not."""
        x, y = vectors()
        found = axpy().tune(queue, level=2, x=x, y=y, **LONG)
        assert {tuple(one.choice.values()): one.trial.ragged for one in found.tried} == {
            (16, False): True,
            (16, True): False,
            (64, False): True,
            (64, True): False,
        }
        assert set(outcomes(found).values()) == {"ok"}
        assert "not tried ragged" in str(found._replace(row=found.row._replace(ragged=False)))

    def test_interrupted(self, queue):
        """Ctrl-C keeps what is known: the outcomes, and a row that the next tuning measures again."""

        class Impatient(Given):
            def ask(self):
                found = super().ask()
                if not found:
                    raise KeyboardInterrupt
                return found

        kernel, given = adding(), {"x": vectors()[0]}
        with pytest.raises(KeyboardInterrupt):
            kernel.tune(queue, search=Impatient([{"turns": 1, "unused": 1}]), **given, **LONG)
        table = kernel.table(queue, given)
        row = table.row((512,))
        assert (row.choice, row.level) == ({"turns": 1, "unused": 1}, 0)
        assert [one.outcome for one in table.facts().values()] == ["ok"]
        with pytest.raises(KeyboardInterrupt):
            kernel.tune(queue, search=Impatient([]), **given, **LONG)
        assert table.row((512,)) == row

    def test_time(self, queue):
        """A search that has no time left tries nothing more."""
        found = adding().tune(queue, level=2, seconds=1e-3, x=vectors()[0])
        assert found.tried == ()

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

        slow().tune(queue, level=2, seconds=2.0)
        assert runs.stat().st_size < 30


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
        assert found.tried[1].verdict[:2] == ("not valid", "a value is not in the space")


class TestRefusals:
    def test_level_0(self, queue):
        """Level 0 stands for the defaults: nothing is measured, nothing is stored."""
        found = adding().tune(queue, level=0, x=vectors()[0])
        assert "level 0" in str(found)
        assert adding().table(queue, {"x": vectors()[0]}).rows == []

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
        found = tuner.tune(failing(), queue, {"x": vectors()[0]}, limit=LIMIT, **LONG)
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
        """str() has the choice, what it gains, and how it was found."""
        row = Row((512,), {"block": 64}, 0.5, 1, 3, 12, 0.02, "2026-11-26", ragged=False)
        said = str(tuner.Tuning("axpy", {"n": 512}, row, seconds=3.21))
        assert said.splitlines()[0] == (
            "axpy at n = 512: block=64 takes 0.50 of the time of the default; 3 of 12 choices tried in 3.2 s; "
            "not tried ragged"
        )
