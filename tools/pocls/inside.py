"""The parts of `make compat-pocl`, with the PoCL of this machine or root: tools/compat_pocl.py says what they are.

    python tools/with_pocl.py python tools/pocls/inside.py [--part NAME] [--pairs N] [--sample SHARE]

It writes the outcome to build/pocls.json. "Program" runs tools/pocls/raw_driver.py without kcl, by `kcl run`, and again
with complete entries under KCL_STRICT=hit. "At once" fills the caches by a cold run of that program, and
keeps a copy as of the end of that run: no entry is complete, and the jobs of the helper are there. Each pair begins with
that copy. The helper starts, and the program runs a second time, with kcl beside the helper, and without kcl.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
DRIVER = HERE / "tools" / "pocls" / "raw_driver.py"
OUTCOME = HERE / "build" / "pocls.json"
ROOMS = ("drivers", "programs", "integrations")
ROW = "PoCL's own cache damaged"
COMPLETIONS = STRICT = 3  # how often each is tried


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one")
    parser.add_argument("--pairs", type=int, default=30, metavar="N", help="pairs of second runs")
    parser.add_argument("--sample", type=float, default=1.0, help="the part of the damaged files")
    options = parser.parse_args()
    outcome: dict[str, Any] = {"about": about(), "bad": {}}
    print(outcome["about"], flush=True)
    for name in options.part or PARTS:
        outcome[name], bad = PARTS[name](options)
        outcome["bad"][name] = [words[-2000:] for words in bad]
        print(f"{name}: {outcome[name]}", *bad, sep="\n    ", flush=True)
    OUTCOME.parent.mkdir(exist_ok=True)
    OUTCOME.write_text(json.dumps(outcome))


def about() -> dict[str, str]:
    """Return the versions of PoCL, LLVM, Python and pyopencl."""
    import pyopencl as cl

    (platform,) = [one for one in cl.get_platforms() if one.name == "Portable Computing Language"]
    version = platform.version
    found = {
        name: re.search(rf"{word} v?([\w.-]+)", version, re.IGNORECASE)
        for name, word in (("pocl", "pocl"), ("llvm", "LLVM"))
    }
    return {
        "python": sys.version.split()[0],
        "pyopencl": cl.VERSION_TEXT,
        **{name: one[1] if one else version for name, one in found.items()},
    }


def demo(_options: argparse.Namespace) -> tuple[str, list[str]]:
    """Run the demo."""
    done = run([HERE / "examples" / "demo.py"], dict(os.environ))
    said = "holds" if done.returncode == 0 else f"**status {done.returncode}**"
    return said, [] if done.returncode == 0 else [done.stdout + done.stderr]


def program(_options: argparse.Namespace) -> tuple[str, list[str]]:
    """Run the program without kcl, with empty caches, and with complete entries."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        ours, theirs = caches(folder / "mine"), caches(folder / "plain")
        first, second = timed(theirs)[0], timed(ours, kcl=True)[0]
        run(["-m", "kcl", "wait"], ours)
        done = driver(ours | {"KCL_STRICT": "hit"}, True, "--without-failing")
    if done.returncode:
        return "**missed**", [done.stderr]
    third = json.loads(done.stdout.splitlines()[-1])
    are_same = first["numbers"] == second["numbers"]
    are_same &= third["numbers"].items() <= first["numbers"].items()
    hits = ", ".join(f"{number} {name}" for name, number in third["looks"].items())
    return f"{'same numbers' if are_same else '**other numbers**'}, {hits}", (
        [] if are_same else ["other numbers with kcl"]
    )


def tests(room: str, _options: argparse.Namespace) -> tuple[str, list[str]]:
    """Run the tests of a room, but for the slow ones."""
    command = ["-m", "pytest", "-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider"]
    done = run([*command, f"tests/unit/{room}"], os.environ | {"KCL_TEST_PLATFORMS": "pocl"})
    lines = done.stdout.strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return lines[-1].strip("= ").partition(" in ")[0], failed


def faults(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Run the row of the matrix of faults that damages PoCL's files, with kcl and without."""
    state = HERE / "build" / "pocls-faults.json"
    command = [HERE / "tools" / "faults.py", "--row", ROW, "--again", "--state", state]
    done = run([*command, "--seed", "1", "--sample", options.sample], dict(os.environ))
    part = options.sample / 10
    run([*command, "--seed", "1", "--baseline", "--sample", part], dict(os.environ))
    bad = [] if done.returncode == 0 else [done.stdout + done.stderr]
    sys.path.insert(0, str(HERE / "tools"))
    from faults_page import bad_of

    known = json.loads(state.read_text()) if state.exists() else {}
    with_kcl, without = known.get(ROW), known.get(f"{ROW} (without kcl)")
    if not with_kcl or not without:
        return "not run", bad or ["the row did not run"]
    counts = [f"{bad_of(one)} of {one['done']}" for one in (with_kcl, without)]
    return ", ".join(counts), bad


def at_once(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Run the program a second time at once, as often as `--pairs` says, and complete the entries."""
    pairs = options.pairs
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        mine, plain, kept = folder / "mine", folder / "plain", folder / "kept"
        ours, theirs = caches(mine), caches(plain)
        first, cold = timed(theirs)
        filled, cold_ours = timed(ours | {"KCL_PROMOTE": "off"}, kcl=True)
        shutil.copytree(mine, kept)
        bad = [] if first["numbers"] == filled["numbers"] else ["other numbers with kcl"]
        strict, waits, missed, ratios = [], 0, 0, []
        for _ in range(pairs):
            begin(mine, kept)
            found, seconds = timed(ours, kcl=True)
            end(mine)
            ratios.append(seconds / timed(theirs)[1])
            waits += found["looks"].get("waited", 0)
            missed += found["looks"].get("miss", 0)
        for _ in range(STRICT):
            begin(mine, kept)
            done = driver(ours | {"KCL_STRICT": "hit"}, True, "--without-failing")
            strict.append(done.returncode == 0)
            end(mine)
        completions = [completed(mine, kept, ours) for _ in range(COMPLETIONS)]
        after, _seconds = timed(ours | {"KCL_STRICT": "hit"}, True, "--without-failing")
    wall, used = (statistics.median(numbers) for numbers in zip(*completions, strict=True))
    return {
        "strict": "holds" if all(strict) else f"**{strict.count(False)} of {len(strict)} missed**",
        "ratio": f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
        f"{waits} waits, {missed} misses in {pairs} pairs"
        if pairs
        else "not run",
        "completed": f"{wall:.1f} s, {used:.1f} processor s",
        "seconds": wall,
        "cold": f"{cold:.1f}, {cold_ours:.1f} s",
        "hits": after["looks"],
    }, bad


def begin(mine: pathlib.Path, kept: pathlib.Path) -> None:
    """Bring back the caches as of the end of the cold run, and start the helper as that run does."""
    from kcl.drivers.pocl import client

    shutil.rmtree(mine)
    shutil.copytree(kept, mine)
    if not client.start(str(mine / "cache" / "kcl")):
        raise SystemExit("no helper can be started")


def end(mine: pathlib.Path) -> None:
    """End the helper."""
    from kcl.drivers.pocl import client

    client.quiet(str(mine / "cache" / "kcl"), 60)


def completed(
    mine: pathlib.Path, kept: pathlib.Path, environment: dict[str, str]
) -> tuple[float, float]:
    """Complete the entries; return the seconds on the wall and of the processors that this took."""
    shutil.rmtree(mine)
    shutil.copytree(kept, mine)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(["-m", "kcl.drivers.pocl.helper", mine / "cache" / "kcl"], environment)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, sum(after[:2]) - sum(before[:2])


def caches(folder: pathlib.Path) -> dict[str, str]:
    """Return an environment with home and caches below a new folder."""
    (folder / "home").mkdir(parents=True, mode=0o700)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KCL_", "POCL_", "PYOPENCL_", "XDG_", "PYTHONDONT"))
    }
    return kept | {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}


def timed(
    environment: dict[str, str], kcl: bool = False, *words: str
) -> tuple[dict[str, Any], float]:
    """Run the program; return what it says and its seconds on the wall."""
    began = time.monotonic()
    done = driver(environment, kcl, *words)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"the program ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]), seconds


def driver(environment: dict[str, str], kcl: bool, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program as it is, or by `kcl run`."""
    return run([*(("-m", "kcl", "run") if kcl else ()), DRIVER, *words], environment)


def run(words: list[Any], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python with these words."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True)


PARTS = {
    "demo": demo,
    "program": program,
    **{room: functools.partial(tests, room) for room in ROOMS},
    "faults": faults,
    "at once": at_once,
}

if __name__ == "__main__":
    main()
