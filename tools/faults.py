"""Run the matrix of faults: what damages, kills, stops and fills, a number of times, and what came of it.

    python tools/faults.py                     every row with its full number: hours; goes on where it stopped
    python tools/faults.py --sample 0.01       that part of each number, at least a few cases
    python tools/faults.py --row NAME          one row, or those whose names have that text in them
    python tools/faults.py --fuzz 1000000      the reader of entries only
    python tools/faults.py --baseline          the rows that can run without kcl, without it
    python tools/faults.py --page              write doc/explanation/reliability.md from what ran

The page has the outcome of a soak too, where `tools/soak.py --out doc/explanation/measured/soak.json` wrote it.
What ran stands in doc/explanation/measured/faults.json, which is kept with the project, so that a row can go on on
another day. A case is decided by the seed, which is printed, and its number: `--seed S --row NAME --only NUMBER` runs
one again. Status 1: a case failed.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import importlib
import json
import os
import pathlib
import pickle
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from typing import Any

from faults_page import bad_of, page
from faults_rows import BAD, ROWS, TESTS, Row, Tests

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATE = ROOT / "doc" / "explanation" / "measured" / "faults.json"
SOAK = ROOT / "doc" / "explanation" / "measured" / "soak.json"
PAGE = ROOT / "doc" / "explanation" / "reliability.md"
BATCH = 60.0  # seconds between two notes of what ran
KEPT = 20  # failed cases that are written down
SCRUBBED = ("KCL_", "LOOPY_", "CG_", "PYOPENCL_", "POCL_", "CUDA_", "XDG_")


def main() -> None:
    asked = arguments()
    if asked.page:
        PAGE.write_text(page(load(asked.state), load(SOAK)))
        return
    os.nice(10)
    rows = [row for row in ROWS if asked.row in row.name]
    if asked.baseline:
        rows = [row._replace(function=row.baseline) for row in rows if row.baseline]
    if asked.fuzz:
        rows = [row._replace(full=asked.fuzz) for row in rows if row.function == "fuzz"]
    if asked.only is not None:
        sys.exit("\n".join(only(row, asked.seed or 0, asked.only) for row in rows))
    failed = [run(row, asked) for row in rows]
    if not (asked.baseline or asked.fuzz):
        failed += [
            test(tests, asked) for tests in TESTS if asked.row in tests.name and asked.sample == 1.0
        ]
    sys.exit(any(failed))


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", default="", help="rows with this text in their names")
    parser.add_argument(
        "--sample", type=float, default=1.0, help="the part of each full number that runs"
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="for each row, which goes on later"
    )
    parser.add_argument("--seed", type=int, help="made up and printed where it is not given")
    parser.add_argument("--only", type=int, help="the case of this number")
    parser.add_argument("--fuzz", type=int, help="the reader of entries, so many times")
    parser.add_argument("--baseline", action="store_true", help="without kcl")
    parser.add_argument(
        "--again", action="store_true", help="from the beginning, not where it stopped"
    )
    parser.add_argument("--state", type=pathlib.Path, default=STATE, help="the file of what ran")
    parser.add_argument("--page", action="store_true", help="write the page from what ran")
    return parser.parse_args()


def run(row: Row, asked: argparse.Namespace) -> bool:
    """Run a row until it has its number; returns whether a case failed."""
    name = f"{row.name} (without kcl)" if asked.baseline else row.name
    known = load(asked.state).get(name)
    if known is None or asked.again or asked.seed not in (None, known["seed"]):
        known = {
            "seed": asked.seed or random.SystemRandom().randrange(1, 10**6),
            "done": 0,
            "outcomes": {},
            "bad": [],
        }
        known |= {"seconds": 0.0, "memory": 0, "slowest": 0.0}
    wanted = max(row.least, round(row.full * asked.sample)) if asked.sample < 1 else row.full
    end = time.monotonic() + asked.seconds
    while known["done"] < wanted and time.monotonic() < end:
        found = batch(row, known["seed"], known["done"], wanted, min(BATCH, end - time.monotonic()))
        if "unavailable" in found:
            print(f"{name}: not here: {found['unavailable']}", flush=True)
            return False
        merge(known, found)
        known |= {"date": datetime.date.today().isoformat(), "machine": machine()}
        note(asked.state, name, known)
    took = f"{known['seconds']:.0f} s, {known['memory']} MiB"
    print(f"{name}: {known['done']} of {row.full} cases, seed {known['seed']}, {took}", flush=True)
    for outcome, count in sorted(known["outcomes"].items()):
        print(f"    {count:>9} {outcome}", flush=True)
    for index, outcome in known["bad"]:
        print(f"    case {index}: {outcome}", flush=True)
    if row.memory and known["memory"] > row.memory:
        print(f"    {known['memory']} MiB are above the bound of {row.memory}")
        return True
    return bool(bad_of(known)) and not asked.baseline


def test(tests: Tests, asked: argparse.Namespace) -> bool:
    """Run tests of the suite; returns whether one failed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:warnings",
        tests.file,
        "-k",
        tests.chosen,
    ]
    begin = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    *_, last = done.stdout.strip().splitlines() or ["nothing"]
    known = {"tests": last.strip("= ").partition(" in ")[0], "seconds": time.monotonic() - begin}
    note(
        asked.state,
        tests.name,
        known | {"date": datetime.date.today().isoformat(), "failed": bool(done.returncode)},
    )
    print(done.stdout if done.returncode else f"{tests.name}: {last}", flush=True)
    return bool(done.returncode)


def merge(known: dict[str, Any], found: dict[str, Any]) -> None:
    """Add a batch to what is known of a row."""
    known["outcomes"] = dict(Counter(known["outcomes"]) + Counter(found["outcomes"]))
    known["bad"] = (known["bad"] + found["bad"])[:KEPT]
    known["done"] += found["done"]
    known["seconds"] += found["seconds"]
    for name in ("memory", "slowest"):
        known[name] = max(known[name], found[name])


def batch(row: Row, seed: int, begin: int, end: int, seconds: float) -> dict[str, Any]:
    """Run cases for some seconds in a process of their own, whose end by a signal is an outcome too."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            with os.fdopen(writer, "wb") as stream:
                stream.write(pickle.dumps(cases(row, seed, begin, end, seconds)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    status = os.waitpid(pid, 0)[1]
    if said:
        return pickle.loads(said)
    sys.exit(f"{row.name}: the process of the cases from {begin} ended with status {status}")


def cases(row: Row, seed: int, begin: int, end: int, seconds: float) -> dict[str, Any]:
    """Run cases in this process, in a new folder."""
    started = time.monotonic()
    found: dict[str, Any] = {"outcomes": Counter(), "bad": [], "done": 0, "slowest": 0.0}
    folder = pathlib.Path(
        tempfile.mkdtemp(prefix="kcl-faults-")
    )  # no finalizer: forked processes have exit handlers
    surround(folder)
    module = importlib.import_module(row.module)
    try:
        case = getattr(module, row.function)(folder)
        for index in range(begin, end):
            before = time.monotonic()
            outcome = judged(case, index, seed)
            found["slowest"] = max(found["slowest"], time.monotonic() - before)
            counted = outcome if isinstance(outcome, Counter) else Counter([outcome])
            found["outcomes"].update(counted)
            found["bad"] += [(index, said) for said in counted if said.startswith(BAD)]
            found["done"] += 1
            if time.monotonic() - started > seconds:
                break
    except module.Unavailable as error:
        return {"unavailable": str(error)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return found | {"seconds": time.monotonic() - started}


def judged(case: Any, index: int, seed: int) -> Any:
    """Run one case; what it raises is an outcome, unless the machine lacks what the row needs."""
    try:
        return case(index, random.Random(f"{seed} {index}"))
    except Exception as error:
        if type(error).__name__ == "Unavailable":
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"exception: {type(error).__name__}: {error} ({pathlib.Path(where.filename).name}:{where.lineno})"


def only(row: Row, seed: int, index: int) -> str:
    """Run one case and say what came of it."""
    return (
        f"{row.name}, case {index}: {dict(batch(row, seed, index, index + 1, BATCH)['outcomes'])}"
    )


def surround(folder: pathlib.Path) -> None:
    """Give this process an environment of its own."""
    for name in [name for name in os.environ if name.startswith(SCRUBBED)]:
        del os.environ[name]
    os.environ |= {
        "HOME": str(folder),
        "XDG_CACHE_HOME": f"{folder}/xdg",
        "XDG_CONFIG_HOME": f"{folder}/config",
    }
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]


def load(state: pathlib.Path) -> dict[str, Any]:
    """Return what ran."""
    found: dict[str, Any] = json.loads(state.read_text()) if state.exists() else {}
    return found


def note(state: pathlib.Path, name: str, known: dict[str, Any]) -> None:
    """Write down what is known of a row; two of these scripts may run at once."""
    state.parent.mkdir(exist_ok=True)
    folder = os.open(state.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        state.write_text(json.dumps({**load(state), name: known}, indent=1, sort_keys=True))
    finally:
        os.close(folder)


def machine() -> str:
    """Say in general on what it ran."""
    return f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
