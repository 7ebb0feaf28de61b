"""The report that users see: at the end of a process, as lines of JSON, and as a page in a browser."""

import importlib
import json

import browser
import pytest
from commands import run as report
from harness import PLATFORMS, ROOT
from printed import differs

from kcl import option

pytestmark = pytest.mark.one_platform

SILENT = {"PYTHONWARNINGS": "ignore"}  # of what compilers say

# What a reader sees: nothing that is wider than the window, links that lead somewhere, and text that
# stands out from what is behind it (the ratio of luminances of WCAG 2.1, section 1.4.3).
SCRIPT = r"""
const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const parsed = s => s.match(/[\d.]+/g).map(Number);
const luminance = s => { const [r, g, b] = parsed(s).map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if (parsed(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
const contrast = e => {
    const [a, b] = [luminance(getComputedStyle(e).color), luminance(ground(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05); };
document.querySelectorAll("details").forEach(e => e.open = true);
const texts = [...document.querySelectorAll("body *")].filter(e => !["SCRIPT", "STYLE"].includes(e.tagName)
    && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
return {
    wide: document.documentElement.scrollWidth - window.innerWidth,
    contrast: Math.min(...texts.map(contrast)),
    texts: texts.length,
    lost: [...document.links].filter(e => !document.querySelector(e.getAttribute("href"))).length,
    unreachable: [...document.querySelectorAll("a, summary, pre")].filter(e => e.tabIndex < 0).length,
    loaded: performance.getEntriesByType("resource").length,
};
"""


SCALED = """
import numpy as np
import pyopencl as cl
import kcl

@kcl.kernel
def scaled(block):
    import loopy as lp
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", name=f"inner{block}", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")

context = cl.create_some_context(interactive=False)
for block in (32, 64):
    scaled(block=block)(cl.CommandQueue(context), x=np.ones(100))
"""
UNITS = """
import numpy as np
import pyopencl as cl
import kcl.loopy as lp

context = cl.create_some_context(interactive=False)
for block in (32, 64):
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", name=f"inner{block}", lang_version=(2018, 2))
    knl = lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")
    knl.executor(context)(cl.CommandQueue(context), x=np.ones(100))
for dtype in (np.float32, np.float64):
    arguments = [lp.ValueArg("a", dtype), lp.GlobalArg("x,y", dtype, shape="n"), lp.ValueArg("n", np.int32)]
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", arguments, name="tripled", lang_version=(2018, 2))
    knl.executor(context)(cl.CommandQueue(context), a=dtype(3), x=np.ones(100, dtype))
"""


@pytest.fixture
def run(child, platform_name):
    def run(*command, **variables):
        return child.finished(*command, PYOPENCL_CTX=PLATFORMS[platform_name], **variables)

    return run


def line_by_line(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def told(text):
    """Return the rows of kernels in a text: label, generator, binary."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("kernel "))
    rows = [line.split()[:-2] for line in lines[head + 1 :]]
    return [tuple(row) for row in rows[: rows.index([]) if [] in rows else None]]


BYPASSED = """
import os
import numpy as np
import pyopencl as cl
import kcl

@kcl.kernel
def scaled(name):
    text = f'#include "factor.h"\\nkernel void {name}(global float *x) {{ x[get_global_id(0)] *= FACTOR; }}'
    x = kcl.Array("x", np.float32, "x.size", "inout")
    return kcl.Source(text, entry=name, arguments=[x], global_size="x.size", include_dirs=[os.path.abspath("there")])

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
for name in ("one", "other"):
    scaled(name)(queue, x=np.ones(4, np.float32))
"""


def test_bypassed(run, child):
    """The reason of look-ups that were bypassed stands below the table, once."""
    (child.directory / "there").mkdir()
    for path in ("factor.h", "there/factor.h"):
        (child.directory / path).write_text("#define FACTOR 3\n", encoding="utf-8")
    (child.directory / "driver.py").write_text(BYPASSED, encoding="utf-8")
    said = " ".join(run("driver.py", KCL_REPORT="1", **SILENT).stderr.split())
    assert "binary 0 0 2 0 " in said
    assert said.count("binary: bypassed: ") == 1
    assert "the working directory holds too: drivers differ in which they take; rename one" in said


def test_entries_of_another_program(run, child):
    """Rows have the names of the program that ran, whoever stored the entries; dtypes tell units of one name apart."""
    for file, text in (("recipe.py", SCALED), ("units.py", UNITS)):
        (child.directory / file).write_text(text, encoding="utf-8")
    run("recipe.py")
    at_exit = run("units.py", KCL_REPORT="kernels", **SILENT).stderr
    for found in (at_exit, run("-m", "kcl", "report").stdout):
        first, other, *typed = told(found)
        assert [first, other] == [("inner32", "hit", "hit"), ("inner64", "hit", "hit")]
        names = [f"tripled a, x, y: float{bits}" for bits in (32, 64)]
        assert [" ".join(row).partition(" miss")[0] for row in typed] == names
    run("recipe.py")
    rows = told(run("-m", "kcl", "report").stdout)
    assert [row[0] for row in rows] == ["scaled(block=32)", "scaled(block=64)"]


@pytest.fixture
def shown(warm):
    """The page of a run in which a kernel missed."""
    warm.edit("driver.py", "parameter(9)", "parameter(10)")
    warm.run("inputs")
    option.cache_dir(warm.child.cache)
    return report("report", "--html", "-").output


@pytest.mark.browser
class TestBrowser:
    def test_seen(self, shown, tmp_path):
        """In narrow and wide windows, light and dark: all can be read and reached, and nothing is loaded."""
        for width, dark in ((500, True), (1400, False)):
            found = browser.measured(shown, SCRIPT, tmp_path, width, dark)
            assert found["wide"] <= 0
            assert found["contrast"] >= 4.5
            assert found["texts"] > 30
            assert found["lost"] == found["unreachable"] == found["loaded"] == 0

    def test_widths(self, shown, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "tools")
        tool = importlib.import_module("docs_look")
        (tmp_path / "report.html").write_text(shown, encoding="utf-8")
        with tool.browser() as opened:
            assert [*tool.wide(opened, tmp_path / "report.html")] == []

    def test_no_script_and_paper(self, shown, tmp_path):
        """The page's own policy keeps a script from running, had one come in; printed, folded sources are there."""
        asked = shown.replace("</body>", "<script>document.title = 'taken'</script></body>")
        assert "<title>taken" not in browser.dom(asked, tmp_path)
        folded = browser.printed(shown, tmp_path)
        opened = browser.printed(shown.replace("<details>", "<details open>"), tmp_path)
        assert folded.count(b"/Type /Page\n") == opened.count(b"/Type /Page\n") > 2


WORKERS = """
import multiprocessing
import kcl
from kcl.base import events

kcl.kernel(lambda: None)

def ask(name):
    events.emit(events.Event("binary", name, "", "miss", "for the test", 1.0, 1))

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        worker = multiprocessing.get_context(method).Process(target=ask, args=(method,))
        worker.start()
        worker.join()
"""
ASKING = """
import numpy as np
import pyopencl as cl
import kcl.loopy as lp
class Mine(lp.PyOpenCLTarget): pass
knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 5*x[i]", lang_version=(2018, 2))
context = cl.create_some_context(interactive=False)
knl.executor(context)(cl.CommandQueue(context), x=np.ones(100))
"""


class TestAtExit:
    def test_json(self, warm, tmp_path):
        """`KCL_REPORT=json:PATH` adds a line for each process, as the reference describes it."""
        path = tmp_path / "report.jsonl"
        for _ in range(2):
            assert warm.run("inputs", KCL_REPORT=f"json:{path}", **SILENT).stderr == ""
        told = line_by_line(path)
        assert len({one["processes"][0] for one in told}) == 2
        for one in told:
            assert differs("report", one) == []
            assert {look["outcome"] for row in one["kernels"] for look in row["lookups"]} == {"hit"}
            saved = [sum(row["saved"] for row in one[rows]) for rows in ("kernels", "layers")]
            assert saved[0] == pytest.approx(saved[1])

    def test_unwritable(self, warm, tmp_path):
        path = tmp_path / "none" / "report"
        said = warm.run("inputs", KCL_REPORT=f"json:{path}", **SILENT).stderr
        assert said == f"kcl: no report is written to {path}: No such file or directory\n"

    def test_workers(self, child, tmp_path):
        """Forked and spawned workers of multiprocessing add their lines."""
        path = tmp_path / "report.jsonl"
        (child.directory / "workers.py").write_text(WORKERS, encoding="utf-8")
        child.finished("workers.py", KCL_REPORT=f"json:{path}")
        told = line_by_line(path)
        assert {"fork", "spawn"} <= {row["kernel"] for one in told for row in one["kernels"]}
        assert all(len(one["kernels"]) <= 1 for one in told)

    @pytest.mark.parametrize(
        "command",
        [
            ("-m", "kcl", "run", "-c", "print(1)"),
            ("-c", "import kcl; kcl.kernel(lambda: None)"),
            ("-c", "import kcl.loopy"),
        ],
    )
    def test_nothing(self, child, command):
        """A program that asks for no kernel is told so in one line; its children say nothing."""
        done = child.python(*command, KCL_REPORT="kernels")
        assert done.stderr == "kcl: no kernel was asked for\n"

    def test_line_that_imports_loopy(self, run, child):
        """The place in the program that had loopy imported is named at exit, by `kcl report`, and in its JSON."""
        (child.directory / "asking.py").write_text(ASKING, encoding="utf-8")
        run("asking.py")
        at_exit = run("asking.py", KCL_STRICT="hit", KCL_REPORT="1").stderr
        with option.cache_dir(child.cache):
            remarks = json.loads(report("report", "--json").stdout)["remarks"]
            told = report("report").stdout
        assert any("PyOpenCLTarget (asking.py:5): 1" in one for one in remarks)
        for text in (at_exit, told):
            assert " ".join(remarks) in " ".join(text.split())

    def test_own_import(self, child):
        """An unchanged program that imports loopy itself is not told to import it elsewhere."""
        code = """
            import loopy
            from kcl import integrations, recipe
            from kcl.base import events
            from kcl.inspect.summary import report
            events.emit(events.Event("generator", "axpy", "", "hit", "", 1.0, 1))
            print("loopy was imported" in report())
            integrations.install()
            print("loopy was imported" in report())
        """
        assert child.run(code).stdout.split() == ["True", "False"]
