"""Run the test suites and examples of pyopencl, loopy and pytools as they are, without kcl and with it.

    python tools/compat_unchanged.py [--suite NAME] [--again N] [--sources FOLDER] [--page]

The source archives of the installed releases are fetched from the package index into build/compat, which git ignores.
A suite runs in one process, `pytest` and `pytest --kcl`; an example is a process, `python` and `python -m kcl run`. The
two sides take turns, each on a cache directory of its own: cold, then again N times. FOLDER holds checkouts of
libraries on top of loopy, which are installed beside kcl; their suites run too. A run of everything writes its part of
doc/reference/compatibility.md, and the questions that had units made into doc/design/made-units.md; --page writes them
from what ran, and leaves what the page says of suites that did not. Status 1: a test passes without kcl and fails with
it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import resource
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
BEGIN, END = (
    "<!-- unchanged, made by make compat: begin -->",
    "<!-- unchanged, made by make compat: end -->",
)
OWNED = re.compile(
    r"^(KCL|_?LOOPY|CG|POCL|PYOPENCL|CUDA|PYTEST)_|^XDG_CACHE_HOME$|^PYTHON(HASHSEED|DONTWRITEBYTECODE)$"
)
SIDES = ("without", "with")
SECONDS = 3600
EXAMPLE_SECONDS = 120


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
        tuple(
            f"test_{name}.py" for name in ("wrapper", "array", "algorithm", "clmath", "clrandom")
        ),
        ("svm_allocators", "bajillions_of_svm"),
    ),
    Suite(
        "loopy",
        "loopy",
        "test",
        tuple(
            f"test_{name}.py"
            for name in ("loopy", "target", "apps", "transform", "linalg", "dg", "nbody")
        ),
        ("bajillions_of_svm",),
    ),
    Suite("pytools", "pytools", "pytools/test", (), ("mpi",)),
    Suite(
        "pyopencl's examples",
        "pyopencl",
        "examples",
        ("*.py",),
        ("gl_",),
    ),
    Suite("loopy's examples", "loopy", "examples/python", ("*.py",), ("ispc",)),
    Suite("loopy's Fortran examples", "loopy", "examples/fortran", ("*.py",)),
)
# What is written in the place of a text in the copy of an example, so that it ends in seconds, or runs at all.
CHANGED = {
    "transpose.py": (
        "np.arange(10, 13, 0.125)",
        "np.arange(10, 10.5, 0.125)",
    ),  # matrices of up to 256 MB
    "median-filter.py": (
        'result, mode="RGB"',
        'result.astype("uint8")',
    ),  # a call of an older imageio
}
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
    Suite(
        "meshmode",
        "meshmode",
        "test",
        ("test_array.py", "test_modal.py", "test_chained.py"),
        ("PytatoPyOpenCL",),
    ),
    Suite(
        "grudge",
        "grudge",
        "test",
        ("test_reductions.py", "test_modal_connections.py", "test_tools.py"),
    ),
    Suite("meshmode's examples", "meshmode", "examples", ("simple-dg.py",)),
    Suite("grudge's examples", "grudge", "examples", ("hello-grudge.py",)),
)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [suite.name for suite in (*SUITES, *LIBRARIES)]
    parser.add_argument("--suite", action="append", choices=names, help="only this one")
    parser.add_argument(
        "--again", type=int, default=3, metavar="N", help="later runs of each side (default: 3)"
    )
    parser.add_argument(
        "--sources", type=pathlib.Path, metavar="FOLDER", help="checkouts of libraries, by name"
    )
    parser.add_argument("--page", action="store_true", help="write the page from what is there")
    options = parser.parse_args()
    path = BUILD / "unchanged.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if not options.page:
        for suite in (*SUITES, *(LIBRARIES if options.sources else ())):
            if not options.suite or suite.name in options.suite:
                found[suite.name] = carried_out(suite, options.sources, options.again)
                path.write_text(json.dumps(found, indent=1))
    lines = table(found, part(PAGE))
    print("\n".join(lines))
    if options.page or not options.suite:
        write(PAGE, lines)
        if {suite.name for suite in SUITES} <= found.keys():
            write(QUESTIONS, questions(found))
    sys.exit(any(broken(one["runs"]) for one in found.values()))


def carried_out(suite: Suite, sources: pathlib.Path | None, again: int) -> dict[str, Any]:
    """Run a suite on both sides; returns the version, and the outcomes by test, seconds and questions of each run."""
    place = (
        checkout(suite.package, sources)
        if suite in LIBRARIES and sources
        else archive(suite.package)
    )
    work = BUILD / "unchanged" / suite.name.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    runs = []
    for number in range(1 + again):
        print(f"{suite.name}, run {number + 1} ...", flush=True)
        runs += (examples if "examples" in suite.folder else tests)(
            suite, place / suite.folder, work
        )
        for side in SIDES:
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
        command = [
            "pip",
            "download",
            "--quiet",
            "--no-binary",
            package,
            "--no-deps",
            "--dest",
            str(BUILD),
        ]
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
    path = os.pathsep.join(
        filter(None, (str(ROOT), str(ROOT / "tools"), kept.get("PYTHONPATH", "")))
    )
    return kept | own | chosen | {"PYTHONPATH": path, "KCL_ASKED": str(work / "asked.json")}


# side, seconds, processor seconds, outcomes by test, and what each example took
Run = dict[str, Any]


def tests(suite: Suite, folder: pathlib.Path, work: pathlib.Path) -> list[Run]:
    """Run the test files on both sides."""
    runs = []
    for side in SIDES:
        before = clocks()
        outcomes = tested(suite, folder, side, folder_of(work, side))
        took = [now - then for now, then in zip(clocks(), before, strict=True)]
        runs.append(
            {"side": side, "seconds": took[0], "used": took[1], "outcomes": outcomes, "each": {}}
        )
    return runs


def folder_of(work: pathlib.Path, side: str) -> pathlib.Path:
    """Return the folder of a side, with a home."""
    (work / side / "home").mkdir(parents=True, exist_ok=True)
    return work / side


def tested(suite: Suite, folder: pathlib.Path, side: str, work: pathlib.Path) -> dict[str, str]:
    """Run the test files in one process; returns the outcomes."""
    report = work / "report.xml"
    report.unlink(missing_ok=True)
    expression = " and ".join(f"not {word}" for word in suite.leave)
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "600",
        f"--junitxml={report}",
    ]
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
    return {
        _name(case): next((kind.tag for kind in case if kind.tag in _FAILED), "passed")
        for case in cases
    }


_FAILED = ("failure", "error", "skipped")


def _name(case: ElementTree.Element) -> str:
    module = str(case.get("classname")).rpartition(".test.")[2]
    return re.sub(r"0x[0-9a-f]+|<context factory for .*>>", "", f"{module}.{case.get('name')}")


def examples(suite: Suite, folder: pathlib.Path, work: pathlib.Path) -> list[Run]:
    """Run each example in a process, the sides in turns, in new copies of the folder: some write files."""
    runs: list[Run] = [
        {"side": side, "seconds": 0.0, "used": 0.0, "outcomes": {}, "each": {}} for side in SIDES
    ]
    for side in SIDES:
        shutil.rmtree(folder_of(work, side) / "examples", ignore_errors=True)
        shutil.copytree(folder, work / side / "examples")
    names = sorted(path.name for pattern in suite.files for path in folder.glob(pattern))
    for name in (name for name in names if not any(word in name for word in suite.leave)):
        for run in runs:
            path = work / run["side"] / "examples" / name
            if name in CHANGED:
                path.write_text(changed(name, path.read_text()))
            command = [
                sys.executable,
                *(["-m", "kcl", "run"] if run["side"] == "with" else []),
                name,
            ]
            before = clocks()
            run["outcomes"][name] = example(command, path.parent, environment(work / run["side"]))
            run["each"][name] = [now - then for now, then in zip(clocks(), before, strict=True)]
            run["seconds"] += run["each"][name][0]
            run["used"] += run["each"][name][1]
    return runs


def clocks() -> list[float]:
    """Return the time, and the processor seconds of the children that ended; in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [time.perf_counter(), used.ru_utime + used.ru_stime]


def changed(name: str, text: str) -> str:
    """Write the other text into an example; one without the text to replace is another release's."""
    before, after = CHANGED[name]
    if before not in text:
        raise SystemExit(f"{name} has no text {before!r}: mend CHANGED in {__file__}")
    return text.replace(before, after)


def example(command: list[str], folder: pathlib.Path, variables: dict[str, str]) -> str:
    """Run an example; returns "passed", or how it ended."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=EXAMPLE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"longer than {EXAMPLE_SECONDS} s"
    said = done.stderr.strip().rpartition("\n")[2]
    if done.returncode == 0:
        return "passed"
    return f"status {done.returncode}" + (
        f", {said}" if said and os.sep not in said else ""
    )  # no paths of this machine


def completed(work: pathlib.Path) -> None:
    """Wait for what completes entries in the background, so that it does not disturb the next run."""
    subprocess.run(
        [sys.executable, "-c", "import kcl; kcl.flush()"], env=environment(work), check=False
    )


def passed(outcomes: dict[str, str]) -> set[str]:
    """Return the tests that passed, or skipped themselves."""
    return {name for name, outcome in outcomes.items() if outcome in ("passed", "skipped")}


def broken(runs: list[dict[str, Any]]) -> list[str]:
    """Return the tests that pass without kcl in all runs, and fail with it in one of them."""
    always = set.intersection(
        *[passed(run["outcomes"]) for run in runs if run["side"] == "without"]
    )
    return sorted(
        {name for run in runs if run["side"] == "with" for name in always - passed(run["outcomes"])}
    )


HEAD = (
    "suite",
    "tests",
    "pass without kcl",
    "pass with kcl",
    "s without: cold, again",
    "s with: cold, again",
    "again",
    "again, processor s",
)


def table(found: dict[str, dict[str, Any]], before: list[str]) -> list[str]:
    """Write the page's part: a table of suites, and what fails.

    The lines about suites that did not run stay as they are on the page.
    """
    kept = [
        line
        for line in before
        if line.startswith(("| ", "- ")) and _suite(line) in ORDER.keys() - found.keys()
    ]
    rows, notes = list(kept), [line for line in kept if line.startswith("- ")]
    for name, one in found.items():
        rows.append(row(name, one))
        notes += failures(name, one["runs"])
    rows, notes = (
        sorted((line for line in lines if line), key=lambda line: ORDER[_suite(line)])
        for lines in ([line for line in rows if line.startswith("| ")], notes)
    )
    lines = [
        f"Python {sys.version.split()[0]}; the releases or commits below.",
        "",
        *headed(HEAD, rows),
    ]
    return [*lines, "", "What fails:", "", *(notes or ["- nothing"])]


def headed(head: tuple[str, ...], rows: list[str]) -> list[str]:
    """Put a head above the rows of a table."""
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *rows]


def row(name: str, one: dict[str, Any]) -> str:
    """Write the row of a suite."""
    runs = one["runs"]
    counts = {
        side: {len(passed(run["outcomes"])) for run in runs if run["side"] == side}
        for side in SIDES
    }
    seconds, used = (
        {side: [run[clock] for run in runs if run["side"] == side] for side in SIDES}
        for clock in ("seconds", "used")
    )
    cells = [f"{name}, {one['version']}", str(len(runs[0]["outcomes"]))]
    cells += [" to ".join(map(str, sorted(counts[side]))) for side in SIDES]
    cells += [", ".join(f"{one:.0f}" for one in seconds[side]) for side in SIDES]
    for took in (seconds, used):
        pairs = zip(*(took[side][1:] for side in SIDES), strict=True)
        cells.append(", ".join(f"{ours / plain:.2f}" for plain, ours in pairs))
    return f"| {' | '.join(cells)} |"


def failures(name: str, runs: list[dict[str, Any]]) -> list[str]:
    """Write what fails on either side, and for examples how."""
    plain = [run["outcomes"] for run in runs if run["side"] == "without"]
    failed = [outcomes.keys() - passed(outcomes) for outcomes in plain]
    notes = [
        f"- {name}, without kcl: `{test}`{_how(plain[-1][test])}"
        for test in sorted(set.intersection(*failed))
    ]
    notes += [f"- {name}, without kcl now and then: `{test}`" for test in _flaky(failed)]
    return notes + [f"- {name}, **with kcl only**: `{test}`" for test in broken(runs)]


def _how(outcome: str) -> str:
    return "" if outcome in _FAILED else f": {outcome}"


ORDER = {suite.name: place for place, suite in enumerate((*SUITES, *LIBRARIES))}


def _suite(line: str) -> str:
    return re.split(r"[,:] ", line[2:])[0]


def _flaky(failed: list[set[str]]) -> list[str]:
    return sorted(set.union(*failed) - set.intersection(*failed))


def questions(found: dict[str, dict[str, Any]]) -> list[str]:
    """Write the questions that had units made, the most frequent first, with the places that asked most."""
    asked: dict[str, dict[str, dict[str, float]]] = {}
    for name, one in found.items():
        for where, times in one["questions"].items():
            question, _, place = where.removesuffix(")").rpartition(" (")
            suites = asked.setdefault(question.partition(" of ")[0], {}).setdefault(
                _line(place), {}
            )
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
    return [
        *lines,
        "",
        f"{max(0, len(ordered) - MOST)} other questions were asked {rest:.0f} times.",
    ]


MOST = 20


def _total(places: dict[str, dict[str, float]]) -> float:
    return sum(times for suites in places.values() for times in suites.values())


def _line(place: str) -> str:
    """Cut the folders that are of this machine off."""
    path = pathlib.PurePath(place)
    return "/".join(path.parts[-2:])


def part(page: pathlib.Path) -> list[str]:
    """Return the lines of the page's part."""
    return (
        page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    )


def write(page: pathlib.Path, lines: list[str], marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Put the part into the page."""
    begin, end = marks
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    page.write_text("\n".join([head + begin, "", *lines, "", end]) + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
