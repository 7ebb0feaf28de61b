"""Run the test suites and examples of pyopencl, loopy and pytools as they are, without kcl and with it, twice each.

    python tools/compat_unchanged.py [--suite NAME] [--page]

The source archives of the installed releases are fetched from the package index into build/compat, which git ignores.
A suite runs in one process, `pytest` and `pytest --kcl`; an example is a process, `python` and `python -m kcl run`. The
two sides take turns, each on a cache directory of its own: cold, cold, again, again. A run of everything writes its
part of doc/reference/compatibility.md; --page writes it from what is there. Status 1: a test passes without kcl and
fails with it.
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
BEGIN, END = "<!-- unchanged, made by make compat: begin -->", "<!-- unchanged, made by make compat: end -->"
OWNED = re.compile(
    r"^(KCL|_?LOOPY|CG|POCL|PYOPENCL|CUDA|PYTEST)_|^XDG_CACHE_HOME$|^PYTHON(HASHSEED|DONTWRITEBYTECODE)$"
)
SIDES = ("without", "with")
SECONDS = 3600


class Suite(NamedTuple):
    """Test files of an archive, or a folder of examples; `leave` is what crashes this PoCL, or needs a screen."""

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


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=[suite.name for suite in SUITES], help="only this one")
    parser.add_argument("--page", action="store_true", help="write the page from what is there")
    options = parser.parse_args()
    path = BUILD / "unchanged.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if not options.page:
        for suite in SUITES:
            if not options.suite or suite.name in options.suite:
                found[suite.name] = carried_out(suite)
                path.write_text(json.dumps(found, indent=1))
    lines = table(found)
    print("\n".join(lines))
    if options.page or not options.suite:
        write(lines)
    sys.exit(any(broken(one) for one in found.values()))


def carried_out(suite: Suite) -> list[dict[str, Any]]:
    """Run a suite four times; returns the outcomes by test and the seconds of each run."""
    place = archive(suite.package)
    work = BUILD / "unchanged" / suite.name.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    runs = []
    for number in range(2):
        for side in SIDES:
            print(f"{suite.name}: {side} kcl, run {number + 1} ...", flush=True)
            (work / side / "home").mkdir(parents=True, exist_ok=True)
            run = examples if "examples" in suite.folder else tests
            started = time.perf_counter()
            outcomes = run(suite, place / suite.folder, side, work / side)
            runs.append({"side": side, "seconds": time.perf_counter() - started, "outcomes": outcomes})
            completed(work / side)
    return runs


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
    return kept | own | {"PYOPENCL_TEST": "port", "PYOPENCL_CTX": "0", "MPLBACKEND": "agg"}


def tests(suite: Suite, folder: pathlib.Path, side: str, work: pathlib.Path) -> dict[str, str]:
    """Run the test files in one process."""
    report = work / "report.xml"
    report.unlink(missing_ok=True)
    expression = " and ".join(f"not {word}" for word in suite.leave)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "600", f"--junitxml={report}"]
    given = [*(["--kcl"] if side == "with" else []), *(["-k", expression] if expression else []), *suite.files]
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
    return re.sub(r"0x[0-9a-f]+", "", f"{case.get('classname')}.{case.get('name')}")


def examples(suite: Suite, folder: pathlib.Path, side: str, work: pathlib.Path) -> dict[str, str]:
    """Run each example in a process."""
    outcomes = {}
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
    """Return the tests that pass without kcl in both runs, and fail with it in one of them."""
    always = set.intersection(*[passed(run["outcomes"]) for run in runs if run["side"] == "without"])
    return sorted(name for run in runs if run["side"] == "with" for name in always - passed(run["outcomes"]))


def table(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Write the page's part: a table, and what fails on either side."""
    versions = ", ".join(f"{one} {metadata.version(one)}" for one in ("pyopencl", "loopy", "pytools"))
    lines = [f"{versions}; Python {sys.version.split()[0]}.", ""]
    head = (
        "suite",
        "tests",
        "pass without kcl",
        "pass with kcl",
        "s without: cold, again",
        "s with: cold, again",
        "again",
    )
    lines += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    notes = []
    for name, runs in found.items():
        counts = {side: [len(passed(run["outcomes"])) for run in runs if run["side"] == side] for side in SIDES}
        seconds = {side: [run["seconds"] for run in runs if run["side"] == side] for side in SIDES}
        cells = [name, str(len(runs[0]["outcomes"]))]
        cells += [", ".join(map(str, counts[side])) for side in SIDES]
        cells += [", ".join(f"{one:.0f}" for one in seconds[side]) for side in SIDES]
        cells.append(f"{seconds['with'][1] / seconds['without'][1]:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
        fails = sorted(set(runs[0]["outcomes"]) - passed(runs[0]["outcomes"]))
        notes += [f"- {name}, without kcl: `{one}`" for one in fails]
        notes += [f"- {name}, **with kcl only**: `{one}`" for one in broken(runs)]
    return [*lines, "", "What fails:", "", *(notes or ["- nothing"])]


def write(lines: list[str]) -> None:
    """Put the part into the page."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text("\n".join([head + BEGIN, "", *lines, "", END]) + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
