"""Run short programs of public OpenCL libraries without kcl and under `kcl run`, in turns, and compare them.

    python tools/compat_libraries.py [--pairs N] [--page] [NAME ...]

The programs lie in `tools/libraries`. The libraries come from the package index with the extra `libraries`; a program
whose library is not installed is left out. Each side has a cache directory of its own, and one cold run. The last run
with kcl has KCL_STRICT=hit. `--page` writes the table into doc/reference/compatibility.md. Status 1: a program prints
something else with kcl, or a look-up of its last run is no hit.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import tempfile

import compat_unchanged

PROGRAMS = pathlib.Path(__file__).resolve().parent / "libraries"
BEGIN, END = (
    "<!-- libraries, made by make compat: begin -->",
    "<!-- libraries, made by make compat: end -->",
)
LIMIT_SECONDS = 600.0  # of a run: boxtree compiles for minutes on a busy machine
MODULES = {"pyclesperanto": "pyclesperanto_prototype"}  # where it is not the name of the library
HEAD = (
    "library",
    "release",
    "s without: cold, again",
    "s with: cold, again",
    "with / without, processor s",
    "all hit",
)


def main() -> None:
    """Run the programs that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs", type=int, default=10, metavar="N", help="warm pairs of runs (default: 10)"
    )
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    found = {path.stem.removeprefix("with_"): path for path in sorted(PROGRAMS.glob("with_*.py"))}
    names = [
        name for name in options.names or found if importlib.util.find_spec(MODULES.get(name, name))
    ]
    rows, right = [], True
    for name in names:
        row, good = compared(name, found[name], options.pairs)
        print(row, flush=True)
        rows.append(row)
        right &= good
    if options.page:
        lines = compat_unchanged.headed(HEAD, rows)
        compat_unchanged.write(compat_unchanged.PAGE, lines, (BEGIN, END))
    sys.exit(not right)


def compared(name: str, path: pathlib.Path, pairs: int) -> tuple[str, bool]:
    """Run one program on both sides; returns its row, and whether outputs are equal and all look-ups hit."""
    with tempfile.TemporaryDirectory() as made:
        work = {
            side: compat_unchanged.folder_of(pathlib.Path(made), side)
            for side in compat_unchanged.SIDES
        }
        cold = {side: once(side, path, work[side]) for side in work}
        compat_unchanged.completed(work["with"])
        warm = [{side: once(side, path, work[side]) for side in work} for _ in range(pairs)]
        strict = once("with", path, work["with"], KCL_STRICT="hit")
    printed = {run[0] for one in (cold, *warm) for run in one.values()}
    ratio = [one["with"][2] / one["without"][2] for one in warm]
    seconds = (
        f"{cold[side][1]:.1f}, {statistics.median(one[side][1] for one in warm):.2f}"
        for side in compat_unchanged.SIDES
    )
    hit = strict[0] in printed
    release = compat_unchanged.version(MODULES.get(name, name), path)
    cells = (
        name,
        release,
        *seconds,
        f"{statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f})",
        "yes" if hit else "**no**",
    )
    return f"| {' | '.join(cells)} |", hit and len(printed) == 1


def once(
    side: str, path: pathlib.Path, work: pathlib.Path, **variables: str
) -> tuple[str, float, float]:
    """Run the program; returns what it prints, or the end of its error, wall seconds and processor seconds."""
    command = [sys.executable, *(["-m", "kcl", "run"] if side == "with" else []), str(path)]
    before = compat_unchanged.clocks()
    done = subprocess.run(
        command,
        cwd=work,
        env=compat_unchanged.environment(work) | variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    wall, used = (now - then for now, then in zip(compat_unchanged.clocks(), before, strict=True))
    lines = [line for line in done.stdout.splitlines() if "0:00:0" not in line]  # a bar of progress
    return ("\n".join(lines) if done.returncode == 0 else done.stderr[-2000:]), wall, used


if __name__ == "__main__":
    main()
