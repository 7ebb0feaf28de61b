"""Tunings from end to end: real candidates, real children, and what they leave."""

import datetime
import multiprocessing
import os
import time

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from elementwise import elementwise, one_array

import kcl
from kcl.base import settings
from kcl.choices.tuning import bench, tuner
from kcl.choices.tuning.table import RankedChoice, Row
from kcl.handle import chooser_of

pytestmark = pytest.mark.slow_platforms

LIMIT = 10.0  # seconds of a candidate that hangs
LONG = {"seconds": 600.0}  # nothing is left out for lack of time

# What a candidate does beside y[i] = 2*x[i], and the outcome.
KINDS = {
    "right": ("y[i] = 2*x[i];", "ok"),
    "null": ("*(global volatile float *) 0 = 1;", "crashes"),
    "endless": ("while (!i && x[i] != -5) y[i] += 1;", "hangs"),
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
    if kind == "raises":
        raise ValueError("not today")
    if kind == "skips":
        raise kcl.Skip("not here")
    return elementwise("doubling", KINDS[kind][0], local_size=1, x="in", y="out")


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(turns=[1000, 1, 3000], unused=[1, 2]))
def adding(turns=1000, unused=1):
    assert unused
    work = f"float y = x[i]; for (int k = 0; k < {turns}; ++k) y = sin(y);"
    text = f"{work} x[i] = y > 2 ? y : x[i] + 1;"
    return elementwise("adding", text, local_size=1, x="inout")


@kcl.kernel(
    sizes={"n": "x.shape[0]"},
    space=kcl.space(block=[16, 64], exact=[False, True]).where(
        lambda block, exact, n: not exact or n % block == 0
    ),
)
def axpy(block=64, exact=False):
    import loopy as lp

    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "z[i] = 2*x[i] + y[i]", lang_version=(2018, 2), name="axpy"
    )
    if exact:
        knl = lp.assume(knl, f"n mod {block} = 0")
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(
    space=kcl.space(kind=["right", "abort", "stuck", "memory", "raises", "null", "endless"])
)
def ending(kind="right"):
    if kind == "abort":
        os.abort()
    while kind == "stuck":
        pass
    blocks = [bytearray(1 << 30) for _ in range(16)] if kind == "memory" else []
    return doubling.__wrapped__(kind if kind in KINDS and not blocks else "right")


@kcl.kernel(space=kcl.space(kind=["right", "endless"]))
def never(kind="endless"):
    return doubling.__wrapped__(kind)


@kcl.kernel(space=kcl.space(kind=["no name", "right"]))
def failing(kind="no name"):
    return doubling.__wrapped__(kind)


@kcl.kernel(space=kcl.space(shift=[0, 1]))
def ticking(shift=0):
    text = f"""kernel void ticking(global ulong *x)
               {{ x[get_global_id(0)] = __builtin_readcyclecounter() << {shift}; }}"""
    return kcl.Source(
        text, entry="ticking", arguments=[kcl.Array("x", np.uint64, 4, "out")], global_size=4
    )


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """The folders of tunings lie in the directory of the test; each tuning has one child at a time."""
    monkeypatch.setattr(settings, "processors", lambda: 1)
    monkeypatch.setattr(tuner, "LIMIT_SECONDS", LIMIT)
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def vectors(n=512):
    return np.arange(1, n + 1, dtype=np.float32), np.ones(n, np.float32)


# NVIDIA's driver ends a launch that reads astray, and its compiler counts local memory.
ON_NVIDIA = {"null": "does not launch", "local": "does not build"}


def tune(kernel, queue, **options):
    return kernel.tune(queue, **{"x": vectors()[0], **LONG, **options})


def outcomes(tuning):
    return {next(iter(row.choice.values())): row.outcome for row in tuning.tried}


# What is known of a kind, how it is tuned again, and whether the earlier outcome stands.
BELIEVED = [
    ("no name", {}, {}, True),
    ("no name", {}, {"tolerance": 0.5}, False),
    ("no name", {"codes": ("-",)}, {}, False),
    ("no name", {"terms": "-"}, {}, False),
    ("even", {"outcome": "crashes", "day": 29}, {}, True),
    ("even", {"outcome": "crashes", "day": 31}, {}, False),
    ("even", {"outcome": "hangs", "limit": LIMIT}, {}, True),
    ("even", {"outcome": "hangs", "limit": LIMIT / 2}, {}, False),
]


class TestOutcomes:
    def test_each_is_named(self, queue, folders, monkeypatch, platform_name):
        """Candidates that fail are named, none wins, nothing of them stays, and the program goes on."""
        monkeypatch.setattr(settings, "processors", lambda: 2)
        tuning = tune(doubling(), queue, level=2)
        special = ON_NVIDIA if platform_name == "nvidia" else {}
        kinds = {kind: outcome for kind, (_text, outcome) in KINDS.items() if kind != "endless"}
        assert outcomes(tuning) == kinds | special
        assert (tuning.row.choice, tuning.row.ratio) == ({"kind": "right"}, 1.0)
        details = {row.choice["kind"]: row.detail for row in tuning.tried}
        assert details["null"] if special else "SIG" in details["null"]
        assert "'q'" in details["no name"]
        assert details["one wrong"].startswith("y[77] is 1.0, by the default 156.0, 1 of 512")
        assert details["even"].endswith("at n = 511")
        told = details["behind"], details["raises"], details["skips"]
        assert told == ("of y", "ValueError: not today", "not here")
        assert os.listdir(folders) == []
        assert all(f"'{kind}'" in str(tuning) for kind in kinds)
        x, _y = vectors()
        _event, (y,) = doubling()(queue, x=x)
        assert np.array_equal(y, 2 * x)
        assert {entry.kernel for entry in kcl.entries()} == {"doubling"}
        assert len(kcl.entries("generator")) <= 2

    def test_failures_are_believed(self, queue, files_of):
        """A failure stands for the same code and tolerance, a crash for 30 days, a time-out if it had as much time."""
        kernel = doubling()
        tune(kernel, queue, search=Given([{"kind": "no name"}, {"kind": "even"}]))
        table = chooser_of(kernel).table(queue)
        facts = {fact.choice["kind"]: fact for fact in table.facts().values()}
        assert {fact.sizes for fact in facts.values()} == {(512,)}

        def note(kind, day=0, **change):
            """Store another outcome of a kind, of some days ago; return its date."""
            date = (datetime.date.today() - datetime.timedelta(day)).isoformat()
            table.put_facts([facts[kind]._replace(**change, detail="as before", day=date)])
            return date

        for kind, change, options, is_believed in BELIEVED:
            note(kind, **change)
            files = files_of(kernel, x=vectors()[0])
            again = tuner._Tuner(files, table, 2, Given([]), options.get("tolerance"))
            again.read_outcomes()
            found = again._trial({"kind": kind})
            case = f"{kind}: {change} {options}"
            assert (found.verdict.detail == "as before") is is_believed, case
            assert len(again._before) == is_believed, case
            files.close()
            table.put_facts([*facts.values()])
        note("no name")
        tuning = tune(kernel, queue, search=Given([{"kind": "no name"}]), again=True)
        assert (tuning.tried[0].outcome, tuning.known) == ("does not build", 0)
        assert tuning.tried[0].detail != "as before"
        table.put_facts([*facts.values()])
        # An outcome is not younger for being believed.
        date = note("even", 29, outcome="crashes")
        table.put(table.refresh().rows[0]._replace(unfinished=True))
        tuning = tune(kernel, queue, search=Given([{"kind": "even"}]))
        assert (tuning.tried[0].detail, tuning.known) == ("as before", 1)
        known = [fact.day for fact in table.facts().values() if fact.detail == "as before"]
        assert known == [date]

    def test_output_of_loopy_is_caught(self, queue, capfd):
        """loopy prints a kernel for which it cannot generate code; nobody sees it."""

        @kcl.kernel(space=kcl.space(order=["i", "j"]))
        def reversed_(order="i"):
            import loopy as lp

            knl = lp.make_kernel(
                "{[i,j]: 0<=i,j<8}", "y[i] = i {id=a}", name="reversed_", lang_version=(2018, 2)
            )
            return knl if order == "i" else lp.prioritize_loops(knl, "j,i,k")

        tuning = reversed_().tune(queue, level=2, **LONG)
        assert set(outcomes(tuning).values()) <= {"ok", "raises"}
        assert capfd.readouterr() == ("", "")


class TestWinner:
    def test_is_stored_and_served(self, queue):
        """The fastest wins by far, with the digests of all forms; a call takes it, and a second tuning measures nothing."""
        kernel = adding()
        tuning = tune(kernel, queue, level=2)
        row = tuning.row
        assert row.choice == {"turns": 1, "unused": 1}
        assert row.ratio < 0.5
        assert (row.tried, row.of, row.level, row.ragged, row.dtypes) == (6, 6, 2, True, {})
        # 1000 and 3000 turns are as slow as the default, or slower.
        (best,) = row.best
        (codes,) = {tried.codes for tried in tuning.tried if tried.choice["turns"] == 1}
        assert (best.choice, best.codes) == (row.choice, codes)
        assert "turns=1, unused=1, measured" in kernel.explain(queue, x=vectors()[0])
        again = tune(adding(), queue, level=1)
        assert (again.tried, again.row) == ((), row)
        assert "tuned before" in str(again)

    def test_arrays_are_not_written(self, queue):
        x, _y = vectors()
        on_device, one = cl_array.to_device(queue, x), {"turns": 1, "unused": 1}
        for given in (x, on_device):  # the default runs twice, in place
            assert adding().tune(queue, search=Given([one]), again=True, x=given, **LONG).row
        assert np.array_equal(x, vectors()[0])
        assert np.array_equal(on_device.get(), vectors()[0])

    def test_ragged(self, queue):
        """Choices are compared at n - 1, too, where the space has them there; outputs have no dtype in the row."""
        x, y = vectors()
        tuning = axpy().tune(queue, level=2, x=x, y=y, z=np.empty_like(x), **LONG)
        assert {(row.choice["exact"], row.ragged) for row in tuning.tried} == {
            (False, True),
            (True, False),
        }
        assert len(tuning.tried) == 4
        assert set(outcomes(tuning).values()) == {"ok"}
        assert "not tried ragged" in str(tuning._replace(row=tuning.row._replace(ragged=False)))
        assert tuning.row.dtypes == {"x": "<f4", "y": "<f4"}

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
        row = found.row
        assert (found.known, row.tried, row.of, row.unfinished) == (2, 6, 6, False)
        assert found.row.choice == {"turns": 1, "unused": 1}
        assert "2 of 6 known from before" in str(found)
        # equal code is one trial, which is not measured again
        assert {one.ratio for one in found.tried if one.choice["turns"] == 3000} == {9.0}

    def test_known_winner_is_compared_again(self, queue):
        """What an earlier tuning found right and fast wins only if it is right on the arguments of this one."""

        slowly = "float z = x[i]; for (int k = 0; k < 3000; ++k) z = sin(z);"
        texts = {"right": f"{slowly} y[i] = z > 2 ? z : x[i]*x[i];", "from one": "y[i] = x[i];"}

        @kcl.kernel(space=kcl.space(kind=[*texts]))
        def squared(kind="right"):
            return elementwise("squared", texts[kind], x="in", y="out")

        kernel, x = squared(), np.full(64, 0.5, np.float32)
        tune(kernel, queue, x=x, level=2)
        table = chooser_of(kernel).table(queue)
        fact = next(one for one in table.facts().values() if one.choice == {"kind": "from one"})
        assert fact.outcome == "wrong result"
        table.put_facts([fact._replace(outcome="ok", ratio=0.01)])
        table.put(table.refresh().rows[0]._replace(unfinished=True))
        assert tune(kernel, queue, x=x, level=2).row.choice == {"kind": "right"}
        assert table.facts()[tuner.fact_name(fact)].outcome == "wrong result"

    def test_no_time(self, queue):
        kernel, x = adding(), vectors()[0]
        found = kernel.tune(queue, level=2, seconds=1e-3, x=x)
        assert (found.row, found.tried, found.was_time) == (None, (), False)
        assert "give it more seconds" in str(found)
        assert chooser_of(kernel).table(queue).rows == []
        assert kernel.tune(queue, level=2, x=x, **LONG).row.tried == 6

    @pytest.mark.slow
    def test_unfinished(self, queue):
        class Late(Given):
            def ask(self):
                found = super().ask()
                if not found:
                    time.sleep(0.7 * seconds)  # until the time of the search is over
                    return [{"turns": 1000, "unused": 2}]
                return found

        kernel, seconds = adding(), 60.0
        given = {"level": 2, "x": vectors()[0]}
        asked = Late([{"turns": 1, "unused": 1}])
        found = kernel.tune(queue, seconds=seconds, search=asked, **given)
        assert found.row.unfinished
        assert "the next tuning goes on with the others" in str(found)
        again = kernel.tune(queue, **given, **LONG)
        assert (again.known, again.row.tried, again.row.unfinished) == (1, 6, False)

    def test_changed_code_is_tuned_again(self, queue):
        search = [{"turns": 1, "unused": 1}]
        first = tune(adding(), queue, search=Given([*search]))
        served = first.row.best[0]
        assert "tuned before" in str(tune(adding(), queue, search=Given([])))
        table = chooser_of(adding()).table(queue)
        table.put(first.row._replace(best=(served._replace(codes=("-",)),)))
        assert tune(adding(), queue, search=Given([*search])).row.best[0].codes == served.codes

    def test_slow_recipes(self, queue, tmp_path):
        """No recipe runs after the time for building, however many choices a step has."""
        runs = tmp_path / "runs"  # each in the child that generates

        @kcl.kernel(space=kcl.space(part=list(range(100))))
        def slow(part=0):
            with runs.open("a") as stream:
                stream.write(".")
            time.sleep(0.2)
            return one_array("slow", f"x[i] = 1; /* {part} */", direction="out")

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
        found = ending().tune(queue, x=vectors()[0], level=2, seconds=5.0)
        assert time.monotonic() - began < 3 * 15
        named = {"right": "ok", "memory": "takes too much memory", "raises": "raises"}
        named |= dict.fromkeys(("abort", "null"), "crashes")
        for kind, outcome in outcomes(found).items():
            assert outcome in (named.get(kind), "hangs")
        assert os.listdir(folders) == []
        assert multiprocessing.active_children() == []

    def test_endless_default(self, queue, folders, monkeypatch):
        monkeypatch.setattr(bench, "_OVERTIME", 4.0)
        began = time.monotonic()
        found = never().tune(queue, x=vectors()[0], seconds=0.5)
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
        asked = [{"turns": turns, "unused": 1} for turns in (1, 7, 3000)]
        searching = Given([*asked])
        found = tune(adding(), queue, search=searching)
        assert [choice for choice, _ratio in searching.told] == asked
        first, second, third = [ratio for _choice, ratio in searching.told]
        assert first < 0.5
        assert second is None
        assert third > 1.5
        refused = found.tried[1]
        assert (refused.outcome, refused.detail) == ("not valid", "a value is not in the space")


class TestRefusals:
    def test_level_0(self, queue):
        found = adding().tune(queue, level=0, x=vectors()[0])
        assert "level 0" in str(found)
        assert chooser_of(adding()).table(queue).rows == []

    @pytest.mark.parametrize(
        ("recipe", "outcome"), [(ticking, "wrong result"), (failing, "does not build")]
    )
    def test_a_default_to_which_nothing_compares(self, queue, recipe, outcome):
        given = {"x": vectors()[0]} if recipe is failing else {}
        tuning = recipe().tune(queue, **given, **LONG)
        assert tuning.row is None
        words = "not tuned: two launches of the default must run, and compute the same"
        assert f"{words}: {outcome}" in str(tuning)

    def test_other_arguments(self, queue):
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


def test_text():
    """The text has the choice, what it gains and how it was found; of the default that it is the fastest."""
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
    row = Row((512,), {"block": 64}, 1.0, 1, 21, 21, 0.0, "2026-11-26")
    words = "axpy at n = 512: the default block=64 is the fastest of 21; 21 of 21"
    assert str(tuner.Tuning("axpy", {"n": 512}, row)).startswith(words)
