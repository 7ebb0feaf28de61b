"""The benchmarks' own code, on the figures of the documentation: nothing is measured here."""

import importlib
import json
import math
import os
import re
import sys

import pytest
from harness import ROOT, run_command

BENCHMARKS = ROOT / "benchmarks"
PARTS = (
    *("imports", "processes", "cold", "large", "calls", "lookup", "storm", "entries", "listing"),
    *("prepare", "threads", "bookkeeping", "recording", "unchanged", "bundle", "sizes", "tiers"),
    *("bypassed", "tuning"),
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "doc").rglob("*.md"))]
MEASURED = ROOT / "doc" / "explanation" / "measured"


@pytest.fixture(scope="module", autouse=True)
def on_path():
    """Let the benchmarks' modules be imported as their scripts import them."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def benchmark(name: str):
    return importlib.import_module(name)


@pytest.fixture
def document() -> dict:
    return json.loads((MEASURED / "figures.json").read_text())


@pytest.mark.parametrize(("seconds", "verdict"), [(0.1, "reached"), (0.9, "FALLS SHORT")])
def test_status(tmp_path, seconds, verdict):
    """A goal is compared with its figure, all others are not measured; the command says how many fall short."""
    parts = {"imports": {"seconds": {"kcl": [seconds], "pyopencl": [1.0]}}}
    said = [verdict for _goal, _, verdict in benchmark("check").verdicts(parts)]
    assert [one for one in said if one != "not measured"] == [verdict]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"time": "now", "device": "none", "parts": parts}))
    command = [sys.executable, BENCHMARKS / "check.py", path]
    done = run_command(command, cwd=ROOT)
    status = int(verdict != "reached")
    assert done.returncode == status, done.stderr
    assert f"{status} falls short" in done.stdout


class TestTables:
    def test_lines(self, document):
        for part, figures in document["parts"].items():
            assert len("\n".join(benchmark(part).lines(figures)).splitlines()) > 2, part

    def test_interval(self):
        """The interval of equal pairs is the ratio itself, and one pair alone has none."""
        cold = benchmark("cold")
        assert cold.interval([2.0, 4.0], [1.0, 2.0]) == pytest.approx((2.0, 2.0, 2.0))
        assert cold.interval([2.0], [1.0])[:2] == pytest.approx((2.0, 0.0))
        ratio, low, high = cold.interval([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
        assert low < ratio < high
        assert math.sqrt(low * high) == pytest.approx(ratio)


class TestOneRecord:
    def test_within(self, document):
        """Each figure lies within the range or the interval that stands beside it."""
        goals = benchmark("check").verdicts(document["parts"])
        figures = {goal.title: figure for goal, figure, _ in goals if figure}
        tuning = benchmark("tuning")
        for name, one in tuning.cases(document["parts"]["tuning"]).items():
            for pair in tuning.COLUMNS.values():
                if pair[0] in one["times"]:
                    figure = benchmark("goals").Figure(*tuning.ratio(one, *pair))
                    figures[f"{name}: {pair}"] = figure
        for title, figure in figures.items():
            if figure.low is not None:
                assert figure.low <= figure.value <= figure.high, title

    def test_nothing_typed(self):
        """No page types how much faster kcl is: the sentence that says it is written by `make bench-report`."""
        texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
        readme = ROOT / "README.md"
        texts[readme] = re.sub(r"(?s)<!-- gain: .*?<!-- end of gain -->", "", texts[readme])
        typed = re.compile(r"\d times (faster|less processor time|loopy's)")
        assert [path for path, text in texts.items() if typed.search(text)] == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import atexit; atexit.register(lambda: 1 / 0)", "an exception that Python ignored"),
        ("raise SystemExit(3)", "status 3"),
    ],
)
def test_refused(tmp_path, code, said):
    """Neither one that fails nor one in which an exception was ignored."""
    with pytest.raises(SystemExit, match=said):
        benchmark("measure").run(code, cache=tmp_path, options=["-c"])


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_part(tmp_path, part):
    path = tmp_path / "run.json"
    command = [sys.executable, BENCHMARKS / "run.py", part, "--quick", "--json", path]
    environment = {**os.environ, "PYOPENCL_CTX": "portable"}
    done = run_command(command, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(path.read_text())["parts"][part]


class TestReport:
    @pytest.mark.slow
    def test_same_bytes(self, document, tmp_path):
        """Drawn twice the pictures are the same, and they name no time and no place."""
        pytest.importorskip("matplotlib")
        report = benchmark("report")
        twice = [report.written(document, tmp_path / name) for name in ("a", "b")]
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

    def test_committed_tables(self, document):
        """The tables of the documentation are those of the figures beside them, and of the goals as they are now."""
        for name, text in benchmark("page").written(document).items():
            assert (MEASURED / name).read_text() == text, "run: make bench-report"
        readme = (ROOT / "README.md").read_text()
        assert benchmark("page").readme(document, readme) == readme, "run: make bench-report"

    def test_reasons(self):
        page = benchmark("page")
        titles = [goal.title for goal in benchmark("goals").GOALS]
        assert [title for title in titles if not title.startswith(tuple(page.WHY))] == []
