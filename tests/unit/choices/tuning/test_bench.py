"""The children of a tuning: what kills one costs its candidate, and the others go on."""

import pathlib
import re
import time

import numpy as np
import pytest
from elementwise import elementwise

import kcl
from kcl.base import settings
from kcl.choices.tuning import bench as benches
from kcl.choices.tuning import inputs, race
from kcl.choices.tuning.bench import Bench, Child, ChildFault
from kcl.choices.tuning.inputs import is_cut
from kcl.choices.tuning.race import Sample
from kcl.drivers.child import Verdict

pytestmark = pytest.mark.slow_platforms


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(text=["right"]))
def doubling(text="", local=1):
    return elementwise("doubling", f"{text} z[i] = 2*x[i];", local_size=local, x="in", z="out")


X = np.arange(1, 65, dtype=np.float32)
NULL = "*(global volatile float *) 0 = 1;"
LATE = f"if (z[i] == 2*x[i]) {NULL}"  # in the race, where outputs are left as they are
SLOW = "float y = x[i]; for (int k = 0; k < 3000; ++k) y = sin(y); if (y > 2) return;"


@pytest.fixture
def workshop(files_of):
    return files_of(doubling(), x=X)


@pytest.fixture
def question(workshop, question_of):
    return question_of(workshop)


@pytest.fixture
def bench(workshop, question, monkeypatch):
    monkeypatch.setattr(settings, "processors", lambda: 1)
    with Bench(question, trial(workshop, ""), workshop.folder) as made:
        yield made


def trial(workshop, text):
    return workshop.trial({"text": text})


def later(seconds=300.0):
    return time.monotonic() + seconds


class TestCheck:
    def test_all_go_on(self, bench, workshop, platform_name):
        """Candidates that crash or hang cost themselves only, and the next ones go to a new child."""
        trials = [trial(workshop, text) for text in ("", NULL, "/* */", NULL + ";", "float y;")]
        bench.check(iter(trials), later())
        death = "does not launch" if platform_name == "nvidia" else "crashes"
        assert [one.verdict.outcome for one in trials] == ["ok", death, "ok", death, "ok"]
        bench.limit = 1.0
        bench.check([hanging := trial(workshop, "while (!i && x[i] != -5) z[i] += 1;")], later())
        bench.limit = 60.0
        bench.check([after := trial(workshop, ";")], later())
        assert [hanging.verdict.outcome, after.verdict.outcome] == ["hangs", "ok"]

    def test_no_time(self, bench, workshop):
        found = trial(workshop, ";")
        bench.check([found], time.monotonic() - 1)
        assert found.verdict.outcome == ""

    def test_an_innocent(self, bench, workshop):
        """Of a child that dies after others were there nobody knows the reason: a new child decides."""
        bench.check([first := trial(workshop, ";")], later())
        bench._children[-1].process.kill()
        bench.check([second := trial(workshop, ";;")], later())
        assert [first.verdict.outcome, second.verdict.outcome] == ["ok", "ok"]


class TestRace:
    def test_ratios(self, bench, workshop):
        near, slow = trial(workshop, ";"), trial(workshop, SLOW)
        bench.check([near, slow], later())
        assert set(bench.race([near, slow], 15, later())) <= {near}
        assert slow.standing.ratio > 4

    def test_elapsed_time_counts(self, workshop, question, monkeypatch):
        """Of two choices of equal processor time that which keeps one processor busy never wins."""
        one_group, many_groups = trial(workshop, ";"), trial(workshop, ";;")
        made = Bench(question, workshop.default, workshop.folder)
        times = [Sample(0.060, 0.110), Sample(0.053, 0.053), Sample(0.026, 0.053)]

        def winner(*trials):
            left = made.race([*trials], race.ROUNDS, later())
            return race.find_winner({trial: trial.standing for trial in left}, [*trials])

        monkeypatch.setattr(
            made, "_round", lambda _racers, running, _seconds: {at: times[at] for at in running}
        )
        assert winner(one_group, many_groups) is many_groups
        times[0] = Sample(0.026, 0.053)
        assert winner(one_group) is None

    def test_the_child(self, bench, workshop):
        """A child that built right candidates lets them race; one that had a wrong one does not."""
        bench.check([right := trial(workshop, ";")], later())
        bench.race([right], 1, later())
        assert len(bench._children) == 1
        bench.check([wrong := trial(workshop, "z[i] = 1; if (i) return;")], later())
        assert wrong.verdict.outcome == "wrong result"
        bench.race([right], 1, later())
        assert len(bench._children) == 2

    def test_the_time(self, workshop, question, monkeypatch):
        """A race whose time is over has the rounds that winning takes, if it is the last one."""
        made, one = Bench(question, workshop.default, workshop.folder), trial(workshop, ";")
        sample = Sample(0.1, 0.1)
        monkeypatch.setattr(
            made, "_round", lambda _racers, running, _seconds: dict.fromkeys(running, sample)
        )
        assert made.race([one], race.ROUNDS, later(-1)) == []
        assert made.race([one], race.ROUNDS, later(-1), is_last=True) == [one]

    def test_a_death(self, bench, workshop, platform_name):
        late, right = trial(workshop, LATE), trial(workshop, ";")
        bench.check([late, right], later())
        assert late.verdict.outcome == "ok"
        found = bench.race([late, right], 5, later())
        death = "status 1" if platform_name == "nvidia" else "SIGSEGV"
        assert late.verdict[:2] == ("crashes", f"{death}, in the race")
        assert late not in found
        assert right.verdict.outcome == "ok"
        assert right.standing is not None


class TestBench:
    @pytest.mark.parametrize("text", [NULL, "z[i] = q;", "if (i == 0) z[n] = 1;"])
    def test_the_default_must_run(self, workshop, question, text):
        """Without a default that runs there is no bench, and no process is left."""
        with pytest.raises(ChildFault), Bench(question, trial(workshop, text), workshop.folder):
            pass

    @pytest.mark.parametrize(
        ("text", "local"), [(f"if (n == 63) {NULL}", 1), ("if (n == 63) z[n] = 1;", 1), ("", 2)]
    )
    def test_a_cut_at_which_the_default_fails(self, files_of, question_of, text, local):
        """A cut at which the default does not run is left out; so is one with a work-group that does not divide it."""

        @kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(text=["right"]))
        def whole(text=text):
            return doubling.function(text, local)

        workshop = files_of(whole(), x=X)
        default, question = workshop.default, question_of(workshop)
        with Bench(question, default, workshop.folder) as made:
            assert not any(map(is_cut, default.codes))
            made.check([found := trial(workshop, ";")], later())
            assert found.verdict.outcome == "ok"
            assert not found.ragged

    def test_the_end_comes_as_a_child_starts(self, workshop, question, monkeypatch):
        """A child that a thread starts while the bench ends is asked nothing: a question may take half a minute."""
        made = Bench(question, trial(workshop, ""), workshop.folder)

        class Late(Child):
            def __init__(self, *given):
                super().__init__(*given)
                made.__exit__()

        monkeypatch.setattr(benches, "Child", Late)
        with pytest.raises(ChildFault):
            made._start()
        assert made._children[0].process.returncode is not None

    def test_number_of_children(self, workshop, question, monkeypatch):
        """There is one child for each processor, and fewer for large arrays; all end with the bench."""
        monkeypatch.setattr(settings, "processors", lambda: 7)
        with Bench(question, trial(workshop, ""), workshop.folder) as made:
            assert made._pool._max_workers == 7
            made.check([trial(workshop, "z[i] = q;")], later())
            made.race([trial(workshop, ";")], 1, later())
            processes = [child.process for child in made._children]
            assert len(processes) > 1
        assert all(process.returncode is not None for process in processes)
        monkeypatch.setattr(benches, "_MOST_BYTES", 0)
        with Bench(question, trial(workshop, ""), workshop.folder) as made:
            assert made._pool._max_workers == 1


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(per=[2, 4], factor=[1.0], tail=[0]))
def partial(per=4, factor=1.0, tail=0):
    """Sum parts; the length of the output is that of the choice."""
    code = f"""kernel void partial(global float *x, global float *part, global float *z, int n)
               {{ int first = get_global_id(0)*{per}; float sum = 0;
                  for (int i = first; i < min(n, first + {per}); ++i)
                  {{ sum += {factor}f*x[i]; z[i] = 2*x[i]; }}
                  part[get_global_id(0)] = sum;
                  if ({tail} && get_global_id(0) == 0) part[get_global_size(0)] = 1; }}"""
    size = f"round_up(n, {per})//{per}"
    shapes = {"x": ("n", "in"), "part": (size, "out"), "z": ("n", "out")}
    arrays = [kcl.Array(name, np.float32, *shape) for name, shape in shapes.items()]
    arguments = [*arrays, kcl.Scalar("n", np.int32)]
    return kcl.Source(code, entry="partial", arguments=arguments, global_size=size, local_size=1)


DEFAULT = {"per": 4, "factor": 1.0, "tail": 0}


class TestCompare:
    @pytest.fixture
    def verdicts(self, files_of, question_of, monkeypatch):
        monkeypatch.setattr(settings, "processors", lambda: 1)
        files = files_of(partial(), x=np.ones(100, np.float32))

        def verdicts(compare, *choices):
            question = question_of(files)._replace(compared=None if compare is None else ())
            trials = [files.trial({**DEFAULT, **choice}) for choice in choices]
            with Bench(question, files.default, files.folder, later(), compare) as made:
                made.check(trials, later())
                made.race([one for one in trials if one.verdict.outcome == "ok"], 2, later())
            return [trial.verdict for trial in trials]

        return verdicts

    def test_another_shape(self, verdicts):
        """Without a comparison an output of another shape is refused, and the first one has the cure."""
        first, second = verdicts(None, {"per": 2}, {"per": 10})
        cure = "kcl.space(compare=lambda out: out['part'].sum()) compares the sums"
        assert first == ("has another shape", f"part has (50,), by the default (25,); {cure}")
        assert second == ("has another shape", "part has (10,), by the default (25,)")

    def test_own(self, verdicts):
        """Outputs that a comparison reads may have any shape; what it returns is compared, and the other outputs are."""
        choices = [{"per": 2}, {"per": 10, "factor": 2.0}, {"per": 5, "tail": 1}]
        found = verdicts(lambda out: out["part"].sum(), *choices)
        assert [one.outcome for one in found] == ["ok", "wrong result", "writes past the end"]
        assert found[1].detail.startswith("compare is 200.0, by the default 100.0")
        assert found[2].detail == "of part"

    @pytest.mark.parametrize(
        ("compare", "words"),
        [
            (lambda out: out["parts"].sum(), "compare= raises KeyError: 'parts'; outputs: part, z"),
            (lambda out: sum(map(len, out.values())), "compare= reads no output by its name"),
            (lambda out: str(out["z"]), "compare= returns <U"),
        ],
    )
    def test_bad(self, verdicts, compare, words):
        """A comparison that fails with the default, reads nothing or returns no numbers is the user's error."""
        with pytest.raises(TypeError, match=re.escape(words)):
            verdicts(compare)


class TestLeft:
    def test_hanging_form(self, files_of, question_of, monkeypatch):
        """A form on which the default does not end is left out alone, and candidates are compared on the others."""
        monkeypatch.setattr(settings, "processors", lambda: 1)

        @kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(text=["right"]))
        def ending(text="while (x[i] < 0) z[i] += 1;"):
            return doubling.function(text)

        files = files_of(ending(), x=X)
        found = trial(files, "if (x[i] < 1) { z[i] = 0; return; }")
        files.close()
        with Bench(question_of(files), files.default, files.folder) as made:
            made.check([found], later())
        assert {form: one.outcome for form, one in made.left_out.items()} == {
            inputs.SIGNED: "hangs"
        }
        assert found.verdict.outcome == "wrong result"
        assert found.verdict.detail.endswith("with drawn numbers")

    def test_limit(self, workshop, question):

        def made(seconds, **limit):
            return Bench(question, workshop.default, workshop.folder, later(seconds), **limit)

        assert 9 < made(30).seconds() <= 10
        assert made(30).seconds(25.0) == 25.0
        assert made(3000, limit=60.0).seconds() == 60.0
        assert made(-6).seconds(60.0) <= 3.0

    def test_slow_default(self, workshop, question, monkeypatch):
        """No question has more time than is left for the whole call, however slow the default is."""
        asked = []
        monkeypatch.setattr(Child, "__init__", lambda *_given: None)
        monkeypatch.setattr(Child, "end", lambda _self: 0)

        def ask(_self, limit, _verb, *_given):
            asked.append(limit)
            return Verdict("ok"), 100.0, []

        monkeypatch.setattr(Child, "ask", ask)
        made = Bench(question, workshop.default, workshop.folder, later(5))
        made._start()
        assert made._least == 300.0
        assert max(asked) <= made.seconds(made._least) + 1 <= 15.0


def test_child(workshop, question, monkeypatch):
    """A child keeps its caches in the folder of the tuning, inherits no setting of kcl's, and ends with its pipe."""
    monkeypatch.setenv("KCL_STRICT", "hit")
    own = Child(question, workshop.folder)
    try:
        assert own.ask(60.0, "begin", "", trial(workshop, "").codes[""])[0].outcome == "ok"
        text = pathlib.Path(f"/proc/{own.process.pid}/environ").read_text()
        own.pipe.close()
        assert own.process.wait(60) == 0
    finally:
        own.end()
    found = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
    kept = {name for name, text in found.items() if text.startswith(workshop.folder)}
    assert kept >= {"KCL_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME", "TMPDIR"}
    assert "POCL_CACHE_DIR" not in found  # it would win over XDG_CACHE_HOME
    own_settings = {name: text for name, text in found.items() if name.startswith("KCL_")}
    assert own_settings == {"KCL_CACHE_DIR": workshop.folder, "KCL_PROMOTE": "off"}
