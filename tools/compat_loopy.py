"""Run kcl with the loopys that people have, each where its files lie, and say what held.

    python tools/compat_loopy.py [--loopy NAME] [--part NAME] [--pairs N] [--page]

The loopy that is installed here runs as the wheel that it is, as a copy of the wheel with an edited line, as an
editable install of its source archive, as that archive's folder on PYTHONPATH, and as a zip. LOOPY_PYTHONS=NAME=PATH,...
names interpreters with another loopy (its main branch, a fork), pyopencl, PoCL, click, platformdirs and pytest; kcl
comes from this checkout. What is not there is named and skipped.

"Demo" runs examples/demo.py. "Program" runs tools/loopys/three.py without kcl, by `kcl run`, and with complete entries
under KCL_STRICT=hit, then N pairs of a warm run and a run without kcl, whose processor seconds it divides; loopy's own
caches are warm in both. "Memoized" does that with a function of the program under `lp.memoize_on_disk`. "Truth" runs
the families of tests/truth that concern loopy. The outcome is kept in doc/explanation/measured/loopys.json. A run of
everything, and `--page`, write it into doc/reference/compatibility.md. Status 1: a part failed.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from typing import Any, NamedTuple

import compat_unchanged

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "tests" / "support"))

import loopies  # noqa: E402

STATE = HERE / "doc" / "explanation" / "measured" / "loopys.json"
BUILD = HERE / "build" / "loopys"
THREE = HERE / "tools" / "loopys" / "three.py"
PLACES = ("wheel", "edited wheel", "editable", "checkout", "zip")
FAMILIES = (
    "callables",
    "classes",
    "edited_units",
    "recipes",
    "replacements",
    "soft_imports",
    "state",
)
BEGIN, END = (
    "<!-- loopys, made by make compat-loopy: begin -->",
    "<!-- loopys, made by make compat-loopy: end -->",
)
HEAD = (
    "loopy",
    "Python, islpy",
    "demo",
    "program: second run",
    "warm, kcl / plain",
    "memoized: second run",
    "warm, kcl / plain",
    "families of truth",
)


class Loopy(NamedTuple):
    """An interpreter, and what stands first on its path."""

    python: pathlib.Path
    path: str = ""


def main() -> None:
    options = _parsed()
    known = load()
    if not options.page:
        for name in options.loopy or (*PLACES, *others()):
            before, now = known.get(name, {"bad": {}}), tried(made(name), options)
            known[name] = {**before, **now, "bad": {**before["bad"], **now["bad"]}}
            STATE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    rows = [row(name, one) for name, one in known.items()]
    print("\n".join(rows))
    if options.page or not (options.loopy or options.part):
        compat_unchanged.write(
            compat_unchanged.PAGE, compat_unchanged.headed(HEAD, rows), (BEGIN, END)
        )
    sys.exit(any(any(one["bad"].values()) for one in known.values()))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--loopy", action="append", choices=(*PLACES, *others()), help="only this one"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="pairs of warm runs")
    parser.add_argument("--page", action="store_true", help="write the page from what ran")
    return parser.parse_args()


def load() -> dict[str, Any]:
    """Return what ran, by the name of a loopy."""
    known: dict[str, Any] = json.loads(STATE.read_text()) if STATE.exists() else {}
    return known


@functools.cache
def others() -> dict[str, pathlib.Path]:
    """Return the interpreters that LOOPY_PYTHONS names, by name; one that is not there is said and left out."""
    named = {}
    for word in filter(None, os.environ.get("LOOPY_PYTHONS", "").split(",")):
        name, _, path = word.partition("=")
        if pathlib.Path(path).is_file():
            named[name] = pathlib.Path(path)
        else:
            print(f"compat-loopy: {name} is skipped: {path!r} is no interpreter", file=sys.stderr)
    return named


def made(name: str) -> Loopy:
    """Return a loopy, whose files are copied or installed below build/loopys if they are not there."""
    if name in others():
        return Loopy(others()[name])
    folder = BUILD / name.replace(" ", "-")
    if name == "editable":
        return Loopy(installed(folder))
    if name == "checkout":
        return Loopy(pathlib.Path(sys.executable), str(compat_unchanged.archive("loopy")))
    shutil.rmtree(folder, ignore_errors=True)
    loopy = loopies.Loopy(folder, {"zip": "archive"}.get(name, "wheel"))
    if name == "edited wheel":
        with (loopy.folder / loopies.EXPRESSION).open("a") as stream:
            stream.write("# A comment that somebody has added.\n")
    return Loopy(pathlib.Path(sys.executable), loopy.path)


def installed(folder: pathlib.Path) -> pathlib.Path:
    """Return an interpreter with an editable install of loopy's source archive; all else is what is installed here."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True, symlinks=True)
        (site,) = folder.glob("lib/python*/site-packages")
        here = metadata.distribution("loopy").locate_file("")
        (site / "zz-beside.pth").write_text(f"{here}\n")
        pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--ignore-installed"]
        source = compat_unchanged.archive("loopy")
        subprocess.run([*pip, "--editable", str(source)], check=True)
    return python


def tried(loopy: Loopy, options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts with a loopy, and return what came of them."""
    found: dict[str, Any] = {"bad": {}, "date": datetime.date.today().isoformat()}
    with tempfile.TemporaryDirectory() as made:
        work = pathlib.Path(made)
        found["about"] = about(loopy, work / "about")
        print(found["about"], flush=True)
        for name in options.part or PARTS:
            found[name], bad = PARTS[name](loopy, work / name, options)
            found["bad"][name] = [words[-2000:] for words in bad]
            print(f"{name}: {found[name]}", *bad, sep="\n    ", flush=True)
    return found


def about(loopy: Loopy, work: pathlib.Path) -> dict[str, str]:
    """Return the versions of Python, loopy and islpy."""
    asked = (
        "import json, platform; from kcl.inspect import packages; found = packages.installed(); "
        "print(json.dumps([platform.python_version(), found['loopy'][0], found['islpy'][0]]))"
    )
    versions = json.loads(run(loopy, work, ["-c", asked]).stdout)
    return dict(zip(("python", "loopy", "islpy"), versions, strict=True))


def demo(loopy: Loopy, work: pathlib.Path, _options: argparse.Namespace) -> tuple[str, list[str]]:
    """Run the demo."""
    done = run(loopy, work, [HERE / "examples" / "demo.py"])
    said = f"{done.stdout}{done.stderr}"
    return ("holds", []) if done.returncode == 0 else (f"**status {done.returncode}**", [said])


def program(
    word: str, loopy: Loopy, work: pathlib.Path, options: argparse.Namespace
) -> tuple[dict[str, str], list[str]]:
    """Run the program without kcl and with it, again under KCL_STRICT=hit, and pairs of warm runs."""
    plain, ours = [THREE, word], ["-m", "kcl", "run", THREE, word]
    mine, beside = work / "mine", work / "beside"
    first, second = said(loopy, beside, plain), said(loopy, mine, ours)
    run(loopy, mine, ["-m", "kcl", "wait"])
    done = run(loopy, mine, ours, KCL_STRICT="hit")
    if done.returncode:
        return {"second": "**missed**", "ratio": "not run"}, [done.stderr]
    third = json.loads(done.stdout.splitlines()[-1])
    is_same = first["numbers"] == second["numbers"] == third["numbers"]
    hits = ", ".join(f"{number} {name}" for name, number in third["looks"].items())
    ratios = sorted(
        seconds(loopy, mine, ours) / seconds(loopy, beside, plain) for _ in range(options.pairs)
    )
    ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    return {
        "second": f"{'same numbers' if is_same else '**other numbers**'}, {hits}",
        "ratio": ratio if ratios else "not run",
    }, ([] if is_same else ["other numbers with kcl"])


def truth(loopy: Loopy, work: pathlib.Path, _options: argparse.Namespace) -> tuple[str, list[str]]:
    """Run the families of truth that concern loopy, on PoCL."""
    files = [HERE / "tests" / "truth" / "families" / f"test_{one}.py" for one in FAMILIES]
    words = ["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *files]
    done = run(loopy, work, words, KCL_TEST_PLATFORMS="pocl")
    lines = done.stdout.strip().splitlines() or [done.stderr[-500:]]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    bad = failed or ([] if done.returncode == 0 else lines[-1:])
    return lines[-1].strip("= ").partition(" in ")[0], bad


def said(loopy: Loopy, work: pathlib.Path, words: list[Any]) -> dict[str, Any]:
    """Return what the program says."""
    done = run(loopy, work, words)
    if done.returncode:
        raise SystemExit(f"the program ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def seconds(loopy: Loopy, work: pathlib.Path, words: list[Any]) -> float:
    """Return the processor seconds of a run."""
    before = compat_unchanged.clocks()[1]
    run(loopy, work, words)
    return compat_unchanged.clocks()[1] - before


def run(
    loopy: Loopy, work: pathlib.Path, words: list[Any], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words, with home and caches below a folder, and with kcl of this checkout."""
    (work / "home").mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not compat_unchanged.OWNED.match(name) and name != "PYTHONDONTWRITEBYTECODE"
    }
    path = os.pathsep.join(filter(None, [loopy.path, str(HERE)]))
    own = {"HOME": str(work / "home"), "XDG_CACHE_HOME": str(work / "cache"), "PYTHONPATH": path}
    command = [str(loopy.python), *map(str, words)]
    return subprocess.run(
        command, env=kept | own | variables, cwd=HERE, capture_output=True, text=True, check=False
    )


def row(name: str, one: dict[str, Any]) -> str:
    """Write the row of a loopy."""
    about = one["about"]
    cells = [
        f"{about['loopy']}, {name}",
        f"{about['python']}, {about['islpy']}",
        one.get("demo", "not run"),
    ]
    for part in ("program", "memoized"):
        found = one.get(part, {})
        cells += [found.get("second", "not run"), found.get("ratio", "not run")]
    cells.append(one.get("truth", "not run"))
    return f"| {' | '.join(cells)} |"


PARTS = {
    "demo": demo,
    "program": functools.partial(program, ""),
    "memoized": functools.partial(program, "memoized"),
    "truth": truth,
}

if __name__ == "__main__":
    main()
