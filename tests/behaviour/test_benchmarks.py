"""The benchmarks' own code, on made-up figures: nothing is measured here, and no figure can fail a test."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys

import pytest
from harness import ROOT

BENCHMARKS = ROOT / "benchmarks"
LISTED = {'python -c "import rich"': 1, "kcl status": 2, "kcl ls": 5, "kcl explain": 7}
PARTS = (
    "imports",
    "processes",
    "cold",
    "large",
    "calls",
    "lookup",
    "storm",
    "entries",
    "listing",
    "prepare",
    "threads",
    "bookkeeping",
    "recording",
    "unchanged",
    "bundle",
    "sizes",
    "tiers",
    "tuning",
)
PICTURES = ("starts.svg", "kernels.svg", "entries.svg", "calls.svg")
TABLES = ("headline.inc", "run.inc", "goals.inc", "short.inc", "disk.inc", "tuning.inc")
MEASURED = ROOT / "doc" / "explanation" / "measured"


@pytest.fixture(scope="module", autouse=True)
def on_path():
    """Let the benchmarks' modules be imported as their scripts import them."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def benchmark(name: str):
    return importlib.import_module(name)


def processes_of(count: int, floor: float, kcl: float, loopy: float) -> dict:
    """Return figures of whole processes in which every moment of a side takes the same seconds."""
    figures = benchmark("processes").Figures(count)
    for side, seconds in (("floor", floor), ("kcl", kcl), ("loopy", loopy)):
        for moment in (*figures.wall[side],):
            if side != "loopy" or moment not in ("empty", "off"):
                figures.wall[side][moment] = [seconds, 2 * seconds, 3 * seconds]
                figures.cpu[side][moment] = [seconds, seconds, seconds]
        figures.rounds[side] = [0, 1, 2]
    figures.background = {"cpu": [1.0], "seconds": [2.0]}
    figures.disk = {side: {"kcl binary": 10 * count, "pocl": 20 * count} for side in ("floor", "kcl", "loopy")}
    figures.libraries["kcl"] = {moment: {"libraries": count, "generated": 0} for moment in ("empty", "off")}
    return figures.as_json()


def tuning_of() -> dict:
    """Return figures of tuning in which each goal is reached."""
    tuning = benchmark("tuning")
    times = {"default": 1.0, "level 1": 0.71, "level 2": 0.7, "best": 0.7, "numpy": 0.5, "CLBlast": 1.5}
    raced = {"times": {side: [seconds] * 15 for side, seconds in times.items()}}
    raced |= {f"level {level}": {"tried": 18 * level, "of": 72, "seconds": 9.0} for level in (1, 2)}
    winners = {"times": {str(number): [1.0] * 15 for number in range(5)}}
    calls = {"tuned": [4.0] * 4, "plain": [4.0] * 4, "typed": [3.0] * 4, "new size": [60.0] * 4}

    def starts(*sides: str) -> dict:
        said = {"missed": 0, "processes": 0, "tuner": False}
        kinds = {"wall": [1.0, 1.1], "cpu": [1.0, 1.1], "said": [said], "files": [0]}
        return {kind: dict.fromkeys(sides, values) for kind, values in kinds.items()}

    return {
        **dict.fromkeys([*tuning.RECIPES, "3,000 choices"], raced),
        "one work-group": {"1 by default": [16, 16, 16], "16 by default": [16, 16, 16]},
        "Kernel Tuner": {"level 2": [6.0, 6.1], "Kernel Tuner": [10.0, 10.1]},
        **dict.fromkeys(tuning.NEAR, winners),
        "calls": {"microseconds": calls, "counted": [11, 11]},
        "warm": starts("tuned", "by hand"),
        "declared": {when: starts("spaces", "none") for when in ("cold", "warm")},
    }


@pytest.fixture
def document() -> dict:
    """A document in which everything is as it should be, but for the warm start of 5 kernels."""
    storm = {
        kind: {"wall": [2.0], "source builds": [20], "recipes": [20], "failed": []} for kind in benchmark("storm").KINDS
    }
    again = {"alone": [0.5], "storm": [0.7]}
    entries = [
        {"count": count, "generator": [50.0, 60.0], "binary": [40.0, 41.0], "both": [90.0, 101.0], "resident": [3e7]}
        for count in (100, 1_000_000)
    ]
    calls = {
        "case": "3 arrays",
        "microseconds": {"typed": [2.0] * 4, "loopy": [9.0] * 4, "kcl": [3.0] * 4, "kcl, bound": [1.5, 2.0, 2.0, 2.5]},
        "processor": {"typed": [2.0] * 4, "loopy": [9.0] * 4, "kcl": [3.0] * 4, "kcl, bound": [2.0] * 4},
    }
    large = {side: [0.1, 0.2, 0.3] for side in ("floor", "kcl", "loopy")}
    parts = {
        "calls": {"batch": 100, "cases": [calls]},
        "large": {"statements": [{"count": 300, "bytes": 1000, "seconds": large, "first": large}]},
        "imports": {"seconds": {"kcl": [0.01], "pyopencl": [0.1]}},
        "processes": {"kernels": [processes_of(5, 1.0, 1.5, 8.0), processes_of(42, 1.0, 1.1, 10.0)]},
        "cold": {
            "count": 42,
            "wall": {"kcl": [1.0, 1.1], "loopy": [1.0, 1.1]},
            "cpu": {"kcl": [1.0, 1.1], "loopy": [1.0, 1.1]},
            "background": {"cpu": [1.0], "seconds": [3.0]},
        },
        "prepare": {"count": 42, **{what: {"2": [1.1, 1.3], "1": [2.0, 2.1]} for what in ("wall", "cpu")}},
        "threads": {
            "count": 42,
            **{
                kind: {"wall": [seconds, seconds], "cpu": [seconds, seconds], "built again": [0, 0]}
                for kind, seconds in (("one", 10.0), ("shared", 10.5), ("own", 11.0))
            },
        },
        "lookup": {"largest": 1_000_000, "entries": entries},
        "storm": {"processes": 8, "kernels": 20, "cores": 2, "one compile time": [0.5], "again": again, **storm},
        "entries": {"count": 42, "disk": {"kcl binary": 10, "pocl": 20}, "parts": {}, "codecs": {}},
        "listing": {
            "entries": 10_000,
            **{what: {title: [0.1 * times] for title, times in LISTED.items()} for what in ("wall", "cpu")},
        },
        "recording": {
            "calls": {"recorded": [1e-4, 2e-4], "carried": [1e-2, 1e-2]},
            "imports": {"kcl.loopy": [0.06, 0.07], "kcl": [0.06, 0.06]},
            "launches": {"kept": [4e-5], "anew": [5e-4], "pure": [5e-4]},
        },
        "bookkeeping": {"count": 42, "cpu": {"recorded": [1.0, 1.1], "unrecorded": [1.0, 1.1]}, "own": [0.007, 0.008]},
        "unchanged": {
            "count": 42,
            "cases": {"kcl run": {what: {"ours": [1.0, 1.1], "plain": [9.0, 9.1]} for what in ("wall", "cpu")}},
            "cold": {what: {"ours": [1.0, 1.1], "plain": [1.0, 1.1]} for what in ("wall", "cpu")},
            "nothing": {what: {"ours": [0.03], "plain": [0.02]} for what in ("wall", "cpu")},
        },
        "sizes": {"kernels": {name: {"sizes": 0.3, "general": 1.0} for name in benchmark("goals").SIZES}},
        "tuning": tuning_of(),
        "tiers": {
            "count": 42,
            "warm": [1.0, 1.1],
            "site": [1.0, 1.0],
            "writing": [0.004, 0.005],
            "remotes": [{"kind": "files", "trip": 0.0, "run": [1.5, 1.5], "pull": [0.5, 0.5]}],
        },
        "bundle": {
            "kernels": [
                {
                    "count": 42,
                    "bytes": 42 * 5000,
                    "tar": 42 * 50000,
                    "cpu": {"import": [0.1, 0.1], "save": [0.1, 0.2], "load": [0.15, 0.15]},
                    **{clock: {"first": [0.6, 0.6], "warm": [0.45, 0.45]} for clock in ("wall", "first cpu")},
                }
            ]
        },
    }
    return {"time": "now", "device": "none", "python": "3", "cores": 2, "load": {}, "parts": parts}


class TestGoals:
    """Goals are compared with what was measured, and with nothing else."""

    def test_says_which_falls_short(self, document):
        """The one figure that is beyond its bound is named."""
        found = benchmark("check").verdicts(document["parts"])
        assert [goal.title for goal, _, verdict in found if verdict == "FALLS SHORT"] == [
            "warm start, 5 kernels: kcl / floor"
        ]
        assert sum(verdict == "reached" for _, _, verdict in found) >= 15

    def test_absent_extra(self, document):
        """Without Kernel Tuner its goal is unknown, and the others of tuning are reached."""
        document["parts"]["tuning"]["Kernel Tuner"] = {}
        found = [(goal.title, verdict) for goal, _, verdict in benchmark("check").verdicts(document["parts"])]
        verdicts = {title: verdict for title, verdict in found if title.startswith("tuning, ")}
        assert [title for title, verdict in verdicts.items() if verdict != "reached"] == [
            "tuning, 120 choices: long search / Kernel Tuner's brute force"
        ]

    def test_nothing_measured(self):
        """Without figures no goal is reached and none falls short."""
        found = benchmark("check").verdicts({})
        assert {verdict for _, _, verdict in found} == {"not measured"}

    def test_other_numbers(self, document):
        """Figures of fewer processes, kernels or entries than a goal speaks of say nothing about it."""
        document["parts"]["storm"]["processes"] = 3
        document["parts"]["cold"]["count"] = 5
        document["parts"]["lookup"]["largest"] = 1000
        found = {goal.title: verdict for goal, _, verdict in benchmark("check").verdicts(document["parts"])}
        several = [title for title in found if title.startswith(("cold, ", "look-ups", "the same, leader", "8 "))]
        assert len(several) == 5
        assert {found[title] for title in several} == {"not measured"}

    @pytest.mark.parametrize(("seconds", "status"), [(1.5, 1), (1.1, 0)])
    def test_status(self, document, tmp_path, seconds, status):
        """The command ends with 1 where a goal falls short, and says how many there are."""
        document["parts"]["processes"]["kernels"][0] = processes_of(5, 1.0, seconds, 8.0)
        (tmp_path / "run.json").write_text(json.dumps(document))
        command = [sys.executable, BENCHMARKS / "check.py", tmp_path / "run.json"]
        done = subprocess.run(command, text=True, capture_output=True, cwd=ROOT)
        assert done.returncode == status, done.stderr
        assert f"{status} falls short" in done.stdout


class TestTables:
    """Every part prints what it measured."""

    @pytest.mark.parametrize("part", PARTS)
    def test_lines(self, document, part):
        """A table of some lines comes out of a part's figures."""
        text = "\n".join(benchmark(part).lines(document["parts"][part]))
        assert len(text.splitlines()) > 2

    def test_interval(self):
        """The interval of equal pairs is the ratio itself, and one pair alone has none."""
        cold = benchmark("cold")
        assert cold.interval([2.0, 4.0], [1.0, 2.0]) == pytest.approx((2.0, 2.0, 2.0))
        assert cold.interval([2.0], [1.0])[:2] == pytest.approx((2.0, 0.0))
        ratio, low, high = cold.interval([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
        assert low < ratio < high
        assert math.sqrt(low * high) == pytest.approx(ratio)


class TestChildren:
    """A process that does not end well is not measured."""

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("import atexit; atexit.register(lambda: 1 / 0)", "an exception that Python ignored"),
            ("raise SystemExit(3)", "status 3"),
        ],
    )
    def test_refused(self, tmp_path, code, said):
        """Neither one that fails nor one in which an exception was ignored."""
        with pytest.raises(SystemExit, match=said):
            benchmark("measure").run(code, cache=tmp_path, options=["-c"])


class TestRuns:
    """Every part measures, as little as shows that it works."""

    @pytest.mark.slow
    @pytest.mark.parametrize("part", PARTS)
    def test_part(self, tmp_path, part):
        """A part of `make bench --quick` ends with its figures."""
        command = [sys.executable, BENCHMARKS / "run.py", part, "--quick", "--json", tmp_path / "run.json"]
        environment = {**os.environ, "PYOPENCL_CTX": "portable"}
        done = subprocess.run(command, text=True, capture_output=True, cwd=ROOT, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads((tmp_path / "run.json").read_text())["parts"][part]


class TestReport:
    """Pictures follow from the figures alone."""

    @pytest.mark.slow
    def test_same_bytes(self, document, tmp_path):
        """Drawn twice the pictures are the same, and they name no time and no place."""
        pytest.importorskip("matplotlib")
        report = benchmark("report")
        twice = [report.written(document, tmp_path / name) for name in ("a", "b")]
        assert [path.name for path in twice[0]] == [*PICTURES, *TABLES, "figures.json"]
        for one, other in zip(*twice, strict=True):
            text = one.read_text()
            assert text == other.read_text()
            assert str(tmp_path) not in text

    def test_committed_pictures(self):
        """The pictures of the documentation stand beside the figures that they were drawn from, which name no place."""
        text = (MEASURED / "figures.json").read_text()
        assert not any(word in text for word in ("/home", "/tmp", "/work", "/root"))
        page = (MEASURED.parent / "performance.md").read_text()
        for path in [*MEASURED.glob("*.svg"), *MEASURED.glob("*.inc")]:
            assert f"measured/{path.name}" in page

    def test_committed_tables(self):
        """The tables of the documentation are those of the figures beside them, and of the goals as they are now."""
        document = json.loads((MEASURED / "figures.json").read_text())
        for name, text in benchmark("page").written(document).items():
            assert (MEASURED / name).read_text() == text, "run: make bench-report"
        readme = (ROOT / "README.md").read_text()
        assert benchmark("page").readme(document, readme) == readme, "run: make bench-report"

    def test_reasons(self):
        """Each goal has a reason for which it may fall short."""
        page = benchmark("page")
        titles = [goal.title for goal in benchmark("goals").GOALS]
        assert [title for title in titles if not title.startswith(tuple(page.WHY))] == []
