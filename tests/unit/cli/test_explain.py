"""`kcl explain`: what a user changed between two runs is what it names."""

import json

import pytest
from commands import kcl, run, with_parts
from harness import PLATFORMS
from project import Project

from kcl import option

FILE = "module __main__ changed"
# What is edited in driver.py: before, after, the kernel that misses, and what is said of it.
BODY = 'scaled("body", {})'
EDITS = [
    (BODY.format(2), BODY.format(3), "body", "recipe `body`: body changed at line {line}"),
    ("factor=6", "factor=7", "defaulted", "parameter factor: 6 -> 7"),
    ("parameter(9)", "parameter(10)", "parameter", "parameter factor: 9 -> 10"),
]


def explained(project, *words):
    done = kcl(project, "explain", "--json", "--limit", "0", *words)
    assert done.returncode == 0, done.stderr
    found = {}
    for one in json.loads(done.stdout):
        found.setdefault((one["layer"], one["kernel"]), []).append(one)
    return found


def sentences(one):
    return [change["sentence"] for change in one["changes"]]


def as_of_older_driver(project, kernel):
    """Exchange a kernel's program for one that another version of the driver made."""
    address, entry = project.binary_of(kernel)
    older = with_parts(entry, driver="0.9")
    project.binaries.put(address.replace(entry.key.digest, older.key.digest), older.pack())
    project.binaries.delete(address)


@pytest.mark.one_platform
class TestExplain:
    def test_changes(self, child, platform_name):
        """Each of many changes between two runs is named for the kernel that it makes miss.

        A build option, a header and the version of the driver are among them; the words at exit are those of the
        command. The file of the recipes counts for each of them.
        """
        project = Project(child, PLATFORMS[platform_name], pure=True)
        project.run("inputs")
        project.finish()
        for before, after, _kernel, _said in EDITS:
            project.edit("driver.py", before, after)
        project.edit("driver.py", '"-DFACTOR=11"', '"-DFACTOR=11", "-cl-fast-relaxed-math"')
        header = next((project.folder / "kernels").glob("*.h"))
        header.write_text(header.read_text() + "#define UNUSED 1\n")
        as_of_older_driver(project, "control")
        run = project.run("inputs", KCL_REPORT="explain")

        found = explained(project)
        text = (project.folder / "driver.py").read_text().splitlines()
        line = next(number for number, words in enumerate(text, 1) if BODY.format(3) in words)
        for _before, _after, kernel, said in EDITS:
            (one,) = found["generator", kernel]
            assert {said.format(line=line), FILE} <= {*sentences(one)}, kernel
            assert one["nearest"] not in (None, one["key"])
        (body,) = found["generator", "body"]
        assert [change for change in body["changes"][0]["diff"] if change[0] in "+-"] == [
            '-    return factors.scaled("body", 2)',
            '+    return factors.scaled("body", 3)',
        ]
        assert sentences(found["generator", "control"][0]) == [FILE]
        (driver,) = sentences(found["binary", "control"][0])
        assert driver.startswith("device: driver 0.9 -> ")
        assert sentences(found["binary", "optioned"][0]) == [
            "build option -cl-fast-relaxed-math added"
        ]
        assert sentences(found["binary", "included"][0]) == [f"header {header.name} changed"]
        assert sentences(found["binary", "body"][0]) == ["OpenCL C changed"]
        diff = found["binary", "body"][0]["changes"][0]["diff"]
        assert "+    y[get_global_id(0)] = x[get_global_id(0)] * 3;" in diff
        for words in ("closed, generator layer: miss", "parameter factor: 9 -> 10", FILE):
            assert words in run.stderr

    def test_last_run(self, warm):
        (first, second) = explained(warm, "untyped")["generator", "untyped"]
        assert (first["changes"], first["nearest"]) == ([], None)
        assert sentences(second) == [f"argument {name}: float32 -> float64" for name in "ax"]
        said = kcl(warm, "explain").stdout
        titles, _, _rest = said.partition("    first time seen\n")
        assert "  typed(block=16), generator layer: miss\n" in titles

    def test_nothing(self, project):
        option.cache_dir(project.child.cache)
        assert run("explain").stdout == "no miss is known\n"
        said = run("explain", "nobody", code=1).stdout
        assert said == "no miss of kernel 'nobody' is known\n"
        assert not project.child.cache.exists()

    @pytest.mark.usefixtures("cache")
    def test_misspelt(self):
        said = run("explain", "tpyed", code=1).stdout
        words = "no miss of kernel 'tpyed' is known (did you mean 'typed' or 'untyped'?)"
        assert said.startswith(words)


TILED = """\
import sys

import kcl
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.generate.stage import CallValues


@kcl.kernel
def tiled(length=16):
    import loopy as lp

    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", length, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel(pure=True, version='1')
def walked(factor=2):
    source = f"kernel void f(global float *y) {{ y[0] = {factor}; }}"
    return kcl.Source(source, entry="f", arguments=[kcl.Array("y", "float32", "(1,)", "out")], global_size="(1,)")


for kernel in (tiled, walked):
    try:
        obtain(kernel()._line.generate, CallValues({"x": sys.argv[1]} if kernel is tiled else {}), Lead(""))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


class TestNothingStored:
    """A miss that stores no row, because the run raises, is explained by the calls of that run."""

    def run(self, child, text=TILED, dtype="float32", **variables):
        """Run a driver; returns what it prints and, where anything missed, what is said of each kernel."""
        path = child.directory / "driver.py"
        path.write_text(text)
        said = child.output(path, dtype, **variables)
        asked = child.python("-m", "kcl", "explain", "--json")
        return said, {one["kernel"]: one for one in json.loads(asked.stdout)}

    def test_strict(self, child):
        """A miss that KCL_STRICT=hit forbids names its calls, and the error names the command that says them."""
        self.run(child)
        text = TILED.replace("2*x[i]", "3*x[i]").replace("factor=2", "factor=3")
        printed, found = self.run(child, text, KCL_STRICT="hit")
        error = "CacheMiss: generator layer, kernel 'tiled': miss: not in the cache (key "
        assert printed.count(error) == 1
        assert "`python -m kcl explain tiled` says what differs" in printed
        said = "call 1 (driver.py:13), make_kernel: instructions 'y[i] = 2*x[i]' -> 'y[i] = 3*x[i]'"
        assert sentences(found["tiled"]) == [said, "code of `tiled` changed"]
        assert "parameter factor: 2 -> 3" in sentences(found["walked"])
        # Nothing was stored.
        assert self.run(child, text, KCL_STRICT="hit")[1].keys() == {"tiled", "walked"}

    def test_refused(self, child):
        """A kernel that loopy refuses raises loopy's error under KCL_STRICT=hit too, and that is the reason told."""
        text = TILED.replace("2*x[i]", "wobble(x[i])")
        for variables in ({}, {"KCL_STRICT": "hit"}):
            printed, found = self.run(child, text, **variables)
            (error,) = [line for line in printed.splitlines() if "Error: " in line]
            (said,) = found["tiled"]["words"][1:]
            assert said.strip() == f"no code can be generated: {error}"

    @pytest.mark.slow
    def test_expression(self, child):
        """An expression of pymbolic is shown in ordinary notation, at the coefficient that changed."""
        made = 'lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang'
        text = TILED.replace(
            made, 'lp.make_kernel("{[i]: 0<=i<n}", [lp.Assignment("y[i]", NUMBER * X[i])], lang'
        ).replace("import kcl\n", "import kcl, pymbolic\nX, i = map(pymbolic.var, 'xi')\n", 1)
        self.run(child, text.replace("NUMBER", "4"))
        line, _code = sentences(self.run(child, text.replace("NUMBER", "5"))[1]["tiled"])
        assert line == "call 1 (driver.py:14), Assignment: expression 4*x[i] -> 5*x[i]"
