"""Run loopy's own tests, examples and tutorial through kcl's face of loopy.

    python tools/compat.py [--suite NAME] [-k EXPRESSION] [--limit N] [--timeout S] [--runs a,b] [--resume] [--page]

The source archive of the installed loopy is fetched from the package index into build/compat, which git ignores. Each
suite runs four times, each test in a process of its own:

    asked     as it is; what the test asks of its units is written down
    without   as it is, again
    first     with its imports of loopy turned into imports of kcl.loopy, on a fresh cache directory
    second    the same once more

`asked` and `first` run under one PYTHONHASHSEED, `without` and `second` under another. A run of everything writes
doc/reference/compatibility.md; --page writes it from what is there. Quick looks (-k,
--limit) have caches and records of their own.
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
from importlib import metadata
from typing import NamedTuple

TOOLS = pathlib.Path(__file__).resolve().parent
ROOT = TOOLS.parent
sys.path[:0] = [str(ROOT), str(TOOLS)]

import compat_page  # noqa: E402  (after the path)
import compat_source  # noqa: E402

BUILD = ROOT / "build" / "compat"
OWNED = re.compile(r"^(KCL|_?LOOPY|CG|POCL|PYOPENCL|CUDA|PYTEST|XDG_CACHE)_|^XDG_CACHE_HOME$|^PYTHON(PATH|HASHSEED)$")


class Run(NamedTuple):
    """One way to run a suite."""

    name: str
    tree: str  # original or face
    seed: str


class Suite(NamedTuple):
    """One file or folder of loopy's source archive."""

    name: str
    path: str
    kind: str  # pytest, programs or doctest


RUNS = (
    Run("asked", "original", "0"),
    Run("without", "original", "1"),
    Run("first", "face", "0"),
    Run("second", "face", "1"),
)
SUITES = (
    Suite("test_loopy", "test/test_loopy.py", "pytest"),
    Suite("test_transform", "test/test_transform.py", "pytest"),
    Suite("examples", "examples/python", "programs"),
    Suite("tutorial", "doc/tutorial.rst", "doctest"),
)
OTHERS = "apps c_execution callables dg diff domain einsum expression fusion isl linalg loop_fusion misc nbody"
OTHERS += " reduction scan sem_reagan split_iname_slabs statistics target tree"  # on the page only where they ran


def main() -> None:
    options = parsed()
    version = metadata.version("loopy")
    place = BUILD / f"loopy-{version}"
    quick = options.k or options.limit
    store = place / ("quick" if quick else "full")
    if not options.page:
        compat_source.prepare(place, version)
        for suite in chosen(options):
            for run in RUNS:
                if not options.runs or run.name in options.runs.split(","):
                    carry_out(place, store, suite, run, options)
    found = results(store)
    print(compat_page.summary(found))
    if options.page or not (quick or options.suite or options.runs):
        compat_page.write(ROOT / "doc" / "reference" / "compatibility.md", found)
    sys.exit(1 if compat_page.broken(found) else 0)


def suites() -> dict[str, Suite]:
    """Return all suites by name."""
    others = [Suite(f"test_{name}", f"test/test_{name}.py", "pytest") for name in OTHERS.split()]
    return {suite.name: suite for suite in (*SUITES, *others)}


def chosen(options: argparse.Namespace) -> list[Suite]:
    """Return the suites to run."""
    names = [name for name in suites() if name in options.suite] if options.suite else [one.name for one in SUITES]
    return [suites()[name] for name in names]


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=list(suites()), metavar="NAME", help=", ".join(suites()))
    parser.add_argument("--runs", help="of asked,without,first,second")
    parser.add_argument("-k", default="", help="as pytest's; of examples, a part of the name")
    parser.add_argument("--limit", type=int, default=0, help="the first tests of each suite")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each test")
    parser.add_argument("--resume", action="store_true", help="keep what is there, run what is missing")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    return parser.parse_args()


def carry_out(place: pathlib.Path, store: pathlib.Path, suite: Suite, run: Run, options: argparse.Namespace) -> None:
    """Run one suite in one way; its records are appended to a file of JSON lines."""
    out = record_file(store, suite.name, run.name)
    cache = store / "cache" / f"{suite.name}-{run.tree}"
    if not options.resume:
        out.unlink(missing_ok=True)
        if run.name in ("asked", "first"):
            shutil.rmtree(cache, ignore_errors=True)
    for folder in (out.parent, cache / "home"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tree = place / run.tree
    write = {"pytest": by_pytest, "programs": as_programs, "doctest": as_doctest}[suite.kind]
    print(f"== {suite.name}, {run.name}", flush=True)
    command = [sys.executable, *write(tree, suite, options), *common(out, run, options)]
    directory = tree / pathlib.PurePath(suite.path).parent
    subprocess.run(command, cwd=directory, env=environment(cache, run))


def common(out: pathlib.Path, run: Run, options: argparse.Namespace) -> list[str]:
    """Return what the plugin and the programs' runner both take."""
    taken = [f"--compat-out={out}", f"--compat-timeout={options.timeout}", f"--compat-limit={options.limit}"]
    return [*taken, "--compat-ask"] if run.name == "asked" else taken


def by_pytest(tree: pathlib.Path, suite: Suite, options: argparse.Namespace) -> list[str]:
    """Return the arguments for a file of tests; kcl's own settings of pytest are left out."""
    plain = [
        "-q",
        "--noconftest",
        "-c",
        os.devnull,
        f"--rootdir={tree}",
        "--tb=short",
        "--disable-warnings",
        "--no-header",
    ]
    chosen = ["-k", options.k] if options.k else []
    return ["-m", "pytest", *plain, "-p", "no:cacheprovider", "-p", "compat_plugin", *chosen, str(tree / suite.path)]


def as_programs(tree: pathlib.Path, suite: Suite, options: argparse.Namespace) -> list[str]:
    """Return the arguments for a folder of programs."""
    programs = [path for path in sorted((tree / suite.path).glob("*.py")) if options.k in path.name]
    return [str(TOOLS / "compat_programs.py"), *map(str, programs)]


def as_doctest(tree: pathlib.Path, suite: Suite, _options: argparse.Namespace) -> list[str]:
    """Return the arguments for a page whose blocks run in one process."""
    return [str(TOOLS / "compat_programs.py"), str(tree / suite.path)]


def environment(cache: pathlib.Path, run: Run) -> dict[str, str]:
    """Return an environment without settings of any cache, and with caches and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not OWNED.match(name)}
    return kept | {
        "HOME": str(cache / "home"),
        "XDG_CACHE_HOME": str(cache),
        "XDG_CONFIG_HOME": str(cache / "home" / "config"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(TOOLS)]),
        "PYTHONHASHSEED": run.seed,
        "KCL_PROMOTE": "off",  # a helper that completes binaries would only take processor time from the tests
    }


def record_file(store: pathlib.Path, suite: str, run: str) -> pathlib.Path:
    """Return where the records of one run of one suite are."""
    return store / "results" / f"{suite}.{run}.jsonl"


def results(store: pathlib.Path) -> dict[str, dict[str, dict[str, dict]]]:
    """Return the records: suite -> run -> test -> record."""
    found: dict[str, dict[str, dict[str, dict]]] = {}
    for suite in suites().values():
        for run in RUNS:
            file = record_file(store, suite.name, run.name)
            if file.exists():
                records = [json.loads(line) for line in file.read_text().splitlines()]
                found.setdefault(suite.name, {})[run.name] = {one["test"]: one for one in records}
    return found


if __name__ == "__main__":
    main()
