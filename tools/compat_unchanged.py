"""Run the test suites and examples of pyopencl, loopy and pytools as they are, without kcl and with it.

    python tools/compat_unchanged.py [--suite NAME] [--again N] [--sources FOLDER] [--page]

The source archives of the installed releases are fetched from the package index into build/compat, which git ignores.
A suite runs in one process, `pytest` and `pytest --kcl`; an example is a process, `python` and `python -m kcl run`. The
two sides take turns, each on a cache directory of its own: cold, then again N times. FOLDER holds checkouts of
libraries on top of loopy, which are installed beside kcl; their suites run too. A run of everything writes its part of
doc/reference/compatibility.md, and the questions that had units made into doc/design/made-units.md; --page writes both
from what is there. Status 1: a test passes without kcl and fails with it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "compat"
PAGE = ROOT / "doc" / "reference" / "compatibility.md"
QUESTIONS = ROOT / "doc" / "design" / "made-units.md"
BEGIN, END = "<!-- unchanged, made by make compat: begin -->", "<!-- unchanged, made by make compat: end -->"
OWNED = re.compile(
    r"^(KCL|_?LOOPY|CG|POCL|PYOPENCL|CUDA|PYTEST)_|^XDG_CACHE_HOME$|^PYTHON(HASHSEED|DONTWRITEBYTECODE)$"
)
SIDES = ("without", "with")
SECONDS = 3600


class Suite(NamedTuple):
    """Test files of an archive, or a folder of examples; `leave` is what crashes this PoCL, needs a screen, or long."""

    name: str
    package: str
    folder: str
    files: tuple[str, ...]
    leave: tuple[str, ...] = ()


SUITES = (
    Suite(
        "pyopencl",
        "pyopencl",
        "test",
        tuple(f"test_{name}.py" for name in ("wrapper", "array", "algorithm", "clmath", "clrandom")),
        ("svm_allocators", "bajillions_of_svm"),
    ),
    Suite(
        "loopy",
        "loopy",
        "test",
        tuple(f"test_{name}.py" for name in ("loopy", "target", "apps", "transform", "linalg", "dg", "nbody")),
        ("bajillions_of_svm",),
    ),
    Suite("pytools", "pytools", "pytools/test", (), ("mpi",)),
    Suite(
        "pyopencl's examples",
        "pyopencl",
        "examples",
        ("*.py",),
        ("gl_", "ipython", "image_filters", "codepy", "svm", "noisy", "dump-performance"),
    ),
    Suite("loopy's examples", "loopy", "examples/python", ("*.py",), ("ispc",)),
)
# What stands on loopy; its releases on the package index are old, so these run from checkouts.
LIBRARIES = (
    Suite("arraycontext", "arraycontext", "test", ("test_arraycontext.py",), ("PytatoPyOpenCL",)),
    Suite(
        "pytato",
        "pytato",
        "test",
        ("test_codegen.py", "test_pytato.py", "test_linalg.py"),
        ("reshape", "reductions", "math_functions"),
    ),
    Suite("meshmode's examples", "meshmode", "examples", ("simple-dg.py",)),
    Suite("grudge's examples", "grudge", "examples", ("hello-grudge.py",)),
)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [suite.name for suite in (*SUITES, *LIBRARIES)]
    parser.add_argument("--suite", action="append", choices=names, help="only this one")
    parser.add_argument("--again", type=int, default=3, metavar="N", help="later runs of each side (default: 3)")
    parser.add_argument("--sources", type=pathlib.Path, metavar="FOLDER", help="checkouts of libraries, by name")
    parser.add_argument("--page", action="store_true", help="write the page from what is there")
    options = parser.parse_args()
    path = BUILD / "unchanged.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if not options.page:
        for suite in (*SUITES, *(LIBRARIES if options.sources else ())):
            if not options.suite or suite.name in options.suite:
                found[suite.name] = carried_out(suite, options.sources, options.again)
                path.write_text(json.dumps(found, indent=1))
    lines = table(found)
    print("\n".join(lines))
    if options.page or not options.suite:
        write(PAGE, lines)
        write(QUESTIONS, questions(found))
    sys.exit(any(broken(one["runs"]) for one in found.values()))


def carried_out(suite: Suite, sources: pathlib.Path | None, again: int) -> dict[str, Any]:
    """Run a suite on both sides; returns the version, and the outcomes by test, seconds and questions of each run."""
    place = checkout(suite.package, sources) if suite in LIBRARIES and sources else archive(suite.package)
    work = BUILD / "unchanged" / suite.name.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    runs = []
    for number in range(1 + again):
        for side in SIDES:
            print(f"{suite.name}: {side} kcl, run {number + 1} ...", flush=True)
            (work / side / "home").mkdir(parents=True, exist_ok=True)
            run = examples if "examples" in suite.folder else tests
            started = time.perf_counter()
            outcomes = run(suite, place / suite.folder, side, work / side)
            runs.append({"side": side, "seconds": time.perf_counter() - started, "outcomes": outcomes})
            completed(work / side)
    asked = work / "with" / "asked.json"
    questions = json.loads(asked.read_text()) if asked.exists() else {}
    return {"version": version(suite.package, place), "runs": runs, "questions": questions}


def checkout(package: str, sources: pathlib.Path) -> pathlib.Path:
    """Return the checkout of a library; it must be installed too."""
    metadata.version(package)
    return sources / package


def version(package: str, place: pathlib.Path) -> str:
    """Return the release, and for a checkout commit and date."""
    if not (place / ".git").exists():
        return metadata.version(package)
    command = ["git", "-C", str(place), "log", "-1", "--format=%h of %cs"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def archive(package: str) -> pathlib.Path:
    """Return the unpacked source archive of the installed release."""
    version = metadata.version(package)
    place = BUILD / f"{package}-{version}-source"
    if not place.exists():
        command = ["pip", "download", "--quiet", "--no-binary", package, "--no-deps", "--dest", str(BUILD)]
        subprocess.run([sys.executable, "-m", *command, f"{package}=={version}"], check=True)
        (packed,) = BUILD.glob(f"{package}-{version}.tar.gz")
        with tarfile.open(packed) as opened:
            opened.extractall(place, filter="data")
    (top,) = [one for one in place.iterdir() if one.is_dir()]
    return top


def environment(work: pathlib.Path) -> dict[str, str]:
    """Return the environment of a run: no switch set, caches and home of its own."""
    kept = {name: value for name, value in os.environ.items() if not OWNED.match(name)}
    own = {"HOME": str(work / "home"), "XDG_CACHE_HOME": str(work / "cache"), "PYTHONHASHSEED": "0"}
    chosen = {"PYOPENCL_TEST": "port", "PYOPENCL_CTX": "port", "MPLBACKEND": "agg"}
    path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "tools"), kept.get("PYTHONPATH", ""))))
    return kept | own | chosen | {"PYTHONPATH": path, "KCL_ASKED": str(work / "asked.json")}


def tests(suite: Suite, folder: pathlib.Path, side: str, work: pathlib.Path) -> dict[str, str]:
    """Run the test files in one process."""
    report = work / "report.xml"
    report.unlink(missing_ok=True)
    expression = " and ".join(f"not {word}" for word in suite.leave)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "600", f"--junitxml={report}"]
    plugin = ["--kcl", "-p", "compat_asked"] if side == "with" else []
    given = [*plugin, *(["-k", expression] if expression else []), *suite.files]
    with (work / "output.txt").open("w") as output:
        subprocess.run(
            [sys.executable, *command, *given],
            cwd=folder,
            env=environment(work),
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    if not report.exists():
        return {"the whole suite": "crashed"}
    cases = ElementTree.parse(report).iter("testcase")
    return {_name(case): next((kind.tag for kind in case if kind.tag in _FAILED), "passed") for case in cases}


_FAILED = ("failure", "error", "skipped")


def _name(case: ElementTree.Element) -> str:
    module = str(case.get("classname")).rpartition(".test.")[2]
    return re.sub(r"0x[0-9a-f]+|<context factory for .*>>", "", f"{module}.{case.get('name')}")


def examples(suite: Suite, folder: pathlib.Path, side: str, work: pathlib.Path) -> dict[str, str]:
    """Run each example in a process, in a new copy of its folder: some write files that must not be there."""
    outcomes = {}
    shutil.rmtree(work / "examples", ignore_errors=True)
    folder = pathlib.Path(shutil.copytree(folder, work / "examples"))
    for path in sorted(one for pattern in suite.files for one in folder.glob(pattern)):
        if any(word in path.name for word in suite.leave):
            continue
        command = [sys.executable, *(["-m", "kcl", "run"] if side == "with" else []), path.name]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment(work), capture_output=True, timeout=300, stdin=subprocess.DEVNULL
            )
            outcomes[path.name] = "passed" if done.returncode == 0 else f"status {done.returncode}"
        except subprocess.TimeoutExpired:
            outcomes[path.name] = "too long"
    return outcomes


def completed(work: pathlib.Path) -> None:
    """Wait for what completes entries in the background, so that it does not disturb the next run."""
    subprocess.run([sys.executable, "-c", "import kcl; kcl.flush()"], env=environment(work), check=False)


def passed(outcomes: dict[str, str]) -> set[str]:
    """Return the tests that passed, or skipped themselves."""
    return {name for name, outcome in outcomes.items() if outcome in ("passed", "skipped")}


def broken(runs: list[dict[str, Any]]) -> list[str]:
    """Return the tests that pass without kcl in all runs, and fail with it in one of them."""
    always = set.intersection(*[passed(run["outcomes"]) for run in runs if run["side"] == "without"])
    return sorted({name for run in runs if run["side"] == "with" for name in always - passed(run["outcomes"])})


HEAD = ("suite", "tests", "pass without kcl", "pass with kcl", "s without: cold, again", "s with: cold, again", "again")


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Write the page's part: a table, and what fails on either side."""
    lines = [
        f"Python {sys.version.split()[0]}; pyopencl {metadata.version('pyopencl')}, the releases or commits below.",
        "",
    ]
    lines += [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    notes = []
    for name, one in found.items():
        runs = one["runs"]
        counts = {side: {len(passed(run["outcomes"])) for run in runs if run["side"] == side} for side in SIDES}
        seconds = {side: [run["seconds"] for run in runs if run["side"] == side] for side in SIDES}
        cells = [f"{name}, {one['version']}", str(len(runs[0]["outcomes"]))]
        cells += [" to ".join(map(str, sorted(counts[side]))) for side in SIDES]
        cells += [", ".join(f"{one:.0f}" for one in seconds[side]) for side in SIDES]
        again = [ours / plain for plain, ours in zip(*(seconds[side][1:] for side in SIDES), strict=True)]
        cells.append(", ".join(f"{ratio:.2f}" for ratio in again))
        lines.append(f"| {' | '.join(cells)} |")
        plain = [set(run["outcomes"]) - passed(run["outcomes"]) for run in runs if run["side"] == "without"]
        notes += [f"- {name}, without kcl: `{test}`" for test in sorted(set.intersection(*plain))]
        notes += [f"- {name}, without kcl now and then: `{test}`" for test in _flaky(plain)]
        notes += [f"- {name}, **with kcl only**: `{test}`" for test in broken(runs)]
    return [*lines, "", "What fails:", "", *(notes or ["- nothing"])]


def _flaky(failed: list[set[str]]) -> list[str]:
    return sorted(set.union(*failed) - set.intersection(*failed))


def questions(found: dict[str, dict[str, Any]]) -> list[str]:
    """Write the questions that had units made, the most frequent first, with the places that asked most."""
    asked: dict[str, dict[str, dict[str, float]]] = {}
    for name, one in found.items():
        for where, times in one["questions"].items():
            question, _, place = where.removesuffix(")").rpartition(" (")
            suites = asked.setdefault(question.partition(" of ")[0], {}).setdefault(_line(place), {})
            suites[name] = suites.get(name, 0) + times
    lines = ["| question | times | suites | asked most by |", "| --- | --- | --- | --- |"]
    ordered = sorted(asked.items(), key=lambda one: -_total(one[1]))
    for question, places in ordered[:MOST]:
        often = sorted(places, key=lambda place: -sum(places[place].values()))[:2]
        suites = sorted({suite for by_suite in places.values() for suite in by_suite})
        cells = (
            f"`{question}`",
            f"{_total(places):.0f}",
            ", ".join(suites),
            ", ".join(f"`{place}`" for place in often),
        )
        lines.append(f"| {' | '.join(cells)} |")
    rest = sum(_total(places) for _, places in ordered[MOST:])
    return [*lines, "", f"{max(0, len(ordered) - MOST)} other questions were asked {rest:.0f} times."]


MOST = 20


def _total(places: dict[str, dict[str, float]]) -> float:
    return sum(times for suites in places.values() for times in suites.values())


def _line(place: str) -> str:
    """Cut the folders that are of this machine off."""
    path = pathlib.PurePath(place)
    return "/".join(path.parts[-2:])


def write(page: pathlib.Path, lines: list[str]) -> None:
    """Put the part into the page."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    page.write_text("\n".join([head + BEGIN, "", *lines, "", END]) + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
